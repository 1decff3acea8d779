internal import FoundationEssentials

/// The handshake of a new connection (`HELLO`, `SELECT`), and what the server reports about itself. A pure state machine.
struct RedisGreeting {
    private let database: Int
    private var hasGreeted = false
    private(set) var server = ServerFacts()

    /// The oldest major version that is supported: `HELLO` is new in Redis 6.
    static let oldestVersion = 6

    /// - Parameter database: The database to use; 0 for a connection that only subscribes.
    init(database: Int) { self.database = database }

    /// The commands to send first. RESP 2 is what all versions of hiredis read.
    func commands(user: String?, password: String?) -> [RedisCommand] {
        var hello: [RedisArgument] = ["2"]
        if let password { hello += ["AUTH", .text(user ?? "default"), .text(password)] }
        hello += ["SETNAME", "lat-fleet"]
        return [RedisCommand("HELLO", hello)]
            + (database == 0 ? [] : [RedisCommand("SELECT", [.integer(Int64(database))])])
    }

    /// Takes a reply.
    ///
    /// - Returns: Whether it was the last one.
    /// - Throws: ``FleetError`` when the server cannot be used.
    mutating func take(_ reply: RedisValue) throws(FleetError) -> Bool {
        guard hasGreeted else {
            hasGreeted = true
            try read(reply)
            return database == 0
        }
        if case .failure("ERR", _) = reply {
            throw .configuration("the Redis has no database \(database); check `databases` in its configuration")
        }
        _ = try reply.checked("SELECT")
        return true
    }

    private mutating func read(_ reply: RedisValue) throws(FleetError) {
        if case .failure("ERR", let text) = reply, text.contains("unknown command") {
            throw Self.isTooOld("5 or older")
        }
        guard let facts = try reply.checked("HELLO").array else {
            throw FleetError(.protocolViolation, "the server did not answer HELLO as Redis does; is the address right?")
        }
        var known: [String: String] = [:]
        for index in stride(from: 0, to: facts.count - 1, by: 2) {
            if let name = facts[index].text { known[name] = facts[index + 1].text }
        }
        server.version = known["version"]
        server.isReplica = known["role"].map { $0 == "replica" || $0 == "slave" } ?? false
        switch known["mode"] {
        case "cluster": throw .isCluster
        case "sentinel": throw .isSentinel
        default: break
        }
        if let version = server.version, let major = version.split(separator: ".").first.flatMap({ Int($0) }),
            major < Self.oldestVersion
        {
            throw Self.isTooOld(version)
        }
    }

    private static func isTooOld(_ version: String) -> FleetError {
        FleetError(.unsupported, "the Redis has version \(version); \(oldestVersion).0 or newer is needed")
    }
}

/// What a server reports about itself.
struct ServerFacts: Equatable {
    var version: String?
    var isReplica = false
}

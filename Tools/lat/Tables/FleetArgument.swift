import FoundationEssentials
import LATFleet
import LATNetworking

/// The Redis that a command uses, and the name of the table in it.
struct FleetArgument: Sendable {
    static let fleet = Option(
        "--fleet", value: "URL",
        help: "The Redis of the fleet: redis://, rediss:// or unix://. Default: the value of LAT_FLEET_URL.")
    static let key = Option("--key", value: "NAME", help: "The name of the table on the Redis. Default: domains.")
    static let variable = "LAT_FLEET_URL"

    let key: String
    /// The settings of `--fleet`; `nil` for those of the variable.
    private let given: FleetConfiguration?
    private let authority: String?

    /// Whether `--fleet` is given.
    var isGiven: Bool { given != nil }

    /// Reads `--fleet`, `--key` and `--ca`.
    ///
    /// - Throws: ``UsageError`` for an unusable URL. The message does not contain its password.
    init(_ arguments: ParsedArguments) throws(UsageError) {
        key = arguments.value(Self.key) ?? "domains"
        if let problem = FleetTable.problem(ofName: key) {
            throw UsageError("\(Self.key.name) \"\(SafeText.line(key))\" cannot be used: \(problem)")
        }
        let authority = arguments.value(Option.authority)
        self.authority = authority
        given = try arguments.value(Self.fleet).map { url throws(UsageError) in
            try Self.configuration(url, authority)
        }
    }

    /// - Throws: ``UsageError`` when neither the option nor the variable names a Redis, or the variable is unusable.
    func configuration() throws(UsageError) -> FleetConfiguration {
        if let given { return given }
        guard let url = ProcessInfo.processInfo.environment[Self.variable], !url.isEmpty else {
            throw UsageError("no Redis is named; write --fleet redis://HOST:PORT, or set \(Self.variable)")
        }
        return try Self.configuration(url, authority)
    }

    private static func configuration(_ url: String, _ authority: String?) throws(UsageError) -> FleetConfiguration {
        var configuration = try UsageError.checked(FleetConfiguration(url: url))
        configuration.tls.caFile = authority
        // Warnings are not printed, because every failure is also thrown.
        configuration.warningHandler = { _ in }
        return configuration
    }

    /// Connects to the Redis, runs the body, and then shuts the fleet down, even after an error.
    ///
    /// - Throws: ``UsageError`` for a build without Redis, ``FleetError`` for a Redis that cannot be used.
    func using<Value>(_ body: (Fleet) async throws -> Value) async throws -> Value {
        let fleet = try made()
        do {
            try await fleet.connect(within: .seconds(5))
            let value = try await body(fleet)
            await fleet.shutdown()
            return value
        } catch {
            await fleet.shutdown()
            throw error
        }
    }

    func source(on fleet: Fleet, _ publicKey: String?) -> DomainTable.Source {
        .redis(fleet, key: key, publicKey: publicKey, copy: .none, files: ".")
    }

    /// - Parameter isAvailable: whether this build has Redis; tests replace it.
    func made(isAvailable: Bool = Fleet.isAvailable) throws(UsageError) -> Fleet {
        let configuration = try configuration()
        guard isAvailable else {
            throw UsageError("this lat was built without Redis; build it with swift build --traits Fleet --product lat")
        }
        return try UsageError.checked(Fleet(configuration))
    }
}

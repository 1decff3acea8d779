internal import Cryptography
internal import FoundationEssentials
internal import HTTPCore
internal import Platform
internal import Synchronization

/// A token in Redis: encrypted, with a generation that only grows, and the lease of the process that renews it.
final class SharedToken: Sendable {
    enum Turn {
        /// There is a newer token.
        case newer(Stored)
        /// This process renews the token.
        case lead
        /// Another process renews the token; its lease lasts at most this long.
        case wait(Duration)
        /// The Redis does not reply.
        case alone
    }

    struct Stored {
        var generation: Int64
        var sealed: Data
    }

    /// What Redis has, compared with a generation.
    enum Comparison {
        case newer(Stored)
        case same
        /// It has an older token or none, as after a restart with old data.
        case older
    }

    let name: String
    private let fleet: Fleet
    private let key: Data
    private let keys: [String]
    private let channel: String
    private let hasWarnedOfKey = Atomic(false)
    private let hasWarnedOfExport = Atomic(false)
    private let hasWarnedOfLoss = Atomic(false)

    /// How long a token is kept, in milliseconds. A process that finds none renews its own.
    private static let lifetime: Int64 = 86_400_000

    /// A later generation could not be followed by another one: Lua's numbers are exact up to here.
    private static let lastGeneration: Int64 = 1 << 53 - 1

    init(_ fleet: Fleet, name: String, key: Data) {
        self.fleet = fleet
        self.name = name
        self.key = key
        // The lease of the token `x` has the key `token:x:lease`, so a token named `x:lease` is kept elsewhere.
        let own = name.hasSuffix(":lease") ? fleet.key("tokens", name, "value") : fleet.key("token", name)
        keys = [own, fleet.key("token", name, "lease")]
        channel = fleet.channel("token:\(name)")
    }

    func counter(_ name: String) -> FleetCounter { fleet.counters.counter(name) }

    /// Whether nothing is stored any more.
    var isShutDown: Bool { fleet.redis.status.state == .shutDown }

    /// Calls a closure when the token or the lease may have changed.
    ///
    /// - Parameter receive: Called with whether there is a new connection, so that Redis may have lost the token.
    func observe(_ receive: @escaping @Sendable (_ isNewConnection: Bool) -> Void) -> FleetSubscription {
        fleet.redis.subscribe(channel) { message in
            if message != .interrupted { receive(message == .subscribed) }
        }
    }

    /// Compares the token in Redis with a generation; `nil` when the Redis does not reply.
    func compare(with generation: Int64) async -> Comparison? {
        let reply = try? await fleet.redis.call(
            RedisCommand("HMGET", [.text(keys[0]), "generation", "token"]), .lookUp)
        guard let parts = reply?.array, parts.count == 2 else { return nil }
        guard let found = parts[0].integer, let sealed = parts[1].data, found <= Self.lastGeneration else {
            return .older
        }
        guard found != generation else { return .same }
        return found > generation ? .newer(Stored(generation: found, sealed: sealed)) : .older
    }

    /// How long a process asks for the lease while Redis is late. Alone, it could present the same refresh token as the process
    /// that has the lease.
    private static let patience = Duration.seconds(3)

    /// Asks for the lease. ``Turn/alone`` at once only without a connection.
    ///
    /// - Parameters:
    ///   - generation: The newest one that this process has seen.
    ///   - owner: The name of this renewal in the lease. Each renewal has its own, so that the end of an earlier one, which may
    ///     come late, does not end the lease of a later one.
    func begin(after generation: Int64, lease: Duration, as owner: String) async -> Turn {
        let arguments: [RedisArgument] = [
            .integer(generation), .text(owner), .integer(lease.roundedUpMilliseconds),
        ]
        let end = MonotonicTime.now + Self.patience
        var isFailingOver = false
        while true {
            do throws(FleetError) {
                return Self.turn(try await fleet.redis.run(Self.beginScript, keys: keys, arguments, .write))
            } catch {
                isFailingOver = isFailingOver || error.kind == .readOnly
                guard error.isOfServer || isFailingOver, MonotonicTime.now < end else { return .alone }
            }
            // A connection that was just lost is made again meanwhile.
            guard (try? await Task.sleep(for: .milliseconds(50))) != nil,
                isFailingOver || fleet.redis.status.state != .waiting
            else { return .alone }
        }
    }

    private static func turn(_ reply: RedisValue) -> Turn {
        guard let parts = reply.array, let turn = parts.first?.text else { return .alone }
        switch turn {
        case "newer" where parts.count == 3:
            guard let generation = parts[1].integer, generation <= lastGeneration, let sealed = parts[2].data
            else { return .alone }
            return .newer(Stored(generation: generation, sealed: sealed))
        case "lead": return .lead
        case "wait" where parts.count == 2: return .wait(.milliseconds(max(1, parts[1].integer ?? 1)))
        default: return .alone
        }
    }

    /// Stores a renewed token and ends the lease.
    ///
    /// - Parameter owner: The name of the renewal, as in ``begin(after:lease:as:)``.
    /// - Returns: its generation; `nil` when it was not stored, because another process holds the lease or has stored a
    ///   newer token.
    /// - Throws: ``FleetError`` when the Redis does not store it; the error of the encoding.
    func store(_ token: some Encodable, after generation: Int64, as owner: String) async throws -> Int64? {
        let sealed = try seal(JSONEncoder().encode(token))
        let arguments: [RedisArgument] = [
            .text(owner), .integer(generation), .bytes(sealed), .integer(Self.lifetime), .text(channel),
        ]
        let reply = try await fleet.redis.run(Self.storeScript, keys: keys, arguments, .write)
        return reply.integer.flatMap { $0 > 0 ? $0 : nil }
    }

    /// Stores a token that Redis has lost, under the generation that it had.
    func restore(_ token: some Encodable, as generation: Int64) async throws {
        let arguments: [RedisArgument] = [
            .integer(generation), .bytes(try seal(JSONEncoder().encode(token))), .integer(Self.lifetime),
            .text(channel),
        ]
        _ = try await fleet.redis.run(Self.restoreScript, keys: [keys[0]], arguments, .write)
    }

    /// Ends the lease of a renewal without a token. Also works when the task is cancelled.
    func release(_ owner: String) {
        Task { [fleet, keys, channel] in
            _ = try? await fleet.redis.run(
                Self.releaseScript, keys: [keys[1]], [.text(owner), .text(channel)], .write)
        }
    }

    // MARK: Encryption

    private static let format: UInt8 = 1

    private var associated: [UInt8] { Array("lat token \(Self.format)\n\(keys[0])".utf8) }

    private func seal(_ plain: Data) throws -> [UInt8] {
        let nonce = try randomBytes(AuthenticatedCipher.nonceByteCount)
        let cipher = AuthenticatedCipher.aes256GCM
        return [Self.format] + nonce + (try cipher.seal(plain, key: key, nonce: nonce, associated: associated))
    }

    /// Decrypts a token; `nil`, with one warning, for one of another key, format or type.
    func open<Token: Decodable>(_ stored: Stored, as type: Token.Type) -> Token? {
        let bytes = [UInt8](stored.sealed)
        let nonceEnd = 1 + AuthenticatedCipher.nonceByteCount
        if bytes.count > nonceEnd, bytes[0] == Self.format,
            let plain = try? AuthenticatedCipher.aes256GCM.open(
                Array(bytes[nonceEnd...]), key: key, nonce: Array(bytes[1..<nonceEnd]), associated: associated),
            let token = try? JSONDecoder().decode(type, from: Data(plain))
        {
            return token
        }
        warn(
            once: hasWarnedOfKey,
            "the token \"\(name)\" in Redis was encrypted with another key or is of another type; it is ignored, and "
                + "this process renews its own: give all processes the same key")
        return nil
    }

    // MARK: Warnings

    /// Reports, once, that a renewed token could not be exported or encoded.
    func warnOfExport(_ error: any Error) {
        // The text of the error may contain the token.
        warn(
            once: hasWarnedOfExport,
            "the token \"\(name)\" was renewed, but it is not shared: exportToken() or the encoding of its value threw "
                + "\(type(of: error)); the other processes renew their own")
    }

    /// Reports, once, that a renewed token has not been stored for long.
    func warnOfLoss() {
        warn(
            once: hasWarnedOfLoss,
            "the token \"\(name)\" was renewed, but Redis does not store it, so other processes may present a refresh token "
                + "that was used; make it writable: storing is tried again until then")
    }

    private func warn(once hasWarned: borrowing Atomic<Bool>, _ message: String) {
        guard !hasWarned.exchange(true, ordering: .relaxed) else { return }
        fleet.configuration.warn(.configuration(message), prefix: "fleet")
    }

    // MARK: Scripts

    /// The generation in Redis; 0 without one, and for one that no process writes (see ``beginScript``).
    private static let storedGeneration = """
        local stored = tonumber(redis.call('HGET', KEYS[1], 'generation') or 0) or 0
        if stored ~= stored or stored > 9007199254740991 then stored = 0 end
        """

    static let beginScript = RedisScript(
        "a token's renewal",
        """
        local stored = redis.call('HMGET', KEYS[1], 'generation', 'token')
        local generation = tonumber(stored[1] or 0) or 0
        -- No process writes a generation beyond 2^53, the last number that Redis counts exactly.
        if generation ~= generation or generation > 9007199254740991 then generation = 0 end
        -- A lease ends after its time even if the clock of Redis was set back, and whoever wrote it.
        local left = redis.call('PTTL', KEYS[2])
        if left == -1 or left > tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
        if stored[2] and generation > tonumber(ARGV[1]) then return {'newer', stored[1], stored[2]} end
        -- Its own lease: the answer to an earlier question was lost.
        if redis.call('GET', KEYS[2]) == ARGV[2] then
            redis.call('PEXPIRE', KEYS[2], ARGV[3])
            return {'lead'}
        end
        if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return {'lead'} end
        return {'wait', redis.call('PTTL', KEYS[2])}
        """)

    /// A generation is the time of Redis (µs), or one more than the last, so that it also grows when the Redis was emptied.
    private static let storeScript = RedisScript(
        "a renewed token",
        """
        local owner = redis.call('GET', KEYS[2])
        \(storedGeneration)
        if owner and owner ~= ARGV[1] then return '0' end
        if not owner and stored > tonumber(ARGV[2]) then return '0' end
        local clock = redis.call('TIME')
        local now = clock[1] * 1000000 + clock[2]
        local generation = string.format('%.0f', math.max(now, stored + 1, tonumber(ARGV[2]) + 1))
        redis.call('HSET', KEYS[1], 'generation', generation, 'token', ARGV[3])
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        redis.call('DEL', KEYS[2])
        redis.call('PUBLISH', ARGV[5], generation)
        return generation
        """)

    private static let restoreScript = RedisScript(
        "a token that was lost",
        """
        \(storedGeneration)
        if stored >= tonumber(ARGV[1]) then return 0 end
        redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'token', ARGV[2])
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        redis.call('PUBLISH', ARGV[4], ARGV[1])
        return 1
        """)

    private static let releaseScript = RedisScript(
        "the end of a token's lease",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        redis.call('DEL', KEYS[1])
        redis.call('PUBLISH', ARGV[2], '0')
        return 1
        """)
}

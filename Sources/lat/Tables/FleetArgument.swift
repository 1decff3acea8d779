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

    /// Reads `--fleet`, `--key` and `--ca`; `nil` when no Redis is named.
    ///
    /// - Parameter isRequired: whether the command needs a Redis. Only then does `LAT_FLEET_URL` count, which
    ///   ``configuration()`` reads.
    /// - Throws: ``UsageError`` for an unusable URL. The message does not contain its password.
    init?(_ arguments: ParsedArguments, isRequired: Bool) throws(UsageError) {
        key = arguments.value(Self.key) ?? "domains"
        if let problem = FleetTable.problem(ofName: key) {
            throw UsageError("\(Self.key.name) \"\(SafeText.line(key))\" cannot be used: \(problem)")
        }
        authority = arguments.value(AuthorityArgument.option)
        guard let url = arguments.value(Self.fleet) else {
            guard isRequired else { return nil }
            given = nil
            return
        }
        given = try Self.configuration(url, authority)
    }

    /// The settings of the Redis that is named.
    ///
    /// - Throws: ``UsageError`` when neither the option nor the variable names one, or the variable is unusable.
    func configuration() throws(UsageError) -> FleetConfiguration {
        if let given { return given }
        guard let url = ProcessInfo.processInfo.environment[Self.variable], !url.isEmpty else {
            throw UsageError("no Redis is named; write --fleet redis://HOST:PORT, or set \(Self.variable)")
        }
        return try Self.configuration(url, authority)
    }

    private static func configuration(_ url: String, _ authority: String?) throws(UsageError) -> FleetConfiguration {
        do throws(FleetError) {
            var configuration = try FleetConfiguration(url: url)
            configuration.tls.caFile = authority
            // Warnings are not printed, because every failure is thrown as well.
            configuration.warningHandler = { _ in }
            return configuration
        } catch {
            throw UsageError(error.message)
        }
    }

    /// Makes the fleet and waits for its Redis.
    ///
    /// - Throws: ``UsageError`` for a build without Redis, ``FleetError`` for a Redis that cannot be used.
    func connected(within limit: Duration = .seconds(5)) async throws -> Fleet {
        let fleet = try made()
        do {
            try await fleet.connect(within: limit)
        } catch {
            await fleet.shutdown()
            throw error
        }
        return fleet
    }

    /// Uses the fleet, and then shuts it down, after an error too.
    func using<Value>(_ body: (Fleet) async throws -> Value) async throws -> Value {
        let fleet = try await connected()
        do {
            let value = try await body(fleet)
            await fleet.shutdown()
            return value
        } catch {
            await fleet.shutdown()
            throw error
        }
    }

    /// The table on the Redis.
    func source(on fleet: Fleet, _ publicKey: String?) -> DomainTable.Source {
        .redis(fleet, key: key, publicKey: publicKey, copy: .none, files: ".")
    }

    /// Makes the fleet.
    ///
    /// - Parameter isAvailable: whether this build has Redis; tests replace it.
    func made(isAvailable: Bool = Fleet.isAvailable) throws(UsageError) -> Fleet {
        let configuration = try configuration()
        guard isAvailable else {
            throw UsageError("this lat was built without Redis; build it with swift build --traits Fleet --product lat")
        }
        do throws(FleetError) {
            return try Fleet(configuration)
        } catch {
            throw UsageError(error.message)
        }
    }
}

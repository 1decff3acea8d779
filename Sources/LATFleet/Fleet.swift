internal import CurlTransport
internal import HTTPCore

/// What the processes of a service share, on a Redis that operators already run.
///
/// ```swift
/// let fleet = try Fleet(url: "rediss://app:secret@redis.example.org:6380")
/// try await fleet.connect()                 // optional: waits for the first answer
/// print(fleet.status.state, fleet.status.latency ?? .zero)
/// ```
///
/// A Redis that is slow, full, restarted or lost costs a request at most ``FleetConfiguration/lookUpBudget``, and after a few
/// failures nothing at all: requests then go on as if there were no fleet. The connection is made in the background, and again
/// whenever it is lost. A process may have any number of fleets.
///
/// Needs the package trait `Fleet`; see the guide *Fleet*.
public final class Fleet: Sendable {
    package let configuration: FleetConfiguration
    package let redis: RedisClient
    /// The counts of the fleet's parts, shown by ``FleetStatus/counters``.
    package let counters = FleetCounters()
    private let transport: CurlTransport

    /// Makes a fleet on the Redis of a URL, such as `redis://localhost` (``FleetConfiguration/init(url:)``).
    ///
    /// - Throws: ``FleetError`` with the kind ``FleetError/Kind/configuration`` or ``FleetError/Kind/unsupported``. That the
    ///   Redis cannot be reached is no error here.
    public convenience init(url: String) throws(FleetError) { try self.init(FleetConfiguration(url: url)) }

    /// Makes a fleet.
    ///
    /// - Throws: ``FleetError`` when a setting cannot work, or this build has no Redis.
    public init(_ configuration: FleetConfiguration) throws(FleetError) {
        guard RedisReader.isAvailable else { throw .withoutTrait }
        try configuration.validate()
        self.configuration = configuration
        var request = HTTPRequest("GET", configuration.transportURL)
        if case .unixSocket(let path) = configuration.address { request.unixSocketPath = path }
        do {
            transport = try CurlTransport(configuration: configuration.engine)
            redis = RedisClient(configuration, try transport.endpoint(for: request), counters)
        } catch let error as NetworkError {
            throw .configuration("\(configuration): \(error.message)")
        } catch {
            throw .configuration("\(configuration): \(error)")
        }
        redis.run(on: transport)
    }

    /// What is known about the Redis now. Costs no round trip.
    public var status: FleetStatus {
        var status = redis.status
        status.counters = counters.values
        return status
    }

    /// Waits until the Redis has answered.
    ///
    /// - Parameter limit: How long it waits and tries again. Default 5 s.
    /// - Throws: ``FleetError`` that says why there is no answer.
    public func connect(within limit: Duration = .seconds(5)) async throws(FleetError) {
        try await redis.connect(within: limit)
    }

    /// Closes the connections. What uses the fleet goes on without it. Calling it is optional.
    public func shutdown() async { await transport.shutdown() }

    /// A key of the fleet: the prefix and the parts, with colons between.
    package func key(_ parts: String...) -> String { ([configuration.prefix] + parts).joined(separator: ":") }

    /// A channel of the fleet. Redis does not separate the channels of its databases, so the name has the number.
    package func channel(_ name: String) -> String { "\(configuration.prefix)@\(configuration.database):\(name)" }
}

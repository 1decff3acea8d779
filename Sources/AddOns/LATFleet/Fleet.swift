internal import CurlTransport
internal import HTTPCore

/// What the processes of a service share through a Redis: cache, limits, circuits, tokens and tables.
///
/// ```swift
/// let fleet = try Fleet(url: "rediss://app:secret@redis.example.org:6380")
/// try await fleet.connect()                 // optional: waits for the first reply
/// print(fleet.status.state, fleet.status.latency ?? .zero)
/// ```
///
/// A slow, full, restarted or lost Redis delays each look-up of a request by at most ``FleetConfiguration/lookUpBudget``. After
/// a few failures it delays nothing: requests go on without the fleet. The connection is made in the background, and made again
/// when it is lost. A process may have any number of fleets.
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
    /// - Throws: ``FleetError`` with the kind ``FleetError/Kind/configuration`` or ``FleetError/Kind/unsupported``. An
    ///   unreachable Redis is not an error here.
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

    /// What is known about the Redis now. Needs no round trip.
    public var status: FleetStatus {
        var status = redis.status
        status.counters = counters.values
        return status
    }

    /// Waits until the Redis has replied. One that loads its data is asked again.
    ///
    /// - Parameter limit: How long it waits and tries again. Default 5 s.
    /// - Throws: ``FleetError`` that says why there is no reply.
    public func connect(within limit: Duration = .seconds(5)) async throws(FleetError) {
        try await redis.connect(within: limit)
    }

    /// Closes the connections. Managers continue without the fleet. Calling it is optional.
    public func shutdown() async { await transport.shutdown() }

    /// A key of the fleet: the prefix and the parts, with colons between.
    package func key(_ parts: String...) -> String { ([configuration.prefix] + parts).joined(separator: ":") }

    /// A channel of the fleet. Its name has the number of the database, because all databases of a Redis share their channels.
    package func channel(_ name: String) -> String { "\(configuration.prefix)@\(configuration.database):\(name)" }
}

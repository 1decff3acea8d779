/// What a manager shares with the other processes of a fleet.
public struct FleetParts: OptionSet, Hashable, Sendable {
    /// One bit for each part.
    public let rawValue: Int

    /// Makes a set from its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The Redis is the lowest tier of the manager's cache, and one process fetches for all (``Fleet/cache(above:_:)``).
    public static let cache = FleetParts(rawValue: 4)
    /// The manager's limits, and those of its table's rows, hold for all processes together.
    public static let limits = FleetParts(rawValue: 1)
    /// A circuit that one process opens is open in all of them, and one process probes the host.
    public static let circuits = FleetParts(rawValue: 2)
    /// All parts.
    public static let all: FleetParts = [.cache, .limits, .circuits]
}

/// Decides at each tick of a timer whether a connection gets a ping or counts as lost. A pure value.
///
/// Any bytes from the server keep the connection alive, not only pongs. Silence does not count while the reader of the messages
/// is behind, because nothing is read then, nor while the bytes before the last ping are still being sent.
struct KeepAlive: Equatable {
    enum Action: Equatable {
        case rest
        case ping
        case lost
    }

    let limit: Int
    /// The pings since the last bytes from the server, or since silence last did not count.
    private(set) var missed = 0
    /// How many bytes were written before the last ping.
    private var pingStart: Int64 = 0
    /// How many bytes had been sent at the last tick.
    private var lastTaken: Int64 = 0

    init(limit: Int) { self.limit = limit }

    /// - Parameters:
    ///   - written: how many bytes were written since the connection was opened.
    ///   - taken: how many of them have been sent.
    mutating func beat(hadInput: Bool, isReaderBehind: Bool, written: Int64, taken: Int64) -> Action {
        let isPingBehind = taken <= pingStart && taken > lastTaken
        lastTaken = taken
        if hadInput || isReaderBehind || isPingBehind {
            missed = 0
            return .rest
        }
        guard missed < limit else { return .lost }
        missed += 1
        pingStart = written
        return .ping
    }
}

/// Decides, at each beat of a clock, whether a connection gets a ping or counts as lost. A pure value.
///
/// Any bytes of the server keep the connection alive, not only pongs. While the reader of the messages is behind, nothing is read, so
/// that silence says nothing about the server.
struct KeepAlive: Equatable {
    enum Action: Equatable {
        case rest
        case ping
        case lost
    }

    let limit: Int
    /// The pings since the last bytes of the server.
    private(set) var missed = 0

    init(limit: Int) { self.limit = limit }

    mutating func beat(hadInput: Bool, isReaderBehind: Bool) -> Action {
        if hadInput || isReaderBehind {
            missed = 0
            return .rest
        }
        guard missed < limit else { return .lost }
        missed += 1
        return .ping
    }
}

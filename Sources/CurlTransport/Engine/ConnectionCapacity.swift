import Platform

/// How many connections libcurl may have open (`CURLMOPT_MAXCONNECTS`).
///
/// libcurl counts the connections in use too and closes an idle one for each
/// that is too many, so the idle ones that are to be kept come on top of those
/// that run. Otherwise each of many requests in flight closes the connection
/// that the next one would have used. A pure value: the engine tells it how
/// many requests run, and libcurl what it says.
struct ConnectionCapacity {
    /// How many idle connections are kept: as many as the manager says, and no fewer than any host may have at once.
    private var idle: Int
    /// The running requests that the present value has room for.
    private var running = 0
    /// The most that ran since ``intervalEnd`` was set.
    private var peak = 0
    private var intervalEnd = MonotonicTime(nanoseconds: 0)

    /// Steps by which the value follows the running requests, so that it is told seldom.
    private static var step: Int { 64 }
    /// In milliseconds: so long the value holds before it falls. What ends in one turn of the loop is followed by more in
    /// the next ones, which want the connections.
    private static var interval: Int64 { 2000 }

    /// - Parameters:
    ///   - maxIdle: The most idle connections of all hosts together.
    ///   - perHost: The most connections of one host.
    init(maxIdle: Int, perHost: Int) { idle = max(maxIdle, perHost) }

    /// What libcurl is told.
    var value: Int {
        let (sum, overflow) = idle.addingReportingOverflow(running)
        // libcurl takes a `long` and keeps an `int`.
        return overflow ? Int(Int32.max) : min(sum, Int(Int32.max))
    }

    /// A host may have more connections from now on. Returns whether the value has changed.
    mutating func raise(perHost: Int) -> Bool {
        guard perHost > idle else { return false }
        idle = perHost
        return true
    }

    /// So many requests run now. Returns whether the value has changed: it rises at once, and falls to the most that ran of
    /// late.
    mutating func note(running count: Int, _ now: MonotonicTime) -> Bool {
        if count > peak { peak = count }
        guard count > running || now >= intervalEnd else { return false }
        let before = running
        running = (peak + Self.step - 1) / Self.step * Self.step
        if now >= intervalEnd {
            peak = count
            intervalEnd = now + Self.interval
        }
        return running != before
    }
}

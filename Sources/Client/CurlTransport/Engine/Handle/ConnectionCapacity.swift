import Platform

/// The limit of open connections given to libcurl (`CURLMOPT_MAXCONNECTS`).
///
/// libcurl counts the connections in use too, and closes an idle one whenever
/// the limit is exceeded. The limit is therefore the number of idle connections
/// to keep plus the number of running requests. With a lower limit, each of many
/// running requests would close the connection that the next one could use. A
/// pure value: the engine gives it the number of running requests and passes the limit to
/// libcurl.
struct ConnectionCapacity {
    /// How many idle connections to keep: the manager's setting, or the largest limit of a host if that is higher.
    private var idle: Int
    /// The number of running requests that is included in the current value.
    private var running = 0
    /// The largest number of requests that ran at once in this interval.
    private var peak = 0
    private var intervalEnd = MonotonicTime(nanoseconds: 0)

    /// The number of running requests is rounded up to a multiple of this, so that the limit rarely changes.
    private static var step: Int { 64 }
    /// The minimum time before the value falls, in milliseconds. Requests that end are usually followed by others that
    /// reuse their connections.
    private static var interval: Int64 { 2000 }

    init(maxIdle: Int, perHost: Int) { idle = max(maxIdle, perHost) }

    var value: Int {
        let (sum, overflow) = idle.addingReportingOverflow(running)
        // libcurl takes a `long` and keeps an `int`.
        return overflow ? Int(Int32.max) : min(sum, Int(Int32.max))
    }

    /// Raises the connections per host. Returns whether the value has changed.
    mutating func raise(perHost: Int) -> Bool {
        guard perHost > idle else { return false }
        idle = perHost
        return true
    }

    /// Records how many requests run. Returns whether the value has changed: it rises at once, and falls to the recent
    /// peak.
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

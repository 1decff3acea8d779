import CLibcurl
internal import HTTPCore
import Synchronization

/// A transfer that only opens a connection.
///
/// libcurl has no transfer that leaves an unused connection in its pool: connections of `CURLOPT_CONNECT_ONLY` are
/// never reused, and a callback that aborts a transfer closes its connection. But a request that libcurl cannot format
/// fails after the connection is established and before a byte is sent, and leaves the connection usable. So this
/// request has a time condition (`CURLOPT_TIMEVALUE_LARGE`) with a date beyond what libcurl can format. It is a `HEAD`,
/// in case some libcurl can format that date and sends it.
///
/// libcurl 8 does not reuse a clear-text connection that has carried no request, so there the `HEAD` is sent.
final class WarmUp: Sendable {
    /// Whether an existing connection is enough.
    let acceptsExisting: Bool
    private let multiplexes = Atomic<Bool>(false)

    init(acceptsExisting: Bool) { self.acceptsExisting = acceptsExisting }

    /// Whether the connection is multiplexed, so that one is enough.
    var isMultiplexed: Bool { multiplexes.load(ordering: .relaxed) }

    /// Records whether the connection that is now ready is multiplexed.
    func noteConnection(_ handle: EasyHandle) {
        if OpenSSL.choseHTTP2(handle.curl) { multiplexes.store(true, ordering: .relaxed) }
    }

    /// Whether a transfer that sends no request ended as intended, with its connection in the pool.
    func isOver(_ result: CURLcode, _ transfer: Transfer) -> Bool {
        result == CURLE_BAD_FUNCTION_ARGUMENT && transfer.machine.attempts.connectionsUsed > 0
            && transfer.failure == nil
    }
}

extension EasyHandle {
    func setWarmUp(_ warmUp: WarmUp) {
        if !warmUp.acceptsExisting { set(CURLOPT_FRESH_CONNECT, 1) }
        if GlobalCurl.runtimeVersion >= 0x08_00_00, transfer?.target.isSecure == false { return }
        set(CURLOPT_TIMECONDITION, Int(CURL_TIMECOND_IFMODSINCE.rawValue))
        set(CURLOPT_TIMEVALUE_LARGE, Int64.max)
    }
}

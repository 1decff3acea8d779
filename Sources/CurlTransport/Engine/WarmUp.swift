import CLibcurl
import HTTPCore
import Synchronization

/// A transfer that wants a connection and no answer.
///
/// libcurl has no transfer that ends with a connection in its pool: those of `CURLOPT_CONNECT_ONLY` are never used again,
/// and one that a callback breaks off takes its connection with it. But a request that cannot be put into words fails when
/// the connection stands and before a byte of it is sent, and leaves the connection as it was. Such a request is one with
/// a date (`CURLOPT_TIMEVALUE_LARGE`) that no calendar has. It is a `HEAD`, should a libcurl be able to say that date.
///
/// libcurl 8 does not use a connection in clear text again that has carried no request: there the `HEAD` is sent.
final class WarmUp: Sendable {
    /// Whether a connection that is there already is enough.
    let takesKnown: Bool
    private let multiplexes = Atomic<Bool>(false)

    init(takesKnown: Bool) { self.takesKnown = takesKnown }

    /// Whether the connection carries any number of requests, so that one is enough.
    var isMultiplexed: Bool { multiplexes.load(ordering: .relaxed) }

    /// The connection stands.
    func noteConnection(_ handle: EasyHandle) {
        if OpenSSL.choseHTTP2(handle.curl) { multiplexes.store(true, ordering: .relaxed) }
    }

    /// Whether a transfer ended as it should, with its connection in the pool.
    func isOver(_ result: CURLcode, _ transfer: Transfer) -> Bool {
        result == CURLE_BAD_FUNCTION_ARGUMENT && transfer.machine.attempts.connectionsUsed > 0
            && transfer.failure == nil
    }
}

extension EasyHandle {
    func setWarmUp(_ warmUp: WarmUp) {
        if !warmUp.takesKnown { set(CURLOPT_FRESH_CONNECT, 1) }
        if GlobalCurl.runtimeVersion >= 0x08_00_00, transfer?.target.isSecure == false { return }
        set(CURLOPT_TIMECONDITION, Int(CURL_TIMECOND_IFMODSINCE.rawValue))
        set(CURLOPT_TIMEVALUE_LARGE, Int64.max)
    }
}

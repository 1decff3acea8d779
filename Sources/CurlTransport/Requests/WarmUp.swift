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
        if lat_speaks_http2(handle.curl) != 0 { multiplexes.store(true, ordering: .relaxed) }
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

extension CurlTransport {
    /// Opens connections to a URL's origin, name look-up and TLS done, and leaves them in the pool for the requests that
    /// follow. Nothing is sent on them; with libcurl 8 and in clear text one `HEAD` of `/` on each.
    ///
    /// - Parameters:
    ///   - url: an absolute URL; its path does not matter.
    ///   - connections: how many. An idle one counts as the first of them. Where the server speaks HTTP/2 over TLS one is
    ///     enough, and no more are opened.
    /// - Throws: ``NetworkError`` when a connection does not come about; of kind ``NetworkError/Kind/invalidRequest`` for
    ///   fewer than one, and for more than ``EngineConfiguration/maxConnectionsPerHost``, which would close each other.
    ///   Those that came about stay.
    public func prewarm(_ url: String, connections: Int = 1) async throws {
        try await prewarm(HTTPRequest("HEAD", url), connections: connections)
    }

    /// The same with the settings of a request: its pins, its proxy.
    package func prewarm(_ request: HTTPRequest, connections: Int) async throws {
        let limit = request.maxConnectionsPerHost ?? standardPlan.maxConnectionsPerHost
        guard (1...limit).contains(connections) else {
            throw NetworkError.invalidRequest(
                "prewarm: connections is \(connections); there can be 1 to \(limit) (maxConnectionsPerHost)")
        }
        var root = request
        root.url = try targets.target(for: request.url).origin + "/"
        let request = root
        guard try await !warm(request, takesKnown: true) else { return }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1..<connections { group.addTask { _ = try await self.warm(request, takesKnown: false) } }
            try await group.waitForAll()
        }
    }

    /// Returns whether the connection is shared by requests.
    private func warm(_ request: HTTPRequest, takesKnown: Bool) async throws -> Bool {
        let warmUp = WarmUp(takesKnown: takesKnown)
        let transfer = try prepare(request, nil, warmUp: warmUp)
        do {
            _ = try await answer(to: transfer)
        } catch let error as NetworkError {
            if error.kind == .cancelled, Task.isCancelled { throw CancellationError() }
            throw error.attaching(request)
        }
        return warmUp.isMultiplexed
    }
}

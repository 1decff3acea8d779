import CLibcurl
internal import HTTPCore

/// Decides whether a request is sent again after its connection failed before any of the response arrived.
///
/// A request that the server has not processed may always be sent again (RFC 9113 §8.7). One that it may have processed
/// is sent again only when its method is idempotent (RFC 9110 §9.2.2). A pure value: the engine provides the facts of
/// an attempt and acts on the result.
struct Replay {
    /// What the server may have done with an attempt.
    enum Fate: Hashable {
        /// No byte of the request was written to the connection.
        case unsent
        /// The server said that it did not process the request: `REFUSED_STREAM`, or a `GOAWAY` that names an earlier
        /// stream as the last (RFC 9113 §6.8).
        case refused
        /// It may have been processed.
        case unknown
    }

    var fate: Fate
    /// Whether the method is idempotent, so that the request may be repeated in any case.
    var isIdempotent: Bool
    /// Whether the host speaks HTTP/2 or HTTP/3, so that requests share connections.
    var isMultiplexed: Bool

    /// The maximum number of times that the engine sends a request again after libcurl gave up on it.
    static var limit: Int { 3 }

    private var isSafe: Bool { isIdempotent || fate != .unknown }

    /// Whether libcurl may repeat the request. libcurl does so by itself, at most five times, when a pooled connection
    /// was dead or a stream was refused.
    ///
    /// - Parameter number: 1 for the first repetition.
    func allowsRepetition(_ number: Int) -> Bool {
        // A server that closes an HTTP/2 connection gracefully refuses all its streams, possibly more than once. A
        // server that restarts closes all pooled connections.
        isSafe && (number == 1 || isMultiplexed || fate == .unsent)
    }

    /// Whether the engine sends the request again after libcurl gave up on it.
    ///
    /// libcurl 7.88 may put a request on a connection that has just received `GOAWAY`. Nothing is sent, and the
    /// transfer ends with `CURLE_HTTP2`, after which libcurl does not repeat it. Also, libcurl's five repetitions are soon
    /// used up where each connection takes few requests. In HTTP/1 the engine sends only unsent requests again.
    ///
    /// - Parameters:
    ///   - code: libcurl's result for the transfer.
    ///   - isReused: Whether the connection carried requests before.
    ///   - replays: How often the engine has sent the request again.
    func followsFailure(_ code: CURLcode, isReused: Bool, replays: Int) -> Bool {
        guard isSafe, replays < Self.limit else { return false }
        return switch code {
        // On a fresh connection to a host that has not answered in HTTP/2 yet, the server either refused the first
        // stream with GOAWAY, or violated the protocol and will do so again. Both have this code, so one replay is
        // allowed.
        case CURLE_HTTP2: isMultiplexed || isReused || replays == 0
        case CURLE_HTTP2_STREAM, CURLE_HTTP3: fate == .refused
        // When all pooled connections were closed, libcurl 8 tries five of them and gives up.
        case CURLE_SEND_ERROR, CURLE_RECV_ERROR: isMultiplexed || isReused && fate == .unsent
        // The engine refused the connection before anything was sent: it was closed or held unsolicited input.
        case CURLE_ABORTED_BY_CALLBACK: fate == .unsent
        default: false
        }
    }
}

/// The connections that one request used, and whether it may use another. It collects the facts for ``Replay``.
struct Attempts: Sendable {
    /// How many connections were ready for the request since the engine last sent it, including libcurl's repetitions.
    private(set) var connectionsUsed = 0
    /// How often libcurl repeated the request on another connection.
    private(set) var repetitions = 0
    /// How often the engine sent the request again after libcurl gave up on it.
    private(set) var replays = 0
    /// Whether the head of a final response arrived on the current connection.
    var hasHead = false
    /// The connections used before the last replay.
    private var connectionsUsedBefore = 0
    /// `CURLINFO_REQUEST_SIZE` when the current connection was taken.
    private var bytesSentBefore = 0

    /// How many connections the request used, at least one.
    var count: Int { max(1, connectionsUsedBefore + connectionsUsed) }

    /// Records that a connection is ready. Returns whether the request may be sent on it. This is not always so: when a
    /// pooled connection is dead, libcurl repeats even a request that may have been processed.
    ///
    /// - Parameters:
    ///   - sent: The number of request bytes sent (`CURLINFO_REQUEST_SIZE`).
    ///   - refusal: What libcurl's log says.
    mutating func mayUseConnection(
        _ rules: TransferMachine.Rules, sent: @autoclosure () -> Int, refusal: StreamRefusal = StreamRefusal(),
        isMultiplexed: @autoclosure () -> Bool
    ) -> Bool {
        connectionsUsed += 1
        defer { hasHead = false }
        // After a head, libcurl follows the response and does not repeat the request.
        guard connectionsUsed > 1, !hasHead else { return true }
        repetitions += 1
        let sent = sent()
        // libcurl 7.88 may name a refusal that it remembers from an earlier attempt.
        let fate = fate(sent: sent, isRefused: refusal.isRefused || refusal.isRepeatedByLibcurl && count == 2)
        bytesSentBefore = sent
        return Replay(fate: fate, isIdempotent: rules.isIdempotent, isMultiplexed: isMultiplexed())
            .allowsRepetition(repetitions)
    }

    /// The facts of a failed attempt.
    struct Loss: Sendable {
        /// `CURLINFO_REQUEST_SIZE` at the end of the attempt.
        var sent: Int
        var isRefused: Bool
        /// Whether the connection had carried requests before.
        var isReused: Bool
        var isMultiplexed: Bool
    }

    func allowsReplay(after code: CURLcode, _ loss: Loss, _ rules: TransferMachine.Rules) -> Bool {
        let fate = fate(sent: loss.sent, isRefused: loss.isRefused)
        return Replay(fate: fate, isIdempotent: rules.isIdempotent, isMultiplexed: loss.isMultiplexed)
            .followsFailure(code, isReused: loss.isReused, replays: replays)
    }

    private func fate(sent: Int, isRefused: Bool) -> Replay.Fate {
        sent == bytesSentBefore ? .unsent : isRefused ? .refused : .unknown
    }

    /// Records that the engine sends the request again, and starts a new attempt.
    mutating func replayed() {
        replays += 1
        connectionsUsedBefore += connectionsUsed
        connectionsUsed = 0
        hasHead = false
        repetitions = 0
        bytesSentBefore = 0
    }
}

import CLibcurl
import HTTPCore

/// Decides whether a request goes out once more after a connection failed it before any of a response came.
///
/// A request that the server has not processed may always be sent again
/// (RFC 9113 §8.7); one that it may have processed only when its method is
/// idempotent (RFC 9110 §9.2.2). Pure: the engine says what it knows of an
/// attempt, and acts on the answer.
struct Replay {
    /// What the server can have made of an attempt.
    enum Fate: Hashable {
        /// No byte of the request was given to the connection.
        case unsent
        /// The server has said that it did not process it: `REFUSED_STREAM`, or a `GOAWAY` that names an earlier stream
        /// as the last (RFC 9113 §6.8).
        case refused
        /// It may have been processed.
        case unknown
    }

    var fate: Fate
    /// Whether the method may be repeated whatever became of the attempt.
    var isIdempotent: Bool
    /// Whether the host answers in HTTP/2, so that requests share connections.
    var isMultiplexed: Bool

    /// The most times that the engine sends a request again which libcurl has given up.
    static var limit: Int { 3 }

    private var isSafe: Bool { isIdempotent || fate != .unknown }

    /// Whether libcurl may repeat the request, as it does by itself when a connection of its pool was dead or a stream was
    /// refused. It does so at most five times.
    ///
    /// - Parameter number: 1 for the first repetition.
    func allowsRepetition(_ number: Int) -> Bool {
        // A server that winds an HTTP/2 connection down refuses all its streams, and may do so again; and one that restarts
        // closes all connections of the pool.
        isSafe && (number == 1 || isMultiplexed || fate == .unsent)
    }

    /// Whether the engine sends the request again after libcurl gave it up.
    ///
    /// libcurl 7.88 may put a request on a connection that has just received `GOAWAY`: nothing is sent, and the transfer
    /// ends with `CURLE_HTTP2`, which libcurl does not repeat. And where each connection takes few requests, five
    /// repetitions are soon used up. On HTTP/1 libcurl's own repetition is the only one of a request that went out.
    ///
    /// - Parameters:
    ///   - code: How libcurl ended the transfer.
    ///   - isReused: Whether the connection carried requests before.
    ///   - replays: How often the engine has sent the request again.
    func followsFailure(_ code: CURLcode, isReused: Bool, replays: Int) -> Bool {
        guard isSafe, replays < Self.limit else { return false }
        return switch code {
        // A fresh connection of a host that has not answered in HTTP/2 yet: the server refuses the first stream with
        // GOAWAY, or breaks the rules and will do so again. The code is the same.
        case CURLE_HTTP2: isMultiplexed || isReused || replays == 0
        case CURLE_HTTP2_STREAM, CURLE_HTTP3: fate == .refused
        // Of a pool whose connections have all been closed libcurl 8 tries five and gives up.
        case CURLE_SEND_ERROR, CURLE_RECV_ERROR: isMultiplexed || isReused && fate == .unsent
        // The engine turned the connection down before anything was sent on it: it held stray input, or was closed.
        case CURLE_ABORTED_BY_CALLBACK: fate == .unsent
        default: false
        }
    }
}

/// The connections that one request went to, and whether it may go to another: what ``Replay`` asks for is gathered here.
struct Attempts: Sendable {
    /// How often a connection was ready for the request since the engine sent it last; libcurl's own repetitions count.
    private(set) var connectionsUsed = 0
    /// How often libcurl began again on another connection.
    private(set) var repetitions = 0
    /// How often the engine sent the request again after libcurl gave it up.
    private(set) var replays = 0
    /// Whether any of a head came on the present connection.
    var hasHead = false
    /// The connections used before the last replay.
    private var connectionsUsedBefore = 0
    /// What `CURLINFO_REQUEST_SIZE` was when the present connection was taken.
    private var bytesSentBefore = 0
    /// What `CURLINFO_NUM_CONNECTS` was then, and whether the connection was opened for this transfer; both are noted for
    /// methods that are not idempotent only.
    private var connectionsOpened = 0
    private var isOnFreshConnection = false

    /// How many connections the request went to, at least one.
    var count: Int { max(1, connectionsUsedBefore + connectionsUsed) }

    /// A connection is ready. Returns whether the request may go out on it: libcurl repeats one by itself when a connection
    /// of its pool turns out to be dead, also when it may have had its effect.
    ///
    /// - Parameters:
    ///   - opened: How many connections were opened for it (`CURLINFO_NUM_CONNECTS`).
    ///   - sent: How much was sent (`CURLINFO_REQUEST_SIZE`).
    ///   - isRefused: Whether the server said that it did not process it.
    mutating func mayUseConnection(
        _ rules: TransferMachine.Rules, opened: @autoclosure () -> Int, sent: @autoclosure () -> Int,
        isRefused: Bool = false, isMultiplexed: @autoclosure () -> Bool
    ) -> Bool {
        connectionsUsed += 1
        defer { hasHead = false }
        // Nothing but a refused stream makes libcurl leave a connection that it has just opened.
        let wasOnFreshConnection = isOnFreshConnection
        if !rules.isIdempotent {
            let opened = opened()
            isOnFreshConnection = opened > connectionsOpened
            connectionsOpened = opened
        }
        // After a head it is libcurl's answer to a challenge.
        guard connectionsUsed > 1, !hasHead else { return true }
        repetitions += 1
        let sent = sent()
        // After another refusal libcurl 7.88 would leave a fresh connection at any end.
        let fate = fate(sent: sent, isRefused: isRefused || wasOnFreshConnection && count == 2)
        bytesSentBefore = sent
        return Replay(fate: fate, isIdempotent: rules.isIdempotent, isMultiplexed: isMultiplexed())
            .allowsRepetition(repetitions)
    }

    /// How an attempt was lost.
    struct Loss: Sendable {
        /// `CURLINFO_REQUEST_SIZE` at its end.
        var sent: Int
        /// Whether the server said that it did not process it.
        var isRefused: Bool
        /// Whether its connection had carried requests before.
        var isReused: Bool
        var isMultiplexed: Bool
    }

    /// Whether the engine sends the request again that libcurl gave up.
    func allowsReplay(after code: CURLcode, _ loss: Loss, _ rules: TransferMachine.Rules) -> Bool {
        let fate = fate(sent: loss.sent, isRefused: loss.isRefused)
        return Replay(fate: fate, isIdempotent: rules.isIdempotent, isMultiplexed: loss.isMultiplexed)
            .followsFailure(code, isReused: loss.isReused, replays: replays)
    }

    private func fate(sent: Int, isRefused: Bool) -> Replay.Fate {
        sent == bytesSentBefore ? .unsent : isRefused ? .refused : .unknown
    }

    /// The engine sends the request again: the attempt before is forgotten.
    mutating func replayed() {
        replays += 1
        connectionsUsedBefore += connectionsUsed
        connectionsUsed = 0
        repetitions = 0
        bytesSentBefore = 0
        connectionsOpened = 0
    }
}

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
        default: false
        }
    }
}

extension Engine {
    /// Whether the request of a failed transfer goes out again; then it is on its way.
    func sendsAgain(_ transfer: Transfer, _ handle: EasyHandle, _ result: CURLcode) -> Bool {
        guard transfer.failure == nil, transfer.connectionsUsed > 0, !transfer.head.hasBegun else { return false }
        let isUnsent = handle.long(CURLINFO_REQUEST_SIZE) == transfer.bytesSentBefore
        // 7.88 names the code, 8 says "refused by server".
        let isRefused =
            (result == CURLE_HTTP2_STREAM || result == CURLE_HTTP3)
            && (handle.errorText.contains("REFUSED_STREAM") || handle.errorText.contains("refused by server"))
        let replay = Replay(
            fate: isUnsent ? .unsent : isRefused ? .refused : .unknown,
            isIdempotent: transfer.request.method.isIdempotent, isMultiplexed: isMultiplexed(transfer))
        let isReused = handle.long(CURLINFO_NUM_CONNECTS) == 0
        let plan = transfer.plan
        let timeLeft = plan.timeout - (now.nanoseconds - transfer.startedAt.nanoseconds) / 1_000_000
        guard replay.followsFailure(result, isReused: isReused, replays: transfer.replays),
            plan.timeout == 0 || timeLeft > 0,
            transfer.sourceBytes == 0 || plan.body?.sources.allSatisfy({ $0.rewind() }) ?? true
        else { return false }
        transfer.prepareReplay(now)
        curl_multi_remove_handle(multi, handle.curl)
        handle.finish()
        do throws(NetworkError) {
            try handle.prepareReplay(of: transfer, timeout: plan.timeout == 0 ? 0 : timeLeft)
            let code = curl_multi_add_handle(multi, handle.curl)
            if code != CURLM_OK { throw EngineFailure.multi(code) }
        } catch {
            over(transfer, .failure(error))
        }
        return true
    }

    /// Whether the host of a transfer has shown to speak HTTP/2.
    func isMultiplexed(_ transfer: Transfer) -> Bool { transfer.place.map(queue.isMultiplexed) ?? false }
}

import HTTPCore
import Platform

// Heads, bodies, and their progress.
extension TransferMachine {
    // MARK: The head

    /// A line of a head has arrived. Returns whether to accept it.
    mutating func receivedHeadLine(_ now: MonotonicTime) -> Bool {
        guard !isStopped else { return false }
        lastActivity = now
        attempts.hasHead = true
        if firstByteAt == nil { firstByteAt = now }
        return true
    }

    /// The facts of a head that is not interim.
    struct Head: Sendable {
        var status: Int
        var contentLength: Int64?
        var isCoded = false
        /// Whether the caller follows it as a redirect, by its status, `Location` and settings.
        var isFollowed = false
    }

    enum HeadAction: Hashable, Sendable {
        /// The body is collected, or libcurl answers the challenge by itself.
        case wait
        /// Answer the caller now; the body follows as a stream.
        case answer
        /// Call ``look(_:isThrottled:)`` at this time.
        case look(MonotonicTime)
        case bodyTooLarge
    }

    /// A head that is not interim is complete. ``stopsSending`` then says whether to stop sending the request body.
    mutating func receivedHead(_ head: Head, _ now: MonotonicTime) -> HeadAction {
        status = head.status
        // These have no body, whatever they announce (RFC 9112 §6.3).
        let hasNoContent = rules.hasNoContent || status == 204 || status == 304
        isDecoded = rules.decompresses && head.isCoded
        announcedBodySize = hasNoContent || isDecoded ? nil : head.contentLength
        guard !mayBeRetriedByLibcurl else { return .wait }
        if status >= 300, rules.readsBody { stopsSending = true }
        if head.isFollowed {
            if let announcedBodySize, announcedBodySize > Self.drainBytes { return goOnAtHead() }
            // Collected, even for a stream; it becomes a stream when it is too large or takes too long.
            isStream = false
            let end = now + Self.drainTime
            drainsUntil = end
            return .look(end)
        }
        if let announcedBodySize, announcedBodySize > rules.maxBodySize {
            isStopped = true
            return .bodyTooLarge
        }
        return isStream ? .answer : .wait
    }

    /// Whether libcurl may answer the response by itself, so that another one follows.
    private var mayBeRetriedByLibcurl: Bool { rules.mayBeRetriedByLibcurl(status) }

    var isProxyRefusal: Bool { rules.isProxyRefusal(status) }

    /// Answers the caller at the head of a redirect whose body is too large or takes too long. A caller that drops the
    /// body closes the connection, or in HTTP/2 the stream.
    @discardableResult
    mutating func goOnAtHead() -> HeadAction {
        drainsUntil = nil
        isStream = true
        return .answer
    }

    // MARK: The body

    enum BodyAction: Sendable {
        case keep
        /// Answer the caller first.
        case answerAndKeep
        case drop
        case pause
        case refuse
        case bodyTooLarge
        case decompressionBomb
        /// The reader of a compressed error body is too far behind.
        case errorTooLarge
    }

    /// Bytes of the body have arrived.
    ///
    /// - Parameter unread: How many bytes wait for the reader.
    /// - Parameter coded: How many bytes have arrived in all, before decoding.
    mutating func receivedBody(
        _ count: Int, _ now: MonotonicTime, isReaderBehind: @autoclosure () -> Bool,
        unread: @autoclosure () -> Int = 0, coded: @autoclosure () -> Int64
    ) -> BodyAction {
        guard !isStopped else { return .refuse }
        lastActivity = now
        if isProxyRefusal { return .drop }
        let isDecodedError = isDecoded && status >= 400
        if isStream, isReaderBehind() {
            guard isDecodedError else {
                isPaused = true
                return .pause
            }
            // While paused, libcurl decodes all that it has read and keeps it, up to 64 MiB.
            guard unread() + count <= Self.errorGrace else {
                isStopped = true
                return .errorTooLarge
            }
        }
        bodyByteCount += Int64(count)
        guard bodyByteCount <= rules.maxBodySize else {
            isStopped = true
            return .bodyTooLarge
        }
        if rules.decompresses, bodyByteCount > (isDecodedError ? Int64(Self.errorGrace) : Self.decompressionGrace),
            bodyByteCount / max(1, coded()) > rules.maxDecompressionRatio
        {
            isStopped = true
            return .decompressionBomb
        }
        if drainsUntil != nil {
            guard bodyByteCount > Self.drainBytes else { return .keep }
            goOnAtHead()
        }
        return isStream && !hasAnswered ? .answerAndKeep : .keep
    }

    enum Sending: Sendable { case read, end, refuse }

    /// The answer when libcurl asks for more of the request body.
    var sending: Sending { isStopped ? .refuse : stopsSending ? .end : .read }

    /// Records bytes that the source gave.
    mutating func sent(_ count: Int, _ now: MonotonicTime) {
        lastActivity = now
        sourceBytes += Int64(count)
    }

    /// The source starts over.
    mutating func rewound() { sourceBytes = 0 }

    // MARK: Progress

    /// libcurl reports progress. Returns what to report to the caller, if anything.
    mutating func progressed(_ completed: Int64, of total: Int64, _ now: MonotonicTime) -> TransferProgress? {
        // The body of a challenge does not count.
        if rules.mayBeChallenged, status == 401 || status == 407 { return nil }
        return report(content(completed), of: total > 0 ? total : nil, isLast: false, now)
    }

    /// As ``progressed(_:of:_:)``, for the last report.
    mutating func progressEnded(
        _ completed: Int64, isWhole: Bool, isCoded: Bool, _ now: MonotonicTime
    ) -> TransferProgress? {
        var completed = content(completed)
        // libcurl adds the body of a challenge that it answered to the body of the response.
        if !rules.hasBody, rules.mayBeChallenged, !isCoded { completed = bodyByteCount }
        return report(completed, of: isWhole ? completed : lastProgress?.value.total, isLast: true, now)
    }

    /// libcurl counts the framing of a chunked body too; this is the content alone.
    private func content(_ onWire: Int64) -> Int64 { rules.readsBody ? min(onWire, sourceBytes) : onWire }

    private mutating func report(
        _ completed: Int64, of total: Int64?, isLast: Bool, _ now: MonotonicTime
    ) -> TransferProgress? {
        guard phase == .running else { return nil }
        let progress = TransferProgress(
            direction: rules.hasBody ? .upload : .download, completed: completed, total: total)
        if let last = lastProgress {
            guard progress != last.value, completed >= last.value.completed else { return nil }
            guard isLast || total == completed || now >= last.time + Self.progressInterval else { return nil }
        } else if completed == 0, !isLast {
            return nil
        }
        lastProgress = (progress, now)
        return progress
    }
}

import HTTPCore
import Platform

// What comes and goes on the connection: heads, bodies, and how far they are.
extension TransferMachine {
    // MARK: The head

    /// A line of a head has come. Returns whether it is taken.
    mutating func headLineCame(_ now: MonotonicTime) -> Bool {
        guard !isStopped else { return false }
        lastActivity = now
        attempts.hasHead = true
        if firstByteAt == nil { firstByteAt = now }
        return true
    }

    /// What a head says that is not interim.
    struct Head: Sendable {
        var status: Int
        var contentLength: Int64?
        var isCoded = false
        /// Whether the caller goes on from here, by status, `Location` and its own settings.
        var isFollowed = false
    }

    enum HeadAction: Hashable, Sendable {
        /// Its body is collected, or it is a challenge that libcurl answers by itself.
        case wait
        /// The caller is answered now and the body follows.
        case answer
        /// ``look(_:)`` is to be called then.
        case look(MonotonicTime)
        case bodyTooLarge
    }

    /// A head is complete that is not interim. Whether the request's own body still goes is in ``stopsSending``.
    mutating func headCame(_ head: Head, _ now: MonotonicTime) -> HeadAction {
        status = head.status
        // These have no body whatever they announce (RFC 9112 §6.3).
        let hasNoContent = rules.hasNoContent || status == 204 || status == 304
        isDecoded = rules.decompresses && head.isCoded
        announcedBodySize = hasNoContent || isDecoded ? nil : head.contentLength
        guard !libcurlMayAskAgain else { return .wait }
        if status >= 300, rules.readsBody { stopsSending = true }
        if head.isFollowed {
            if let announcedBodySize, announcedBodySize > Self.drainBytes { return goOnAtHead() }
            // Collected, also for a stream: it is short, or handed out from the moment when it is not.
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

    /// Whether libcurl may answer the head by itself, so that another one follows.
    private var libcurlMayAskAgain: Bool { rules.libcurlMayAskAgain(status) }

    var isProxyRefusal: Bool { rules.isProxyRefusal(status) }

    /// The body of a redirect is too large or takes too long: its head is the answer. Whoever wants the body all the same
    /// reads it, whoever does not lets go of it and so closes the connection, or in HTTP/2 the stream.
    @discardableResult
    mutating func goOnAtHead() -> HeadAction {
        drainsUntil = nil
        isStream = true
        return .answer
    }

    // MARK: The body

    enum BodyAction: Sendable {
        case keep
        /// The caller is answered first.
        case answerAndKeep
        case drop
        case pause
        case refuse
        case bodyTooLarge
        case decompressionBomb
        /// The reader of a compressed error is too far behind.
        case errorTooLarge
    }

    /// Bytes of the body have come.
    ///
    /// - Parameter unread: How many wait for the reader.
    /// - Parameter coded: How many have come before decoding, in all.
    mutating func bodyCame(
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
            // Paused, libcurl would decode all that it has read before and keep it: up to 64 MiB.
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

    /// libcurl asks for more of the request's body.
    var sending: Sending { isStopped ? .refuse : stopsSending ? .end : .read }

    /// The source gave so many bytes.
    mutating func sent(_ count: Int, _ now: MonotonicTime) {
        lastActivity = now
        sourceBytes += Int64(count)
    }

    /// The source begins anew.
    mutating func rewound() { sourceBytes = 0 }

    // MARK: Progress

    /// libcurl counted so many bytes. Returns what is to be told of it, if anything.
    mutating func progressed(_ completed: Int64, of total: Int64, _ now: MonotonicTime) -> TransferProgress? {
        // The body of a challenge is not what is waited for.
        if rules.mayBeChallenged, status == 401 || status == 407 { return nil }
        return report(content(completed), of: total > 0 ? total : nil, isLast: false, now)
    }

    /// As ``progressed(_:of:_:)``, for the last time.
    mutating func progressEnded(
        _ completed: Int64, isWhole: Bool, isCoded: Bool, _ now: MonotonicTime
    ) -> TransferProgress? {
        var completed = content(completed)
        // libcurl adds the body of a challenge it answered to that of the answer.
        if !rules.hasBody, rules.mayBeChallenged, !isCoded { completed = bodyByteCount }
        return report(completed, of: isWhole ? completed : lastProgress?.value.total, isLast: true, now)
    }

    /// libcurl counts the framing of a chunked body; content is what the source gave.
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

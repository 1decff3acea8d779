internal import HTTPCore
import Platform

// Heads, bodies, and their progress.
extension TransferMachine {
    // MARK: The head

    /// Records a received line of a head. Returns whether to accept it.
    mutating func receivedHeadLine(_ now: MonotonicTime) -> Bool {
        guard !isStopped else { return false }
        lastActivity = now
        if firstByteAt == nil { firstByteAt = now }
        return true
    }

    /// The facts of the head of a final response.
    struct Head: Sendable {
        var status: Int
        var contentLength: Int64?
        var isCoded = false
        /// Whether the caller follows it as a redirect, according to its status, its `Location` and the settings.
        var isFollowed = false
    }

    enum HeadAction: Hashable, Sendable {
        /// The body is collected, or libcurl answers the challenge by itself.
        case wait
        /// Answer the caller now; the body follows as a stream.
        case answer
        /// Call ``checkSilence(_:isThrottled:)`` at this time.
        case checkSilence(MonotonicTime)
        case bodyTooLarge
    }

    /// Records the status of a final response. Returns whether it refuses the expectation of the request, which then is sent
    /// again without it (RFC 9110 §10.1.1).
    mutating func expectationFails(_ status: Int) -> Bool {
        guard status == 417, rules.expects, !hasDroppedExpectation else { return false }
        hasDroppedExpectation = true
        return true
    }

    /// Records the complete head of a final response, and sets ``stopsSending``. Returns what to do.
    mutating func receivedHead(_ head: Head, _ now: MonotonicTime) -> HeadAction {
        status = head.status
        attempts.hasHead = true
        isAnsweredEarly = false
        isDecoded =
            rules.decompresses && head.isCoded && !rules.hasNoBody(status) && !isProxyRefusal && !isUpgraded
        announcedBodySize = rules.hasNoBody(status) || isDecoded ? nil : head.contentLength
        guard !rules.mayBeRetriedByLibcurl(status) else { return .wait }
        if status >= 300 && rules.readsBody || rules.upgrades && status != 101 { stopsSending = true }
        if head.isFollowed {
            if let announcedBodySize, announcedBodySize > Self.drainBytes { return answerAtHead() }
            // The body is collected at first, and becomes a stream when it is too large or takes too long.
            isStream = false
            let end = now + Self.drainTime
            drainsUntil = end
            return .checkSilence(end)
        }
        if let announcedBodySize, announcedBodySize > rules.maxBodySize { return stop(.bodyTooLarge) }
        return isStream ? .answer : .wait
    }

    var isProxyRefusal: Bool { rules.isProxyRefusal(status) }

    /// Answers the caller at the head of a redirect whose body is too large or takes too long. A caller that drops the
    /// body closes the connection, or in HTTP/2 the stream.
    @discardableResult
    mutating func answerAtHead() -> HeadAction {
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
    }

    /// Whether the bytes of a stream must wait, because its reader is behind; then the transfer is paused.
    mutating func waitsForReader(_ isReaderBehind: @autoclosure () -> Bool) -> Bool {
        guard !isStopped, isStream, isReaderBehind() else { return false }
        isPaused = true
        return true
    }

    /// Records received bytes of the body. Returns what to do with them.
    ///
    /// - Parameter coded: from how many bytes the body was decoded so far.
    mutating func receivedBody(
        _ count: Int, _ now: MonotonicTime, isReaderBehind: @autoclosure () -> Bool, coded: @autoclosure () -> Int64
    ) -> BodyAction {
        guard !isStopped else { return .refuse }
        lastActivity = now
        if isProxyRefusal { return .drop }
        if waitsForReader(isReaderBehind()) { return .pause }
        bodyByteCount += Int64(count)
        guard bodyByteCount <= rules.maxBodySize else { return stop(.bodyTooLarge) }
        if isDecoded, bodyByteCount > (status >= 400 ? Self.errorGrace : Self.decompressionGrace),
            bodyByteCount / max(1, coded()) > rules.maxDecompressionRatio
        {
            return stop(.decompressionBomb)
        }
        if drainsUntil != nil {
            guard bodyByteCount > Self.drainBytes else { return .keep }
            answerAtHead()
        }
        return isStream && !hasAnswered ? .answerAndKeep : .keep
    }

    enum Sending: Sendable { case read, end, refuse }

    /// What to do when libcurl asks for more of the request body.
    var sending: Sending { isStopped ? .refuse : stopsSending ? .end : .read }

    mutating func sent(_ count: Int, _ now: MonotonicTime) {
        lastActivity = now
        waitsForSource = false
        sourceBytes += Int64(count)
    }

    /// Records that nothing is sent until there are bytes, or a rate limit allows more. An upgrade has none until the server
    /// agrees to it.
    mutating func sendingPaused() {
        waitsForUpgrade = rules.upgrades && status == 0
        waitsForSource = true
    }

    /// Records that the peer has closed the connection of an upgrade, possibly before it answered. Returns whether the
    /// engine must inform libcurl: before 8.12, libcurl does not end the transfer while sending is paused.
    mutating func inputEnded() -> Bool {
        guard phase == .running, isUpgraded || waitsForUpgrade, pause == .none, !stopsSending else { return false }
        stopsSending = true
        return true
    }

    mutating func rewound() {
        sourceBytes = 0
        mustRewind = false
        waitsForUpgrade = false
    }

    // MARK: Progress

    /// Records the progress that libcurl reports. Returns what to report to the caller, if anything.
    mutating func progressed(_ completed: Int64, of total: Int64, _ now: MonotonicTime) -> TransferProgress? {
        // The body of a challenge is not reported.
        if rules.mayBeChallenged, status == 401 || status == 407 { return nil }
        return report(content(completed), of: total > 0 ? total : nil, isLast: false, now)
    }

    /// Like ``progressed(_:of:_:)``, but for the last report.
    mutating func progressEnded(
        _ completed: Int64, isWhole: Bool, isCoded: Bool, _ now: MonotonicTime
    ) -> TransferProgress? {
        var completed = content(completed)
        // libcurl's count includes the body of a challenge that it answered.
        if !rules.hasBody, rules.mayBeChallenged, !isCoded { completed = bodyByteCount }
        return report(completed, of: isWhole ? completed : lastProgress?.value.total, isLast: true, now)
    }

    /// Returns the number of content bytes. libcurl's number includes the framing of a chunked body.
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

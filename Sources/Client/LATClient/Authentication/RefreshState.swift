/// Decides what follows when a request is rejected: renew the token, wait for the renewal, replay the request, or
/// deliver the response or a failure. A pure state machine, so that any number of rejected requests cause one renewal.
///
/// An *epoch* ends with each renewal, whether it succeeded or not. A request notes the epoch in which it was sent. If
/// it is rejected in a later epoch, it carried an old token, which is no reason to renew the current one.
struct RefreshState: Sendable {
    enum Rejection: Hashable {
        /// Renew the token: this caller starts the renewal, and waits like the others.
        case refresh
        /// The token is being renewed: wait for the result.
        case wait
        /// The token was renewed since the request was sent: send it again.
        case replay
        /// A renewal did not help: deliver the response.
        case deliver
        /// A renewal has just failed, or failed since the request was sent: deliver that failure.
        case fail
    }

    /// The pause after a renewal that did not help. No other renewal starts during it.
    let pause: Duration
    /// Whether the token is being renewed, so that requests wait for the result.
    private(set) var isRefreshing = false
    private(set) var epoch = 0
    private var isRenewed = true
    /// Whether a request of this epoch was accepted, so that its token has worked.
    private var isProven = true
    /// Whether a request was rejected again with the token of this epoch, so that a renewal does not help it.
    private var isDoubted = false
    private var endedAt = Duration.zero

    init(pause: Duration) { self.pause = pause }

    /// Notes that a request was accepted.
    mutating func accepted(epoch: Int) { if epoch == self.epoch { isProven = true } }

    /// Decides about a request that was rejected.
    ///
    /// - Parameter isReplay: whether it has already been sent again.
    mutating func rejected(epoch: Int, isReplay: Bool, at now: Duration) -> Rejection {
        // A request that was rejected with the new token too is not sent a third time.
        if isReplay {
            if epoch == self.epoch { isDoubted = true }
            return .deliver
        }
        if isRefreshing { return .wait }
        if epoch < self.epoch { return isRenewed ? .replay : .fail }
        if isPausing(at: now) { return isRenewed ? .deliver : .fail }
        isRefreshing = true
        return .refresh
    }

    /// What follows when the token is missing or ends soon.
    enum Ahead: Hashable {
        /// Renew the token: this caller starts the renewal, and waits like the others.
        case refresh
        /// The token is being renewed: wait for the result.
        case wait
        /// A renewal has just not helped: go on with the token.
        case proceed
    }

    /// Decides about a token that is missing or ends soon.
    mutating func ending(at now: Duration) -> Ahead {
        if isRefreshing { return .wait }
        if isPausing(at: now) { return .proceed }
        isRefreshing = true
        return .refresh
    }

    /// Whether the last renewal has not helped, and its pause is not over.
    private func isPausing(at now: Duration) -> Bool {
        now - endedAt < pause && (!isRenewed || !isProven || isDoubted)
    }

    /// Notes the end of a renewal.
    mutating func finished(isRenewed: Bool, at now: Duration) {
        isRefreshing = false
        epoch += 1
        self.isRenewed = isRenewed
        (isProven, isDoubted) = (false, false)
        endedAt = now
    }
}

/// Which requests carry which token, when it is renewed, and who waits for that. A pure state machine, so that any
/// number of refused requests is one renewal.
///
/// An *epoch* ends with each renewal, whether it succeeded or not. A request notes the epoch it was sent in: refused in
/// an older one, it was refused for a token that is gone, which is no reason to renew the present one.
struct RefreshState: Sendable {
    private enum Phase: Hashable {
        case idle
        case refreshing
    }

    enum Start: Hashable {
        /// Send it; it belongs to this epoch.
        case send(epoch: Int)
        /// The token is being renewed: wait for the end.
        case wait
    }

    enum Rejection: Hashable {
        /// Renew the token; this caller starts it, and waits like the others.
        case refresh
        /// It is being renewed: wait for the end.
        case wait
        /// It was renewed meanwhile: send again.
        case replay
        /// Renewing was tried and brought nothing: deliver the refusal.
        case deliver
        /// Renewing was tried meanwhile and failed: deliver that.
        case fail
    }

    /// How long after a renewal that did not help no other is tried.
    let pause: Duration
    private var phase = Phase.idle
    private(set) var epoch = 0
    private var isRenewed = true
    /// Whether a request of this epoch was accepted, so that its token was good once.
    private var isProven = true
    private var endedAt = Duration.zero

    init(pause: Duration) { self.pause = pause }

    /// A request wants to be sent.
    mutating func start() -> Start { phase == .refreshing ? .wait : .send(epoch: epoch) }

    /// A request was accepted.
    mutating func accepted(epoch: Int) {
        if epoch == self.epoch { isProven = true }
    }

    /// A request was refused.
    ///
    /// - Parameter isReplay: it has been sent again already.
    mutating func rejected(epoch: Int, isReplay: Bool, at now: Duration) -> Rejection {
        // Whoever was refused with the new token, too, has had his turn.
        if isReplay { return .deliver }
        if phase == .refreshing { return .wait }
        if epoch < self.epoch { return isRenewed ? .replay : .fail }
        if !isProven, now - endedAt < pause { return isRenewed ? .deliver : .fail }
        phase = .refreshing
        return .refresh
    }

    /// The renewal is over.
    mutating func finished(isRenewed: Bool, at now: Duration) {
        phase = .idle
        epoch += 1
        self.isRenewed = isRenewed
        isProven = false
        endedAt = now
    }
}

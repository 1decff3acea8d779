extension WriteBehind {
    /// How long is waited, and how much may wait.
    package struct Settings: Sendable {
        /// The most bytes that wait to be written. Default: 32 MiB.
        package var queueByteLimit: Int64 = 32 << 20
        /// How long a request waits for a look-up. Default: 20 ms.
        package var lookUpTimeout: Duration = .milliseconds(20)

        /// The defaults.
        package init() {}
    }

    /// What could not be done in time, or at all, since the beginning.
    package struct Counts: Hashable, Sendable {
        /// Look-ups that were too late: the request went on as if nothing were stored.
        package var lateLookUps = 0
        /// Answers that were not stored, and changes that were not made, as too much waited already.
        package var skippedWrites = 0
        /// What the store has refused or failed to do.
        package var failedWrites = 0
        /// The bytes that wait to be written now.
        package var waitingByteCount: Int64 = 0
    }

    /// How much a request needs an answer of the store.
    package enum Urgency: Sendable {
        /// It can go to the network.
        case alternative
        /// There is nothing else: the network has failed, or is forbidden.
        case only
    }
}

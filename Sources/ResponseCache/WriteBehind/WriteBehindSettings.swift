extension WriteBehind {
    /// How much may wait to be written, and how long a look-up may take.
    package struct Settings: Sendable {
        /// The maximum number of bytes that may wait to be written. Default: 32 MiB.
        package var queueByteLimit: Int64 = 32 << 20
        /// How long a request waits for a look-up. Default: 20 ms.
        package var lookUpTimeout: Duration = .milliseconds(20)

        /// The defaults.
        package init() {}
    }

    /// The look-ups and writes that were late, skipped or failed, since this object was made.
    package struct Counts: Hashable, Sendable {
        /// Look-ups that took too long and counted as misses.
        package var lateLookUps = 0
        /// Changes that were dropped because the queue was full.
        package var skippedWrites = 0
        /// Changes that the store refused or failed to make.
        package var failedWrites = 0
        /// The bytes that now wait to be written.
        package var waitingByteCount: Int64 = 0
    }

    /// Whether a request depends on the store.
    package enum Urgency: Sendable {
        /// The request can go to the network.
        case alternative
        /// The network has failed or may not be used.
        case only
    }
}

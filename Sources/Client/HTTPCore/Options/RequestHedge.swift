extension RequestOptions {
    /// When a request that takes long is sent a second time, so that the faster response counts (a hedged request).
    ///
    ///     configuration.hedge = .init(after: .percentile(95))            // of a manager
    ///     request.hedge = .init(after: .time(.milliseconds(200)))        // of a request
    ///     request.hedge = .off
    ///
    /// Only safe requests and those with an idempotency key are hedged, and only if their body can be sent again. Streamed
    /// responses, sealed requests and the hops behind a redirect are not. The second request of a safe call goes to the domain's
    /// next mirror that works if there is one, and always to another connection; with an idempotency key, or where providers add
    /// to requests, it stays with its own address. It costs a token of the retry budget. The one that loses is cancelled, and
    /// counts neither as a failure nor as a sample anywhere.
    public struct Hedge: Hashable, Sendable {
        /// How long a request may take before it is sent again.
        public enum Delay: Hashable, Sendable {
            /// As long as this percentage of the row's successful calls took lately: from 50 up to, but not including, 100.
            case percentile(Double)
            /// A fixed time.
            case time(Duration)
        }

        /// How long a request may take before it is sent again. Waiting for a limit or a free connection does not count.
        /// Default: the 95th percentile.
        public var after: Delay
        /// The delay until 100 calls of the row have shown how long they take. Default `nil`: until then none is hedged.
        public var initially: Duration?
        /// The largest share of the row's calls that are sent again, above 0 and at most 1: in a minute and in ten seconds, and
        /// at most four times as many in a second or two. Default 0.05.
        public var share: Double
        /// How often one request is sent again, each time after another delay, 1 to 5. Default 1.
        public var attempts: Int

        /// Makes a policy. Each parameter has the default of its property.
        public init(
            after: Delay = .percentile(95), initially: Duration? = nil, share: Double = 0.05, attempts: Int = 1
        ) {
            (self.after, self.initially, self.share, self.attempts) = (after, initially, share, attempts)
        }

        /// No request is hedged, whatever the row and the manager say: `hedge: null` in a row.
        public static let off = Hedge(after: .time(.zero), share: 0, attempts: 0)

        package static let percentiles = 50.0..<100
        package static let mostAttempts = 5

        /// - Parameter what: the owner of the policy, for the message.
        /// - Throws: ``NetworkError/Kind/invalidRequest`` for a value out of its range.
        package func check(_ what: String) throws(NetworkError) {
            guard self != .off else { return }
            switch after {
            case .percentile(let percentile) where !Self.percentiles.contains(percentile):
                throw .invalidRequest("\(what) waits for the percentile \(percentile); give 50 or more, below 100")
            case .time(let time) where time <= .zero:
                throw .invalidRequest("\(what) has the delay \(time); give more than 0, or .off")
            default: break
            }
            if let initially, initially <= .zero {
                throw .invalidRequest("\(what) has the first delay \(initially); give more than 0, or nil for none")
            }
            if !(share > 0 && share <= 1) {
                throw .invalidRequest("\(what) has a share of \(share); give more than 0 and at most 1, or .off")
            }
            if !(1...Self.mostAttempts).contains(attempts) {
                throw .invalidRequest("\(what) sends \(attempts) times again; give 1 to \(Self.mostAttempts), or .off")
            }
        }
    }
}

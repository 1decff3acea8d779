extension RequestOptions {
    /// Faults that are made on purpose, to see in staging what an app does when its servers are slow or fail.
    ///
    /// ```swift
    /// request.chaos = RequestOptions.Chaos(failures: 0.01, latency: .milliseconds(200) ... .seconds(2), cut: 0.001)
    /// ```
    ///
    /// Each attempt and each hop of a redirect that reaches the network gets its faults by chance, so retries, mirrors,
    /// circuits, the cache and observers treat them as those of a server. The error has the kind of a real one, its message
    /// says that it was made on purpose, and its ``NetworkError/underlying`` is a ``Fault``. A table with `production: true`
    /// refuses rows with faults, and a manager with such a table makes none.
    public struct Chaos: Hashable, Sendable {
        /// The share of attempts that fail, from 0 to 1. Half of them fail like a refused connection, and nothing is sent.
        /// The other half are sent, and their response is lost. Default 0.
        public var failures: Double
        /// The additional time before an attempt is sent, each time another within this range. It counts as time of the
        /// transfer (``RequestOptions/Values/timeout``). Default `nil`: none.
        public var latency: ClosedRange<Duration>?
        /// The share of responses whose body ends in the middle, from 0 to 1; an empty body does not. The call fails with
        /// ``NetworkError/Kind/connectionLost``, a stream at the place where it is cut. Default 0.
        public var cut: Double
        /// The start of the sequence of chances. With the same seed, the attempts of a manager with equal settings get the
        /// same faults in the same order each time. Default `nil`: another sequence each time.
        public var seed: UInt64?

        /// No faults, whatever the row or the manager says.
        public static let off = Chaos()

        /// Makes settings. Each parameter has the default of its property.
        public init(
            failures: Double = 0, latency: ClosedRange<Duration>? = nil, cut: Double = 0, seed: UInt64? = nil
        ) {
            (self.failures, self.latency, self.cut, self.seed) = (failures, latency, cut, seed)
        }

        /// A fault that was made on purpose.
        public enum Fault: Error, Hashable, Sendable {
            /// The attempt was sent later by this time.
            case delay(Duration)
            /// The attempt was not sent, as if the connection had been refused.
            case refusal
            /// The attempt was sent, and its response was thrown away.
            case loss
            /// The body of the response was cut.
            case cut

            /// The kind of fault in metrics and records: `delay`, `refusal`, `loss` or `cut`.
            public var name: String {
                switch self {
                case .delay: "delay"
                case .refusal: "refusal"
                case .loss: "loss"
                case .cut: "cut"
                }
            }
        }
    }
}

extension RequestOptions.Chaos {
    package var isOn: Bool { failures > 0 || cut > 0 || latency != nil }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a share that is not from 0 to 1, and for a negative time.
    package func check(_ place: @autoclosure () -> String) throws(NetworkError) {
        for (name, share) in [("failures", failures), ("cut", cut)] where !(0...1).contains(share) {
            throw .invalidRequest("\(name) of \(place()) is \(share); give a share from 0 to 1, such as 0.01")
        }
        if let latency, latency.lowerBound < .zero {
            throw .invalidRequest("latency of \(place()) is \(latency); give 0 or more")
        }
    }

    /// What happens to one attempt.
    package struct Decision: Hashable, Sendable {
        package var delay: Duration?
        /// ``Fault/refusal``, ``Fault/loss`` or ``Fault/cut``.
        package var fault: Fault?
        /// How much of the body is left by a cut, from 0 to less than 1.
        package var rest = 0.5

        package init(delay: Duration? = nil, fault: Fault? = nil, rest: Double = 0.5) {
            (self.delay, self.fault, self.rest) = (delay, fault, rest)
        }
    }

    /// Decides about an attempt. It always takes four numbers, so that changing one share changes no other chance of the
    /// same seed.
    package func decision(using generator: inout some RandomNumberGenerator) -> Decision {
        var numbers: [Double] = []
        for _ in 0..<4 { numbers.append(Double.random(in: 0..<1, using: &generator)) }
        let delay = latency.map { $0.lowerBound + ($0.upperBound - $0.lowerBound) * numbers[0] }
        let fails = numbers[1] < failures
        // The first half of the numbers below the share refuse, the other half lose.
        let fault: Fault? = fails ? (numbers[1] < failures / 2 ? .refusal : .loss) : numbers[2] < cut ? .cut : nil
        return Decision(delay: delay, fault: fault, rest: numbers[3])
    }
}

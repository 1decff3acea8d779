import FoundationEssentials
import HTTPCore
import LATClient
import Platform

/// How often, and after which pauses, the steps of an upload are repeated.
struct UploadBackoff {
    private var backoff: Backoff
    private let retries: Int
    private let longestRetryAfter: Duration
    private let budget: RetryBudget
    private let isPaid: Bool
    private var conflicts = 0

    /// A server that still writes what an interrupted request sent needs a moment, whatever the policy says.
    private static let maxConflicts = 20

    /// - Parameters:
    ///   - limit: The most repetitions, if the policy allows more.
    ///   - isPaid: Whether they are paid from the manager's budget.
    init(_ order: UploadOrder, atMost limit: Int = .max, isPaid: Bool = true) {
        self.isPaid = isPaid
        let policy = order.retryPolicy
        backoff = Backoff(first: policy.firstWait, longest: policy.longestWait)
        retries = min(order.retries, limit)
        longestRetryAfter = policy.longestRetryAfter
        budget = order.budget
    }

    var failures: Int { backoff.failures }

    /// The pause before the next attempt; `nil` if there were enough, or the manager's budget allows no more.
    mutating func next() -> Duration? {
        backoff.failures < retries && (!isPaid || budget.take()) ? backoff.next(chance: .random(in: 0...1)) : nil
    }

    /// Adds the share of a request to the budget, unless it is a repetition.
    func begin() { if backoff.failures == 0, conflicts == 0 { budget.deposit() } }

    mutating func next(after reason: UploadPlan.Again, _ response: HTTPResponse) -> Duration? {
        if reason == .conflict {
            conflicts += 1
            guard conflicts <= Self.maxConflicts else { return nil }
            return backoff.pause(afterFailures: min(conflicts, 4)) * Double.random(in: 0.5...1)
        }
        let asked = response.retryAfter(at: Int64(Date.now.timeIntervalSince1970)) ?? .zero
        guard asked <= longestRetryAfter else { return nil }
        return next().map { asked + $0 }
    }

    mutating func reset() {
        backoff.reset()
        conflicts = 0
    }
}

extension NetworkError {
    /// Whether a transfer that failed so may go on.
    var mayPass: Bool {
        switch kind {
        case .connectionLost, .timeout(.idle), .dns, .connect, .timeout(.connect): true
        default: false
        }
    }

    /// Whether the server may have got the request.
    package var mayHaveArrived: Bool { hasArrivedBefore || kind == .connectionLost || kind == .timeout(.idle) }
}

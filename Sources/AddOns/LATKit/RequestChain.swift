/// Calls that run one after the other, each made from the result of the one before.
///
/// ```swift
/// let chain = RequestChain { try await SignIn().startRequest(on: manager) }
///     .then { session in try await FetchUser(id: session.userID).startRequest(on: manager) }
///     .then { user in try await FetchAvatar(of: user).startRequest(on: manager) }
/// let avatar = try await chain.value()
/// ```
///
/// The results can decide the steps: ``thenChain(_:)`` continues with a chain made from the last result, and ``whileSome(_:)``
/// repeats a step until it returns `nil`. A chain is a value: each ``value()`` runs it from the beginning. The first failure
/// ends the chain and is thrown. Cancelling the task cancels the running step and starts no other.
public struct RequestChain<Value: Sendable>: Sendable {
    private let run: @Sendable () async throws -> Value

    /// Creates a chain that begins with a step.
    public init(_ step: @escaping @Sendable () async throws -> Value) {
        run = {
            try Task.checkCancellation()
            return try await step()
        }
    }

    /// Creates a chain that begins with a given value.
    public init(value: Value) { run = { value } }

    /// Continues with a step that receives the result.
    public func then<Next: Sendable>(
        _ step: @escaping @Sendable (_ value: Value) async throws -> Next
    ) -> RequestChain<Next> {
        RequestChain<Next> { [run] in
            let value = try await run()
            try Task.checkCancellation()
            return try await step(value)
        }
    }

    /// Continues with a chain made from the result.
    public func thenChain<Next: Sendable>(
        _ chain: @escaping @Sendable (_ value: Value) async throws -> RequestChain<Next>
    ) -> RequestChain<Next> {
        then { value in try await chain(value).value() }
    }

    /// Continues with a batch made from the result. Its first failure ends the chain.
    public func thenBatch<Next: Sendable>(
        _ batch: @escaping @Sendable (_ value: Value) async throws -> RequestBatch<Next>
    ) -> RequestChain<[Next]> {
        then { value in try await batch(value).values() }
    }

    /// Repeats a step, each time with the last result, until it returns `nil`. The last result becomes the chain's.
    ///
    /// ```swift
    /// RequestChain { try await FetchPage(1).startRequest() }
    ///     .whileSome { page in page.hasNext ? try await FetchPage(page.number + 1).startRequest() : nil }
    /// ```
    public func whileSome(
        _ step: @escaping @Sendable (_ value: Value) async throws -> Value?
    ) -> RequestChain {
        then { first in
            var value = first
            while let next = try await step(value) {
                value = next
                try Task.checkCancellation()
            }
            return value
        }
    }

    /// Runs the steps and returns the last result.
    ///
    /// - Throws: what a step throws; `CancellationError` if the task is cancelled.
    public func value() async throws -> Value { try await run() }
}

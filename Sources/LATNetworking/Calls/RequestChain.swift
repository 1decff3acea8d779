/// Calls one after the other, each made from the result of the one before.
///
/// ```swift
/// let chain = RequestChain { try await SignIn(name: name).startRequest(on: manager) }
///     .then { session in try await FetchUser(id: session.userID).startRequest(on: manager) }
///     .then { user in try await FetchAvatar(url: user.avatar).startRequest(on: manager) }
/// let avatar = try await chain.value()
/// ```
///
/// A step may add steps: ``thenChain(_:)`` goes on with a chain that the last result decides, and
/// ``whileSome(_:)`` repeats a step as long as it says how to go on. A chain is a value: each ``value()`` starts at the
/// beginning. The first failure ends it and is thrown; cancelling the task cancels the step under way and starts no
/// other.
public struct RequestChain<Value: Sendable>: Sendable {
    private let run: @Sendable () async throws -> Value

    /// Begins with a step.
    public init(_ step: @escaping @Sendable () async throws -> Value) {
        run = {
            try Task.checkCancellation()
            return try await step()
        }
    }

    /// Begins with a value that is there.
    public init(value: Value) { run = { value } }

    /// Goes on with a step made from the result.
    public func then<Next: Sendable>(
        _ step: @escaping @Sendable (_ value: Value) async throws -> Next
    ) -> RequestChain<Next> {
        RequestChain<Next> { [run] in
            let value = try await run()
            try Task.checkCancellation()
            return try await step(value)
        }
    }

    /// Goes on with a chain made from the result: with as many steps as that calls for, none among them.
    public func thenChain<Next: Sendable>(
        _ chain: @escaping @Sendable (_ value: Value) async throws -> RequestChain<Next>
    ) -> RequestChain<Next> {
        then { value in try await chain(value).value() }
    }

    /// Goes on with a batch made from the result, which fails as its first step that does.
    public func thenBatch<Next: Sendable>(
        _ batch: @escaping @Sendable (_ value: Value) async throws -> RequestBatch<Next>
    ) -> RequestChain<[Next]> {
        then { value in try await batch(value).values() }
    }

    /// Repeats a step, each time with the last result, until it gives `nil`; the last result is the chain's.
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

    /// Runs the steps and gives the last result.
    ///
    /// - Throws: what a step throws; `CancellationError` when the task was cancelled.
    public func value() async throws -> Value { try await run() }
}

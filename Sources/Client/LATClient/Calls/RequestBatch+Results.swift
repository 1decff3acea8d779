extension RequestBatch {
    /// The result of one step.
    public struct Outcome: Sendable {
        /// The index of the step in ``RequestBatch/steps``.
        public let index: Int
        /// Its value, or why it failed.
        public let result: Result<Value, any Error>

        /// The value.
        ///
        /// - Throws: why the step failed.
        public func get() throws -> Value { try result.get() }
    }

    /// The results of a batch as its steps end, whether they succeed or fail. Each loop runs all steps again.
    ///
    /// With ``RequestBatch/maxConcurrentSteps``, a step starts when the loop has taken a result, so a slow loop does not pile up
    /// results. Leaving the loop cancels the steps that are running; those that wait do not start.
    public struct Results: AsyncSequence, Sendable {
        let batch: RequestBatch

        /// Runs all steps to their ends and returns their results in order.
        ///
        /// For ``CacheReporting`` values, such as ``HTTPResponse`` and ``Reply``, `areAllFromCache` of the results says whether
        /// all of them came from the cache.
        ///
        /// - Throws: `CancellationError` if the task is cancelled, and nothing else.
        public func callAsFunction() async throws -> [Result<Value, any Error>] {
            var results = [Result<Value, any Error>?](repeating: nil, count: batch.steps.count)
            try await batch.run { outcome in
                results[outcome.index] = outcome.result
                return true
            }
            return results.compactMap(\.self)
        }

        /// Starts the steps.
        public func makeAsyncIterator() -> Iterator { Iterator(reader: Reader(batch)) }

        /// The iterator of the results.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let reader: Reader

            /// The next result, `nil` when all steps have ended.
            ///
            /// - Throws: `CancellationError` if the task is cancelled, and nothing else.
            public mutating func next() async throws -> Outcome? { try await reader.next() }
        }
    }

    /// Runs a batch in a task of its own. Its end cancels the steps.
    final class Reader: Sendable {
        private let outcomes: AsyncThrowingStream<Outcome, any Error>
        private let out: AsyncThrowingStream<Outcome, any Error>.Continuation
        /// An element for each result that was taken.
        private let taken: AsyncStream<Void>.Continuation
        private let work: Task<Void, Never>

        init(_ batch: RequestBatch) {
            let (outcomes, out) = AsyncThrowingStream<Outcome, any Error>.makeStream()
            let (turns, taken) = AsyncStream<Void>.makeStream()
            (self.outcomes, self.out, self.taken) = (outcomes, out, taken)
            work = Task {
                var turns = turns.makeAsyncIterator()
                do {
                    try await batch.run { outcome in
                        out.yield(outcome)
                        return await turns.next() != nil
                    }
                    out.finish()
                } catch {
                    out.finish(throwing: error)
                }
            }
        }

        deinit { work.cancel() }

        /// The next result; `nil` at the end.
        func next() async throws -> Outcome? {
            // All iterators of a stream share one position.
            var iterator = outcomes.makeAsyncIterator()
            let outcome = try await withTaskCancellationHandler {
                try await iterator.next()
            } onCancel: {
                work.cancel()
            }
            try Task.checkCancellation()
            taken.yield()
            return outcome
        }

        /// Ends the results now, and cancels the steps.
        func stop() {
            out.finish()
            work.cancel()
        }
    }
}

public import HTTPCore
import Synchronization

/// Several calls that run together, with their results in order and one progress for all.
///
/// ```swift
/// let batch = RequestBatch<User>(ids.map { id in
///     RequestBatch.Step { progress in try await FetchUser(id: id).progress(progress).startRequest(on: manager) }
/// })
/// let users = try await batch.values()             // the first failure cancels the others and is thrown
/// let results = try await batch.results()          // a result for each, whether the others succeed or fail
/// ```
///
/// A step is any asynchronous work, such as a call, another batch or a chain. A batch is a value: each of its methods
/// runs all steps again. Cancelling the task cancels the steps. An empty batch ends at once.
public struct RequestBatch<Value: Sendable>: Sendable {
    /// One step of the batch.
    public struct Step: Sendable {
        let work: @Sendable (@escaping ProgressHandler) async throws -> Value

        /// A step that reports its progress.
        public init(_ work: @escaping @Sendable (_ progress: @escaping ProgressHandler) async throws -> Value) {
            self.work = work
        }

        /// A step that does not report progress.
        public init(_ work: @escaping @Sendable () async throws -> Value) { self.work = { _ in try await work() } }
    }

    /// The steps, in the order of the results.
    public var steps: [Step]
    /// The maximum number of steps that run at once. Default `nil`: all of them.
    public var maxConcurrentSteps: Int?
    private var progressHandler: (@Sendable (BatchProgress) -> Void)?

    /// Creates a batch.
    public init(_ steps: [Step] = [], maxConcurrentSteps: Int? = nil) {
        self.steps = steps
        self.maxConcurrentSteps = maxConcurrentSteps
    }

    /// Appends a step.
    public mutating func add(_ work: @escaping @Sendable () async throws -> Value) { steps.append(Step(work)) }

    /// Returns the batch with a handler for its progress. It is called for every change, on any thread but never
    /// concurrently. Unless ``values()`` fails, the last call comes when all steps have ended.
    public func progress(_ handler: @escaping @Sendable (BatchProgress) -> Void) -> RequestBatch {
        var copy = self
        copy.progressHandler = handler
        return copy
    }

    /// Runs all steps and returns their values in order. After the first failure no step starts, and the running ones are
    /// cancelled. The failure is thrown when they have ended.
    public func values() async throws -> [Value] {
        try await run(isFailFast: true).map { try $0.get() }
    }

    /// Runs all steps to their ends and returns their results in order.
    ///
    /// For ``CacheReporting`` values, such as ``HTTPResponse`` and ``Reply``, `areAllFromCache` of the results says whether
    /// all of them came from the cache.
    ///
    /// - Throws: `CancellationError` if the task is cancelled, and nothing else.
    public func results() async throws -> [Result<Value, any Error>] { try await run(isFailFast: false) }

    private func run(isFailFast: Bool) async throws -> [Result<Value, any Error>] {
        let meter = BatchMeter(stepCount: steps.count, progressHandler)
        let results = try await withThrowingTaskGroup(of: (Int, Result<Value, any Error>).self) { group in
            var results = [Result<Value, any Error>?](repeating: nil, count: steps.count)
            var waiting = steps.enumerated().makeIterator()
            func startNext() {
                guard let (index, step) = waiting.next() else { return }
                group.addTask {
                    do {
                        try Task.checkCancellation()
                        return (index, .success(try await step.work { meter.report($0, of: index) }))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            for _ in 0..<min(steps.count, max(1, maxConcurrentSteps ?? .max)) { startNext() }
            while let (index, result) = try await group.next() {
                results[index] = result
                meter.end(index, result)
                if case .failure(let error) = result, isFailFast {
                    group.cancelAll()
                    throw error
                }
                startNext()
            }
            return results.compactMap { $0 }
        }
        if !steps.isEmpty { try Task.checkCancellation() }
        return results
    }
}

/// The progress of a batch.
public struct BatchProgress: Hashable, Sendable {
    /// The number of steps that have ended, including failed ones.
    public let finishedSteps: Int
    /// The number of steps that failed.
    public let failedSteps: Int
    /// The number of steps whose value came from the cache, counted for ``CacheReporting`` values.
    public let cachedSteps: Int
    /// The number of all steps.
    public let stepCount: Int
    /// The bytes of content transferred so far, summed over the steps that report progress.
    public let completed: Int64
    /// The bytes to transfer in all; `nil` while the total of a step that has not ended is unknown.
    public let total: Int64?

    /// The completed share, from 0 to 1: the mean of the steps' shares. A step that has ended counts as 1.
    public let fraction: Double

    /// Whether all steps have ended with a value from the cache. `false` for an empty batch.
    public var isAllFromCache: Bool { stepCount > 0 && cachedSteps == stepCount }
}

/// A value that knows whether it came from the cache: a response, a reply, or a result with one of these.
public protocol CacheReporting {
    /// Whether it came from the cache, unconfirmed by a server; see ``HTTPResponse/Source-swift.enum/isFromCache``.
    var isFromCache: Bool { get }
}

extension HTTPResponse: CacheReporting {
    /// Whether the response came from the cache, unconfirmed by a server.
    public var isFromCache: Bool { source.isFromCache }
}

extension Reply: CacheReporting {
    /// Whether the response came from the cache, unconfirmed by a server.
    public var isFromCache: Bool { response.isFromCache }
}

extension Result: CacheReporting where Success: CacheReporting {
    /// Whether this is a success whose value came from the cache.
    public var isFromCache: Bool { (try? get().isFromCache) ?? false }
}

extension Collection where Element: CacheReporting {
    /// Whether all elements came from the cache. `false` if one is a failure or the collection is empty.
    public var areAllFromCache: Bool { !isEmpty && allSatisfy(\.isFromCache) }
}

/// Adds up the progress of the steps. A pure value whose `completed` and `fraction` never decrease.
struct BatchTally: Sendable {
    private struct Step {
        var completed: Int64 = 0
        var total: Int64?
        var share = 0.0
        var isOver = false
        var isSuccess = false
        var isCached = false
    }

    private var steps: [Step]
    private var fraction = 0.0

    init(stepCount: Int) { steps = [Step](repeating: Step(), count: stepCount) }

    mutating func report(_ progress: TransferProgress, of index: Int) -> BatchProgress? {
        guard !steps[index].isOver else { return nil }
        steps[index].completed = max(steps[index].completed, progress.completed)
        steps[index].total = progress.total
        steps[index].share = max(steps[index].share, progress.fraction ?? 0)
        return sum()
    }

    mutating func end(_ index: Int, isSuccess: Bool, isCached: Bool = false) -> BatchProgress {
        steps[index].isOver = true
        steps[index].isSuccess = isSuccess
        steps[index].isCached = isCached
        steps[index].share = 1
        return sum()
    }

    mutating func sum() -> BatchProgress {
        let shares = steps.reduce(0) { $0 + $1.share }
        fraction = steps.isEmpty ? 1 : max(fraction, shares / Double(steps.count))
        let isKnown = steps.allSatisfy { $0.isOver || $0.total != nil }
        return BatchProgress(
            finishedSteps: steps.count(where: \.isOver), failedSteps: steps.count { $0.isOver && !$0.isSuccess },
            cachedSteps: steps.count(where: \.isCached), stepCount: steps.count,
            completed: steps.reduce(0) { $0 + $1.completed },
            total: isKnown ? steps.reduce(0) { $0 + ($1.isOver ? $1.completed : $1.total ?? 0) } : nil,
            fraction: fraction)
    }
}

/// Reports a tally's changes to a handler, in order.
final class BatchMeter: Sendable {
    private let handler: (@Sendable (BatchProgress) -> Void)?
    private let tally: Mutex<BatchTally>

    init(stepCount: Int, _ handler: (@Sendable (BatchProgress) -> Void)?) {
        self.handler = handler
        tally = Mutex(BatchTally(stepCount: stepCount))
        if stepCount == 0 { tally.withLock { handler?($0.sum()) } }
    }

    // The handler runs under the lock: otherwise two reports at once could arrive in the wrong order.
    func report(_ progress: TransferProgress, of index: Int) {
        guard let handler else { return }
        tally.withLock { tally in
            if let sum = tally.report(progress, of: index) { handler(sum) }
        }
    }

    func end<Value>(_ index: Int, _ result: Result<Value, any Error>) {
        guard let handler else { return }
        let value = try? result.get()
        let isCached = (value as? any CacheReporting)?.isFromCache ?? false
        tally.withLock { handler($0.end(index, isSuccess: value != nil, isCached: isCached)) }
    }
}

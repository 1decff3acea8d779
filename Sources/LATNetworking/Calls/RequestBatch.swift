public import HTTPCore
import Synchronization

/// Several calls as one: their results in order, their progress as a whole.
///
/// ```swift
/// let batch = RequestBatch<User>(ids.map { id in
///     RequestBatch.Step { progress in try await FetchUser(id: id).progress(progress).startRequest(on: manager) }
/// })
/// let users = try await batch.values()             // the first failure cancels the others and is thrown
/// let results = try await batch.results()          // one result each, whatever became of the others
/// ```
///
/// A step is any work, another batch or a chain among them. A batch is a value: each of its methods starts all steps
/// anew. Cancelling the task cancels the steps. An empty batch is over at once.
public struct RequestBatch<Value: Sendable>: Sendable {
    /// One of the calls.
    public struct Step: Sendable {
        let work: @Sendable (@escaping @Sendable (TransferProgress) -> Void) async throws -> Value

        /// Work that tells how far it is.
        public init(
            _ work:
                @escaping @Sendable (_ progress: @escaping @Sendable (TransferProgress) -> Void) async throws -> Value
        ) {
            self.work = work
        }

        /// Work that does not.
        public init(_ work: @escaping @Sendable () async throws -> Value) { self.work = { _ in try await work() } }
    }

    /// The steps, in the order of the results.
    public var steps: [Step]
    /// The most steps under way at once. Default `nil`: all.
    public var maxConcurrentSteps: Int?
    private var progressHandler: (@Sendable (BatchProgress) -> Void)?

    /// Makes a batch.
    public init(_ steps: [Step] = [], maxConcurrentSteps: Int? = nil) {
        self.steps = steps
        self.maxConcurrentSteps = maxConcurrentSteps
    }

    /// Adds a step.
    public mutating func add(_ work: @escaping @Sendable () async throws -> Value) { steps.append(Step(work)) }

    /// The batch with a handler that is told of every change, on any thread, one call after the other, the last one
    /// when all steps are over.
    public func progress(_ handler: @escaping @Sendable (BatchProgress) -> Void) -> RequestBatch {
        var copy = self
        copy.progressHandler = handler
        return copy
    }

    /// Runs all steps; the first failure cancels those that are under way, starts no others, and is thrown when they
    /// are over.
    public func values() async throws -> [Value] {
        let results = try await run(isFailFast: true)
        return try results.map { try $0.get() }
    }

    /// Runs all steps to their ends. ``Swift/Collection/areAllFromCache`` of what it returns tells whether all of it came
    /// from the cache, where the values are ``CacheTelling``: ``HTTPResponse`` and ``Reply``.
    ///
    /// - Throws: `CancellationError` only, when the task was cancelled.
    public func results() async throws -> [Result<Value, any Error>] { try await run(isFailFast: false) }

    private func run(isFailFast: Bool) async throws -> [Result<Value, any Error>] {
        let meter = BatchMeter(stepCount: steps.count, progressHandler)
        let results = try await withThrowingTaskGroup(of: (Int, Result<Value, any Error>).self) { group in
            var results = [Result<Value, any Error>?](repeating: nil, count: steps.count)
            var next = 0
            func startNext() {
                guard next < steps.count else { return }
                let (index, step) = (next, steps[next])
                next += 1
                group.addTask {
                    let result: Result<Value, any Error>
                    do {
                        try Task.checkCancellation()
                        result = .success(try await step.work { meter.report($0, of: index) })
                    } catch {
                        result = .failure(error)
                    }
                    return (index, result)
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

/// How far a batch is.
public struct BatchProgress: Hashable, Sendable {
    /// The steps that are over, failed ones among them.
    public let finishedSteps: Int
    /// The steps that failed.
    public let failedSteps: Int
    /// The steps whose answer came from the cache, where their values are ``CacheTelling``.
    public let cachedSteps: Int
    /// All steps.
    public let stepCount: Int
    /// The bytes of content transferred so far, by the steps that tell.
    public let completed: Int64
    /// All bytes; `nil` while a step is not over whose total is unknown.
    public let total: Int64?

    /// The share that is done, from 0 to 1: of each step the share of its bytes, a step that is over counting whole.
    public let fraction: Double

    /// Whether all steps are over and every answer came from the cache. `false` for an empty batch.
    public var isAllFromCache: Bool { stepCount > 0 && cachedSteps == stepCount }
}

/// A value that tells whether it came from the cache: a response, a reply, a result of one.
public protocol CacheTelling {
    /// Whether the cache gave it and no server confirmed it; see ``HTTPResponse/Source-swift.enum/isFromCache``.
    var isFromCache: Bool { get }
}

extension HTTPResponse: CacheTelling {
    /// Whether the cache gave it and no server confirmed it.
    public var isFromCache: Bool { source.isFromCache }
}

extension Reply: CacheTelling {
    /// Whether the cache gave it and no server confirmed it.
    public var isFromCache: Bool { response.isFromCache }
}

extension Result: CacheTelling where Success: CacheTelling {
    /// Whether it is a success that the cache gave.
    public var isFromCache: Bool { (try? get().isFromCache) ?? false }
}

extension Collection where Element: CacheTelling {
    /// Whether all of it came from the cache. `false` when a failure is among it, and when it is empty.
    public var areAllFromCache: Bool { !isEmpty && allSatisfy(\.isFromCache) }
}

/// Adds the progress of steps up. A pure value; numbers never go down.
struct BatchTally: Sendable {
    private struct Step {
        var completed: Int64 = 0
        var total: Int64?
        var share = 0.0
        var isOver = false
        var isWell = false
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

    mutating func end(_ index: Int, isWell: Bool, isCached: Bool = false) -> BatchProgress {
        steps[index].isOver = true
        steps[index].isWell = isWell
        steps[index].isCached = isCached
        steps[index].share = 1
        return sum()
    }

    mutating func sum() -> BatchProgress {
        let shares = steps.reduce(0) { $0 + $1.share }
        fraction = steps.isEmpty ? 1 : max(fraction, shares / Double(steps.count))
        let isKnown = steps.allSatisfy { $0.isOver || $0.total != nil }
        return BatchProgress(
            finishedSteps: steps.count(where: \.isOver), failedSteps: steps.count { $0.isOver && !$0.isWell },
            cachedSteps: steps.count(where: \.isCached), stepCount: steps.count,
            completed: steps.reduce(0) { $0 + $1.completed },
            total: isKnown ? steps.reduce(0) { $0 + ($1.isOver ? $1.completed : $1.total ?? 0) } : nil,
            fraction: fraction)
    }
}

/// Tells a handler of a tally's changes, in order.
final class BatchMeter: Sendable {
    private let handler: (@Sendable (BatchProgress) -> Void)?
    private let tally: Mutex<BatchTally>

    init(stepCount: Int, _ handler: (@Sendable (BatchProgress) -> Void)?) {
        self.handler = handler
        tally = Mutex(BatchTally(stepCount: stepCount))
        if stepCount == 0 { tally.withLock { handler?($0.sum()) } }
    }

    // The handler is called under the lock: two steps that report at once would otherwise be told in any order.
    func report(_ progress: TransferProgress, of index: Int) {
        guard let handler else { return }
        tally.withLock { tally in
            if let sum = tally.report(progress, of: index) { handler(sum) }
        }
    }

    func end<Value>(_ index: Int, _ result: Result<Value, any Error>) {
        guard let handler else { return }
        let value = try? result.get()
        let isCached = (value as? any CacheTelling)?.isFromCache ?? false
        tally.withLock { handler($0.end(index, isWell: value != nil, isCached: isCached)) }
    }
}

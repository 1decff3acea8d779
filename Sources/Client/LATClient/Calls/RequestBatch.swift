public import HTTPCore
import Platform
import Synchronization

/// Several calls that run together, with their results in order and one progress for all.
///
/// ```swift
/// let batch = RequestBatch<User>(ids.map { id in
///     RequestBatch.Step { progress in try await FetchUser(id: id).progress(progress).startRequest(on: manager) }
/// })
/// let users = try await batch.values()             // the first failure cancels the others and is thrown
/// let results = try await batch.results()          // a result for each, whether the others succeed or fail
/// for try await outcome in batch.results { print(outcome.index, outcome.result) }      // as they come
/// let fastest = try await batch.first()            // the first good value; the others are cancelled
/// let some = try await batch.all(deadline: .seconds(2))
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
        var values = [Value?](repeating: nil, count: steps.count)
        try await run { outcome in
            values[outcome.index] = try outcome.get()
            return true
        }
        return values.compactMap(\.self)
    }

    /// Returns the first value that is good, in the order in which the steps end. The others are cancelled, and the call
    /// returns when they have ended.
    ///
    /// ```swift
    /// let price = try await batch.first { $0.isCurrent }
    /// ```
    ///
    /// - Parameter isGood: decides about a value. Default: every value is good.
    /// - Returns: the value; `nil` when all steps have succeeded and none of their values is good.
    /// - Throws: the first failure when no value is good and a step has failed; `CancellationError` if the task is cancelled.
    public func first(where isGood: (Value) throws -> Bool = { _ in true }) async throws -> Value? {
        var good: Value?
        var failure: (any Error)?
        try await run { outcome in
            switch outcome.result {
            case .success(let value):
                guard try isGood(value) else { return true }
                good = value
                return false
            case .failure(let error):
                failure = failure ?? error
                return true
            }
        }
        if good == nil, let failure { throw failure }
        return good
    }

    /// Runs all steps and returns their results in order, after the deadline at the latest. A step that has not ended by then is
    /// cancelled, and its result is a failure of kind `timeout(.deadline)`.
    ///
    /// - Throws: `CancellationError` if the task is cancelled, and nothing else.
    public func all(deadline: Duration) async throws -> [Result<Value, any Error>] {
        let reader = Reader(self)
        let timer = Task {
            try await CallClock.continuous.sleep(deadline)
            reader.stop()
        }
        defer { timer.cancel() }
        var results = [Result<Value, any Error>?](repeating: nil, count: steps.count)
        while let outcome = try await reader.next() { results[outcome.index] = outcome.result }
        return results.map { result in
            result
                ?? .failure(
                    NetworkError(
                        .timeout(.deadline),
                        message:
                            "the step of the batch had not ended after \(deadline); allow more time, or more steps at once"
                    ))
        }
    }

    /// The results of the steps as they come: a loop over `results`, or all of them in order from `results()`.
    ///
    /// ```swift
    /// for try await outcome in batch.results { print(outcome.index, try outcome.get()) }
    /// let results = try await batch.results()
    /// ```
    public var results: Results { Results(batch: self) }

    /// Runs the steps, and passes their results on as they end. While a result is being handled, no other step starts.
    ///
    /// - Parameter take: handles a result. If it returns `false` or throws, the other steps are cancelled.
    /// - Throws: what `take` throws; `CancellationError` if the task is cancelled.
    func run(_ take: (Outcome) async throws -> Bool) async throws {
        let meter = BatchMeter(stepCount: steps.count, progressHandler)
        try await withThrowingTaskGroup(of: Outcome.self) { group in
            var waiting = steps.enumerated().makeIterator()
            func startNext() {
                guard let (index, step) = waiting.next() else { return }
                group.addTask {
                    do {
                        try Task.checkCancellation()
                        let value = try await step.work { meter.report($0, of: index) }
                        return Outcome(index: index, result: .success(value))
                    } catch {
                        return Outcome(index: index, result: .failure(error))
                    }
                }
            }
            for _ in 0..<min(steps.count, max(1, maxConcurrentSteps ?? .max)) { startNext() }
            while let outcome = try await group.next() {
                meter.end(outcome.index, outcome.result)
                guard try await take(outcome) else { return group.cancelAll() }
                startNext()
            }
            if !steps.isEmpty { try Task.checkCancellation() }
        }
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

    /// What the steps have together. It is changed with each step, since each progress of each step is reported.
    private struct Sum {
        var (finished, failed, cached, unknown) = (0, 0, 0, 0)
        var share = 0.0
        // A server may announce any size.
        var (completed, total) = (Int128(0), Int128(0))

        mutating func add(_ step: Step, times sign: Int) {
            if step.isOver { finished += sign }
            if step.isOver, !step.isSuccess { failed += sign }
            if step.isCached { cached += sign }
            if !step.isOver, step.total == nil { unknown += sign }
            share += step.share * Double(sign)
            completed += Int128(step.completed) * Int128(sign)
            total += Int128(step.isOver ? step.completed : step.total ?? 0) * Int128(sign)
        }
    }

    private var steps: [Step]
    private var whole = Sum()
    private var fraction = 0.0

    init(stepCount: Int) {
        steps = [Step](repeating: Step(), count: stepCount)
        whole.unknown = stepCount
    }

    mutating func report(_ progress: TransferProgress, of index: Int) -> BatchProgress? {
        guard !steps[index].isOver else { return nil }
        return change(index) { step in
            step.completed = max(step.completed, progress.completed)
            step.total = progress.total
            step.share = max(step.share, progress.fraction ?? 0)
        }
    }

    mutating func end(_ index: Int, isSuccess: Bool, isCached: Bool = false) -> BatchProgress {
        change(index) { ($0.isOver, $0.isSuccess, $0.isCached, $0.share) = (true, isSuccess, isCached, 1) }
    }

    private mutating func change(_ index: Int, _ change: (inout Step) -> Void) -> BatchProgress {
        whole.add(steps[index], times: -1)
        change(&steps[index])
        whole.add(steps[index], times: 1)
        return sum()
    }

    mutating func sum() -> BatchProgress {
        // Sums of fractions are not exact.
        let share = whole.finished == steps.count ? 1 : min(1, whole.share / Double(steps.count))
        fraction = max(fraction, share)
        return BatchProgress(
            finishedSteps: whole.finished, failedSteps: whole.failed, cachedSteps: whole.cached,
            stepCount: steps.count, completed: Int64(clamping: whole.completed),
            total: whole.unknown == 0 ? Int64(clamping: whole.total) : nil, fraction: fraction)
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
            if let progress = tally.report(progress, of: index) { handler(progress) }
        }
    }

    func end<Value>(_ index: Int, _ result: Result<Value, any Error>) {
        guard let handler else { return }
        let value = try? result.get()
        let isCached = (value as? any CacheReporting)?.isFromCache ?? false
        tally.withLock { handler($0.end(index, isSuccess: value != nil, isCached: isCached)) }
    }
}

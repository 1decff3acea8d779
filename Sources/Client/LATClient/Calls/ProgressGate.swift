public import HTTPCore
import Platform
import Synchronization

/// Receives the progress of a transfer.
public typealias ProgressHandler = @Sendable (_ progress: TransferProgress) -> Void

/// Forwards progress until its call has ended.
package final class ProgressGate: Sendable {
    /// `nil` once the gate is shut: the call's handle may be kept longer, but must not retain the app's closure.
    private let receiver: HeldClosure<ProgressHandler>
    private let callbacks: CallbackExecutor
    private let meter = Mutex(ProgressMeter())

    init(_ receiver: @escaping ProgressHandler, _ callbacks: CallbackExecutor) {
        self.receiver = HeldClosure(receiver)
        self.callbacks = callbacks
    }

    /// The handler that the call reports to.
    var handler: ProgressHandler {
        { [self] event in
            guard let progress = meter.withLock({ $0.note(event) }) else { return }
            callbacks.run { [self] in receiver.closure?(progress) }
        }
    }

    /// Returns when all progress reported so far has been delivered; later progress is dropped.
    func close(for call: Call) async throws {
        defer { shut() }
        let waiter = Waiter<Void>()
        callbacks.run { waiter.end(.success(())) }
        try await waiter.value(for: call)
    }

    /// Drops all later progress.
    func shut() { receiver.take() }
}

/// The progress of a call from the moment somebody asks for it, for any number of readers.
final class CallProgress: Sendable {
    private let latest: LatestValue<TransferProgress>
    private let meter = Mutex(ProgressMeter())

    init(_ direction: TransferProgress.Direction) { latest = LatestValue(TransferProgress(direction: direction)) }

    var updates: ProgressUpdates { ProgressUpdates(latest) }

    func note(_ event: TransferProgress) {
        meter.withLock { meter in
            if let progress = meter.note(event) { latest.stage(progress) }
        }
        latest.deliver()
    }

    /// Ends with the last value. If a successful call has reported nothing, the last value is the size of its body.
    func finish(_ result: Result<HTTPResponse, any Error>, _ body: HTTPBody?) {
        var last = latest.current.ended
        if case .success(let response) = result, last.completed == 0,
            let count = last.direction == .download ? response.body.data?.count : body?.byteCount
        {
            (last.completed, last.total) = (Int64(count), Int64(count))
        }
        latest.finish(last)
    }
}

/// The progress from now on: the current value, then changes, at most twenty a second, and at last the final value. Each
/// iterator is a reader of its own. A slow one misses values, but never the last.
package struct ProgressUpdates: AsyncSequence, Sendable {
    package typealias Element = TransferProgress
    package typealias Failure = Never

    let latest: LatestValue<TransferProgress>
    private let refresh: @Sendable () -> Void

    package static let interval = Duration.milliseconds(50)

    /// - Parameter refresh: sends the current value to a new reader, for a source that sends none without readers.
    package init(_ latest: LatestValue<TransferProgress>, refresh: @escaping @Sendable () -> Void = {}) {
        self.latest = latest
        self.refresh = refresh
    }

    package func makeAsyncIterator() -> Iterator {
        let values = latest.values()
        refresh()
        return Iterator(values: values.makeAsyncIterator())
    }

    package struct Iterator: AsyncIteratorProtocol {
        fileprivate var values: AsyncStream<TransferProgress>.Iterator
        fileprivate var last: (progress: TransferProgress, time: ContinuousClock.Instant)?

        package mutating func next() async -> TransferProgress? { await next(isolation: nil) }

        package mutating func next(isolation actor: isolated (any Actor)?) async -> TransferProgress? {
            if let last {
                try? await Task.sleep(until: last.time + ProgressUpdates.interval, clock: .continuous)
            }
            while let progress = await values.next(isolation: actor) {
                guard progress != last?.progress else { continue }
                last = (progress, .now)
                return progress
            }
            return nil
        }
    }
}

/// Adds the rate to the engine's numbers, and drops those that would decrease: a redirect or a retry starts again at 0.
/// Each direction counts for itself, because they may alternate: a response that causes a retry comes between two uploads.
private struct ProgressMeter {
    private var last: [TransferProgress.Direction: TransferProgress] = [:]
    private var direction: TransferProgress.Direction?
    private var rate = RateMeter()
    private let start = ContinuousClock.now

    /// Returns the progress to report; `nil` if the event is no progress in its direction.
    mutating func note(_ event: TransferProgress) -> TransferProgress? {
        let before = last[event.direction]
        if let before,
            event.completed < before.completed || event.completed == before.completed && event.total == before.total
        {
            return nil
        }
        if direction != event.direction {
            direction = event.direction
            rate.stop()
        }
        rate.note(event.completed - (before?.completed ?? 0), at: ContinuousClock.now - start)
        var progress = event
        progress.set(rate)
        last[event.direction] = progress
        return event.completed == event.total ? progress.ended : progress
    }
}

extension TransferProgress {
    /// Sets the rate, and the time that the remaining bytes take at that rate.
    package mutating func set(_ rate: RateMeter) {
        bytesPerSecond = rate.bytesPerSecond
        estimatedTimeRemaining = total.flatMap { rate.time(for: max(0, $0 - completed)) }
    }

    /// The progress without a rate, after the end.
    fileprivate var ended: TransferProgress {
        TransferProgress(direction: direction, completed: completed, total: total, files: files)
    }
}

extension HTTPBody {
    /// The size, if it is known without encoding or reading anything.
    var byteCount: Int? { if case .data(let data) = content { data.count } else { nil } }
}

import Synchronization

/// Measures the processor and wall time of some work, and prints it as one line of JSON.
public struct Measurement {
    private let arguments: Arguments
    private let program: String
    private let clock = ContinuousClock()
    private let start: ContinuousClock.Instant
    private let cpuAtStart: Double

    /// Starts measuring.
    public init(_ program: String, _ arguments: Arguments) {
        self.program = program
        self.arguments = arguments
        cpuAtStart = Resources.cpuSeconds
        start = clock.now
    }

    /// Stops measuring and prints the result.
    ///
    /// - Parameter latencies: the duration of each request in microseconds.
    public func finish(latencies: [Double] = []) {
        let cpu = Resources.cpuSeconds - cpuAtStart
        let seconds = (clock.now - start).inMicroseconds / 1e6
        let requests = Double(arguments.requests)
        var fields: [(String, Double)] = [
            ("requests", requests), ("in_flight", Double(arguments.inFlight)), ("seconds", seconds),
            ("cpu_seconds", cpu), ("cpu_us_per_request", cpu / requests * 1e6),
            ("rss_peak_kb", Double(Resources.peakKilobytes)), ("requests_per_second", requests / seconds),
        ]
        if !latencies.isEmpty {
            let sorted = latencies.sorted()
            fields.append(("p50_us", sorted[sorted.count / 2]))
            fields.append(("p99_us", sorted[sorted.count * 99 / 100]))
        }
        Self.report(program, arguments.mode, fields)
    }

    /// Prints one line of JSON.
    public static func report(_ program: String, _ mode: String, _ fields: [(String, Double)]) {
        let numbers = fields.map { name, value in "\"\(name)\":\(value)" }
        print("{\"program\":\"\(program)\",\"mode\":\"\(mode)\",\(numbers.joined(separator: ","))}")
    }
}

extension Duration {
    /// This duration in microseconds.
    public var inMicroseconds: Double {
        Double(components.seconds) * 1e6 + Double(components.attoseconds) / 1e12
    }
}

/// Repeats asynchronous work from several tasks, each of which takes the next turn as soon as it is free.
///
/// - Parameter work: receives the number of its turn, from 0.
/// - Returns: The duration of each turn in microseconds.
public func repeating(
    _ total: Int, tasks: Int, _ work: @escaping @Sendable (_ number: Int) async throws -> Void
) async throws -> [Double] {
    let next = Counter()
    return try await withThrowingTaskGroup(of: [Double].self) { group in
        for _ in 0..<min(tasks, total) {
            group.addTask {
                let clock = ContinuousClock()
                var latencies: [Double] = []
                latencies.reserveCapacity(total / tasks + 64)
                var number = next.take()
                while number < total {
                    let start = clock.now
                    try await work(number)
                    latencies.append((clock.now - start).inMicroseconds)
                    number = next.take()
                }
                return latencies
            }
        }
        var all: [Double] = []
        all.reserveCapacity(total)
        for try await latencies in group { all += latencies }
        return all
    }
}

/// Repeats work that calls back when it ends, with several turns at once. Each turn that ends starts the next.
///
/// - Parameter start: calls its closure once, later, with the error if there was one.
/// - Returns: The duration of each turn in microseconds.
public func repeating(
    _ total: Int, callingBack inFlight: Int,
    _ start: @escaping @Sendable (_ done: @escaping @Sendable ((any Error)?) -> Void) -> Void
) async throws -> [Double] {
    try await withCheckedThrowingContinuation { continuation in
        let run = CallbackRun(total, start, continuation)
        for _ in 0..<min(inFlight, total) { run.next() }
    }
}

private final class CallbackRun: Sendable {
    private struct State {
        var started = 0
        var latencies: [Double] = []
        var continuation: CheckedContinuation<[Double], any Error>?
    }

    private let total: Int
    private let start: @Sendable (_ done: @escaping @Sendable ((any Error)?) -> Void) -> Void
    private let clock = ContinuousClock()
    private let state = Mutex(State())

    init(
        _ total: Int, _ start: @escaping @Sendable (_ done: @escaping @Sendable ((any Error)?) -> Void) -> Void,
        _ continuation: CheckedContinuation<[Double], any Error>
    ) {
        self.total = total
        self.start = start
        state.withLock {
            $0.latencies.reserveCapacity(total)
            $0.continuation = continuation
        }
    }

    /// Starts one more turn, unless all were started or one failed.
    func next() {
        let mayStart = state.withLock { state in
            guard state.started < total, state.continuation != nil else { return false }
            state.started += 1
            return true
        }
        guard mayStart else { return }
        let startedAt = clock.now
        start { [self] error in
            note((clock.now - startedAt).inMicroseconds, error)
            next()
        }
    }

    private func note(_ latency: Double, _ error: (any Error)?) {
        let over: (CheckedContinuation<[Double], any Error>, [Double])? = state.withLock { state in
            state.latencies.append(latency)
            guard error != nil || state.latencies.count == total, let continuation = state.continuation else {
                return nil
            }
            state.continuation = nil
            return (continuation, state.latencies)
        }
        guard let (continuation, latencies) = over else { return }
        if let error { continuation.resume(throwing: error) } else { continuation.resume(returning: latencies) }
    }
}

/// Returns 0, 1, 2 …, each once.
private final class Counter: Sendable {
    private let value = Atomic<Int>(0)

    func take() -> Int { value.wrappingAdd(1, ordering: .relaxed).oldValue }
}

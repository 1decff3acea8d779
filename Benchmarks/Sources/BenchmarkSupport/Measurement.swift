import Foundation
import Synchronization

/// Processor and wall time of one stretch of work, printed as one line of JSON.
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

    /// Stops measuring and prints what came out.
    ///
    /// - Parameter latencies: how long each request took, in microseconds.
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

/// Does something so many times from so many tasks, each taking the next as soon as it is done with one.
///
/// - Returns: how long each took, in microseconds.
public func repeating(
    _ total: Int, tasks: Int, _ work: @escaping @Sendable () async throws -> Void
) async throws -> [Double] {
    let next = Counter()
    return try await withThrowingTaskGroup(of: [Double].self) { group in
        for _ in 0..<min(tasks, total) {
            group.addTask {
                let clock = ContinuousClock()
                var latencies: [Double] = []
                latencies.reserveCapacity(total / tasks + 64)
                while next.take() < total {
                    let start = clock.now
                    try await work()
                    latencies.append((clock.now - start).inMicroseconds)
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

/// Hands out 0, 1, 2 …, each once.
private final class Counter: Sendable {
    private let value = Atomic<Int>(0)

    func take() -> Int { value.wrappingAdd(1, ordering: .relaxed).oldValue }
}

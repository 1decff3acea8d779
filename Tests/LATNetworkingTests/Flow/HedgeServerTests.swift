import FoundationEssentials
import HTTPCore
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Hedged requests against four servers behind HAProxy, of which one stalls.
@Suite(.timeLimit(.minutes(4)), .needs("haproxy"), .needs("nginx")) struct HedgeServerTests {
    private final class Hedges: RequestAccessory {
        private let number = Atomic(0)
        var count: Int { number.load(ordering: .relaxed) }

        func handle(_ event: CallEvent) { if case .hedging = event.kind { number.add(1, ordering: .relaxed) } }
    }

    @Test func callsOfAStalledServerAreAnsweredByOthers() async throws {
        let proxy = try await HAProxy(servers: 4)
        proxy.servers[1].stall(true)
        defer { proxy.servers[1].stall(false) }
        // Each server gets the fourth request.
        let plain = try CentralRequestManager.make { $0.timeout = .seconds(2) }
        var failures = 0
        for _ in 0..<4 {
            do {
                _ = try await plain.startRequest("GET", proxy.url)
            } catch {
                failures += 1
            }
        }
        #expect(failures == 1)
        let hedges = Hedges()
        let manager = try CentralRequestManager.make {
            $0.accessories = [hedges]
            $0.hedge = .init(after: .time(.milliseconds(50)), share: 1, attempts: 5)
            $0.retryBudget = nil
        }
        for _ in 0..<40 { #expect(try await manager.startRequest("GET", proxy.url).text == "ok") }
        #expect(hedges.count >= 5)
    }

    @Test func shareIsAHardLimit() async throws {
        let proxy = try await HAProxy(servers: 4)
        proxy.servers[1].stall(true)
        defer { proxy.servers[1].stall(false) }
        let hedges = Hedges()
        let ended = Box(0)
        let manager = try CentralRequestManager.make {
            $0.accessories = [hedges]
            $0.hedge = .init(after: .time(.milliseconds(50)), share: 0.05)
            $0.maxConnectionsPerHost = 200
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<80 {
                group.addTask {
                    let response = try await manager.send(HTTPRequest("GET", proxy.url))
                    #expect(response.text == "ok")
                    ended.change { $0 += 1 }
                }
            }
            // A quarter of the calls is stalled. All of them wait for longer than the delay.
            try await eventually("other calls") { ended.value > 50 && hedges.count > 0 }
            proxy.servers[1].stall(false)
            try await group.waitForAll()
        }
        #expect((1...4).contains(hedges.count))
    }

    /// How long the calls of a while took, and how many requests they needed.
    private struct Run {
        var latencies: [Double] = []
        var requests = 0

        var p99: Double { latencies.sorted()[latencies.count * 99 / 100] }
    }

    private static let seconds = ProcessInfo.processInfo.environment["LAT_HEDGE_SECONDS"].flatMap { Int($0) }

    private static func run(_ hedge: RequestOptions.Hedge?, seconds: Int) async throws -> Run {
        let proxy = try await HAProxy(servers: 4)
        let hedges = Hedges()
        let manager = try CentralRequestManager.make {
            $0.accessories = [hedges]
            $0.hedge = hedge
            $0.retryBudget = nil
            $0.maxConnectionsPerHost = 200
        }
        let clock = ContinuousClock()
        let end = clock.now + .seconds(seconds)
        let stalling = Task {
            var turn = 0
            while clock.now < end {
                try await Task.sleep(for: .milliseconds(2_700))
                proxy.servers[turn % 4].stall(true)
                try? await Task.sleep(for: .milliseconds(300))
                proxy.servers[turn % 4].stall(false)
                turn += 1
                if Task.isCancelled { return }
            }
        }
        defer { stalling.cancel() }
        return try await withThrowingTaskGroup(of: Double.self) { group in
            while clock.now < end {
                group.addTask {
                    let start = clock.now
                    _ = try await manager.send(HTTPRequest("GET", proxy.url))
                    return (clock.now - start) / .seconds(1)
                }
                try await Task.sleep(for: .milliseconds(5))
            }
            var run = Run()
            for try await latency in group { run.latencies.append(latency) }
            run.requests = run.latencies.count + hedges.count
            return run
        }
    }

    /// `LAT_HEDGE_SECONDS=60 scripts/test HedgeServerTests` measures that long without hedges, and as long with them.
    @Test(.enabled(if: seconds != nil, "takes long; set LAT_HEDGE_SECONDS=60"))
    func slowestCallsAreFasterWithHedges() async throws {
        let seconds = Self.seconds ?? 60
        let plain = try await Self.run(nil, seconds: seconds)
        let hedged = try await Self.run(.init(after: .percentile(95), share: 0.05), seconds: seconds)
        print(
            "p99 in seconds: \(plain.p99) without hedges, \(hedged.p99) with; requests \(hedged.requests)",
            "for \(hedged.latencies.count) calls")
        #expect(hedged.p99 <= 0.4 * plain.p99)
        #expect(Double(hedged.requests) <= 1.05 * Double(hedged.latencies.count))
    }
}

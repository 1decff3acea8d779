import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// The limits of a real nginx: one that it tells, and one that only its refusals show.
@Suite(.timeLimit(.minutes(4)), .needs("nginx")) struct LimitServerTests {
    /// What became of requests.
    private struct Count: CustomStringConvertible {
        var answered = 0
        var refused = 0
        /// Answers by second.
        var seconds: [Int: Int] = [:]

        var description: String {
            "\(answered) answered, \(refused) refused, by second \(seconds.sorted { $0.key < $1.key }.map(\.value))"
        }
    }

    /// How long the runs are that print figures: `LAT_LIMIT_SECONDS=60 scripts/test LimitServerTests`.
    private static let seconds = ProcessInfo.processInfo.environment["LAT_LIMIT_SECONDS"].flatMap { Int($0) }

    /// Sends requests one after the other with each of some senders: a number of them, or for a while.
    private static func send(
        _ number: Int, for time: Duration? = nil, senders: Int = 16, _ manager: CentralRequestManager, _ url: String
    ) async throws -> Count {
        let start = ContinuousClock.now
        return try await withThrowingTaskGroup(of: Count.self) { group in
            for sender in 0..<senders {
                group.addTask {
                    var count = Count()
                    var left = number / senders + (sender < number % senders ? 1 : 0)
                    while time.map({ .now < start + $0 }) ?? (left > 0) {
                        left -= 1
                        let status = try await manager.send(HTTPRequest("GET", url)).status
                        guard status == 200 else {
                            count.refused += 1
                            continue
                        }
                        count.answered += 1
                        count.seconds[Int((ContinuousClock.now - start).components.seconds), default: 0] += 1
                    }
                    return count
                }
            }
            var all = Count()
            for try await count in group {
                all.answered += count.answered
                all.refused += count.refused
                all.seconds.merge(count.seconds, uniquingKeysWith: +)
            }
            return all
        }
    }

    private static func manager(_ limits: RequestLimits) throws -> CentralRequestManager {
        try .make {
            $0.limits = limits
            $0.retries = 0
            $0.maxConnectionsPerHost = 200
        }
    }

    /// nginx with `limit_req`. It tells the whole quota in each response, as it does not count what is left.
    private static func toldServer() async throws -> Nginx {
        let server = try Nginx(
            location: """
                limit_req zone=all burst=40 nodelay; limit_req_status 429;
                add_header RateLimit-Policy '"all";q=100;w=1' always; add_header RateLimit '"all";r=100;t=1' always;
                """, http: "limit_req_zone $server_port zone=all:1m rate=100r/s;")
        try await server.waitUntilReady()
        return server
    }

    @Test func toldQuotaIsNeverExceeded() async throws {
        let server = try await Self.toldServer()
        var limits = RequestLimits()
        limits.followsServer = true
        let manager = try Self.manager(limits)
        let url = server.url + "small"
        #expect(try await Self.send(1, senders: 1, manager, url).answered == 1)
        // The server lets in bursts of 40, and no more than 16 run, so a busy machine does not look like a faster client.
        let told = try await Self.send(200, manager, url)
        #expect(told.answered == 200 && told.refused == 0, "\(told)")
        let plain = try await Self.send(1_000, senders: 100, Self.manager(RequestLimits()), url)
        #expect(plain.refused > 0 && plain.answered + plain.refused == 1_000, "\(plain)")
    }

    /// nginx with `limit_conn` before a server that takes a while. The mock server lives as long as it is used.
    private static func limitedServer(_ backend: MockServer) async throws -> Nginx {
        backend.fallback { _ in .text("ok").delayed(by: .milliseconds(20)) }
        let server = try Nginx(
            location: """
                limit_conn all 6; limit_conn_status 503; proxy_pass \(backend.url());
                proxy_http_version 1.1; proxy_set_header Connection "";
                """, http: "limit_conn_zone $server_port zone=all:1m;")
        try await server.waitUntilReady()
        return server
    }

    @Test func adaptiveLimitAvoidsMostRefusals() async throws {
        let backend = try MockServer()
        let server = try await Self.limitedServer(backend)
        var limits = RequestLimits()
        limits.adaptive = RequestLimits.Adaptive()
        let manager = try Self.manager(limits)
        let adaptive = try await Self.send(600, senders: 24, manager, server.url)
        let plain = try await Self.send(600, senders: 24, Self.manager(RequestLimits()), server.url)
        #expect(adaptive.answered + adaptive.refused == 600 && adaptive.refused < adaptive.answered, "\(adaptive)")
        #expect(plain.refused >= 2 * adaptive.refused, "\(plain) without, \(adaptive)")
        let limit = try #require(await manager.load.adaptiveLimits.values.first)
        #expect((2...20).contains(limit), "\(limit)")
    }

    @Test(.enabled(if: seconds != nil, "takes long; set LAT_LIMIT_SECONDS=60"))
    func throughputIsNearTheQuota() async throws {
        let time = Duration.seconds(Self.seconds ?? 60)
        let server = try await Self.toldServer()
        var limits = RequestLimits()
        limits.followsServer = true
        let told = try await Self.send(0, for: time, Self.manager(limits), server.url + "small")
        print("limit_req, 100 per second:", told)
        #expect(Double(told.answered) >= 0.9 * 100 * Double(Self.seconds ?? 60))
        let backend = try MockServer()
        let limited = try await Self.limitedServer(backend)
        func run(_ change: (inout RequestLimits) -> Void) async throws -> Count {
            var limits = RequestLimits()
            change(&limits)
            return try await Self.send(0, for: time, senders: 24, Self.manager(limits), limited.url)
        }
        let best = try await run { $0.maxConcurrentRequests = 6 }
        let adaptive = try await run { $0.adaptive = RequestLimits.Adaptive() }
        print("limit_conn 6, six at once:", best)
        print("limit_conn 6, adaptive:", adaptive)
        #expect(Double(adaptive.answered) >= 0.85 * Double(best.answered))
    }
}

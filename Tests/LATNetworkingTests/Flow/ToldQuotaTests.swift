import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// The limits that a server tells: the fields, and what is made of them.
@Suite struct ToldQuotaTests {
    private static let now: Int64 = 1_767_225_600

    @Test(
        arguments: [
            // The draft: one policy, several, without `t`, of other units, and of earlier versions.
            (
                ["RateLimit": "\"default\";r=50;t=30", "RateLimit-Policy": "\"default\";q=100;w=60"],
                [QuotaReport(name: "default", limit: 100, remaining: 50, reset: .seconds(30), window: .seconds(60))]
            ),
            (
                ["RateLimit": "\"a\";r=5, \"b\";r=7;t=2;pk=:AA==:", "RateLimit-Policy": "\"a\";q=9;w=10, \"b\";q=8"],
                [
                    QuotaReport(name: "a", limit: 9, remaining: 5, reset: .seconds(10), window: .seconds(10)),
                    QuotaReport(name: "b", limit: 8, remaining: 7, reset: .seconds(2)),
                ]
            ),
            (
                ["RateLimit": "\"a\";r=5", "RateLimit-Policy": "\"a\";q=9;w=10;qu=\"content-bytes\""], []
            ),
            (
                ["RateLimit": "limit=100, remaining=50, reset=30"],
                [QuotaReport(limit: 100, remaining: 50, reset: .seconds(30))]
            ),
            (
                ["RateLimit-Limit": "100, 100;w=60", "RateLimit-Remaining": "50", "RateLimit-Reset": "30"],
                [QuotaReport(limit: 100, remaining: 50, reset: .seconds(30))]
            ),
            // A time in seconds or milliseconds, by the server's clock, a number with a fraction, and a text.
            (
                [
                    "X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225610",
                    "Date": "Thu, 01 Jan 2026 00:00:05 GMT",
                ], [QuotaReport(limit: 60, remaining: 0, reset: .seconds(6))]
            ),
            (
                ["X-Rate-Limit-Remaining": "3", "X-Rate-Limit-Reset": "1767225601500"],
                [QuotaReport(remaining: 3, reset: .milliseconds(1_500))]
            ),
            (
                ["X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "0.25"],
                [QuotaReport(remaining: 3, reset: .milliseconds(250))]
            ),
            (
                ["x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1m30s"],
                [QuotaReport(remaining: 3, reset: .seconds(90))]
            ),
            // A window that is over.
            (
                ["X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "1767225000"],
                [QuotaReport(remaining: 3, reset: .zero)]
            ),
        ] as [([String: String], [QuotaReport])])
    func fieldsTellQuotas(_ fields: [String: String], _ reports: [QuotaReport]) {
        let headers = HTTPHeaders(fields.map { ($0.key, $0.value) })
        #expect(QuotaFields.reports(headers, date: Self.now) == reports)
    }

    @Test(arguments: [
        "", "\"a\"", "\"a\";r", "\"a\";r=-1;t=1", "\"a\";r=1", "\"a\";r=1;t=-1", "\"a\";r=1;t=86401", "\"a\";r=1.5;t=1",
        "a;r=1;t=1", "\"a\";r=9999999999999;t=1", "\"a;r=1;t=1", "remaining=1", "remaining=x, reset=1", "1", ",",
        String(repeating: "\"a\";r=x,", count: 10_000),
    ])
    func nonsenseTellsNothing(_ value: String) {
        #expect(QuotaFields.reports(["RateLimit": value], date: Self.now) == [])
        for reset in ["-1", "x", "86401", "nan", "inf", "1e400", "1767400000", "99999999999999999999", "1h1h"] {
            let headers: HTTPHeaders = ["X-RateLimit-Remaining": "5", "X-RateLimit-Reset": reset]
            #expect(QuotaFields.reports(headers, date: Self.now) == [], "\(reset)")
        }
        #expect(
            QuotaFields.reports(["X-RateLimit-Remaining": value, "X-RateLimit-Reset": "5"], date: Self.now).count < 2)
    }

    /// A server with a quota, and the gate's queue before it, in virtual time.
    private struct Plant {
        enum Kind: CaseIterable {
            /// The window begins anew at fixed times; the rest of it is told in whole seconds.
            case fixed
            /// Each request counts for the length of the window, which is what `t` tells.
            case sliding
        }

        let kind: Kind
        let (quota, window): (Int, Duration)
        var queue: LimitQueue<Int>
        var counted: [Duration] = []
        var refusals = 0
        var answered = 0

        init(_ kind: Kind, quota: Int, window: Duration) {
            var limits = RequestLimits()
            limits.followsServer = true
            queue = LimitQueue(limits, at: .zero)
            (self.kind, self.quota, self.window) = (kind, quota, window)
        }

        /// Counts a request. Returns what its answer tells.
        mutating func serve(at now: Duration) -> (left: Int, reset: Duration) {
            let start = kind == .fixed ? window * Int((now / window).rounded(.down)) : now - window
            counted.removeAll { kind == .fixed ? $0 < start : $0 <= start }
            counted.append(now)
            if counted.count > quota { refusals += 1 } else { answered += 1 }
            let rest = kind == .fixed ? start + window - now : window
            return (max(0, quota - counted.count), .seconds(Int64(rest.inSeconds.rounded(.up))))
        }

        /// Sends at full speed, with a number of requests in flight, until a time. Of answers that come together, the last
        /// is the first.
        mutating func run(inFlight: Int, latency: Duration, until end: Duration) {
            var now = Duration.zero
            var (next, waiting) = (0, 0)
            var answers: [(time: Duration, left: Int, reset: Duration)] = []
            func send(_ turn: LimitQueue<Int>.Turn) {
                for _ in turn.started {
                    waiting -= 1
                    let (left, reset) = serve(at: now)
                    answers.append((now + latency, left, reset))
                }
            }
            while now < end {
                while waiting + answers.count < inFlight {
                    next += 1
                    waiting += 1
                    send(queue.enter(next, host: "h", priority: .normal, at: now))
                }
                let turn = queue.advance(at: now)
                send(turn)
                now = min(answers.first?.time ?? end, turn.wakeAfter.map { now + $0 } ?? end, end)
                let due = answers.prefix { $0.time <= now }
                answers.removeFirst(due.count)
                for answer in due.reversed() {
                    let report = QuotaReport(
                        limit: quota, remaining: answer.left, reset: answer.reset, window: window)
                    send(queue.learn([report], pause: nil, of: "h", at: now))
                    send(queue.leave(host: "h", at: now))
                }
            }
        }
    }

    @Test(
        arguments: [Plant.Kind.fixed, .sliding], [(100, 10, 1), (100, 10, 8), (1_000, 60, 32), (20, 2, 4), (50, 1, 8)])
    private func quotaIsUsedButNotExceeded(_ kind: Plant.Kind, _ load: (quota: Int, seconds: Int, inFlight: Int)) {
        var plant = Plant(kind, quota: load.quota, window: .seconds(load.seconds))
        plant.run(inFlight: load.inFlight, latency: .milliseconds(20), until: .seconds(load.seconds * 20))
        #expect(plant.refusals == 0, "\(plant.refusals) refusals")
        // The end of a short window is told only to the second, and a sliding one leaves room for a burst.
        let share = kind == .fixed && load.seconds > 5 ? 0.9 : 0.85
        // One connection answers at most 50 requests a second.
        let possible = min(load.quota * 20, load.seconds * 20 * 50 * load.inFlight)
        #expect(Double(plant.answered) >= share * Double(possible), "\(plant.answered) of \(possible) answers")
    }

    /// The answer of the last request comes first, and the others tell more.
    @Test func answersInAnotherOrderCountOnce() {
        var quota = ToldQuota()
        for left in [50, 51, 52, 99] {
            quota.learn(QuotaReport(limit: 100, remaining: left, reset: .seconds(3_600)), running: 50, at: .zero)
        }
        #expect(quota.wait(49, at: .zero) == .zero && quota.wait(50, at: .zero) > .seconds(3_000))
        quota.learn(QuotaReport(limit: 100, remaining: 50, reset: .seconds(3_600)), running: 1, at: .seconds(1))
        #expect(quota.wait(0, at: .seconds(1)) < .seconds(60))
    }

    /// Flask-Limiter tells `X-RateLimit-Reset` as a time in whole seconds.
    @Test(.needsPython) func noRequestIsRefusedByARealServer() async throws {
        let server = try await PythonScript("limited.py", ["10 per 2 second"])
        let manager = try CentralRequestManager.make { $0.limits.followsServer = true }
        let request = HTTPRequest("GET", "http://127.0.0.1:\(server.port)/item")
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask { for _ in 0..<6 { _ = try? await manager.send(request) } }
            }
        }
        #expect(server.lines("200").count == 24 && server.lines("429").isEmpty)
    }

    @Test func refusalHoldsAllRequestsOfTheHost() async throws {
        let server = try MockServer()
        server.enqueue(.status(429).header("Retry-After", "1"))
        server.fallback { _ in .text("x") }
        let manager = try CentralRequestManager.make { $0.limits.followsServer = true }
        let request = HTTPRequest("GET", server.url())
        #expect(try await manager.send(request).status == 429)
        let start = ContinuousClock.now
        _ = try await manager.send(request)
        #expect(ContinuousClock.now - start >= .milliseconds(900))
        // Another host is free.
        let other = try MockServer()
        other.enqueue(.text("y"))
        #expect(try await manager.send(HTTPRequest("GET", other.url())).text == "y")
    }

    @Test func emptyQuotaWaitsForTheNextWindow() async throws {
        let server = try MockServer()
        server.enqueue(.text("x").header("RateLimit", "\"a\";r=0;t=1"))
        server.fallback { _ in .text("x") }
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())", limits: { followsServer: true } } },
                  servers: { item: { domain: "main", path: "item", method: "GET" } } }
                """, name: "table")
        let manager = try CentralRequestManager(configuration: configuration)
        let route = Route(server: "item")
        _ = try await manager.startRequest(route, as: String.self)
        let start = ContinuousClock.now
        _ = try await manager.startRequest(route, as: String.self)
        #expect(ContinuousClock.now - start >= .milliseconds(900))
    }
}

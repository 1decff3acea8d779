import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// `retry`, `limits` and `circuit` of rows.
@Suite(.timeLimit(.minutes(1))) struct RowLimitTests {
    /// Holds every request until it is let go, and counts those it holds.
    private final class Gate: Sendable {
        private let held = Mutex<[CheckedContinuation<Void, Never>]>([])

        var count: Int { held.withLock(\.count) }

        func wait() async { await withCheckedContinuation { waiter in held.withLock { $0.append(waiter) } } }

        func release(_ count: Int = .max) {
            let some = held.withLock { held in
                defer { held.removeFirst(min(count, held.count)) }
                return held.prefix(count)
            }
            for waiter in some { waiter.resume() }
        }
    }

    private func table(_ domain: String, other: String = "", defaults: String = "") throws -> DomainTable {
        try DomainTable(
            json5: """
                {
                  defaults: { \(defaults) },
                  domains: { d: { baseURL: "http://d.test", \(domain) }, e: { baseURL: "http://e.test", \(other) } },
                  servers: { s: { domain: "d", path: "s", method: "GET" }, t: { domain: "e", path: "t", method: "GET" } },
                }
                """, environment: nil)
    }

    private struct Other: RequestEntity { static let route = Route(server: "t") }

    private func manager(
        _ table: DomainTable, _ change: (inout ManagerConfiguration) -> Void = { _ in },
        _ answer: @escaping @Sendable (HTTPRequest) async throws -> Int
    ) throws -> CentralRequestManager {
        try .make(table) {
            $0.transport = FunctionTransport { request in
                HTTPResponse(
                    status: try await answer(request), body: ResponseBody(Data("{}".utf8)), url: request.url)
            }
            change(&$0)
        }
    }

    // MARK: Limits

    @Test func domainsLimitIsChangedWhileItCounts() async throws {
        let gate = Gate()
        let manager = try manager(table("limits: { maxConcurrentRequests: 2 }")) { _ in
            await gate.wait()
            return 200
        }
        func start(_ count: Int) -> [Task<JSONValue, any Error>] {
            (0..<count).map { _ in Task { try await Row().startRequest(on: manager) } }
        }
        var calls = start(4)
        try await eventually { gate.count == 2 && manager.calls.count(.all) == 4 }
        // A change of something else leaves the two running calls counted.
        let same = try table("limits: { maxConcurrentRequests: 2 }, headers: { A: \"1\" }")
        try manager.updateDomains { $0 = same }
        calls += start(1)
        try await eventually { manager.calls.count(.all) == 5 }
        #expect(gate.count == 2)
        // The next request applies a higher limit, and waiting requests start too.
        let higher = try table("limits: { maxConcurrentRequests: 4 }")
        try manager.updateDomains { $0 = higher }
        calls += start(1)
        try await eventually { gate.count == 4 }
        // Another domain, and a request that ignores limits, do not wait.
        let free = [
            Task { try await Other().startRequest(on: manager) },
            Task { try await Row().setting(\.ignoresLimits, true).startRequest(on: manager) },
        ]
        try await eventually { gate.count == 6 }
        let none = try table("limits: null", defaults: "limits: { maxConcurrentRequests: 1 }")
        try manager.updateDomains { $0 = none }
        calls += start(1)
        try await eventually { gate.count == 9 }
        gate.release()
        for call in calls + free { _ = try await call.value }
    }

    /// A call may read the table before a change, and make its plan after it.
    @Test func latePlanOfAnOlderTableIsReplaced() throws {
        let older = try table("limits: { maxConcurrentRequests: 1 }")
        let newer = try table("limits: { maxConcurrentRequests: 2 }")
        let plans = RoutePlanCache(RoutePlan.Standard(parameterEncoding: .json))
        func plan(_ path: String, _ table: DomainTable) throws -> RoutePlan {
            try plans.plan(for: Route("GET", domain: "d", path: path), in: table, baseURL: nil)
        }
        let first = try plan("/a", newer).row.limits.revision
        #expect(try plan("/b", newer).row.limits.revision == first)
        let late = try plan("/a", older).row.limits.revision
        let next = try plan("/a", newer)
        #expect(first < late && late < next.row.limits.revision)
        #expect(next.row.limits.domain.limits?.maxConcurrentRequests == 2)
        #expect(try plan("/a", newer) === next)
    }

    @Test func limitInDefaultsIsThatOfEachDomain() async throws {
        let gate = Gate()
        let manager = try manager(table("", defaults: "limits: { maxConcurrentRequests: 1 }")) { _ in
            await gate.wait()
            return 200
        }
        let calls = (0..<2).flatMap { _ in
            [
                Task { try await Row().startRequest(on: manager) },
                Task { try await Other().startRequest(on: manager) },
            ]
        }
        try await eventually { gate.count == 2 && manager.calls.count(.all) == 4 }
        gate.release()
        try await eventually { gate.count == 2 }
        gate.release()
        for call in calls { _ = try await call.value }
    }

    @Test func managersLimitHoldsToo() async throws {
        let gate = Gate()
        let manager = try manager(
            table("limits: { maxConcurrentRequests: 3 }"), { $0.limits.maxConcurrentRequests = 2 }
        ) { _ in
            await gate.wait()
            return 200
        }
        let calls = (0..<4).map { _ in Task { try await Row().startRequest(on: manager) } }
        try await eventually { gate.count == 2 && manager.calls.count(.all) == 4 }
        gate.release()
        try await eventually { gate.count == 2 }
        gate.release()
        for call in calls { _ = try await call.value }
    }

    /// A table with the servers `s`, with settings of its own, and `t` of one domain.
    private func servers(_ s: String, domain: String = "") throws -> DomainTable {
        try .make(
            "http://d.test", domain: domain,
            servers:
                #"s: { domain: "d", path: "s", method: "GET", \#(s) }, t: { domain: "d", path: "t", method: "GET" }"#)
    }

    @Test func limitOfAServerHoldsBesideTheDomains() async throws {
        let gate = Gate()
        let one = "limits: { maxConcurrentRequests: 1 }"
        let domain = "limits: { maxConcurrentRequests: 2 }"
        let manager = try manager(servers(one, domain: domain)) { _ in
            await gate.wait()
            return 200
        }
        var calls = (0..<3).map { _ in Task { try await Row().startRequest(on: manager) } }
        try await eventually { gate.count == 1 && manager.calls.count(.all) == 3 }
        calls += (0..<2).map { _ in Task { try await Other().startRequest(on: manager) } }
        try await eventually { gate.count == 2 && manager.calls.count(.all) == 5 }
        // `null` frees the calls of the server row from the domain's limit too.
        let free = try servers("limits: null", domain: domain)
        try manager.updateDomains { $0 = free }
        calls += (0..<3).map { _ in Task { try await Row().startRequest(on: manager) } }
        try await eventually { gate.count == 5 }
        for left in [3, 2, 1] {
            gate.release()
            try await eventually { gate.count > 0 || manager.calls.count(.all) <= left - 1 }
        }
        let end = Task { while !Task.isCancelled { gate.release(); await Task.yield() } }
        for call in calls { _ = try await call.value }
        end.cancel()
    }

    /// A restored table applies again, and running calls stay counted.
    @Test func limitOfARestoredTableCounts() async throws {
        let gate = Gate()
        let manager = try manager(table("limits: { maxConcurrentRequests: 1 }")) { _ in
            await gate.wait()
            return 200
        }
        let first = try #require(manager.domains)
        func start() -> Task<JSONValue, any Error> { Task { try await Row().startRequest(on: manager) } }
        var calls = [start(), start()]
        try await eventually { gate.count == 1 && manager.calls.count(.all) == 2 }
        let higher = try table("limits: { maxConcurrentRequests: 3 }")
        try manager.updateDomains { $0 = higher }
        calls.append(start())
        try await eventually { gate.count == 3 }
        try manager.updateDomains { $0 = first }
        calls.append(start())
        try await eventually { manager.calls.count(.all) == 4 }
        // Two of three end: the one that is left takes the only place.
        gate.release(2)
        try await eventually { manager.calls.count(.all) == 2 }
        #expect(gate.count == 1)
        gate.release()
        try await eventually { gate.count == 1 }
        gate.release()
        for call in calls { _ = try await call.value }
    }

    /// The token of the domain's rate is not lost with a call that is cancelled at the manager's limit.
    @Test func callCancelledAtTheLimitReturnsItsToken() async throws {
        let gate = Gate()
        let manager = try manager(
            table("limits: { rate: { perSecond: 0.0001, burst: 2 } }"), { $0.limits.maxConcurrentRequests = 1 }
        ) { _ in
            await gate.wait()
            return 200
        }
        let first = Task { try await Row().startRequest(on: manager) }
        try await eventually { gate.count == 1 }
        let second = Task { try await Row().startRequest(on: manager) }
        try await eventually { manager.calls.count(.all) == 2 }
        second.cancel()
        _ = await second.result
        gate.release()
        _ = try await first.value
        let third = Task { try await Row().startRequest(on: manager) }
        try await eventually { gate.count == 1 }
        gate.release()
        _ = try await third.value
    }

    @Test func changedLimitsKeepWhatIsUsed() {
        var limits = RequestLimits()
        limits.rate = RequestLimits.RateLimit(perSecond: 1, burst: 4)
        limits.maxConcurrentRequests = 3
        var queue = LimitQueue<Int>(limits, at: .zero)
        for id in 0..<3 { #expect(queue.enter(id, host: "h", priority: .normal, at: .zero).started == [id]) }
        // One token is left, and no slot.
        #expect(queue.enter(3, host: "h", priority: .normal, at: .zero).started.isEmpty)
        limits.rate = RequestLimits.RateLimit(perSecond: 2, burst: 8)
        limits.maxConcurrentRequests = 10
        #expect(queue.adopt(limits, at: .zero).started == [3])
        #expect(queue.running == 4)
        let turn = queue.enter(4, host: "h", priority: .normal, at: .zero)
        #expect(turn.started.isEmpty && (turn.wakeAfter ?? .zero) > .milliseconds(400))
        #expect(queue.adopt(RequestLimits(), at: .zero).started == [4])
    }

    // MARK: Circuit

    @Test func domainsCircuitIsItsOwnAndMayBeSwitchedOff() async throws {
        let manager = try manager(
            table(#"circuit: { failures: 2, pause: "1h" }"#, other: "circuit: null"),
            { $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 1) }, { _ in 503 })
        func kind(_ entity: some EntityRequest<JSONValue>) async -> NetworkError.Kind? {
            await failure { try await entity.startRequest(on: manager) }?.kind
        }
        for expected in [NetworkError.Kind.httpStatus, .httpStatus, .circuitOpen] {
            #expect(await kind(Row()) == expected)
        }
        for _ in 0..<3 { #expect(await kind(Other()) == .httpStatus) }
        #expect(await kind(Row().setting(\.ignoresLimits, true)) == .httpStatus)
        // The circuit stays open after another change. `null` closes it, and without the key the manager's policy applies.
        let same = try table(#"circuit: { failures: 2, pause: "1h" }, timeout: "5s""#)
        try manager.updateDomains { $0 = same }
        #expect(await kind(Row()) == .circuitOpen)
        let off = try table("circuit: null")
        try manager.updateDomains { $0 = off }
        for _ in 0..<3 { #expect(await kind(Row()) == .httpStatus) }
        let unset = try table("")
        try manager.updateDomains { $0 = unset }
        #expect(await kind(Row()) == .httpStatus)
        #expect(await kind(Row()) == .circuitOpen)
    }

    @Test func circuitOfAServerIsItsOwn() async throws {
        let own = #"circuit: { failures: 1, pause: "1h" }"#
        let manager = try manager(
            servers(own, domain: #"circuit: { failures: 2, pause: "1h" }"#)
        ) { _ in 503 }
        func kind(_ entity: some EntityRequest<JSONValue>) async -> NetworkError.Kind? {
            await failure { try await entity.startRequest(on: manager) }?.kind
        }
        #expect(await kind(Row()) == .httpStatus)
        #expect(await kind(Row()) == .circuitOpen)
        for expected in [NetworkError.Kind.httpStatus, .httpStatus, .circuitOpen] {
            #expect(await kind(Other()) == expected)
        }
        let off = try servers("circuit: null", domain: #"circuit: { failures: 2, pause: "1h" }"#)
        try manager.updateDomains { $0 = off }
        for _ in 0..<3 { #expect(await kind(Row()) == .httpStatus) }
        #expect(await kind(Other()) == .circuitOpen)
    }

    // MARK: Retry

    @Test func rowsRetryPolicyIsApplied() async throws {
        let count = Counter()
        let retrying = try manager(
            table(#"retry: { retries: 2, statuses: [418], firstWait: "1ms" }"#)
        ) { _ in
            count.next() < 4 ? 418 : 200
        }
        #expect(await failure { try await Row().retries(1).startRequest(on: retrying) }?.kind == .httpStatus)
        #expect(count.value == 2)
        _ = try await Row().startRequest(on: retrying)
        #expect(count.value == 4)
    }

    @Test func limitsOfBothRowsAreExplained() throws {
        let table = try servers(
            """

            limits: { maxConcurrentRequests: 1 }, circuit: null, tls: { caFile: "/s.pem" }, proxy: "direct",
            """, domain: #"limits: { rate: 20 }, circuit: { failures: 3 }, tls: { minimumVersion: "1.3" }"#)
        let lines = try table.explanations(of: "s").map(\.description)
        for line in [
            "limits = 1 at once (inline:5)", "limits of the domain = 20.0 per second, burst 1 (inline:3)",
            "circuit = null (inline:5)", "tls.caFile = /s.pem (inline:5)", "tls.minimumVersion = 1.3 (inline:3)",
            "proxy = direct (inline:5)",
        ] { #expect(lines.contains(line), "\(line) in \(lines)") }
        let other = try table.explanations(of: "t").map(\.description)
        #expect(other.contains("limits = 20.0 per second, burst 1 (inline:3)"))
        #expect(!other.contains { $0.hasPrefix("limits of the domain") })
    }

    @Test func policyIsExplainedLineByLine() throws {
        let table = try table(
            """

            retry: { retries: 3, statuses: [502, 504], firstWait: "50ms" },
            limits: { maxConcurrentRequests: 4, rate: { perSecond: 20, burst: 5 } },
            circuit: { failures: 3 },
            tls: { caFile: "/ca.pem", clientCertificate: { file: "/id.p12", password: "hunter2" } },
            """, defaults: #"retry: { longestWait: "2s" }"#)
        let lines = try table.explanations(of: "s").map(\.description)
        for line in [
            "retries = 3 (inline:4)", "retry.statuses = 502, 504 (inline:4)", "retry.firstWait = 50ms (inline:4)",
            "retry.longestWait = 2s (inline:2)", "limits = 4 at once, 20.0 per second, burst 5 (inline:5)",
            "circuit = 3 failures, pause 30s, statuses 500, 502, 503, 504 (inline:6)",
            "tls.caFile = /ca.pem (inline:7)", "tls.clientCertificate = PKCS#12 /id.p12 (inline:7)",
        ] { #expect(lines.contains(line), "\(line) in \(lines)") }
        #expect(!table.explain("s").contains("hunter2"))
    }
}

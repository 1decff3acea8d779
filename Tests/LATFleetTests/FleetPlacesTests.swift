import FoundationEssentials
import LATNetworking
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATFleet

/// Concurrent requests of all processes together.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct FleetPlacesTests {
    private static func server(_ delay: Duration = .zero) throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .text("ok").delayed(by: delay) }
        return server
    }

    @Test func noMoreThanTheLimitRunAtOnce() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(.milliseconds(10))
        let gauge = Gauge()
        try await withManagers(4, redis) { configuration, _ in
            configuration.limits.maxConcurrentRequests = 3
            configuration.networkInterceptors = [gauge.interceptor]
        } _: { fleet in
            try await fleet.callAll(server.url("/"), times: 25)
            #expect(gauge.most <= 3, "\(gauge.most) at once")
            #expect(gauge.most > 1, "the places are used")
            #expect(fleet.counter("limits.alone") == 0 && fleet.counter("limits.granted") == 100)
            try await eventually("no place in use") { try redis.cli("KEYS", "*places*").isEmpty }
        }
    }

    @Test func queueOfOneManagerDoesNotStarveTheOther() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(.milliseconds(5))
        let gate = Event()
        try await withManagers(2, redis) { configuration, _ in
            configuration.limits.maxConcurrentRequests = 1
            configuration.networkInterceptors = [Holding(gate: gate)]
        } _: { fleet in
            let held = Task { try await fleet[0].startRequest("GET", server.url("/held")) }
            try await eventually("a taken place") {
                try redis.cli("EXISTS", "lat:limit:default:manager:places") == "1"
            }
            let crowd = (0..<200).map { _ in
                Task { try await fleet[0].startRequest("GET", server.url("/crowd")) }
            }
            let single = Task { try await fleet[1].startRequest("GET", server.url("/single")) }
            try await eventually("a call that waits") { fleet.fleets[1].status.counters["limits.waited"] ?? 0 > 0 }
            gate.happen()
            _ = try await single.value
            let before = server.requests.prefix { $0.path != "/single" }.count
            #expect(before < 150, "it waited for \(before) of the others")
            _ = try await held.value
            for task in crowd { _ = try await task.value }
        }
    }

    @Test func killedHolderGivesItsPlaceBack() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.route("GET", "/held") { _ in .text("never").stalling(.start) }
        server.route("GET", "/mine") { _ in .text("ok") }
        let program = BuiltProgram.path("FleetProcess")
        let holder = try ChildProcess("env", [program, redis.socketPath, RedisServer.password, server.url("/held")])
        try await server.waitForRequests(1)
        try await withManagers(1, redis) { configuration, _ in
            configuration.limits.maxConcurrentRequests = 1
        } _: { fleet in
            let mine = Task { try await fleet[0].startRequest("GET", server.url("/mine")).status }
            try await eventually("a call that waits") { fleet.counter("limits.waited") > 0 }
            holder.killAndWait()
            #expect(server.requests.map(\.path) == ["/held"])
            #expect(try await within(.seconds(60)) { try await mine.value } == 200)
            #expect(fleet.counter("limits.alone") == 0)
        }
    }

    @Test func longRequestKeepsItsPlace() async throws {
        let redis = try await RedisServer()
        let server = try Self.server()
        let gate = Event()
        try await withManagers(2, redis) { configuration, _ in
            configuration.limits.maxConcurrentRequests = 1
            configuration.networkInterceptors = [Holding(gate: gate)]
        } _: { fleet in
            let held = Task { try await fleet[0].startRequest("GET", server.url("/held")).status }
            let key = "lat:limit:default:manager:places"
            try await eventually("a place") { try redis.cli("EXISTS", key) == "1" }
            @Sendable func until() throws -> Int64 {
                let value = try redis.cli("HVALS", key).split(separator: "\n").first ?? ""
                return value.split(separator: " ").dropFirst().first.flatMap { Int64($0) } ?? 0
            }
            let first = try until()
            try await eventually("a renewed lease") { try until() > first }
            gate.happen()
            #expect(try await held.value == 200)
            #expect(try await fleet[1].startRequest("GET", server.url("/next")).status == 200)
        }
    }

    @Test func rowsShareTheirLimits() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(.milliseconds(5))
        let gauge = Gauge()
        let table = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())", limits: { maxConcurrentRequests: 2 } } },
                  servers: { list: { domain: "main", path: "list", method: "GET" } } }
                """)
        try await withManagers(3, redis) { configuration, _ in
            configuration.domains = table
            configuration.networkInterceptors = [gauge.interceptor]
        } _: { fleet in
            try await withThrowingTaskGroup(of: Int.self) { group in
                for manager in fleet.managers {
                    for _ in 0..<15 {
                        group.addTask {
                            try await manager.startRequest(Route(server: "list"), as: Data.self).response.status
                        }
                    }
                }
                for try await status in group { #expect(status == 200) }
            }
            #expect(gauge.most <= 2)
            #expect(fleet.counter("limits.granted") == 45)
        }
    }

    private struct Holding: Interceptor {
        let gate: Event

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            if request.url.hasSuffix("/held") { await gate.wait() }
            return try await next(request)
        }
    }
}

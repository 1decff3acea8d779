import FoundationEssentials
import Glibc
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// The network between one process and Redis is cut, while the process still reaches its origin.
@Suite(
    .needsRedis, .needs("nsenter"),
    .needsNetworkNamespaces, .timeLimit(.minutes(3)))
struct CacheNetworkTests {
    /// A process, its origin and a Redis in a namespace of their own. The Redis has an address that can be cut off, and a
    /// socket for those outside.
    private final class Place: Sendable {
        private static let address = "10.9.9.9"
        let server: RedisServer
        let origin: Origin
        let process: CacheProcess
        private let namespace: CInt

        /// To be made in the namespace.
        init() throws {
            namespace = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)
            server = try RedisServer(
                starting: .socket, ["--port", "6379", "--bind", Self.address],
                launcher: Self.launcher(namespace))
            origin = try Origin()
            process = try CacheProcess(
                server.configuration {
                    $0.address = .host(Self.address, port: 6_379)
                    $0.lookUpBudget = .milliseconds(500)
                    $0.writeBudget = .seconds(2)
                    $0.heartbeat = .seconds(2)
                    $0.maxReconnectPause = .milliseconds(200)
                })
        }

        deinit { close(namespace) }

        private static func launcher(_ namespace: CInt) -> [String] {
            ["nsenter", "--net=/proc/\(getpid())/fd/\(namespace)"]
        }

        /// Starts or stops dropping all packets between the process and the Redis.
        func cut(_ isCut: Bool) throws {
            let command =
                Self.launcher(namespace) + [
                    "ip", "route", isCut ? "add" : "del", "blackhole", "\(Self.address)/32", "table", "local",
                ]
            try ChildProcess.run(command[0], Array(command.dropFirst()), in: "/")
        }
    }

    @Test func processThatWasCutOffReturnsNothingOld() async throws {
        let place = try NetworkNamespace.run { try Place() }
        let (server, origin, process) = (place.server, place.origin, place.process)
        origin.headers.change { $0.append(("Cache-Tag", "news")) }
        try await server.awaitReady()
        try await process.fleet.connect(within: .seconds(20))
        try await process.awaitSubscription()
        try await withFleet(server.patient()) { other in
            let tier = try other.cacheTier(FleetCacheOptions())
            // A process whose first look-up is late does not store what it fetches then.
            var path = "/a"
            try await eventually("an answer in Redis") {
                path += "a"
                _ = try await process.get(origin.url(path))
                try await process.settle()
                return try await tier.entries(for: try origin.key(path)).count == 1
            }
            let version = origin.count(path)

            try place.cut(true)
            // A removal whose message does not reach the process.
            _ = try await tier.remove(.tag("news"))
            for number in 0..<50 {
                let answer = try await within(.seconds(60)) { try await process.get(origin.url("/\(number)")) }
                #expect(answer.text == "/\(number) 1" && answer.source == .network)
            }
            // Each look-up would have waited for its budget, but the breaker opened.
            #expect(process.fleet.status.counters["redis.timeouts"] ?? 0 < 50)
            try await eventually("the loss to be noticed") { process.fleet.status.state != .ready }
            #expect(try await process.get(origin.url(path)).source == .memoryCache)

            try place.cut(false)
            try await eventually("a new answer") {
                try await process.get(origin.url(path)).text != "\(path) \(version)"
            }
            for _ in 0..<20 { #expect(try await process.get(origin.url(path)).text != "\(path) \(version)") }
            try await process.fleet.connect(within: .seconds(20))
            // What it fetched while it was cut off, and what it fetches now, serves the others again.
            try await process.settle()
            try await eventually("the new answer in Redis") {
                _ = try await process.get(origin.url("/b"))
                try await process.settle()
                return try await tier.entries(for: try origin.key("/b")).count == 1
            }
        }
        await process.end()
    }
}

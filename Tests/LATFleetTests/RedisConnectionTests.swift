import FoundationEssentials
import TestSupport
import Testing

@testable import LATFleet

/// Log-in, TLS and kinds of servers.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct RedisConnectionTests {
    private func connectError(_ configuration: FleetConfiguration) async throws -> FleetError {
        let fleet = try Fleet(configuration)
        let error = try await fleetError { try await fleet.connect(within: .seconds(10)) }
        await fleet.shutdown()
        return error
    }

    @Test func portSocketAndUserWork() async throws {
        let server = try await RedisServer(.port)
        try await withFleet(server.configuration()) { fleet in
            try await fleet.redis.set("a", "b")
            #expect(fleet.status.serverVersion?.contains(".") == true && !fleet.status.isReplica)
        }
        try server.cli("ACL", "SETUSER", "app", "on", ">pa%ss", "~lat:*", "&lat*", "+@all")
        let url = "redis://app:pa%25ss@127.0.0.1:\(server.port)"
        try await withFleet(FleetConfiguration(url: url)) { fleet in
            try await fleet.redis.set(fleet.key("x"), "1")
            let error = try await fleetError { try await fleet.redis.set("elsewhere", "1") }
            #expect(error.kind == .permission && error.message.contains("ACL"))
        }
    }

    @Test func wrongPasswordIsReportedOnce() async throws {
        let server = try await RedisServer()
        let warnings = Box<[FleetError]>([])
        let wrong = server.configuration {
            $0.password = "hunter2"
            $0.maxReconnectPause = .milliseconds(20)
            $0.warningHandler = { error in warnings.change { $0.append(error) } }
        }
        let fleet = try Fleet(wrong)
        let error = try await fleetError { try await fleet.connect() }
        #expect(error.kind == .authentication && !error.message.contains("hunter2"))
        try await eventually("more attempts") {
            try server.cli("INFO", "stats").contains(/total_connections_received:[1-9]\d/)
        }
        #expect(warnings.value.map(\.kind) == [.authentication])
        #expect(fleet.status.state != .ready)
        await fleet.shutdown()
        #expect(try await connectError(server.configuration { $0.password = nil }).kind == .authentication)
    }

    @Test(.needsOpenSSL)
    func tlsChecksAuthorityAndName() async throws {
        let server = try await RedisServer(.tls("server"))
        try await withFleet(server.configuration()) { fleet in
            let data = Data(repeating: 7, count: 3_000_000)
            _ = try await fleet.redis.call(RedisCommand("SET", ["k", .data(data)]), .time(.seconds(10)))
            #expect(try await fleet.redis.get("k").data == data)
        }
        let unknown = try await connectError(
            server.configuration { $0.tls.caFile = TestCertificates.shared?.path("other.pem") })
        guard case .tls = unknown.kind else { throw Overdue(description: "\(unknown)") }
        #expect(unknown.message.contains("rediss://localhost:\(server.port)") && !unknown.message.contains("https://"))
        let elsewhere = try await RedisServer(.tls("elsewhere"))
        let name = try await connectError(elsewhere.configuration())
        #expect(name.kind == .tls(.wrongHost), "\(name)")
    }

    @Test(.needsOpenSSL)
    func tlsSendsTheClientCertificate() async throws {
        let certificates = try #require(TestCertificates.shared)
        let server = try await RedisServer(.tls("server"), ["--tls-auth-clients", "yes"])
        let identified = server.configuration {
            $0.tls.clientCertificate = .pem(
                certificate: certificates.path("client.crt"), key: certificates.path("client.key"), password: nil)
        }
        try await withFleet(identified) { try await $0.redis.set("a", "b") }
        let anonymous = try await fleetError { [configuration = server.configuration()] in
            let fleet = try Fleet(configuration)
            try await fleet.connect(within: .seconds(2))
        }
        #expect(anonymous.kind != .timeout, "\(anonymous)")
    }

    @Test(.needsOpenSSL)
    func plainConnectionToATLSPortFails() async throws {
        let server = try await RedisServer(.tls("server"))
        let fleet = try Fleet(
            server.configuration {
                $0.isSecure = false; $0.connectTimeout = .milliseconds(300)
            })
        _ = try await fleetError { try await fleet.connect(within: .seconds(2)) }
        #expect(fleet.status.state != .ready)
        await fleet.shutdown()
    }

    @Test func clusterIsRefused() async throws {
        let server = try await RedisServer(
            .port, ["--cluster-enabled", "yes", "--cluster-port", "\(try ReservedPort().port)"])
        let error = try await connectError(server.configuration())
        #expect(error.kind == .unsupported && error.message.contains("Cluster"))
    }

    @Test func missingServerIsReported() async throws {
        let reserved = try ReservedPort()
        let fleet = try Fleet(url: "redis://127.0.0.1:\(reserved.port)")
        try await eventually("a refusal") { fleet.status.lastError != nil }
        let error = try await fleetError { try await fleet.connect(within: .seconds(2)) }
        #expect(error.kind == .connect && error.message.contains("redis://127.0.0.1:\(reserved.port)"), "\(error)")
        let refused = try await fleetError { try await fleet.redis.call(RedisCommand("PING"), .lookUp) }
        #expect([.unavailable, .timeout].contains(refused.kind), "\(refused)")
        await fleet.shutdown()
        let ended = try await fleetError { try await fleet.redis.call(RedisCommand("PING"), .lookUp) }
        #expect(ended.kind == .shutDown)
    }

    /// Replies of servers that are no Redis, or an unsupported one, to the first command.
    @Test(arguments: [
        ("-ERR unknown command `HELLO`, with args beginning with: `2`\r\n", FleetError.Kind.unsupported),
        ("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", .protocolViolation), ("+OK\r\n", .protocolViolation),
        ("*2147483647\r\n", .protocolViolation), ("\0\u{1}\u{2}", .protocolViolation),
        (
            "*14\r\n$6\r\nserver\r\n$8\r\nsentinel\r\n$7\r\nversion\r\n$5\r\n7.0.1\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n$4\r\nrole\r\n$8\r\nsentinel\r\n$7\r\nmodules\r\n*0\r\n",
            .unsupported
        ),
    ])
    func otherServersAreNamed(_ answer: String, _ kind: FleetError.Kind) async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array(answer.utf8))
            connection.drain()
        }
        var configuration = try FleetConfiguration(url: "redis://127.0.0.1:\(server.port)")
        configuration.warningHandler = { _ in }
        let fleet = try Fleet(configuration)
        let error = try await fleetError { try await fleet.connect() }
        #expect(error.kind == kind, "\(error)")
        await fleet.shutdown()
    }
}

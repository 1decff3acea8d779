import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Changes of the network, made with two namespaces and a cable between them.
@Suite(.enabled(if: NetworkNamespace.isPermitted, "needs root, iproute2 and veth pairs"), .serialized)
struct NetworkChangeTests {
    /// An HTTP/1.1 server with keep-alive on port 8080, which answers with the number of accepted connections.
    private static let httpServer = """
        import http.server
        taken = 0
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def setup(self):
                global taken
                taken += 1
                super().setup()
            def do_GET(self):
                body = str(taken).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *rest): pass
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
        server = Server(("0.0.0.0", 8080), Handler)
        print("ready")
        server.serve_forever()
        """

    /// A DNS server that answers every query with the address of the server.
    private static let nameServer = """
        import socket, struct
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("0.0.0.0", 53))
        print("ready")
        while True:
            question, peer = s.recvfrom(512)
            end = question.index(b"\\0", 12) + 5
            kind = struct.unpack(">H", question[end - 4:end - 2])[0]
            answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4" + socket.inet_aton("10.99.0.2") if kind == 1 else b""
            head = question[:2] + b"\\x81\\x80\\0\\1" + (b"\\0\\1" if answer else b"\\0\\0") + b"\\0\\0\\0\\0"
            s.sendto(head + question[12:end] + answer, peer)
        """

    /// One line of `lat probe --watch --format json`.
    private struct Change: Decodable, Equatable {
        var status: String
        var reason: String?
        var address: String?
    }

    private static func changes(_ process: LatProcess, _ count: Int) async throws -> [Change] {
        let lines = await process.lines(count)
        try #require(lines.count >= count, "the process ended early: \(lines)")
        return try lines.map { try JSONDecoder().decode(Change.self, from: Data($0.utf8)) }
    }

    private static func watch(_ network: NetworkNamespace, _ url: String, interval: String = "1h") throws -> LatProcess
    {
        try LatProcess(
            ["probe", url, "--watch", "--interval", interval, "--timeout", "2s", "--format", "json"],
            launcher: network.launcher)
    }

    /// Ends a probe with SIGINT, and servers with SIGKILL.
    private static func end(_ probe: LatProcess? = nil, servers: LatProcess...) async {
        probe?.send(signal: SIGINT)
        _ = await probe?.result
        for server in servers {
            server.send(signal: SIGKILL)
            _ = await server.result
        }
    }

    /// With an hour between two probes, only the kernel's notifications can cause a change.
    @Test(.timeLimit(.minutes(3)))
    func linkChangesAreSeenAtOnce() async throws {
        let network = try NetworkNamespace()
        let server = try await network.startServer(Self.httpServer)
        let probe = try Self.watch(network, "http://\(network.serverAddress):8080/")
        #expect(try await Self.changes(probe, 1)[0] == Change(status: "reachable", address: network.serverAddress))
        try network.change("link", "set", network.link, "down")
        #expect(try await Self.changes(probe, 2)[1] == Change(status: "unreachable", reason: "network"))
        try network.change("link", "set", network.link, "up")
        #expect(try await Self.changes(probe, 3)[2].status == "reachable")
        await Self.end(probe, servers: server)
        #expect(await probe.result.exitCode == 130)
    }

    @Test(.timeLimit(.minutes(3)))
    func lostRouteAndAddressAreSeenAtOnce() async throws {
        let network = try NetworkNamespace()
        let server = try await network.startServer(Self.httpServer)
        let probe = try Self.watch(network, "http://\(network.serverAddress):8080/")
        #expect(try await Self.changes(probe, 1)[0].status == "reachable")
        try network.change("route", "add", "blackhole", network.serverAddress + "/32")
        #expect(try await Self.changes(probe, 2)[1] == Change(status: "unreachable", reason: "network"))
        try network.change("route", "del", "blackhole", network.serverAddress + "/32")
        #expect(try await Self.changes(probe, 3)[2].status == "reachable")
        try network.change("addr", "del", network.clientAddress + "/24", "dev", network.link)
        #expect(try await Self.changes(probe, 4)[3] == Change(status: "unreachable", reason: "network"))
        try network.change("addr", "add", network.clientAddress + "/24", "dev", network.link)
        #expect(try await Self.changes(probe, 5)[4].status == "reachable")
        await Self.end(probe, servers: server)
    }

    /// The client's kernel gets no notification of these changes; only probes show them.
    @Test(.timeLimit(.minutes(3)))
    func probesDetectServerEndAndDroppedPackets() async throws {
        let network = try NetworkNamespace()
        let server = try await network.startServer(Self.httpServer)
        let probe = try Self.watch(network, "http://\(network.serverAddress):8080/", interval: "200ms")
        #expect(try await Self.changes(probe, 1)[0].status == "reachable")
        // Replies are dropped, as by a firewall.
        try network.changeServer("route", "add", "blackhole", network.clientAddress + "/32")
        #expect(try await Self.changes(probe, 2)[1] == Change(status: "unreachable", reason: "timeout"))
        try network.changeServer("route", "del", "blackhole", network.clientAddress + "/32")
        #expect(try await Self.changes(probe, 3)[2].status == "reachable")
        await Self.end(servers: server)
        #expect(try await Self.changes(probe, 4)[3] == Change(status: "unreachable", reason: "refused"))
        await Self.end(probe)
    }

    @Test(.timeLimit(.minutes(3)))
    func missingNameServerIsReported() async throws {
        let network = try NetworkNamespace()
        try network.setNameServer(network.serverAddress)
        let server = try await network.startServer(Self.httpServer)
        let names = try await network.startServer(Self.nameServer)
        let arguments = ["probe", "http://server.example:8080/", "--format", "json", "--timeout", "5s"]
        let good = try LatProcess(arguments, launcher: network.launcher)
        #expect(await good.result.text.contains(#""address":"10.99.0.2""#))
        #expect(await good.result.exitCode == 0)
        await Self.end(servers: names)
        let bad = try LatProcess(arguments, launcher: network.launcher)
        #expect(await bad.result.text.contains(#""reason":"dns""#))
        #expect(await bad.result.exitCode == 3)
        let doctor = try LatProcess(["doctor", "http://server.example:8080/"], launcher: network.launcher)
        #expect(await doctor.result.text.contains("name servers: 10.99.0.2"))
        #expect(await doctor.result.exitCode == 3)
        await Self.end(servers: server)
    }

    @Test(.timeLimit(.minutes(3)))
    func missingProxyIsReported() async throws {
        let network = try NetworkNamespace()
        let server = try await network.startServer(Self.httpServer)
        let probe = try LatProcess(
            [
                "probe", "http://\(network.serverAddress):8080/", "--proxy", "http://\(network.serverAddress):3128",
                "--format", "json",
            ], launcher: network.launcher)
        #expect(await probe.result.text.contains(#""reason":"proxy""#))
        #expect(await probe.result.exitCode == 3)
        await Self.end(servers: server)
    }

    @Test(.timeLimit(.minutes(3)))
    func connectionsOfLostAddressAreNotReused() async throws {
        let network = try NetworkNamespace()
        let server = try await network.startServer(Self.httpServer)
        // The thread of an engine stays in the namespace in which it was made.
        let manager = try await network.inClient {
            var configuration = CentralRequestManager.Configuration()
            configuration.proxy = .direct
            configuration.timeout = .seconds(20)
            return try CentralRequestManager(configuration: configuration)
        }
        let url = "http://\(network.serverAddress):8080/"
        #expect(try await manager.startRequest("GET", url).text == "1")
        #expect(try await manager.startRequest("GET", url).timings.connectionReused)
        var updates = manager.reachability.updates(of: url).makeAsyncIterator()
        while await updates.next()?.isReachable != true {}
        // The machine loses its address, as when it moves from one wireless network to another.
        try network.change("addr", "del", network.clientAddress + "/24", "dev", network.link)
        while await updates.next()?.isReachable != false {}
        try network.change("addr", "add", "10.99.0.7/24", "dev", network.link)
        while await updates.next()?.isReachable != true {}
        // The dead connection would have failed with a timeout.
        let response = try await manager.startRequest("GET", url)
        #expect(!response.timings.connectionReused)
        await manager.shutdown()
        await Self.end(servers: server)
    }
}

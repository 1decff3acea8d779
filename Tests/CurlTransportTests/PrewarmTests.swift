import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct PrewarmTests {
    /// Sends requests concurrently and returns when all were answered.
    private static func send(_ count: Int, to url: String, on transport: CurlTransport) async throws {
        try await within {
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<count { group.addTask { try await transport.send(HTTPRequest("GET", url)).status } }
                for try await status in group { #expect(status == 200) }
            }
        }
    }

    @Test func prewarmedConnectionsAreUsed() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").delayed(by: .milliseconds(50)) }
        try await withTransport { transport async throws in
            try await within { try await transport.prewarm(server.url("/any"), connections: 3) }
            if LibcurlInfo.current.version.hasPrefix("7.") { #expect(server.requests.isEmpty) }
            #expect(await transport.gauges.sockets == 3)
            try await Self.send(3, to: server.url(), on: transport)
            #expect(server.acceptedConnections == 3)
        }
    }

    @Test(.needsOpenSSL) func tlsHandshakesAreDoneInAdvance() async throws {
        let server = try await EchoOrigin()
        let authority = try #require(TestCertificates.shared).authority
        try await withTransport(testConfiguration { $0.tls.caFile = authority }) { transport async throws in
            try await within { try await transport.prewarm(server.url(), connections: 4) }
            #expect(await transport.gauges.sockets == 4)
            try await eventually("four handshakes of the server") { server.connections == 4 }
            #expect(server.requests.isEmpty)
            try await Self.send(4, to: server.url(), on: transport)
            let answer = try await transport.get(server.url())
            #expect(answer.timings.connectionReused)
            #expect(await transport.gauges.sockets == 4)
            #expect((server.connections, server.requests.count) == (4, 5))
        }
    }

    /// Session tickets arrive on both connections before the requests. A Unix socket has no port that tells them apart.
    @Test(.needsOpenSSL)
    func prewarmedUnixSocketsAreUsedOverTLS() async throws {
        let certificates = try #require(TestCertificates.shared)
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "s")
        let server = try ChildProcess(
            "python3", ["-u", "-c", Self.unixServer, path, certificates.path("server.pem")])
        _ = try await server.awaitOutput("ready") { $0.contains("ready") ? true : nil }
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            $0.unixSocketPath = path
        }
        try await withTransport(configuration) { transport async throws in
            try await within { try await transport.prewarm("https://localhost/", connections: 2) }
            async let first = transport.get("https://localhost/")
            async let second = transport.get("https://localhost/")
            #expect(try await [first.text, second.text].compactMap { $0 }.sorted() == ["1", "2"])
        }
    }

    /// Answers two requests at once, each with the number of its connection.
    private static let unixServer = """
        import socket, ssl, sys, threading
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2])
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sys.argv[1])
        listener.listen()
        both = threading.Barrier(2)
        def serve(connection, number):
            with context.wrap_socket(connection, server_side=True) as stream:
                while stream.recv(65536):
                    both.wait(20)
                    stream.sendall(f"HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\n{number}".encode())
        print("ready")
        for number in range(1, 10):
            threading.Thread(target=serve, args=(listener.accept()[0], number), daemon=True).start()
        """

    @Test(.needsNginx) func oneConnectionIsEnoughForHTTP2() async throws {
        let url = try #require(Servers.nginxTLS)
        try await withTransport(testConfiguration { $0.tls.caFile = Servers.authority }) { transport async throws in
            try await within { try await transport.prewarm(url, connections: 5) }
            #expect(await transport.gauges.sockets == 1)
            for _ in 0..<3 {
                let answer = try await transport.get("\(url)/1k.bin")
                #expect((answer.status, answer.version, answer.data.count) == (200, .http2, 1024))
            }
            #expect(await transport.gauges.sockets == 1)
        }
    }

    @Test(arguments: [0, -1]) func limitBelowOneIsRefusedWhenPrewarming(_ limit: Int) async throws {
        let closed = try ClosedPort()
        try await withTransport { transport async throws in
            let request = HTTPRequest("HEAD", closed.url()).with { $0.maxConnectionsPerHost = limit }
            let error = await #expect(throws: NetworkError.self) {
                try await transport.prewarm(request, connections: 1)
            }
            #expect(error?.kind == .invalidRequest && error?.message.contains("maxConnectionsPerHost") == true)
        }
    }

    @Test func idleConnectionCountsAsPrewarmed() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            _ = try await transport.get(server.url())
            try await within { try await transport.prewarm(server.url()) }
            #expect(await transport.gauges.sockets == 1)
            try await within { try await transport.prewarm(server.url(), connections: 2) }
            #expect(await transport.gauges.sockets == 2)
        }
    }

    @Test func prewarmedConnectionSendsRequestsUnchanged() async throws {
        let server = try MockServer()
        server.fallback { .text("\($0.method) \($0.headers["If-Modified-Since"] ?? "-") \($0.body.count)") }
        try await withTransport { transport async throws in
            try await within { try await transport.prewarm(server.url()) }
            let post = HTTPRequest("POST", server.url(), body: .data(Data(count: 9)))
            #expect(try await transport.answer(to: post).text == "POST - 9")
            #expect(try await transport.get(server.url()).text == "GET - 0")
        }
    }

    @Test func unreachableServerFailsThePrewarm() async throws {
        let closed = try ClosedPort()
        try await withTransport { transport async throws in
            let error = try await failure { try await transport.prewarm(closed.url(), connections: 2) }
            #expect(error.kind == .connect, "\(error)")
        }
    }

    @Test(arguments: [0, -1, 6]) func invalidConnectionCountIsRefused(count: Int) async throws {
        let server = try MockServer()
        try await withTransport { transport async throws in
            let error = try await failure { try await transport.prewarm(server.url(), connections: count) }
            #expect(error.kind == .invalidRequest)
            #expect(error.message.contains("maxConnectionsPerHost"))
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test func prewarmingCanBeCancelled() async throws {
        let silent = try FullBacklogListener()
        try await withTransport { transport async throws in
            let task = Task { try await transport.prewarm(silent.url(), connections: 2) }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
        }
    }
}

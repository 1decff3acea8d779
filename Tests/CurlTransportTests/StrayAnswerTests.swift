import CLinux
import CurlTransport
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Bytes that follow a complete response on a kept connection do not answer the next request (RFC 9112 §9.2).
@Suite struct StrayAnswerTests {
    private let configuration = testConfiguration { $0.maxConnectionsPerHost = 1 }

    private static func answer(_ text: String) -> String {
        "HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)"
    }

    /// The second request was not sent, so even a POST goes to another connection. Live transfers have a pool of their own.
    @Test(arguments: ["GET", "POST", "live"], ["late", "with its end", "in the same packet"])
    func strayResponseIsNotUsed(method: String, way: String) async throws {
        let connections = Box(0)
        let isFirstRead = DispatchSemaphore(value: 0)
        let isStraySent = Event()
        let server = try RawServer { connection in
            connection.sendAtOnce()
            connections.change { $0 += 1 }
            let isFirst = connections.value == 1
            _ = connection.read()
            guard isFirst else {
                repeat { connection.write(Array(Self.answer("right").utf8)) } while !connection.read().isEmpty
                return
            }
            let isTogether = way == "in the same packet"
            connection.write(Array((Self.answer("first") + (isTogether ? Self.answer("stray") : "")).utf8))
            if !isTogether {
                isFirstRead.wait()
                connection.write(Array(Self.answer("stray").utf8))
                if way == "with its end" { shutdown(connection.descriptor, CInt(SHUT_WR)) }
            }
            // Until the client's side of the system has them.
            while lat_unsent_bytes(connection.descriptor) > 0 { usleep(1000) }
            isStraySent.happen()
            connection.drain()
        }
        try await withTransport(configuration) { transport async throws in
            let isLive = method == "live"
            let first = HTTPRequest("GET", server.url("/1")).with { $0.context.isLive = isLive }
            #expect(try await transport.answer(to: first).text == "first")
            isFirstRead.signal()
            await isStraySent.wait()
            let request = HTTPRequest(
                isLive ? "GET" : method, server.url("/2"), body: method == "POST" ? .text("pay") : nil
            ).with { $0.context.isLive = isLive }
            #expect(try await transport.answer(to: request).text == "right")
            #expect(try await transport.answer(to: request).text == "right")
            #expect(connections.value == 2)
        }
    }

    /// Only reading the stray bytes would show whether they are a message of TLS itself, so the connection is not used.
    /// libcurl 8 does not use it either.
    @Test(
        .needsOpenSSL, arguments: ["GET", "POST"], [false, true])
    func strayResponseOverTLSIsNotUsed(method: String, isPrewarmed: Bool) async throws {
        let certificates = try #require(TestCertificates.shared)
        let server = try ChildProcess("python3", ["-u", "-c", Self.tlsServer, certificates.path("server.pem")])
        let ports = try await server.awaitOutput("ports") { output in
            output.contains("\n") ? output.split(whereSeparator: \.isWhitespace).compactMap { Int($0) } : nil
        }
        let configuration = testConfiguration {
            $0.maxConnectionsPerHost = 1
            $0.tls.caFile = certificates.authority
        }
        try await withTransport(configuration) { transport async throws in
            let url = "https://localhost:\(ports[0])/"
            #expect(try await transport.get(url).text == "right")
            #expect(try await transport.get(url).timings.connectionReused)
            // The connection has carried requests, so prewarming does not make input on it acceptable.
            if isPrewarmed { try await transport.prewarm(url) }
            #expect(try await transport.get("http://127.0.0.1:\(ports[1])/").text == "sent")
            let request = HTTPRequest(method, url, body: method == "POST" ? .text("pay") : nil)
            let response = try await transport.answer(to: request)
            #expect(response.text == "right")
            #expect(response.timings.connectionReused == false)
        }
    }

    /// No port tells two Unix sockets apart, so with a stray response on one of them neither is used again.
    @Test(arguments: ["GET", "POST"]) func strayResponseOnUnixSocketIsNotUsed(method: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "s")
        let server = try ChildProcess("python3", ["-u", "-c", Self.unixServer, path])
        let port = try await server.awaitOutput("port") { output in
            output.contains("\n") ? output.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) } : nil
        }
        try await withTransport { transport async throws in
            let request = HTTPRequest(method, "http://localhost/", body: method == "POST" ? .text("pay") : nil)
                .with { $0.unixSocketPath = path }
            for isFirstRound in [true, false] {
                async let first = transport.answer(to: request)
                async let second = transport.answer(to: request)
                #expect(try await [first.text, second.text] == ["right", "right"])
                guard isFirstRound else { break }
                #expect(try await transport.get("http://127.0.0.1:\(port)/").text == "sent")
            }
        }
    }

    /// Answers two requests at once on a Unix socket. A request to its port makes it send another response on the second
    /// connection to that socket.
    private static let unixServer = """
        import socket, sys, threading
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sys.argv[1])
        listener.listen()
        control = socket.create_server(("127.0.0.1", 0))
        print(control.getsockname()[1])
        def answer(text):
            return f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(text)}\\r\\n\\r\\n{text}".encode()
        both = threading.Barrier(2)
        connections = []
        def serve(connection):
            while connection.recv(65536):
                both.wait(20)
                connection.sendall(answer("right"))
        def accept():
            while True:
                connections.append(listener.accept()[0])
                threading.Thread(target=serve, args=(connections[-1],), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        connection = control.accept()[0]
        connection.recv(65536)
        connections[1].sendall(answer("stray"))
        connection.sendall(answer("sent"))
        connection.recv(65536)
        """

    /// A TLS server. A request to its second port makes it send another response on its first connection.
    private static let tlsServer = """
        import socket, ssl, sys, threading
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1])
        listener, control = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        print(listener.getsockname()[1], control.getsockname()[1])
        def answer(text):
            return f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(text)}\\r\\n\\r\\n{text}".encode()
        connections = []
        def serve(connection):
            while connection.recv(65536):
                connection.sendall(answer("right"))
        def accept():
            while True:
                connection = listener.accept()[0]
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections.append(context.wrap_socket(connection, server_side=True))
                threading.Thread(target=serve, args=(connections[-1],), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        connection = control.accept()[0]
        connection.recv(65536)
        connections[0].sendall(answer("stray"))
        connection.sendall(answer("sent"))
        connection.recv(65536)
        """
}

import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Handshakes resume the sessions of many hosts.
@Suite(.needsOpenSSL)
struct TLSSessionTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    /// Requests the server's page, which tells whether the handshake resumed a session. The server closes each connection.
    private func isResumed(_ transport: CurlTransport, _ url: String) async throws -> Bool {
        let text = try await transport.get(url).text ?? ""
        #expect(text.contains("Reused, TLSv1") || text.contains("New, TLSv1"), "\(text)")
        return text.contains("Reused, TLSv1")
    }

    /// With a TLS 1.3 ticket, a TLS 1.2 ticket (RFC 5077), and a session ID that the server stores.
    @Test(arguments: [["-tls1_3"], ["-tls1_2"], ["-tls1_2", "-no_ticket"]])
    func sessionsOfFortyHostsAreResumed(options: [String]) async throws {
        let server = try await TLSServer("server", options)
        let hosts = (0..<40).map { "h\($0).example.org" }
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            for host in hosts { $0.resolve["\(host):\(server.port)"] = "127.0.0.1" }
        }
        try await withTransport(configuration) { transport async throws in
            for host in hosts { #expect(try await !isResumed(transport, server.url(host)), "\(host)") }
            for _ in 0..<2 {
                for host in hosts { #expect(try await isResumed(transport, server.url(host)), "\(host)") }
            }
        }
    }

    @Test func sessionsBelongToOneHostAndPort() async throws {
        let first = try await TLSServer()
        let second = try await TLSServer()
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            #expect(try await !isResumed(transport, first.url()))
            #expect(try await !isResumed(transport, first.url("127.0.0.1")))
            #expect(try await !isResumed(transport, second.url()))
            #expect(try await isResumed(transport, first.url()))
            #expect(try await isResumed(transport, first.url("127.0.0.1")))
        }
    }

    @Test func managersDoNotShareSessions() async throws {
        let server = try await TLSServer()
        for _ in 0..<2 {
            try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
                transport async throws in
                #expect(try await !isResumed(transport, server.url()))
            }
        }
    }

    /// The host name is verified for each connection, resumed or not.
    @Test func resumedSessionDoesNotReplaceNameCheck() async throws {
        let server = try await TLSServer("elsewhere")
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            $0.resolve["elsewhere.example.org:\(server.port)"] = "127.0.0.1"
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<3 {
                let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
                #expect(error.kind == .tls(.wrongHost))
            }
            let url = server.url("elsewhere.example.org")
            #expect(try await !isResumed(transport, url))
            #expect(try await isResumed(transport, url))
        }
    }

    /// Beyond 1,024 hosts the oldest sessions are dropped.
    @Test func newestSessionsAreKept() async throws {
        let server = try await TLSServer("server")
        let hosts = (0..<1_030).map { "h\($0).example.org" }
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            for host in hosts { $0.resolve["\(host):\(server.port)"] = "127.0.0.1" }
        }
        try await withTransport(configuration) { transport async throws in
            for host in hosts { _ = try await transport.get(server.url(host)) }
            for host in [hosts[1_029], hosts[700]] {
                #expect(try await isResumed(transport, server.url(host)), "\(host)")
            }
            for host in [hosts[0], hosts[255]] { #expect(try await !isResumed(transport, server.url(host)), "\(host)") }
        }
    }

    /// The connection to an HTTPS proxy resumes a session of its own.
    @Test func sessionOfProxyIsResumed() async throws {
        let (server, port) = try await pythonServer()
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            $0.proxy = .url("https://localhost:\(port)")
        }
        try await withTransport(configuration) { transport async throws in
            let answers = try await [
                transport.get("http://one.example.org/").text, transport.get("http://two.example.org/").text,
            ]
            #expect(answers == ["False", "True"])
        }
        withExtendedLifetime(server) {}
    }

    /// A restarted server cannot decrypt the ticket; the handshake is then a full one and nothing fails.
    @Test func unknownSessionCausesFullHandshake() async throws {
        let (server, port) = try await pythonServer()
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            var answers: [String?] = []
            for _ in 0..<4 { answers.append(try await transport.get("https://localhost:\(port)/").text) }
            #expect(answers == ["False", "True", "False", "True"])
        }
        withExtendedLifetime(server) {}
    }

    private func pythonServer() async throws -> (ChildProcess, port: Int) {
        let server = try ChildProcess("python3", ["-u", "-c", Self.script, certificates.path("server.pem")])
        let port = try await server.awaitOutput("the port") { output in
            output.contains("\n") ? Int(output.prefix { $0 != "\n" }) : nil
        }
        return (server, port)
    }

    /// Answers each request, on a new connection, with whether the handshake resumed a session. The third and later
    /// connections have another context, as after a restart.
    private static let script = """
        import socket, ssl, sys
        contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2)]
        for context in contexts:
            context.load_cert_chain(sys.argv[1])
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1])
        count = 0
        while True:
            connection = contexts[count >= 2].wrap_socket(listener.accept()[0], server_side=True)
            count += 1
            connection.recv(65536)
            text = str(connection.session_reused)
            head = f"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: {len(text)}\\r\\n\\r\\n"
            connection.sendall((head + text).encode())
            connection.close()
        """
}

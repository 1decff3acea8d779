import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import Testing

/// Handshakes take up earlier sessions, of many hosts.
@Suite(.enabled(if: TestCertificates.shared != nil, "needs openssl; scripts/setup --tests installs it"))
struct TLSSessionTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    /// The page of the server says whether its handshake was a new one. It closes after each.
    private func isResumed(_ transport: CurlTransport, _ url: String) async throws -> Bool {
        let text = try await transport.get(url).text ?? ""
        #expect(text.contains("Reused, TLSv1") || text.contains("New, TLSv1"), "\(text)")
        return text.contains("Reused, TLSv1")
    }

    /// By a ticket of TLS 1.3, by one of TLS 1.2 (RFC 5077), and by the number of a session that the server keeps.
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

    @Test func sessionsAreOfOneHostAndPort() async throws {
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

    /// A server that has restarted cannot read the ticket: nothing fails, the handshake is a full one.
    @Test func unknownSessionMeansFullHandshake() async throws {
        let certificates = certificates
        let relay = Box<Int>(0)
        let before = try await TLSServer()
        let after = try await TLSServer()
        let front = try RawServer { connection in connection.relay(toPort: relay.value) }
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            let url = "https://localhost:\(front.port)/"
            relay.change { $0 = before.port }
            #expect(try await !isResumed(transport, url))
            #expect(try await isResumed(transport, url))
            relay.change { $0 = after.port }
            #expect(try await !isResumed(transport, url))
            #expect(try await isResumed(transport, url))
        }
    }

    @Test func sessionIsNotSharedByManagers() async throws {
        let server = try await TLSServer()
        for _ in 0..<2 {
            try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
                transport async throws in
                #expect(try await !isResumed(transport, server.url()))
            }
        }
    }

    /// The name is compared for each connection, resumed or not.
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
}

extension RawConnection {
    /// Passes everything on to a port of this machine and back, until one side closes.
    fileprivate func relay(toPort port: Int) {
        let other = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        defer { close(other) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(other, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return }
        let server = RawConnection(descriptor: other)
        while true {
            var both = [pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)]
            both.append(pollfd(fd: other, events: Int16(POLLIN), revents: 0))
            // Another test's child that ends is a signal.
            guard poll(&both, 2, -1) > 0 || errno == EINTR else { return }
            for (index, from, to) in [(0, self, server), (1, server, self)] where both[index].revents != 0 {
                let bytes = from.read()
                if bytes.isEmpty { return }
                to.write(bytes)
            }
        }
    }
}

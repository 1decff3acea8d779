import CurlTransport
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct ConnectionSourceTests {
    /// A server that answers with the client's address and port.
    private static func mirror() throws -> RawServer {
        try RawServer { connection in
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    _ = getpeername(connection.descriptor, $0, &length)
                }
            }
            let host = IPAddress(bytes: withUnsafeBytes(of: address.sin_addr) { Array($0) })
            let text = "\(host?.description ?? "?"):\(UInt16(bigEndian: address.sin_port))"
            _ = connection.read()
            connection.write(
                Array("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8))
        }
    }

    @Test func connectionsComeFromTheGivenAddress() async throws {
        let server = try Self.mirror()
        try await withTransport(testConfiguration { $0.connectionSource = .address("127.0.0.9") }) {
            transport async throws in
            for _ in 0..<2 { #expect(try await transport.get(server.url()).text?.hasPrefix("127.0.0.9:") == true) }
        }
    }

    @Test func connectionsLeaveByTheGivenInterface() async throws {
        let server = try Self.mirror()
        try await withTransport(testConfiguration { $0.connectionSource = .interface("lo") }) {
            transport async throws in
            #expect(try await transport.get(server.url()).text?.hasPrefix("127.0.0.1:") == true)
        }
    }

    @Test func connectionsComeFromTheGivenPorts() async throws {
        let server = try Self.mirror()
        // Below the kernel's ephemeral ports, so that other processes seldom use them.
        let ports = 21_000...21_400
        try await withTransport(testConfiguration { $0.localPorts = ports }) { transport async throws in
            for _ in 0..<3 {
                let text = try #require(try await transport.get(server.url()).text)
                #expect(ports.contains(try #require(text.split(separator: ":").last.flatMap { Int($0) })), "\(text)")
            }
        }
    }

    @Test func portInUseFailsToConnect() async throws {
        let server = try MockServer()
        let other = try MockServer()
        try await withTransport(testConfiguration { $0.localPorts = other.port...other.port }) {
            transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .connect, "\(error)")
            #expect(error.message.contains("localPorts"), "\(error)")
        }
    }

    @Test func sourceOfOtherFamilyFailsToConnect() async throws {
        let server = try MockServer()
        let configuration = testConfiguration { $0.connectionSource = .address("127.0.0.1") }
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://[::1]:\(server.port)/"))
            #expect(error.kind == .connect, "\(error)")
        }
    }

    private static let wrong: [(String, @Sendable (inout EngineConfiguration) -> Void)] = [
        ("connectionSource", { $0.connectionSource = .interface("eth99") }),
        ("connectionSource", { $0.connectionSource = .interface("") }),
        ("connectionSource", { $0.connectionSource = .interface("lo\0") }),
        ("connectionSource", { $0.connectionSource = .address("lo") }),
        ("connectionSource", { $0.connectionSource = .address("192.0.2.7") }),
        ("localPorts", { $0.localPorts = 0...10 }), ("localPorts", { $0.localPorts = 65_000...65_536 }),
        ("unixSocketPath", { ($0.localPorts, $0.unixSocketPath) = (2000...2001, "/tmp/s") }),
        ("happyEyeballsDelay", { $0.happyEyeballsDelay = .zero }),
        ("happyEyeballsDelay", { $0.happyEyeballsDelay = .seconds(-1) }),
    ]

    @Test(arguments: wrong.indices)
    func invalidSourceIsRefusedByName(index: Int) {
        let (name, change) = Self.wrong[index]
        let error = #expect(throws: NetworkError.self) { try CurlTransport(configuration: testConfiguration(change)) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains(name) == true, "\(error?.message ?? "")")
    }

    @Test func otherFamilyIsTriedAfterTheDelay() async throws {
        let place = try TwoFamilies()
        try await withTransport(place.configuration(.milliseconds(20), .seconds(20))) { transport async throws in
            #expect(try await transport.get(place.url).status == 204)
        }
    }

    @Test(.enabled(if: LibcurlInfo.current.version.hasPrefix("7."), "libcurl 8 may try it sooner"))
    func otherFamilyIsNotTriedBeforeTheDelay() async throws {
        let place = try TwoFamilies()
        let configuration = place.configuration(.seconds(3600), .milliseconds(800))
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.failure(of: HTTPRequest("GET", place.url)).kind == .timeout(.connect))
        }
    }

    /// A name with two addresses. The first accepts no connection, so only the second, tried in parallel, can answer.
    private struct TwoFamilies {
        private let silent: FullBacklogListener
        private let server: OtherFamilyServer

        var url: String { "http://two.example:\(silent.port)/" }

        init() throws {
            // The port may be in use on ::1.
            for _ in 0..<20 {
                let silent = try FullBacklogListener()
                guard let server = try? OtherFamilyServer(port: silent.port) else { continue }
                (self.silent, self.server) = (silent, server)
                return
            }
            throw Overdue(description: "no port is free on both addresses")
        }

        func configuration(_ delay: Duration, _ connectTimeout: Duration) -> EngineConfiguration {
            testConfiguration {
                $0.resolve = ["two.example:\(silent.port)": "127.0.0.1,[::1]"]
                $0.happyEyeballsDelay = delay
                $0.connectTimeout = connectTimeout
            }
        }
    }
}

/// Answers on ::1, on a port that another listener has on 127.0.0.1.
private final class OtherFamilyServer: Sendable {
    private let listener: CInt

    init(port: Int) throws {
        let listener = socket(AF_INET6, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var only: CInt = 1
        setsockopt(listener, CInt(IPPROTO_IPV6), IPV6_V6ONLY, &only, socklen_t(MemoryLayout<CInt>.size))
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = in_port_t(port).bigEndian
        address.sin6_addr = in6addr_loopback
        let isListening = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in6>.size)) == 0 && listen(listener, 8) == 0
            }
        }
        guard isListening else {
            close(listener)
            throw Overdue(description: "[::1]:\(port) cannot be listened on")
        }
        self.listener = listener
        DispatchQueue(label: "other-family").async {
            while case let descriptor = accept(listener, nil, nil), descriptor >= 0 {
                let connection = RawConnection(descriptor: descriptor)
                _ = connection.read()
                connection.write(Array("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".utf8))
                close(descriptor)
            }
            close(listener)
        }
    }

    deinit { Glibc.shutdown(listener, CInt(SHUT_RDWR)) }
}

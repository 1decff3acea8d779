import FoundationEssentials
import LATTesting

/// A real HAProxy that gives each request to the next of its servers.
package final class HAProxy: Sendable {
    package let servers: [Nginx]
    private let directory: TemporaryDirectory
    private let port: ReservedPort
    private let process: ChildProcess

    /// - Parameter count: how many servers it has.
    package init(servers count: Int) async throws {
        directory = try TemporaryDirectory()
        port = try ReservedPort()
        servers = try (0..<count).map { _ in try Nginx(answering: "ok") }
        let lines = servers.map { "    server s\($0.port.port) 127.0.0.1:\($0.port.port)" }
        let text = """
            defaults
                mode http
                timeout connect 5s
                timeout client 60s
                timeout server 60s
            frontend all
                bind 127.0.0.1:\(port.port)
                default_backend servers
            backend servers
                balance roundrobin
            \(lines.joined(separator: "\n"))

            """
        process = try ChildProcess("haproxy", ["-db", "-f", try directory.write(Data(text.utf8), to: "haproxy.cfg")])
        for server in servers { try await server.waitUntilReady() }
        try await process.awaitListener(on: port.port)
    }

    package var url: String { "http://127.0.0.1:\(port.port)/" }
}

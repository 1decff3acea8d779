import FoundationEssentials
import Glibc
import LATTesting

/// An nginx on a loopback port. It ends with this value.
package final class Nginx: Sendable {
    package let port: ReservedPort
    private let process: ChildProcess
    private let folder: TemporaryDirectory

    package var url: String { "http://127.0.0.1:\(port.port)/" }

    /// Starts one that responds to every request with one document.
    ///
    /// - Parameter port: `nil` for a free one.
    package convenience init(answering document: String, port: ReservedPort? = nil) throws {
        try self.init(location: "default_type application/json; return 200 '\(document)';", port: port)
    }

    /// Starts one that handles all requests as the directives of its only location say. The file `small` has two bytes.
    ///
    /// - Parameters:
    ///   - http: Directives beside the server.
    ///   - certificate: A PEM file with certificate, chain and key, for TLS with HTTP/2. Default `nil`: no TLS.
    ///   - port: Default `nil`: a free one.
    package init(
        location: String, http: String = "", certificate: String? = nil, port: ReservedPort? = nil
    ) throws {
        self.port = try port ?? ReservedPort()
        folder = try TemporaryDirectory()
        let secure = certificate.map { "ssl_certificate \($0); ssl_certificate_key \($0);" } ?? ""
        let configuration = """
            daemon off; master_process off; pid \(folder.path)/pid; error_log stderr crit;
            events {}
            http {
                access_log off; client_body_temp_path \(folder.path)/b; proxy_temp_path \(folder.path)/p;
                fastcgi_temp_path \(folder.path)/f; uwsgi_temp_path \(folder.path)/u; scgi_temp_path \(folder.path)/s;
                \(http)
                server {
                    listen 127.0.0.1:\(self.port.port)\(certificate == nil ? "" : " ssl http2"); \(secure)
                    root \(folder.path)/files;
                    location / { \(location) }
                }
            }
            """
        _ = try folder.write(Data("ok".utf8), to: "files/small")
        let file = try folder.write(Data(configuration.utf8), to: "nginx.conf")
        process = try ChildProcess("nginx", ["-p", folder.path, "-c", file, "-e", "stderr"])
    }

    /// Kills nginx and waits until its port is closed.
    package func stop() async throws { try await process.kill(listeningOn: port.port) }

    /// Returns when nginx accepts a connection.
    package func waitUntilReady() async throws { try await process.awaitListener(on: port.port) }

    /// Has it stop answering, or go on. Its connections stay open.
    package func stall(_ isStalled: Bool) { process.send(isStalled ? SIGSTOP : SIGCONT) }
}

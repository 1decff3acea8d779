import FoundationEssentials
import LATTesting
import TestSupport

/// An nginx on a loopback port that responds to every request with one JSON document. It ends with this value.
final class Nginx: Sendable {
    let port: ReservedPort
    private let process: ChildProcess
    private let folder: TemporaryDirectory

    var url: String { "http://127.0.0.1:\(port.port)/" }

    /// Starts nginx, by default on a free port.
    init(answering document: String, port: ReservedPort? = nil) throws {
        self.port = try port ?? ReservedPort()
        folder = try TemporaryDirectory()
        let configuration = """
            daemon off; master_process off; pid \(folder.path)/pid; error_log stderr;
            events {}
            http {
                access_log off; client_body_temp_path \(folder.path)/b; proxy_temp_path \(folder.path)/p;
                fastcgi_temp_path \(folder.path)/f; uwsgi_temp_path \(folder.path)/u; scgi_temp_path \(folder.path)/s;
                server {
                    listen 127.0.0.1:\(self.port.port);
                    location / { default_type application/json; return 200 '\(document)'; }
                }
            }
            """
        let file = try folder.write(Data(configuration.utf8), to: "nginx.conf")
        process = try ChildProcess("nginx", ["-p", folder.path, "-c", file, "-e", "stderr"])
    }

    /// Kills nginx and waits until its port is closed.
    func stop() async throws { try await process.kill(listeningOn: port.port) }

    /// Returns when nginx accepts a connection.
    func waitUntilReady() async throws { try await process.awaitListener(on: port.port) }
}

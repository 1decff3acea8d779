import Foundation
import Glibc
import LATTesting

/// An nginx on a loopback port that responds to every request with one JSON document. It ends with this value.
final class Nginx: Sendable {
    let port: Int
    private let process: Process
    private let folder: TemporaryDirectory

    var url: String { "http://127.0.0.1:\(port)/" }

    static let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
    static var isInstalled: Bool { program != nil }

    /// Starts nginx, by default on a port that was free a moment ago.
    init(answering document: String, port: Int? = nil) throws {
        self.port = try port ?? ClosedPort().port
        folder = try TemporaryDirectory()
        let configuration = """
            daemon off; master_process off; pid \(folder.path)/pid; error_log stderr;
            events {}
            http {
                access_log off; client_body_temp_path \(folder.path)/b; proxy_temp_path \(folder.path)/p;
                fastcgi_temp_path \(folder.path)/f; uwsgi_temp_path \(folder.path)/u; scgi_temp_path \(folder.path)/s;
                server {
                    listen 127.0.0.1:\(self.port);
                    location / { default_type application/json; return 200 '\(document)'; }
                }
            }
            """
        let file = "\(folder.path)/nginx.conf"
        try configuration.write(toFile: file, atomically: true, encoding: .utf8)
        process = Process()
        process.executableURL = URL(filePath: Self.program ?? "nginx")
        process.arguments = ["-p", folder.path, "-c", file, "-e", "stderr"]
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    deinit { kill(process.processIdentifier, SIGKILL) }

    /// Kills nginx and waits for its end. The starting thread may have blocked every signal but SIGKILL.
    func stop() async throws {
        kill(process.processIdentifier, SIGKILL)
        let deadline = ContinuousClock.now + .seconds(30)
        while process.isRunning, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
    }

    /// Returns when nginx accepts a connection.
    func waitUntilReady() async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !isReady {
            guard ContinuousClock.now < deadline, process.isRunning else { throw NotStarted() }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    private struct NotStarted: Error {}

    private var isReady: Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}

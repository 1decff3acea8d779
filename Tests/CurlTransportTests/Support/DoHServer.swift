import FoundationEssentials

/// `scripts/lib/doh.py`: a server of DNS over HTTPS that knows every name.
final class DoHServer: Sendable {
    let port: Int
    private let process: ChildProcess

    /// - Parameter address: what every name resolves to.
    init(_ certificate: String = "server", address: String = "127.0.0.1") async throws {
        guard let certificates = TestCertificates.shared else {
            throw ChildProcess.Failure(description: "openssl could not make certificates")
        }
        var root = URL(filePath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        process = try ChildProcess(
            "env",
            [
                root.appending(path: ".venv/bin/python").path, root.appending(path: "scripts/lib/doh.py").path,
                certificates.path("\(certificate).pem"), address,
            ])
        port = try await process.awaitOutput("a port") { output in
            output.split(whereSeparator: \.isNewline).first { $0.hasPrefix("port ") }.flatMap { Int($0.dropFirst(5)) }
        }
    }

    /// The names that it was asked for, in order.
    var questions: [String] {
        process.output.split(whereSeparator: \.isNewline).compactMap {
            $0.hasPrefix("asked A ") ? String($0.split(separator: " ")[2].dropLast()) : nil
        }
    }

    func url(_ path: String = "/dns-query", host: String = "localhost") -> String { "https://\(host):\(port)\(path)" }
}

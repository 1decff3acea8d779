import FoundationEssentials
import TestSupport

/// Starts a script of `scripts/lib` that serves on a port of 127.0.0.1 and prints a line for each event.
private func start(_ script: String, _ certificate: String, _ arguments: [String]) async throws -> (ChildProcess, Int) {
    guard let certificates = TestCertificates.shared else {
        throw ChildProcess.Failure(description: "openssl could not make certificates")
    }
    var root = URL(filePath: #filePath)
    for _ in 0..<4 { root.deleteLastPathComponent() }
    let process = try ChildProcess(
        "env",
        [
            root.appending(path: ".venv/bin/python").path, root.appending(path: "scripts/lib/\(script)").path,
            certificates.path("\(certificate).pem"),
        ] + arguments)
    let port = try await process.awaitOutput("a port") { output in
        output.split(whereSeparator: \.isNewline).first { $0.hasPrefix("port ") }.flatMap { Int($0.dropFirst(5)) }
    }
    return (process, port)
}

/// `scripts/lib/doh.py`: a DNS-over-HTTPS server that resolves every name.
final class DoHServer: Sendable {
    let port: Int
    private let process: ChildProcess

    /// - Parameters:
    ///   - certificate: The name of one of ``TestCertificates``.
    ///   - address: The address of every name.
    ///   - speaksTLS1_3: Whether it speaks more than TLS 1.2.
    init(
        _ certificate: String = "server", address: String = "127.0.0.1", speaksTLS1_3: Bool = true
    ) async throws {
        (process, port) = try await start("doh.py", certificate, [address] + (speaksTLS1_3 ? [] : ["1.2"]))
    }

    /// The names that were looked up, in order.
    var questions: [String] {
        process.output.split(whereSeparator: \.isNewline).compactMap {
            $0.hasPrefix("asked A ") ? String($0.split(separator: " ")[2].dropLast()) : nil
        }
    }

    func url(_ path: String = "/dns-query", host: String = "localhost") -> String { "https://\(host):\(port)\(path)" }
}

/// `scripts/lib/origin.py`: an HTTPS server that echoes the fields of the request and adds those named in the URL.
final class EchoOrigin: Sendable {
    let port: Int
    private let process: ChildProcess

    /// - Parameter certificate: The name of one of ``TestCertificates``.
    init(_ certificate: String = "server") async throws {
        (process, port) = try await start("origin.py", certificate, [])
    }

    /// The number of handshakes.
    var connections: Int { lines("connection").count }

    /// Method and target of each request.
    var requests: [String] { lines("request ").map { String($0.dropFirst("request ".count)) } }

    private func lines(_ prefix: String) -> [Substring] {
        process.output.split(whereSeparator: \.isNewline).filter { $0.hasPrefix(prefix) }
    }

    /// Returns a URL of the server.
    ///
    /// - Parameter fields: Fields that the response adds, as `Name:value`.
    func url(_ scheme: String = "https", host: String = "localhost", status: Int = 200, _ fields: String...) -> String {
        let query = fields.map { field in
            "&header=" + field.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        return "\(scheme)://\(host):\(port)/?status=\(status)\(query.joined())"
    }
}

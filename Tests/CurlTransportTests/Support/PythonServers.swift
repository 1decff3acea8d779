import FoundationEssentials

/// A script of `scripts/lib` that serves on a port of 127.0.0.1 and tells what it sees, line by line.
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

/// `scripts/lib/doh.py`: a server of DNS over HTTPS that knows every name.
final class DoHServer: Sendable {
    let port: Int
    private let process: ChildProcess

    /// - Parameters:
    ///   - certificate: the name of one of ``TestCertificates``.
    ///   - address: what every name resolves to.
    init(_ certificate: String = "server", address: String = "127.0.0.1") async throws {
        (process, port) = try await start("doh.py", certificate, [address])
    }

    /// The names that it was asked for, in order.
    var questions: [String] {
        process.output.split(whereSeparator: \.isNewline).compactMap {
            $0.hasPrefix("asked A ") ? String($0.split(separator: " ")[2].dropLast()) : nil
        }
    }

    func url(_ path: String = "/dns-query", host: String = "localhost") -> String { "https://\(host):\(port)\(path)" }
}

/// `scripts/lib/origin.py`: an HTTPS server that answers with the fields of the request, and with those that it is told.
final class EchoOrigin: Sendable {
    let port: Int
    private let process: ChildProcess

    /// - Parameter certificate: the name of one of ``TestCertificates``.
    init(_ certificate: String = "server") async throws {
        (process, port) = try await start("origin.py", certificate, [])
    }

    /// How many handshakes there were.
    var connections: Int { lines("connection").count }

    /// Method and target of each request.
    var requests: [String] { lines("request ").map { String($0.dropFirst("request ".count)) } }

    private func lines(_ prefix: String) -> [Substring] {
        process.output.split(whereSeparator: \.isNewline).filter { $0.hasPrefix(prefix) }
    }

    /// A URL of the server.
    ///
    /// - Parameter fields: what the answer has, `Name:value`.
    func url(_ scheme: String = "https", host: String = "localhost", status: Int = 200, _ fields: String...) -> String {
        let query = fields.map { field in
            "&header=" + field.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        return "\(scheme)://\(host):\(port)/?status=\(status)\(query.joined())"
    }
}

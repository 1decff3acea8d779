import FoundationEssentials
import TestSupport
import Testing

/// `scripts/lib/doh.py`: a DNS-over-HTTPS server that resolves every name.
final class DoHServer: Sendable {
    private let script: PythonScript

    var port: Int { script.port }

    /// - Parameters:
    ///   - certificate: The name of one of ``TestCertificates``.
    ///   - address: The address of every name.
    ///   - speaksTLS1_3: Whether it speaks more than TLS 1.2.
    init(
        _ certificate: String = "server", address: String = "127.0.0.1", speaksTLS1_3: Bool = true
    ) async throws {
        let file = try #require(TestCertificates.shared).path("\(certificate).pem")
        script = try await PythonScript("doh.py", [file, address] + (speaksTLS1_3 ? [] : ["1.2"]))
    }

    /// The names that were looked up, in order.
    var questions: [String] { script.lines("asked A ").map { String($0.split(separator: " ")[2].dropLast()) } }

    func url(_ path: String = "/dns-query", host: String = "localhost") -> String { "https://\(host):\(port)\(path)" }
}

/// `scripts/lib/origin.py`: an HTTPS server that echoes the fields of the request and adds those named in the URL.
final class EchoOrigin: Sendable {
    private let script: PythonScript

    var port: Int { script.port }

    /// - Parameter certificate: The name of one of ``TestCertificates``.
    init(_ certificate: String = "server") async throws {
        script = try await PythonScript("origin.py", [try #require(TestCertificates.shared).path("\(certificate).pem")])
    }

    /// The number of handshakes.
    var connections: Int { script.lines("connection").count }

    /// Method and target of each request.
    var requests: [String] { script.lines("request ").map { String($0.dropFirst("request ".count)) } }

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

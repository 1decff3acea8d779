import CLibcurl
import FoundationEssentials
import HTTPCore
import TestSupport
import Testing

@testable import CurlTransport

extension Trait where Self == ConditionTrait {
    /// Skips a test without a libcurl with HTTP/3 and the packages of `scripts/requirements-test.txt`.
    static var needsHTTP3: Self {
        .enabled(
            if: GlobalCurl.has(CURL_VERSION_HTTP3) && HTTP3Server.isThere,
            "needs a libcurl with HTTP/3 and .venv: scripts/test --libcurl 8")
    }
}

/// `scripts/lib/http3.py`: HTTP/3 by aioquic on a UDP port of 127.0.0.1, and HTTP/1.1 over TLS on the same TCP port.
final class HTTP3Server: Sendable {
    private let script: PythonScript

    var port: Int { script.port }

    static var isThere: Bool { PythonScript.python != nil && TestCertificates.shared != nil }

    /// - Parameters:
    ///   - certificate: The name of one of ``TestCertificates``.
    ///   - port: The port; 0 for a free one.
    ///   - idle: The seconds after which an idle connection is dropped.
    ///   - isSilent: Whether UDP is not answered, as behind a firewall.
    ///   - alternative: The `Alt-Svc` field of responses over TCP.
    init(
        _ certificate: String = "server", port: Int = 0, idle: Double = 60, isSilent: Bool = false,
        alternative: String? = nil
    ) async throws {
        let file = try #require(TestCertificates.shared).path("\(certificate).pem")
        let options =
            ["--port", "\(port)", "--idle", "\(idle)"] + (isSilent ? ["--silent"] : [])
            + (alternative.map { ["--alternative", $0] } ?? [])
        script = try await PythonScript("http3.py", [file] + options)
    }

    func url(_ path: String = "/", host: String = "localhost") -> String { "https://\(host):\(port)\(path)" }

    /// The requests so far, as method, path and `3` or `1.1`.
    var requests: [String] { script.lines("request ").map { String($0.dropFirst(8)) } }
    /// The QUIC connections so far, as `fresh` or `resumed`.
    var connections: [String] { script.lines("connection ").map { String($0.dropFirst(11)) } }
    /// The number of datagrams that a silent port received.
    var datagrams: Int { script.lines("datagram").count }

    /// Closes the connections and ends the server. Its deinitialization ends it without closing them.
    func stop() async throws { try await script.process.terminate() }

    /// Waits until this many QUIC connections have been closed.
    func waitForClosedConnections(_ count: Int) async throws {
        try await script.process.awaitOutput("\(count) closed connections") { output in
            output.split(whereSeparator: \.isNewline).count { $0 == "closed" } >= count ? true : nil
        }
    }
}

/// `scripts/lib/relay.py`: drops and reorders datagrams between client and server.
final class DatagramRelay: Sendable {
    private let script: PythonScript

    /// - Parameters:
    ///   - dropEvery: One of this many datagrams is dropped; 0 for none.
    ///   - reorderEvery: One of this many datagrams is swapped with the next; 0 for none.
    init(to server: HTTP3Server, dropEvery: Int = 0, reorderEvery: Int = 0) async throws {
        let options = ["--drop", "\(dropEvery)", "--reorder", "\(reorderEvery)"]
        script = try await PythonScript("relay.py", ["\(server.port)"] + options)
    }

    func url(_ path: String = "/") -> String { "https://localhost:\(script.port)\(path)" }

    /// The numbers of datagrams dropped, reordered, and sent before the handshake was complete.
    var counts: (dropped: Int, reordered: Int, early: Int) {
        (script.lines("dropped").count, script.lines("reordered").count, script.lines("early").count)
    }
}

/// Bodies as the server generates and checks them: 0, 1, … 255, 0, …
enum HTTP3Body {
    private static let block = Data((0..<(1 << 20)).map { UInt8(truncatingIfNeeded: $0) })

    static func bytes(_ count: Int) -> Data {
        var data = Data(capacity: count)
        while data.count < count { data.append(block.prefix(count - data.count)) }
        return data
    }

    /// Whether a part of a body, shorter than 1 MiB, has the expected bytes.
    static func isRight(_ part: Data, at offset: Int) -> Bool {
        part.elementsEqual(block[(offset % 256)..<(offset % 256 + part.count)])
    }
}

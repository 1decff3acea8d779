import Foundation
import FoundationNetworking
import Synchronization

/// Records whether metrics arrived before the end of a task, or within a second of it.
final class MetricsDelegate: NSObject, URLSessionDataDelegate {
    private let state = Mutex((metrics: false, over: false))

    func urlSession(_ session: URLSession, task: URLSessionTask, didFinishCollecting metrics: URLSessionTaskMetrics) {
        state.withLock { $0.metrics = true }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        state.withLock { $0.over = true }
    }

    func hasMetrics() async -> Bool {
        for _ in 0..<100 where !state.withLock({ $0.over }) { try? await Task.sleep(for: .milliseconds(50)) }
        for _ in 0..<20 where !state.withLock({ $0.metrics }) { try? await Task.sleep(for: .milliseconds(50)) }
        return state.withLock { $0.metrics }
    }
}

/// Answers a challenge with a user and a password, unless they were refused before.
final class CredentialDelegate: NSObject, URLSessionTaskDelegate {
    func urlSession(
        _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        guard challenge.previousFailureCount == 0 else { return completionHandler(.performDefaultHandling, nil) }
        completionHandler(.useCredential, URLCredential(user: "u", password: "p", persistence: .forSession))
    }
}

/// `openssl s_server` with a self-signed certificate.
final class SelfSignedServer: Sendable {
    let port: Int
    private let identifier: Int32

    init() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("parity-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (key, output) = (folder.appendingPathComponent("k.pem").path, folder.appendingPathComponent("out").path)
        let make = Process()
        make.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        make.arguments =
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", key + ".crt"]
        make.standardError = FileHandle.nullDevice
        try make.run()
        make.waitUntilExit()
        _ = FileManager.default.createFile(atPath: output, contents: nil)
        let server = Process()
        server.executableURL = make.executableURL
        server.arguments = [
            "openssl", "s_server", "-accept", "127.0.0.1:0", "-www", "-cert", key + ".crt", "-key", key,
        ]
        server.standardOutput = FileHandle(forWritingAtPath: output)
        server.standardError = FileHandle.nullDevice
        try server.run()
        identifier = server.processIdentifier
        var found: Int?
        for _ in 0..<500 where found == nil {
            try await Task.sleep(for: .milliseconds(20))
            let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
            let line = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") && $0.contains(":") }
            found = line.flatMap { $0.split(separator: ":").last }.flatMap { Int($0) }
        }
        guard let found else { throw URLError(.cannotConnectToHost) }
        port = found
    }

    deinit { kill(identifier, SIGTERM) }
}

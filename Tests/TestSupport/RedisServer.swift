import FoundationEssentials
import Glibc
import LATTesting

/// A real `redis-server` with a password, on a Unix socket, a port or a port with TLS. Releasing it kills it and removes its
/// files.
package final class RedisServer: Sendable {
    package enum Place {
        case socket
        case port
        /// With the named certificate of ``TestCertificates``.
        case tls(String)
    }

    package static let password = "s3cret/pass word"

    package let directory: TemporaryDirectory
    private let reserved: ReservedPort?
    package let place: Place
    private let options: [String]
    private let launcher: [String]
    private let process: Box<ChildProcess>

    /// - Parameter isAwaited: Whether the server must accept commands before this returns.
    package convenience init(_ place: Place = .socket, _ options: [String] = [], isAwaited: Bool = true) async throws {
        try self.init(starting: place, options)
        if isAwaited { try await awaitReady() }
    }

    /// Starts a server without waiting for it.
    ///
    /// - Parameter launcher: The program that runs it, with arguments.
    package init(starting place: Place, _ options: [String] = [], launcher: [String] = []) throws {
        directory = try TemporaryDirectory()
        self.place = place
        self.options = options
        self.launcher = launcher
        if case .socket = place { reserved = nil } else { reserved = try ReservedPort() }
        process = Box(try Self.start(place, reserved?.port, directory, options, launcher))
    }

    package var port: Int { reserved?.port ?? 0 }

    package var socketPath: String { directory.path(of: "redis.sock") }

    /// What the server has written since its last start.
    package var log: String { process.value.output }

    private static func start(
        _ place: Place, _ port: Int?, _ directory: TemporaryDirectory, _ options: [String], _ launcher: [String]
    ) throws -> ChildProcess {
        var words = ["--dir", directory.path, "--save", "", "--appendonly", "no", "--requirepass", password]
        words += ["--bind", "127.0.0.1", "--daemonize", "no", "--enable-debug-command", "yes"]
        switch place {
        case .socket: words += ["--port", "0", "--unixsocket", directory.path(of: "redis.sock")]
        case .port: words += ["--port", "\(port ?? 0)"]
        case .tls(let certificate):
            guard let certificates = TestCertificates.shared else {
                throw ChildProcess.Failure(description: "openssl could not make certificates")
            }
            words += ["--port", "0", "--tls-port", "\(port ?? 0)", "--tls-ca-cert-file", certificates.authority]
            words += ["--tls-cert-file", certificates.path("\(certificate).crt")]
            words += ["--tls-key-file", certificates.path("\(certificate).key")]
            if !options.contains("--tls-auth-clients") { words += ["--tls-auth-clients", "no"] }
        }
        let command = launcher + ["redis-server"] + words + options
        return try ChildProcess(command[0], Array(command.dropFirst()))
    }

    package func awaitReady() async throws {
        try await process.value.awaitOutput("a server") { output in
            output.contains("eady to accept connections") ? () : nil
        }
    }

    /// Waits until the log contains a text.
    package func awaitLog(_ text: String) async throws {
        try await process.value.awaitOutput(text) { $0.contains(text) ? () : nil }
    }

    // MARK: Faults

    package func kill() { process.value.killAndWait() }

    /// Starts it again after ``kill()``, with nothing in it unless it was saved.
    package func startAgain(_ more: [String] = [], isAwaited: Bool = true) async throws {
        let next = try Self.start(place, reserved?.port, directory, options + more, launcher)
        process.change { $0 = next }
        if isAwaited { try await awaitReady() }
    }

    package func pause() { process.value.send(SIGSTOP) }

    package func resume() { process.value.send(SIGCONT) }

    /// Runs `redis-cli` and returns what it prints.
    @discardableResult
    package func cli(_ words: String...) throws -> String { try cli(words) }

    @discardableResult
    package func cli(_ words: [String]) throws -> String {
        let place: [String] =
            switch self.place {
            case .socket: ["-s", socketPath]
            case .port: ["-h", "127.0.0.1", "-p", "\(port)"]
            case .tls: ["-h", "127.0.0.1", "-p", "\(port)", "--tls", "--insecure"]
            }
        let command = ["redis-cli", "--no-auth-warning", "-a", Self.password] + place + words
        let text = try ChildProcess.run("env", command, in: directory.path)
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
}

public import CurlTransport
public import HTTPCore
internal import Synchronization

/// Records HTTP exchanges to a file that people can read, and replays them without a network.
///
/// ```swift
/// let cassette = try Cassette("users")                      // Cassettes/users.yaml
/// var configuration = CentralRequestManager.Configuration()
/// configuration.transport = cassette
/// let central = try CentralRequestManager(configuration: configuration)
/// let users = try await central.startRequest("GET", "https://api.example.org/users")
/// try cassette.eject()                                      // writes what was recorded
/// ```
///
/// A cassette replaces the engine, so everything above it runs as usual: retries, redirects (each hop is an entry), the cache,
/// tokens. Failures are recorded too, and streams with the sizes of their pieces. Replaying repeats no delays.
///
/// The file is YAML, one document for each exchange in the order of the requests, and bodies as text where they are
/// text. Texts of more than 64 KiB, and other bodies of more than 1 KiB, are files in a folder beside it. Secrets
/// (``Secrets/standard``) are written as stand-ins such as `***7`, the same for one secret wherever it occurs, so requests
/// that differ only in a secret are equal. A replay puts the secrets of the requests back, and those of a WebSocket's messages
/// to the server, also in trailers, messages and the texts of failures; of what only the server has sent, the program gets the
/// stand-in, a number for a number. All else is replayed as it was received. The sizes of pieces are the recorded ones; a
/// stand-in of another length than the secret moves the borders after it. The names of the manager's own list count too,
/// without those that it has removed.
///
/// Equal requests get their recorded responses one after the other. A request that is not recorded fails with
/// ``NetworkError/Kind/simulation``; the message names the nearest entry and what differs.
public final class Cassette: Transport, Sendable {
    /// When a cassette records.
    public enum Mode: String, Sendable, CaseIterable {
        /// Records if there is no file yet, else only replays. The default.
        case once
        /// Only replays.
        case none
        /// Replays what is recorded, and records the rest.
        case new
        /// Records everything again. The file is replaced when the run ends.
        case all
    }

    /// The path of the file.
    public let path: String
    /// When it records.
    public let mode: Mode
    /// The largest response, file or stream that is recorded, in bytes. A call with a larger response succeeds, but cannot be
    /// replayed; one that sends a larger stream fails.
    static let bodyLimit = 64 << 20

    private let redaction: CassetteRedaction
    private let configuration: EngineConfiguration
    private let file: CassetteFile
    private let transport: Mutex<(any Transport)?>

    /// The default folder of cassettes, within the current directory.
    public static let folder = "Cassettes"

    /// Opens a cassette.
    ///
    /// - Parameters:
    ///   - name: The name of the file without `.yaml`, in `folder`; or a path, if it contains a slash or ends in `.yaml`.
    ///   - folder: The folder, which is created when something is written. Default `Cassettes` in the current directory.
    ///   - mode: When it records. Default ``Mode/once``.
    ///   - matching: Which requests count as equal. Default `Matching()`.
    ///   - secrets: What is never written. Default ``Secrets/standard``.
    ///   - engine: The settings of the engine that sends what is recorded. Default `EngineConfiguration()`.
    ///   - transport: Sends what is recorded in place of an engine. Default `nil`.
    /// - Throws: ``NetworkError/Kind/storage`` that names the line, when the file is damaged or cannot be read.
    public init(
        _ name: String, in folder: String = Cassette.folder, mode: Mode = .once, matching: Matching = Matching(),
        secrets: Secrets = .standard, engine: EngineConfiguration = EngineConfiguration(),
        transport: (any Transport)? = nil
    ) throws(NetworkError) {
        let path = name.contains("/") || name.hasSuffix(".yaml") ? name : "\(folder)/\(name).yaml"
        self.path = path
        self.mode = mode
        redaction = CassetteRedaction(secrets, matching)
        configuration = engine
        file = CassetteFile(
            try CassetteContent(path, mode: mode, matching: matching, warn: { engine.warn($0) }))
        redaction.beginStandIns(after: file.content.highestStandIn)
        self.transport = Mutex(transport)
    }

    /// Writes what was recorded. Recording may continue afterwards. A cassette also writes its file when it is released and
    /// when the process ends.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when the file cannot be written.
    public func eject() throws(NetworkError) { try file.content.write() }

    /// The method and URL of each recorded request that was not made in this run.
    public var unused: [String] { file.content.withPlayback { $0.unused.map(\.title) } }

    // MARK: Exchanges

    /// Replays the exchange that was recorded for a request, or sends and records it.
    public func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let secrets = redaction.secrets.union(request.context.rowSecrets)
        let body = try await CapturedBody(
            request.body, secrets, limit: Self.bodyLimit, standIn: redaction.standIn)
        var headers = request.headers
        if let type = request.body?.contentType, headers["Content-Type"] == nil { headers["Content-Type"] = type }
        redaction.note(request)
        let asked = redaction.request(
            request.method.description, request.url, headers, body.recorded, request.context.rowSecrets)
        switch file.content.withPlayback({ $0.decide(asked) }) {
        case .replay(let entry): return try redaction.replayed(entry, for: asked).replay(request, redaction)
        case .refuse(let message):
            throw NetworkError(.simulation, message: "\(path): \(message)", request: request)
        case .record(let number):
            var sent = request
            if let again = body.sendable { sent.body = again }
            return try await record(sent, asked, number)
        }
    }

    private func record(
        _ request: HTTPRequest, _ asked: CassetteEntry.Request, _ number: Int
    ) async throws -> HTTPResponse {
        let recording = CassetteRecording(asked, redaction, limit: Self.bodyLimit) { [file] entry in
            file.content.finish(number, entry)
        }
        do {
            let engine = try engine()
            if let curl = engine as? CurlTransport { redaction.note(curl.completed(request)) }
            return recording.response(try await engine.send(request))
        } catch {
            recording.failed(error)
            throw error
        }
    }

    private func engine() throws -> any Transport {
        try transport.withLock { transport in
            if let transport { return transport }
            let engine = try CurlTransport(configuration: configuration)
            transport = engine
            return engine
        }
    }
}

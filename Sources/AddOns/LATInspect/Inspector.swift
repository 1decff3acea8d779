package import CurlTransport
public import FoundationEssentials
internal import Glibc
public import LATNetworking
internal import Platform
internal import Synchronization

/// Shows the calls of managers on a page in the browser, live.
///
/// ```swift
/// let inspector = Inspector()
/// configuration.accessories = [inspector]
/// print(try inspector.start())              // http://127.0.0.1:41235/#3f9c…
/// ```
///
/// The page is served on 127.0.0.1 only, and shows calls only to those who have the address with its key. Secrets are replaced
/// before anything leaves the process; see ``CallRecord``. The inspector keeps the newest calls, up to ``Limits``.
public final class Inspector: RequestAccessory {
    /// How much is kept.
    public struct Limits: Hashable, Sendable {
        /// The largest number of calls. Default 10,000.
        public var calls = 10_000
        /// The largest number of bytes, estimated; the oldest calls go first. Default 128 MiB.
        public var bytes = 128 << 20

        /// Keeps 10,000 calls in 128 MiB.
        public init() {}

        /// Keeps at most this many calls and bytes.
        public init(calls: Int = 10_000, bytes: Int = 128 << 20) {
            self.calls = calls
            self.bytes = bytes
        }
    }

    /// The environment variable that asks for an inspector: a file to write the address of its page to, or the socket of
    /// `lat inspect`, which shows the page itself. See ``requested``.
    public static let variable = "LAT_INSPECT"

    let calls: InspectedCalls
    private let outboxes = InspectedOutboxes()
    private let server = Mutex<PageServer?>(nil)
    private let writer = Mutex<SessionWriter?>(nil)

    /// Creates an inspector. It records calls from now on, and shows them after ``start(port:)``.
    ///
    /// - Parameters:
    ///   - limits: How much is kept. Default: 10,000 calls in 128 MiB.
    ///   - bodies: Which bodies are kept, and how much of each. Default `BodyCapture()`.
    public init(limits: Limits = Limits(), bodies: BodyCapture = BodyCapture()) {
        calls = InspectedCalls(countLimit: limits.calls, byteLimit: limits.bytes, capture: bodies)
    }

    /// An inspector that has started, if the environment asks for one: `lat inspect -- COMMAND` does. `nil` when
    /// ``variable`` is not set. An app that does not use this property shows no calls.
    ///
    /// ```swift
    /// if let inspector = Inspector.requested { configuration.accessories.append(inspector) }
    /// ```
    ///
    /// A page that cannot be started is reported on standard error, and the program continues without it.
    public static let requested: Inspector? = {
        guard let path = getenv(variable).map({ String(cString: $0) }), !path.isEmpty else { return nil }
        let inspector = Inspector()
        do {
            if SessionWriter.isSocket(path) {
                try inspector.report(to: path)
            } else {
                try inspector.announce(try inspector.start(), path)
            }
            return inspector
        } catch {
            RequestLog.standardError("The inspector that \(variable) asks for was not started: \(error)")
            return nil
        }
    }()

    /// Sends the records of all calls to `lat inspect`, from now until the process ends.
    private func report(to path: String) throws {
        let made = try SessionWriter(calls, program: Self.program, path: path)
        writer.withLock { $0 = made }
    }

    /// Writes the address to the file that the environment names. A pipe without a reader is an error, not a wait.
    private func announce(_ address: String, _ path: String) throws {
        // Only the user may read a new file, since the address has the key.
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw SystemError("opening \(path) for the inspector's address") }
        defer { close(descriptor) }
        let line = Array((address + "\n").utf8)
        guard write(descriptor, line, line.count) == line.count else {
            throw SystemError("writing the inspector's address to \(path)")
        }
    }

    /// Serves the page. The second call returns the same address.
    ///
    /// - Parameter port: The port of 127.0.0.1. Default 0: any free one.
    /// - Returns: The address, with its key.
    /// - Throws: ``NetworkError`` when the port is in use.
    @discardableResult
    public func start(port: Int = 0) throws -> String {
        // The lock is held, so that two callers get one server.
        try server.withLock { server in
            if let server { return server.address }
            let made = try PageServer(
                .calls(calls), program: Self.program, port: port, resender: Resender(calls), outboxes: outboxes)
            server = made
            return made.address
        }
    }

    /// Shows the entries of an outbox on the page, too: how many there are, and for each what it waits for or what ended it. Who
    /// has the page can retry and drop them. The outbox is not kept alive.
    ///
    /// The page of `lat inspect`, which another process serves, shows only the calls of an outbox.
    public func observe(_ outbox: Outbox) { outboxes.add(outbox) }

    /// Closes the page. Calls are still recorded, so that it can be started again with the same calls.
    public func stop() { server.withLock { $0.take() }?.stop() }

    deinit { stop() }

    /// Serves the page for a HAR file.
    package static func page(ofFile name: String, content: Data, port: Int) throws -> PageServer {
        try PageServer(.file(name: name, content: content), program: name, port: port)
    }

    private static var program: String {
        let name = CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "program"
        return "\(name) · \(getpid())"
    }

    /// Records the start of a call.
    public func willStart(_ call: ObservedCall) { calls.begin(call) }

    /// Records an event.
    public func handle(_ event: CallEvent) { calls.note(event) }

    /// Records a piece of a streamed response.
    public func didRead(_ chunk: Data, of call: ObservedCall) { calls.note(read: chunk, of: call) }
}

extension Inspector: SentHeadObserver {
    package func didSend(_ head: SentHead, for call: ObservedCall) { calls.note(sent: head, for: call.id) }
}

internal import LATConventions
public import LATNetworking
public import Logging
internal import Synchronization

/// Logs the calls of a manager with the logger of the task that makes them, so that a line has the request ID and whatever
/// else the service has set.
///
/// ```swift
/// configuration.accessories = [CallLogger()]
/// ```
///
/// The logger is `Logger.current`, read when the call starts; outside of `withLogger` it is the given one. As swift-log asks of
/// libraries, nothing is more severe than `info`:
///
/// | level | what |
/// |---|---|
/// | `info` | what no error tells: the call is repeated, its token is renewed, a stale response replaces a failure |
/// | `debug` | the end of each call |
/// | `trace` | the end of each attempt and hop |
///
/// The keys of the metadata are those of OpenTelemetry's conventions, and `lat.` for what they do not name. URLs are without
/// user information and secret parameters; headers and bodies are not logged. For those, see ``RequestLog`` and `Inspector`.
/// A call whose logger is above `info` costs nothing but the look-up of that logger.
public final class CallLogger: RequestAccessory {
    /// A call that is logged.
    private struct Logged {
        var logger: Logger
        /// The requests that were sent.
        var requests = 0
    }

    private let given: Logger?
    private let calls = Mutex<[UInt64: Logged]>([:])

    /// Makes an observer.
    ///
    /// - Parameter logger: for calls outside of `withLogger`. Default `nil`: the process-wide logger, whose label is empty.
    public init(_ logger: Logger? = nil) { given = logger }

    private var logger: Logger {
        guard let given else { return Logger.current }
        let current = Logger.current
        // Only the logger that nobody has set has no label.
        return current.label.isEmpty ? given : current
    }

    /// Whether the logger takes lines of the level `info`.
    public func observes(_ request: HTTPRequest) -> Bool { logger.logLevel <= .info }

    /// Keeps the logger of the task.
    public func willStart(_ call: ObservedCall) {
        let logged = Logged(logger: logger)
        calls.withLock { $0[call.id] = logged }
    }

    /// Logs the end of an attempt.
    public func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? {
        let logger = calls.withLock { calls -> Logger? in
            calls[call.id]?.requests += 1
            return calls[call.id]?.logger
        }
        guard let logger, logger.logLevel <= .trace else { return nil }
        return { [request] result in
            var metadata = Self.metadata(Conventions.attributes(of: request, in: call, resends: resends))
            metadata.merge(Self.metadata(Conventions.attributes(of: result))) { $1 }
            metadata["lat.call"] = "\(call.key)"
            logger.trace("HTTP request ended", metadata: metadata)
        }
    }

    /// Logs a repetition or the end of the call.
    public func handle(_ event: CallEvent) {
        let call = event.call
        switch event.kind {
        case .retrying(let wait): log(call, .info, "HTTP call is repeated", ["lat.wait": "\(wait)"])
        case .undocumentedStatus(let status):
            log(
                call, .info, "HTTP response has a status that the document lacks",
                ["http.response.status_code": "\(status)"])
        case .unknownValue(let type, _):
            // The value is content of the body.
            log(call, .info, "HTTP response has a value that is not known", ["lat.type": "\(type)"])
        case .replaying: log(call, .info, "HTTP call is sent again with a new token", [:])
        case .finished(let result): end(call, result, after: event.offset)
        default: break
        }
    }

    private func log(_ call: ObservedCall, _ level: Logger.Level, _ text: Logger.Message, _ more: Logger.Metadata) {
        guard let logged = calls.withLock({ $0[call.id] }) else { return }
        write(call, logged, level, text, more)
    }

    private func end(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>, after time: Duration) {
        guard let logged = calls.withLock({ $0.removeValue(forKey: call.id) }) else { return }
        var more = Self.metadata(Conventions.attributes(of: result))
        let seconds = Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18
        more["lat.duration"] = "\(seconds)"
        var level = Logger.Level.debug
        if case .success(let response) = result {
            more["lat.source"] = "\(response.source.rawValue)"
            if response.source == .stale { level = .info }
        }
        write(call, logged, level, "HTTP call ended", more)
    }

    private func write(
        _ call: ObservedCall, _ logged: Logged, _ level: Logger.Level, _ text: Logger.Message, _ more: Logger.Metadata
    ) {
        guard logged.logger.logLevel <= level else { return }
        let resends = max(0, logged.requests - 1)
        var metadata = Self.metadata(Conventions.attributes(of: call.request, in: call, resends: resends))
        metadata["lat.call"] = "\(call.key)"
        if let tag = call.tag { metadata["lat.tag"] = "\(tag)" }
        metadata.merge(more) { $1 }
        logged.logger.log(level: level, text, metadata: metadata)
    }

    private static func metadata(_ attributes: [Conventions.Attribute]) -> Logger.Metadata {
        attributes.reduce(into: [:]) { $0[$1.name] = .string($1.value.description) }
    }
}

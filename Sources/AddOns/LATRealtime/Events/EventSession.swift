import FoundationEssentials
import HTTPCore
import LATNetworking
import Platform
import Synchronization

/// What all loops over one event stream share.
final class EventSession: Sendable {
    /// The fields of every event stream, unless its request sets them itself.
    ///
    /// A proxy that compresses holds events back until it has a block of them, so no compression is offered.
    static let headers: HTTPHeaders = [
        "Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-cache",
    ]

    let manager: CentralRequestManager
    let options: EventOptions
    let state = LatestValue(LiveState.idle)
    /// Makes and registers the call of one loop.
    let makeCall: @Sendable (CentralRequestManager) throws(NetworkError) -> LiveCall
    private let shared: Mutex<Shared>

    private struct Shared {
        var lastEventID: String
        var isRead = false
    }

    init(
        _ manager: CentralRequestManager, _ options: EventOptions,
        makeCall: @escaping @Sendable (CentralRequestManager) throws(NetworkError) -> LiveCall
    ) {
        self.manager = manager
        self.options = options
        self.makeCall = makeCall
        shared = Mutex(Shared(lastEventID: options.lastEventID))
    }

    deinit { state.finish() }

    var lastEventID: String {
        get { shared.withLock(\.lastEventID) }
        set { shared.withLock { $0.lastEventID = newValue } }
    }

    var isClosed: Bool { state.current == .closed }

    func close() { state.finish(.closed) }

    /// Begins a loop, and makes its call. ``endLoop()`` ends the loop. If the call cannot be made, the stream is closed.
    func begin() -> Result<LiveCall, NetworkError> {
        let isFirst = shared.withLock { shared in
            defer { shared.isRead = true }
            return !shared.isRead
        }
        guard isFirst else {
            return .failure(.invalidRequest("two loops read one event stream at once; make a stream for each"))
        }
        do throws(NetworkError) {
            guard options.lastEventID.utf8.isFieldValue else {
                throw .invalidRequest(
                    "lastEventID has a control character, so it cannot be sent; give the id of an event")
            }
            if let limit = options.eventLimit, limit < 0 {
                throw .invalidRequest("eventLimit is \(limit); give 0 or more")
            }
            return .success(try makeCall(manager))
        } catch {
            close()
            return .failure(error)
        }
    }

    /// Ends a loop. A later one begins after ``lastEventID``.
    func endLoop() {
        shared.withLock { $0.isRead = false }
        state.send(.idle)
    }

    /// The fields of a connection that begins after the last event.
    ///
    /// An id that is not a valid field value is left out, because it would make every further request fail.
    var resumption: HTTPHeaders {
        let id = lastEventID
        guard !id.isEmpty, id.utf8.isFieldValue else { return [:] }
        return ["Last-Event-ID": id]
    }
}

extension HTTPResponse {
    /// Checks whether this is the beginning of an event stream, or the statement that there are no more events (204).
    ///
    /// - Throws: `NetworkError` of kind `httpStatus` or `protocolViolation`.
    @Sendable static func checkIsEventStream(_ response: HTTPResponse) throws {
        if response.status == 204 { return }
        var head = response
        // The error must not keep the connection open.
        if head.body.isStream { head.body = .empty }
        guard response.status == 200 else {
            throw NetworkError(
                .httpStatus,
                message:
                    "the server answered \(response.status), an event stream begins with 200; is the address that of "
                    + "an event stream?",
                response: head)
        }
        let type = response.headers["Content-Type"]
        guard type.map(MediaType.essence) == "text/event-stream" else {
            let found = type.map { "\"\(URLText.visible(String($0.prefix(80))))\"" } ?? "no Content-Type"
            throw NetworkError(
                .protocolViolation,
                message:
                    "the server answered with \(found), not with text/event-stream; is the address that of an event "
                    + "stream?",
                response: head)
        }
        guard response.headers["Content-Encoding"].map({ $0.lowercased() == "identity" }) ?? true else {
            throw NetworkError(
                .protocolViolation,
                message: "the server compressed the event stream, which holds events back; turn compression off for "
                    + "text/event-stream at the server or its proxy",
                response: head)
        }
    }
}

extension NetworkError {
    /// Whether the same request may succeed at the next attempt.
    var isWorthReconnecting: Bool {
        switch kind {
        case .dns, .connect, .connectionLost, .proxy, .timeout(.connect), .timeout(.idle), .tls(.handshake),
            .circuitOpen:
            true
        default: false
        }
    }

    /// The wait that the refusing response asked for; `nil` for none.
    var retryAfter: Duration? {
        response?.retryAfter(at: Int64(Date().timeIntervalSince1970))
    }
}

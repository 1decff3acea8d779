internal import FoundationEssentials
internal import HTTPCore

/// A recorded exchange: what was asked, and what came back. It has no secrets.
struct CassetteEntry: Equatable, Sendable {
    struct Field: Equatable, Sendable {
        var name: String
        var value: String
    }

    struct Request: Equatable, Sendable {
        var method: String
        var url: String
        var headers: [Field] = []
        var body = RecordedBody.none
    }

    struct Response: Equatable, Sendable {
        var status: Int
        var reason = ""
        var version = HTTPResponse.Version.http1_1
        var headers: [Field] = []
        var trailers: [Field] = []
        var body = RecordedBody.none
        /// The sizes of the pieces of a streamed body; empty for a body that arrived at once.
        var pieces: [Int] = []
    }

    /// How the exchange failed: before the response, or within its body.
    struct Failure: Equatable, Sendable {
        var kind: NetworkError.Kind
        var message: String
    }

    /// A message of a WebSocket.
    struct Message: Equatable, Sendable {
        var isSent: Bool
        var content: TapedMessage
        /// The line of the file; 0 for a new one.
        var line = 0
    }

    var request: Request
    var response: Response?
    /// The messages of a WebSocket in both directions, in their order.
    var messages: [Message] = []
    var failure: Failure?
    /// The line of the file in which it begins; 0 for a new entry.
    var line = 0

    /// Method and URL.
    var title: String { "\(request.method) \(request.url)" }
}

/// A body in a cassette.
enum RecordedBody: Equatable, Sendable {
    case none
    case bytes(Data)
    /// The body was larger than the cassette's limit and is not recorded.
    case omitted(byteCount: Int)

    init(_ data: Data) { self = data.isEmpty ? .none : .bytes(data) }

    var data: Data { if case .bytes(let data) = self { data } else { Data() } }
}

extension HTTPHeaders {
    init(_ fields: [CassetteEntry.Field]) { self.init(fields.map { ($0.name, $0.value) }) }
}

extension NetworkError.Kind {
    /// The kinds that have no associated value.
    private static let plain: [NetworkError.Kind] = [
        .invalidRequest, .unknownName, .dns, .connect, .cancelled, .httpStatus, .redirect, .bodyTooLarge,
        .connectionLost,
        .protocolViolation, .proxy, .cache, .storage, .requestBody, .integrity, .provider, .simulation, .unsupported,
        .authentication, .duplicate, .circuitOpen, .shutDown, .other,
    ]

    /// The kind of a name such as `connect` or `timeout(idle)`.
    init?(name: String) {
        if let kind = Self.plain.first(where: { $0.description == name }) {
            self = kind
            return
        }
        guard let open = name.firstIndex(of: "("), name.last == ")" else { return nil }
        let value = String(name[name.index(after: open)...].dropLast())
        switch name[..<open] {
        case "tls":
            guard let failure = NetworkError.TLSFailure(rawValue: value) else { return nil }
            self = .tls(failure)
        case "timeout":
            guard let phase = NetworkError.TimeoutPhase(rawValue: value) else { return nil }
            self = .timeout(phase)
        case "addressBlocked":
            guard let rule = NetworkError.AddressRule(rawValue: value) else { return nil }
            self = .addressBlocked(rule)
        case "business": self = .business(code: value)
        case "decoding": self = .decoding(path: value)
        default: return nil
        }
    }
}

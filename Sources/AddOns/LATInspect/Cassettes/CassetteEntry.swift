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
        var content: SocketMessage
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

    var title: String { "\(request.method) \(request.url)" }
}

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
    /// Each kind once, in the order of their declaration.
    static let examples: [NetworkError.Kind] = [
        .invalidRequest, .unknownName, .dns, .connect, .tls(.handshake), .timeout(.total), .cancelled, .httpStatus,
        .business(code: ""), .decoding(path: ""), .redirect, .bodyTooLarge, .connectionLost, .protocolViolation,
        .proxy, .addressBlocked(.privateUse), .cache, .storage, .requestBody, .integrity, .provider, .simulation,
        .unsupported, .authentication, .duplicate, .circuitOpen, .shutDown, .other,
    ]

    /// The kind of a name such as `connect` or `timeout(idle)`.
    init?(name: String) {
        let kinds =
            Self.examples + NetworkError.TLSFailure.allCases.map { .tls($0) }
            + NetworkError.TimeoutPhase.allCases.map { .timeout($0) }
            + NetworkError.AddressRule.allCases.map { .addressBlocked($0) }
        if let kind = kinds.first(where: { $0.description == name }) {
            self = kind
            return
        }
        guard let open = name.firstIndex(of: "("), name.last == ")" else { return nil }
        let value = String(name[name.index(after: open)...].dropLast())
        switch name[..<open] {
        case "business": self = .business(code: value)
        case "decoding": self = .decoding(path: value)
        default: return nil
        }
    }
}

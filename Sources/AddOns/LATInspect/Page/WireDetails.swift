internal import FoundationEssentials
internal import LATNetworking

/// The details of an opened call: what was sent and received, in the form of HAR's entries, without bodies.
struct WireDetails: Encodable {
    struct Field: Encodable {
        var name: String
        var value: String
    }

    struct Request: Encodable {
        var method: String
        var url: String
        var headers: [Field]
        var queryString: [Field]
    }

    struct Response: Encodable {
        var status: Int
        var statusText: String
        var httpVersion: String
        var headers: [Field]
    }

    struct Entry: Encodable {
        var request: Request
        var response: Response?
        var serverIPAddress: String?
        var connection: String?
        var tls: String?
        var certificate: String?
    }

    struct Source: Encodable {
        var name: String
        var source: String
    }

    /// An event, a line or a message. The time is in milliseconds since the start of the call.
    struct Message: Encodable {
        var kind: String
        var isSent: Bool
        var time: Double
        var size: Int
        var text: String
    }

    var entries: [Entry]
    var headerSources: [Source]
    var messages: [Message]

    init(_ record: CallRecord) {
        messages = record.messages.map {
            Message(
                kind: $0.kind.rawValue, isSent: $0.isSent, time: $0.time.milliseconds, size: $0.size, text: $0.text)
        }
        entries = record.conversation.map { message in
            let connection = message.connection
            return Entry(
                request: Request(message.request), response: message.response.map(Response.init),
                serverIPAddress: connection.map { "\($0.remoteAddress), port \($0.remotePort)" },
                connection: connection.map {
                    [$0.id.map { "number \($0)" }, $0.isReused ? "open already" : "new"].compactMap(\.self)
                        .joined(separator: ", ")
                }, tls: connection?.tls.map { "\($0.version), \($0.cipher)" },
                certificate: connection?.tls.map(Self.words))
        }
        let row = record.row.map { " \($0.name)" } ?? ""
        headerSources = (record.conversation.last?.request.headers ?? []).compactMap { field in
            field.source.map { source in
                let origin = field.origin.map { ", \($0)" } ?? ""
                return Source(
                    name: field.name,
                    source: Self.words[source] ?? (source == "row" ? "Table row\(row)\(origin)" : source))
            }
        }
    }

    private static func words(_ tls: CallRecord.TLS) -> String {
        let until = tls.validUntil.iso8601WithMilliseconds.prefix(10)
        return "\(tls.subject), issued by \(tls.issuer), until \(until)" + (tls.isTrusted ? "" : ", not trusted")
    }

    private static let words = [
        "manager": "Manager", "provider": "Provider", "entity": "Entity", "call": "Call",
        "authenticator": "Authenticator or interceptor", "sdk": "Added on sending",
    ]
}

extension WireDetails.Request {
    fileprivate init(_ request: CallRecord.Request) {
        method = request.method
        url = request.url
        headers = request.headers.map { WireDetails.Field(name: $0.name, value: $0.value) }
        let start = request.url.firstIndex(of: "?").map { request.url.index(after: $0) } ?? request.url.endIndex
        queryString = request.url[start...].formItems.map { WireDetails.Field(name: $0.name, value: $0.value) }
    }
}

extension WireDetails.Response {
    fileprivate init(_ response: CallRecord.Response) {
        status = response.status
        statusText = response.reason
        httpVersion = response.version
        headers = (response.headers + response.trailers).map { WireDetails.Field(name: $0.name, value: $0.value) }
    }
}

extension CallRecord {
    /// A request and its answer, as the page numbers them.
    struct Turn {
        var request: Request
        var response: Response?
        var connection: Connection?
    }

    /// The exchanges with servers, and then what the caller got from elsewhere: the cache, or the call of another caller.
    var conversation: [Turn] {
        let sent = exchanges.map { exchange in
            let response = exchange.response ?? exchange.failure?.response
            return Turn(
                request: exchange.request, response: response,
                connection: response?.connection ?? exchange.failure?.connection)
        }
        guard sent.isEmpty || response.map({ $0.source != .network && $0.source != .revalidated }) == true else {
            return sent
        }
        let last = exchanges.last?.request ?? request
        return sent + [Turn(request: last, response: response, connection: response?.connection)]
    }
}

extension CallRecord.Body {
    /// The bytes that were kept, and a note for the reader.
    var shown: (bytes: Data, type: String?, note: String?) {
        let note = isTruncated ? "Only the beginning of this body is kept." : nil
        switch content {
        case .text(let text): return (Data(text.utf8), contentType, note)
        case .bytes(let bytes): return (bytes, contentType, note)
        case .omitted(let reason): return (Data(), contentType, "This body is not kept: \(reason).")
        case .parts(let parts):
            let text = parts.map { part in
                let title = [part.name, part.fileName.map { "file \($0)" }, part.contentType].compactMap(\.self)
                return "--- \(title.joined(separator: ", "))\n\(part.text ?? "(not kept)")"
            }
            let title = "A form, part by part." + (note.map { " \($0)" } ?? "")
            return (Data(text.joined(separator: "\n").utf8), "text/plain", title)
        }
    }
}

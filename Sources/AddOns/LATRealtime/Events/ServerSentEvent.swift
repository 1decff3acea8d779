import FoundationEssentials
import HTTPCore
import LATNetworking

/// An event of an event stream (`text/event-stream`).
public struct ServerSentEvent: Sendable {
    /// The type of the event, from the field `event`; "message" when the server gave none.
    public var type: String
    /// The lines of the fields `data`, joined by LF.
    public var data: String
    /// The last id of the stream, from this event or an earlier one; empty when there was none. It is the `Last-Event-ID`
    /// that resumes the stream after this event.
    public var id: String

    /// The response that the event belongs to, without its body. It says how values are decoded.
    final class Origin: Sendable {
        let response: HTTPResponse

        init(_ response: HTTPResponse) { self.response = response }
    }

    var origin: Origin?

    /// Makes an event, for tests.
    public init(type: String = "message", data: String, id: String = "") {
        self.type = type
        self.data = data
        self.id = id
    }

    /// Decodes the data, which is JSON, with the `Coding` of the call.
    ///
    /// - Throws: `NetworkError` of kind `decoding(path:)`, whose path is the place that did not match. Its message has the
    ///   beginning of the data, and its response has the data as body, because a server may report a failure as an event.
    public func decode<Model: Decodable>(_ model: Model.Type = Model.self) throws -> Model {
        do {
            return try LiveValue.decode(
                model, of: Data(data.utf8), origin?.response.coding,
                "the data of the event \"\(URLText.visible(type))\"")
        } catch let error as NetworkError {
            var head = origin?.response
            head?.body = ResponseBody(Data(data.utf8.prefix(EventText.errorBodyLimit)))
            throw NetworkError(
                error.kind, message: "\(error.message); the data is \(EventText.quoted(data))", response: head,
                underlying: error.underlying)
        }
    }
}

/// The data of events in errors.
enum EventText {
    /// How many bytes of an event the response of an error keeps: 1 MiB, as those of other bodies.
    static let errorBodyLimit = 1 << 20
    private static let limit = 300

    /// The beginning of a text in quotes, without control characters.
    static func quoted(_ text: String) -> String {
        let beginning = String(text.prefix(limit))
        return "\"\(URLText.visible(beginning))\"" + (beginning.utf8.count < text.utf8.count ? "…" : "")
    }
}

extension ServerSentEvent: Hashable {
    /// Whether type, data and id are equal.
    public static func == (lhs: ServerSentEvent, rhs: ServerSentEvent) -> Bool {
        lhs.type == rhs.type && lhs.data == rhs.data && lhs.id == rhs.id
    }

    /// Hashes type, data and id.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(type)
        hasher.combine(data)
        hasher.combine(id)
    }
}

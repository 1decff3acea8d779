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
        /// Where the rows say that a failure is reported.
        let errors: Envelope.ErrorRule?

        init(_ response: HTTPResponse, _ errors: Envelope.ErrorRule?) {
            self.response = response
            self.errors = errors
        }
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
    /// - Throws: `NetworkError` of kind `business(code:)` for a failure of the server: what `errors` of the row finds, or a member
    ///   `error` that the model does not read. Of kind `decoding(path:)`, whose path is the place that did not match. The
    ///   message has the beginning of the data, and the response has the data as body.
    public func decode<Model: Decodable>(_ model: Model.Type = Model.self) throws -> Model {
        if let failure = failure(besides: model) { throw failure }
        do {
            return try LiveValue.decode(
                model, of: Data(data.utf8), origin?.response.coding,
                "the data of the event \"\(URLText.visible(type))\"")
        } catch let error as NetworkError {
            throw NetworkError(
                error.kind, message: "\(error.message); the data is \(EventText.quoted(data))", response: errorResponse,
                underlying: error.underlying)
        }
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

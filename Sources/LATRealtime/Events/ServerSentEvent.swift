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

    /// How values in the response of this event are decoded.
    var coding: CodingRules?

    /// Makes an event, for tests.
    public init(type: String = "message", data: String, id: String = "") {
        self.type = type
        self.data = data
        self.id = id
    }

    /// Decodes the data, which is JSON, with the `Coding` of the call.
    ///
    /// - Throws: `NetworkError` of kind `decoding(path:)`, whose path is the place that did not match.
    public func decode<Model: Decodable>(_ model: Model.Type = Model.self) throws -> Model {
        try LiveValue.decode(
            model, of: Data(data.utf8), coding, "the data of the event \"\(URLText.visible(type))\"")
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

import FoundationEssentials
import Glibc
import HTTPCore
import LATNetworking

// A server that has begun to stream cannot change its status any more, so it reports a failure as an event.
extension ServerSentEvent {
    /// The failure that the event reports; `nil` for an event that the model is made for.
    ///
    /// It is one if `errors` of the row finds a code in it, or if it has a member `error`, or the type `error`, and the model reads
    /// neither that member nor, without it, any other.
    func failure<Model: Decodable>(besides model: Model.Type) -> NetworkError? {
        guard mayBeFailure, let document = try? JSONDocument(parsing: Data(data.utf8)) else { return nil }
        if let failure = origin?.errors?.failure(in: document, nil) { return error(failure) }
        guard let reported = reportedFailure(in: document) else { return nil }
        let names = document["error"] == nil ? Set(document.value.object?.keys.map(\.self) ?? []) : ["error"]
        return document.decodes(model, reading: names, by: origin?.response.coding) ? nil : error(reported)
    }

    /// The failure of an event that a reader of another type of events would not see; `nil` for all other events.
    var unseenFailure: NetworkError? {
        guard type == "error" else { return nil }
        let document = try? JSONDocument(parsing: Data(data.utf8))
        let failure = document.flatMap { origin?.errors?.failure(in: $0, nil) ?? reportedFailure(in: $0) }
        return error(
            failure ?? BusinessFailure(code: "", message: data, envelope: Envelope(code: nil, message: data, data: nil))
        )
    }

    /// Whether it is worth while to look for a failure.
    private var mayBeFailure: Bool {
        if type == "error" || origin?.errors != nil { return true }
        return strstr(data, "\"error\"") != nil
    }

    /// The failure in the member `error`, or of an event of the type `error`, in the words of most servers.
    private func reportedFailure(in document: JSONDocument) -> BusinessFailure? {
        let found = document["error"] ?? (type == "error" ? document : nil)
        guard let found, case let value = found.value, value.object != nil || value.string?.isEmpty == false else {
            return nil
        }
        let code = value["code"] ?? value["type"] ?? value["status"]
        let message = value.string ?? value["message"].string ?? value["detail"].string
        let envelope = Envelope(code: code, message: message, data: document.value)
        return BusinessFailure(code: envelope.codeText ?? "", message: message, envelope: envelope)
    }

    private func error(_ failure: BusinessFailure) -> NetworkError {
        let text = "the server reported a failure in the stream, \(failure); the data is \(EventText.quoted(data))"
        return NetworkError(
            .business(code: failure.code), message: URLText.visible(Redactor.scrubbed(text, of: nil)),
            response: errorResponse, underlying: failure)
    }

    /// The response of an error, whose body is the data.
    var errorResponse: HTTPResponse? {
        var head = origin?.response
        head?.body = ResponseBody(Data(data.utf8.prefix(EventText.errorBodyLimit)))
        return head
    }
}

/// The data of events in errors.
enum EventText {
    /// How many bytes of an event the response of an error keeps: 1 MiB, as those of other bodies.
    static let errorBodyLimit = 1 << 20
    private static let limit = 300

    /// The beginning of a text in quotes, without control characters and secrets.
    static func quoted(_ text: String) -> String {
        // A secret that is cut could not be found any more.
        let known = Redactor.scrubbed(String(text.prefix(4 * limit)), of: nil)
        let isCut = known.count > limit || text.dropFirst(4 * limit).first != nil
        return "\"\(URLText.visible(String(known.prefix(limit))))\"" + (isCut ? "…" : "")
    }
}

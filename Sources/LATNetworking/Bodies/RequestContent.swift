import HTTPCore

/// What goes into the query or the body, not yet encoded.
struct RequestContent: Sendable {
    var members: [String: JSONValue]?
    var files: [UploadFile] = []
    var body: HTTPBody?
    var encoding: ParameterEncoding
}

import HTTPCore

/// What goes into the query or the body, not yet encoded.
struct RequestContent: Sendable {
    var members: EncodedMembers?
    var files: [UploadFile] = []
    var body: HTTPBody?
    var encoding: ParameterEncoding
}

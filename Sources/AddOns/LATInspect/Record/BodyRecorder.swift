internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// Captures bodies within the bounds of a ``BodyCapture``, redacted.
struct BodyRecorder {
    private let capture: BodyCapture

    init(_ capture: BodyCapture) { self.capture = capture }

    /// The body of a request; `nil` for none.
    func recorded(
        _ body: HTTPBody, type: String?, coding: String? = nil, _ redactor: inout Redactor
    ) -> CallRecord.Body? {
        let type = type ?? body.contentType
        switch body.content {
        case .parameters: return nil
        case .data(let data):
            return recorded(data, size: Int64(data.count), type: type, coding: coding, &redactor)
        case .encoded(let encoder):
            guard let data = try? encoder.encode() else {
                return CallRecord.Body(contentType: type, content: .omitted("it cannot be encoded"))
            }
            return recorded(data, size: Int64(data.count), type: type, coding: coding, &redactor)
        case .file(let path):
            return CallRecord.Body(contentType: type, content: .omitted("the file \(redactor.text(path))"))
        case .stream(let stream):
            return CallRecord.Body(contentType: type, content: .omitted("a stream"), size: stream.length)
        case .multipart(let files):
            return CallRecord.Body(
                contentType: type ?? "multipart/form-data",
                content: .parts(files.map { CallRecord.Part(redactor.part($0, limit: capture.maxSize)) }))
        }
    }

    /// - Parameters:
    ///   - data: the body, or its beginning.
    ///   - size: the number of bytes of the whole.
    ///   - coding: the `Content-Encoding` of the bytes.
    func recorded(
        _ data: Data, size: Int64, type: String?, coding: String? = nil, _ redactor: inout Redactor
    ) -> CallRecord.Body {
        var body = CallRecord.Body(contentType: type, content: .omitted(""), size: size)
        let data = data.prefix(capture.maxSize)
        guard capture.maxSize > 0, capture.keeps(MediaType.plainEssence(of: type)) else {
            body.content = .omitted("bodies of this type are not kept")
            return body
        }
        body.isTruncated = size > Int64(data.count)
        body.content =
            switch redactor.body(data, type: type, coding: coding, isTruncated: body.isTruncated) {
            case .text(let text): .text(text)
            case .bytes(let bytes): .bytes(bytes)
            case .parts(let parts): .parts(parts.map(CallRecord.Part.init))
            case .compressed: .omitted("it is compressed, so that secrets cannot be found in it")
            }
        return body
    }
}

extension CallRecord.Part {
    fileprivate init(_ part: RedactedBody.Part) {
        self.init(name: part.name, fileName: part.fileName, contentType: part.contentType, text: part.text)
    }
}

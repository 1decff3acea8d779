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

/// Which bodies are kept, and how much of each.
///
/// ```swift
/// var bodies = BodyCapture()
/// bodies.maxSize = 1 << 20
/// bodies.keeps = { type in type.hasPrefix("image/") || BodyCapture.isText(type) }
/// ```
public struct BodyCapture: Sendable {
    /// The largest number of bytes that is kept of a body. Default 256 KiB. Of a larger body only the beginning is kept.
    /// A negative number counts as 0.
    public var maxSize = 256 << 10 {
        didSet { maxSize = max(0, maxSize) }
    }
    /// Whether bodies of a media type are kept; the type is in lower case and without parameters, and empty when there is
    /// none. Default: all but audio, video and archives.
    public var keeps: @Sendable (_ mediaType: String) -> Bool = { type in
        !["audio/", "video/", "application/zip", "application/gzip", "application/x-tar", "application/x-7z"]
            .contains { type.hasPrefix($0) }
    }

    /// Keeps the first 256 KiB of all but audio, video and archives.
    public init() {}

    /// Keeps the first `maxSize` bytes of bodies of all types.
    public init(maxSize: Int) {
        self.maxSize = max(0, maxSize)
        keeps = { _ in true }
    }

    /// Keeps no body.
    public static let none: BodyCapture = {
        var none = BodyCapture(maxSize: 0)
        none.keeps = { _ in false }
        return none
    }()

    /// Whether a media type is that of a text.
    public static func isText(_ mediaType: String) -> Bool {
        mediaType.hasPrefix("text/") || mediaType.hasSuffix("+json") || mediaType.hasSuffix("+xml")
            || [
                "application/json", "application/xml", "application/javascript", "application/x-ndjson",
                "application/x-www-form-urlencoded", "application/graphql", "application/problem+json",
            ].contains(mediaType)
    }
}

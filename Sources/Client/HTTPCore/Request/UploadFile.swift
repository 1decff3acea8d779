public import FoundationEssentials

/// One part of a multipart upload (RFC 7578): a file, or a plain form field.
///
/// ```swift
/// UploadFile(name: "img", fileName: "a.png", data: png)   // a file from memory
/// UploadFile(name: "doc", path: "/tmp/report.pdf")        // a file from disk, streamed
/// UploadFile(name: "title", value: "Holiday")             // a form field
/// ```
///
/// Names may contain quotes, CR, LF and any Unicode; they are escaped as in
/// RFC 7578 and browsers. A part without a file name is a plain field. The
/// extension of the file name determines the media type, from a built-in list
/// and then the system's; for an unknown one it is `application/octet-stream`.
public struct UploadFile: Sendable, Hashable {
    package enum Source: Sendable, Hashable {
        case data(Data)
        case path(String)
        case stream(BodyStream)

        package static func == (lhs: Source, rhs: Source) -> Bool {
            switch (lhs, rhs) {
            case (.data(let one), .data(let other)): one == other
            case (.path(let one), .path(let other)): one.hasSameBytes(as: other)
            case (.stream(let one), .stream(let other)): one == other
            case (.data, _), (.path, _), (.stream, _): false
            }
        }
    }

    /// The name of the form field.
    public var name: String
    /// The file name that is sent; `nil` makes a plain field.
    public var fileName: String?
    /// The media type of the part; `nil` for plain fields.
    public var contentType: String?
    package var source: Source

    /// Whether all properties are equal. Texts are compared byte by byte.
    public static func == (lhs: UploadFile, rhs: UploadFile) -> Bool {
        lhs.name.hasSameBytes(as: rhs.name) && lhs.fileName.hasSameBytes(as: rhs.fileName)
            && lhs.contentType.hasSameBytes(as: rhs.contentType) && lhs.source == rhs.source
    }

    /// A part from memory: a file if it has a file name, else a field, which is the default.
    public init(name: String, fileName: String? = nil, data: Data, contentType: String? = nil) {
        self.init(name: name, fileName: fileName, contentType: contentType, source: .data(data))
    }

    /// A form field of text.
    public init(name: String, value: String) {
        self.init(name: name, fileName: nil, contentType: nil, source: .data(Data(value.utf8)))
    }

    /// A file from disk, read while it is sent. Its name is the path's last component unless given. When it cannot be
    /// read, the request fails with ``NetworkError/Kind/requestBody``.
    public init(name: String, fileName: String? = nil, path: String, contentType: String? = nil) {
        let lastComponent = path.split(separator: "/").last.map(String.init) ?? path
        self.init(name: name, fileName: fileName ?? lastComponent, contentType: contentType, source: .path(path))
    }

    /// A part from a sequence of chunks, read once and no faster than they are sent.
    ///
    /// - Parameter length: the number of bytes, if known. Without it the whole upload has no known length.
    public init<S: AsyncSequence & Sendable>(
        name: String, fileName: String?, stream chunks: S, length: Int64? = nil, contentType: String? = nil
    ) where S.Element == Data {
        let stream = BodyStream(length: length, isReplayable: false) { BodyStream.iterate(chunks) }
        self.init(name: name, fileName: fileName, contentType: contentType, source: .stream(stream))
    }

    private init(name: String, fileName: String?, contentType: String?, source: Source) {
        self.name = name
        self.fileName = fileName
        self.contentType =
            contentType ?? fileName.map { MediaType.forFileName($0) ?? "application/octet-stream" }
        self.source = source
    }

    /// A part from a sequence of chunks that the closure makes again each time they are sent, so that the upload can be
    /// repeated after a redirect or on a new connection.
    ///
    /// - Parameter length: the number of bytes, if known. Without it the whole upload has no known length.
    public init<S: AsyncSequence & Sendable>(
        name: String, fileName: String?, length: Int64? = nil, contentType: String? = nil,
        _ makeChunks: @escaping @Sendable () -> S
    ) where S.Element == Data {
        let stream = BodyStream(length: length, isReplayable: true) { BodyStream.iterate(makeChunks()) }
        self.init(name: name, fileName: fileName, contentType: contentType, source: .stream(stream))
    }

    /// The same part as another field of the form.
    public func named(_ name: String) -> UploadFile {
        var part = self
        part.name = name
        return part
    }

    package var isReplayable: Bool {
        if case .stream(let stream) = source { stream.isReplayable } else { true }
    }
}

import FoundationEssentials
internal import HTTPCore

/// A request body that is ready to be sent: it is encoded and its files exist.
enum PreparedBody: Sendable {
    /// A short body, handed to libcurl as a whole.
    case bytes(Data)
    /// A longer body, read in pieces.
    case source(any BodySource)
    /// Parts for libcurl's MIME API.
    case multipart([Part])

    struct Part: Sendable {
        let name: String
        let fileName: String?
        let contentType: String?
        let source: any BodySource
    }

    /// The largest body handed to libcurl as a whole, in bytes. Longer bodies are read in pieces, for the sake of
    /// progress and the idle timeout.
    static let wholeBodyLimit = 64 << 10

    init(_ body: HTTPBody, _ handler: BodyHandler? = nil) throws(NetworkError) {
        switch body.content {
        case .parameters(let encoding):
            // A body with parameters was encoded earlier, so this one has none: it is an empty object or form.
            self = .bytes(Data(encoding == .json ? "{}".utf8 : "".utf8))
        case .encoded(let encoder):
            self = .init(data: try encoder.encode())
        case .data(let data):
            self = .init(data: data, handler)
        case .file(let path):
            self = .source(MeteredSource.of(try FileSource(path: path), handler))
        case .stream(let stream):
            if let slice = stream.slice {
                self = .source(MeteredSource.of(FileSource(slice), handler))
                return
            }
            self = .source(MeteredSource.of(StreamSource(stream), stream.reportsProgress ? nil : handler))
        case .multipart(let files):
            var parts: [Part] = []
            var fileCount = 0
            for file in files {
                parts.append(try Part(file, file.fileName == nil ? nil : handler, number: fileCount))
                if file.fileName != nil { fileCount += 1 }
            }
            self = .multipart(parts)
        }
    }

    private init(data: Data, _ handler: BodyHandler? = nil) {
        self = data.count <= Self.wholeBodyLimit ? .bytes(data) : .source(MeteredSource.of(DataSource(data), handler))
    }

    /// The same body, which libcurl reads in pieces even if it is short.
    var inPieces: PreparedBody {
        guard case .bytes(let data) = self, !data.isEmpty else { return self }
        return .source(DataSource(data))
    }

    /// The same body, sent chunked whatever its length.
    var chunked: PreparedBody {
        switch self {
        case .bytes(let data): .source(ChunkedSource(DataSource(data)))
        case .source(let source): .source(ChunkedSource(source))
        case .multipart: self
        }
    }

    /// Whether libcurl gets the body as a whole and never expects `100 Continue` for it.
    var isSmall: Bool { if case .bytes = self { true } else { false } }

    var isMultipart: Bool { if case .multipart = self { true } else { false } }

    /// The number of bytes; `nil` when it is unknown or libcurl computes it.
    var length: Int64? {
        switch self {
        case .bytes(let data): Int64(data.count)
        case .source(let source): source.length
        case .multipart: nil
        }
    }

    /// The bytes, if they are in memory.
    var bytesInMemory: Data? {
        switch self {
        case .bytes(let data): data
        case .source(let source): (((source as? MeteredSource)?.source ?? source) as? DataSource)?.data
        case .multipart: nil
        }
    }

    var sources: [any BodySource] {
        switch self {
        case .bytes: []
        case .source(let source): [source]
        case .multipart(let parts): parts.map(\.source)
        }
    }
}

extension PreparedBody.Part {
    fileprivate init(_ file: UploadFile, _ handler: BodyHandler?, number: Int) throws(NetworkError) {
        name = file.name
        fileName = file.fileName
        contentType = file.contentType
        guard !name.utf8.contains(0), fileName?.utf8.contains(0) != true else {
            throw .invalidRequest("the name of an upload holds a NUL character; remove it")
        }
        if let contentType, !contentType.utf8.isFieldValue {
            throw .invalidRequest("the media type of the upload \"\(file.name)\" holds control characters; remove them")
        }
        let source: any BodySource =
            switch file.source {
            case .data(let data): DataSource(data)
            case .stream(let stream): StreamSource(stream)
            case .path(let path): try FileSource(path: path, startsEarly: false)
            }
        self.source = MeteredSource.of(source, handler, file: number)
    }
}

import FoundationEssentials
internal import HTTPCore

/// A request body that is ready to be sent: it is encoded and its files exist.
enum PreparedBody: Sendable {
    /// A short body, handed to libcurl as a whole.
    case bytes(Data)
    /// A longer body, read in pieces.
    case source(any BodySource)

    /// The largest body handed to libcurl as a whole, in bytes. Longer bodies are read in pieces, for the sake of
    /// progress and the idle timeout.
    static let wholeBodyLimit = 64 << 10

    /// - Parameter seed: makes the boundary of a form; `nil` for a random one.
    init(_ body: HTTPBody, _ seed: MultipartSource.Seed? = nil, _ handler: BodyHandler? = nil) throws(NetworkError) {
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
            self = .source(try MultipartSource(files, seed, handler))
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
        }
    }

    /// Whether libcurl gets the body as a whole and never expects `100 Continue` for it.
    var isSmall: Bool { if case .bytes = self { true } else { false } }

    /// The boundary of a form.
    var boundary: String? { if case .source(let source as MultipartSource) = self { source.boundary } else { nil } }

    /// The number of bytes; `nil` when it is unknown.
    var length: Int64? {
        switch self {
        case .bytes(let data): Int64(data.count)
        case .source(let source): source.length
        }
    }

    /// The bytes, if they are in memory.
    var bytesInMemory: Data? {
        switch self {
        case .bytes(let data): data
        case .source(let source): (((source as? MeteredSource)?.source ?? source) as? DataSource)?.data
        }
    }

    var source: (any BodySource)? { if case .source(let source) = self { source } else { nil } }
}

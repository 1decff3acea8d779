import FoundationEssentials
package import HTTPCore

/// Codes the bodies of requests that ask for it (RFC 9110 §8.4).
///
/// Short data is coded as a whole, unless that does not make it shorter. Long data, data whose reads are reported, a file or a
/// stream becomes a stream of unknown length: a task codes each piece while libcurl sends the previous one.
package enum BodyCoding {
    /// The largest body that is coded as a whole, in bytes.
    private static let wholeLimit = PreparedBody.wholeBodyLimit
    private static let pieceSize = 128 << 10

    /// Returns the request with its body coded and `contentCoding` reset.
    ///
    /// - Parameter handler: Receives an event for every read of the body before its coding.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a value that does not encode, and for a coding without encoder,
    ///   ``NetworkError/Kind/requestBody`` for a file that cannot be read.
    package static func applied(
        to request: consuming HTTPRequest, _ handler: BodyHandler? = nil
    ) throws(NetworkError) -> HTTPRequest {
        guard let coding = request.contentCoding, coding != .identity else { return request }
        request.contentCoding = .identity
        guard let body = request.body,
            // A request that sets the field to `nil` is not compressed either.
            !request.headers.fields.contains(where: { $0.name.equalsIgnoringASCIICase("Content-Encoding") }),
            let content = try coded(body, coding, handler)
        else { return request }
        request.body = content
        request.headers.removeAll { $0.equalsIgnoringASCIICase("Content-Length") }
        request.headers["Content-Encoding"] = coding.name
        return request
    }

    /// Returns the coded body; `nil` when it stays as it is.
    private static func coded(
        _ body: HTTPBody, _ coding: ContentCoding, _ handler: BodyHandler?
    ) throws(NetworkError) -> HTTPBody? {
        // Also for a stream, so that nothing is sent when there is no encoder.
        let encoder = try encoder(for: coding)
        switch body.content {
        // Servers do not decode the codings of single parts.
        case .parameters, .multipart: return nil
        case .encoded:
            switch try PreparedBody(body) {
            case .bytes(let data): return try short(data, body, encoder)
            case .source(let source): return (source as? DataSource).map { long($0.data, body, coding, handler) }
            }
        case .data(let data):
            return data.count <= wholeLimit && handler == nil
                ? try short(data, body, encoder) : long(data, body, coding, handler)
        case .file(let path):
            let size = try UploadedFile.size(of: path)
            return stream(of: body, coding, handler, isReplayable: true, flushes: false) {
                FilePieces(path: path, size: size).next
            }
        case .stream(let stream):
            return self.stream(of: body, coding, handler, isReplayable: stream.isReplayable, flushes: true) {
                let next = stream.makeIterator()
                var count: Int64 = 0
                return {
                    let chunk = try await next()
                    count += Int64(chunk?.count ?? 0)
                    if let length = stream.length, chunk == nil ? count != length : count > length {
                        throw failure("its stream produced \(count) bytes, but \(length) were announced")
                    }
                    return chunk
                }
            }
        }
    }

    private static func encoder(for coding: ContentCoding) throws(NetworkError) -> any ContentCoding.Encoder {
        do {
            return try ContentCodings.encoder(for: coding)
        } catch {
            throw error as? NetworkError ?? failure("the encoder of \(coding.name) threw: \(error)")
        }
    }

    private static func short(
        _ data: Data, _ body: HTTPBody, _ encoder: any ContentCoding.Encoder
    ) throws(NetworkError) -> HTTPBody? {
        do {
            let coded = try encoder.encode(data, flushes: false) + encoder.finish()
            return coded.count < data.count ? HTTPBody.data(coded, contentType: body.contentType) : nil
        } catch {
            throw failure("the encoder threw: \(error)")
        }
    }

    private static func long(
        _ data: Data, _ body: HTTPBody, _ coding: ContentCoding, _ handler: BodyHandler?
    ) -> HTTPBody {
        stream(of: body, coding, handler, isReplayable: true, flushes: false) {
            var rest = data
            return {
                defer { rest = rest.dropFirst(pieceSize) }
                return rest.isEmpty ? nil : rest.prefix(pieceSize)
            }
        }
    }

    private static func stream(
        of body: HTTPBody, _ coding: ContentCoding, _ handler: BodyHandler?, isReplayable: Bool, flushes: Bool,
        _ pieces: @escaping @Sendable () -> BodyStream.NextChunk
    ) -> HTTPBody {
        let stream = BodyStream(length: nil, isReplayable: isReplayable, reportsProgress: true) {
            let made = Result { try ContentCodings.encoder(for: coding) }
            var hasEnded = false
            let next = pieces()
            handler?(.rewound, nil)
            return {
                let encoder = try made.get()
                while !hasEnded {
                    guard let piece = try await next() else {
                        hasEnded = true
                        handler?(.end, nil)
                        return try encoder.finish()
                    }
                    handler?(.read(piece.count), nil)
                    let coded = try encoder.encode(piece, flushes: flushes)
                    if !coded.isEmpty { return coded }
                }
                return nil
            }
        }
        return HTTPBody.stream(made: stream, contentType: body.contentType)
    }

    private static func failure(_ reason: String) -> NetworkError {
        NetworkError(.requestBody, message: "the body cannot be coded and sent: \(reason)")
    }

    /// Reads a file piece by piece, with the checks of one that is sent as it is.
    private final class FilePieces {
        private let reader: FileReader
        /// `nil` for a file that is read to its end.
        private let size: Int64?
        private let chunk = Chunk(capacity: pieceSize)
        private var offset: Int64 = 0

        init(path: String, size: Int64?) {
            reader = FileReader(path: path, size: size)
            self.size = size
        }

        func next() async throws -> Data? {
            guard offset < size ?? .max else { return nil }
            try reader.read(into: chunk, at: offset)
            guard !chunk.isEmpty else { return nil }
            offset += Int64(chunk.count)
            var piece = Data(count: chunk.count)
            _ = piece.withUnsafeMutableBytes { chunk.take(into: $0) }
            return piece
        }
    }
}

import Cryptography
import FoundationEssentials
internal import HTTPCore
import Platform

/// The parts of a form with what frames them (RFC 7578), as one body.
///
/// Not libcurl's MIME API: its boundary differs each time, and the bytes of a repeated request have to be the same.
final class MultipartSource: BodySource, @unchecked Sendable {
    // Sendable: `index` belongs to the engine's thread.
    let boundary: String
    /// Frames and parts in turn.
    private let pieces: [any BodySource]
    private var index = 0

    /// - Parameters:
    ///   - seed: makes the boundary; `nil` for a random one.
    ///   - handler: receives what is read of files, which it counts from 0. Fields have no number.
    init(_ files: [UploadFile], _ seed: Seed?, _ handler: BodyHandler?) throws(NetworkError) {
        boundary = Self.boundary(seed)
        var pieces: [any BodySource] = []
        var (frame, fileCount) = ("", 0)
        for file in files {
            frame += "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(Self.escaped(file.name))\""
            if let name = file.fileName { frame += "; filename=\"\(Self.escaped(name))\"" }
            if let type = file.contentType { frame += "\r\nContent-Type: \(type)" }
            let source = try Self.source(file)
            let metered = MeteredSource.of(source, file.fileName == nil ? nil : handler, file: fileCount)
            pieces += [DataSource(Data("\(frame)\r\n\r\n".utf8)), metered]
            if file.fileName != nil { fileCount += 1 }
            frame = "\r\n"
        }
        self.pieces = pieces + [DataSource(Data("\(frame)--\(boundary)--\r\n".utf8))]
    }

    private static func source(_ file: UploadFile) throws(NetworkError) -> any BodySource {
        guard !file.name.utf8.contains(0), file.fileName?.utf8.contains(0) != true else {
            throw .invalidRequest("the name of an upload holds a NUL character; remove it")
        }
        if let contentType = file.contentType, !contentType.utf8.isFieldValue {
            throw .invalidRequest("the media type of the upload \"\(file.name)\" holds control characters; remove them")
        }
        return switch file.source {
        case .data(let data): DataSource(data)
        case .stream(let stream): StreamSource(stream)
        case .path(let path): try FileSource(path: path, startsEarly: false)
        }
    }

    /// The name as browsers write it (WHATWG HTML, multipart/form-data encoding algorithm).
    private static func escaped(_ name: String) -> String {
        // Not by characters, which may be a quotation mark with an accent.
        name.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\"": text += "%22"
            case "\r": text += "%0D"
            case "\n": text += "%0A"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }

    /// What makes a boundary: the same for each attempt of a request, and unknown to who writes a part.
    enum Seed {
        /// A random text that is kept with the request.
        case kept(String)
        /// The idempotency key, which may be guessed. So a secret of the process is added.
        case key(String)
    }

    private static let secret = Hexadecimal.random(byteCount: 32)

    /// - Parameter seed: `nil` for a random boundary.
    static func boundary(_ seed: Seed?) -> String {
        let text =
            switch seed {
            case .kept(let text): text
            case .key(let key): "\(secret) \(key)"
            case nil: Hexadecimal.random(byteCount: 16)
            }
        let digest = try? MessageDigest.of(Data(text.utf8), .sha256)
        let digits = digest.map { MessageDigest.hexadecimal($0.prefix(16)) }
        return String(repeating: "-", count: 24) + (digits ?? Hexadecimal.random(byteCount: 16))
    }

    var length: Int64? {
        var length: Int64 = 0
        for piece in pieces {
            guard let count = piece.length, case (let sum, false) = length.addingReportingOverflow(count) else {
                return nil
            }
            length = sum
        }
        return length
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        var count = 0
        while index < pieces.count, count < buffer.count {
            switch pieces[index].read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...])) {
            case .bytes(let more): count += more
            case .end: index += 1
            case .pause: return count > 0 ? .bytes(count) : .pause
            case .failed(let error): return .failed(error)
            }
        }
        return count > 0 ? .bytes(count) : .end
    }

    func rewind() -> Bool {
        index = 0
        return pieces.allSatisfy { $0.rewind() }
    }

    func start(wake: @escaping @Sendable () -> Void) { for piece in pieces { piece.start(wake: wake) } }

    func stop() { for piece in pieces { piece.stop() } }
}

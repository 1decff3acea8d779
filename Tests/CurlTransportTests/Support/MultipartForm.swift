import FoundationEssentials
import LATTesting

/// A strict parser of multipart/form-data bodies (RFC 7578).
struct MultipartForm {
    struct Part {
        var name: String?
        var fileName: String?
        var contentType: String?
        var body = Data()
    }

    struct Malformed: Error, CustomStringConvertible {
        let description: String
    }

    private(set) var parts: [Part] = []
    let mediaType: String

    init(_ request: RecordedRequest) throws {
        let types = request.headers[values: "Content-Type"]
        guard types.count == 1, let start = types[0].firstRange(of: "boundary=") else {
            throw Malformed(description: "Content-Type: \(types)")
        }
        mediaType = String(types[0].prefix { $0 != ";" })
        let boundary = types[0][start.upperBound...].prefix { $0 != ";" }
        var rest = request.body[...]
        let delimiter = Data("--\(boundary)".utf8)
        guard rest.starts(with: delimiter) else { throw Malformed(description: "the boundary is not at the start") }
        rest = rest.dropFirst(delimiter.count)
        while rest.starts(with: "\r\n".utf8) {
            rest = rest.dropFirst(2)
            guard let end = rest.firstRange(of: Data("\r\n\r\n".utf8)),
                let next = rest.firstRange(of: Data("\r\n".utf8) + delimiter)
            else { throw Malformed(description: "a part without an end") }
            var part = try Self.part(String(decoding: rest[..<end.lowerBound], as: UTF8.self))
            part.body = Data(rest[end.upperBound..<max(end.upperBound, next.lowerBound)])
            parts.append(part)
            rest = rest[next.upperBound...]
        }
        guard rest.elementsEqual("--\r\n".utf8) else {
            throw Malformed(description: "\(rest.count) bytes after the end")
        }
    }

    private static func part(_ head: String) throws -> Part {
        var part = Part()
        for line in head.split(separator: "\r\n") {
            guard let colon = line.firstIndex(of: ":") else { throw Malformed(description: "a line without a colon") }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            switch line[..<colon].lowercased() {
            case "content-disposition":
                guard value.hasPrefix("form-data") else { throw Malformed(description: "no form-data: \(value)") }
                part.name = try parameter("name", value)
                part.fileName = try parameter("filename", value)
            case "content-type": part.contentType = String(value)
            default: throw Malformed(description: "an unknown field: \(line)")
            }
        }
        return part
    }

    /// Returns a quoted value without the HTML standard's escapes, which browsers send.
    private static func parameter(_ name: String, _ value: some StringProtocol) throws -> String? {
        guard let start = String(value).firstRange(of: "; \(name)=\"") else { return nil }
        let text = String(value)[start.upperBound...]
        guard let end = text.firstIndex(of: "\"") else { throw Malformed(description: "an open quote") }
        // Not by characters, as a digit may have an accent.
        var value = text[..<end].unicodeScalars
        for (written, meant) in [("%22", "\""), ("%0D", "\r"), ("%0A", "\n")] {
            value = value.replacing(written.unicodeScalars, with: meant.unicodeScalars)
        }
        return String(value)
    }
}

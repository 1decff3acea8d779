import HTTPCore

/// The request line and header of one request, as ``RequestParser`` reads them.
struct RequestHead: Equatable, Sendable {
    enum Framing: Equatable, Sendable {
        case none
        case length(Int64)
        case chunked
    }

    var method: String
    var target: String
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    var minorVersion: Int
    var headers: HTTPHeaders
    var framing: Framing
    /// Whether the connection may be reused (RFC 9112 §9.3).
    var keepsConnection: Bool
    /// Whether the client waits for `100 Continue` (RFC 9110 §10.1.1).
    var expectsContinue: Bool
}

extension RequestHead {
    /// Parses a complete head, with its empty last line.
    init(parsing head: [UInt8]) throws(RequestParser.Failure) {
        guard let lineEnd = head.firstIndex(of: 0x0A) else { throw .badRequest("no request line") }
        let line = head[..<lineEnd].droppingCarriageReturn()
        let words = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard words.count == 3, words[0].isToken, !words[1].isEmpty, !words[1].contains(where: { $0 < 0x21 }) else {
            throw .badRequest("the request line is not \"METHOD target HTTP/1.1\"")
        }
        let version = words[2]
        guard version.count == 8, version.starts(with: "HTTP/".utf8) else {
            throw .badRequest("the request line does not end in an HTTP version")
        }
        guard version.starts(with: "HTTP/1.".utf8), let last = version.last, (0x30...0x39).contains(last) else {
            throw RequestParser.Failure(status: 505, reason: "only HTTP/1.0 and HTTP/1.1 are served here")
        }
        method = String(decoding: words[0], as: UTF8.self)
        target = String(decoding: words[1], as: UTF8.self)
        minorVersion = last == 0x30 ? 0 : 1

        var facts = FieldFacts()
        let fields = head[(lineEnd + 1)...]
        try facts.read(fields)
        headers = HTTPHeaders(wireHead: Array(fields))
        if minorVersion == 1, facts.hostCount != 1 {
            throw .badRequest("HTTP/1.1 requires exactly one Host field, found \(facts.hostCount)")
        }
        framing = try facts.framing(minorVersion: minorVersion)
        keepsConnection = minorVersion == 1 ? !facts.saysClose : facts.saysKeepAlive && !facts.saysClose
        expectsContinue = minorVersion == 1 && facts.expectsContinue
    }
}

/// The facts about framing and connection, from one pass over the field lines.
private struct FieldFacts {
    var hostCount = 0
    var saysClose = false
    var saysKeepAlive = false
    var expectsContinue = false
    var contentLength: Int64?
    var transferCodings: String?

    mutating func read(_ fields: ArraySlice<UInt8>) throws(RequestParser.Failure) {
        var rest = fields
        while let lineEnd = rest.firstIndex(of: 0x0A) {
            let line = rest[..<lineEnd].droppingCarriageReturn()
            rest = rest[(lineEnd + 1)...]
            if line.isEmpty { continue }
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), line[..<colon].isToken else {
                throw .badRequest("a header line is not \"Name: value\"")
            }
            let value = line[(colon + 1)...]
            if value.contains(where: { $0 == 0 || $0 == 0x0D }) {
                throw .badRequest("a header value contains a NUL or a bare CR")
            }
            try read(name: line[..<colon], value: value)
        }
    }

    private mutating func read(name: ArraySlice<UInt8>, value: ArraySlice<UInt8>) throws(RequestParser.Failure) {
        // Comparing the lengths first saves most comparisons of names.
        switch name.count {
        case 4 where name.isLowercased("host"):
            hostCount += 1
        case 6 where name.isLowercased("expect"):
            expectsContinue = value.trimmedText.lowercased() == "100-continue"
        case 10 where name.isLowercased("connection"):
            let options = FieldList.names(value.trimmedText)
            saysClose = saysClose || options.contains("close")
            saysKeepAlive = saysKeepAlive || options.contains("keep-alive")
        case 14 where name.isLowercased("content-length"):
            let text = value.trimmedText
            guard let length = Int64(text), length >= 0, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
                contentLength == nil || contentLength == length
            else { throw .badRequest("Content-Length is not a number, or two of them differ") }
            contentLength = length
        case 17 where name.isLowercased("transfer-encoding"):
            let text = value.trimmedText.lowercased()
            transferCodings = transferCodings.map { $0 + "," + text } ?? text
        default:
            break
        }
    }

    /// The framing of the body (RFC 9112 §6.3).
    func framing(minorVersion: Int) throws(RequestParser.Failure) -> RequestHead.Framing {
        guard let transferCodings else {
            guard let contentLength, contentLength > 0 else { return .none }
            return .length(contentLength)
        }
        if minorVersion == 0 { throw .badRequest("Transfer-Encoding in a request of HTTP/1.0") }
        if contentLength != nil { throw .badRequest("both Transfer-Encoding and Content-Length") }
        if transferCodings != "chunked" {
            throw RequestParser.Failure(status: 501, reason: "the only supported transfer coding is chunked")
        }
        return .chunked
    }
}

extension ArraySlice<UInt8> {
    func droppingCarriageReturn() -> ArraySlice<UInt8> { last == 0x0D ? dropLast() : self }

    /// Whether these bytes, in lower case, equal a name given in lower case.
    func isLowercased(_ name: StaticString) -> Bool {
        guard count == name.utf8CodeUnitCount else { return false }
        return name.withUTF8Buffer { expected in
            withUnsafeBufferPointer { bytes in
                for index in 0..<bytes.count where bytes[index] | 0x20 != expected[index] | 0x20 { return false }
                return true
            }
        }
    }

    /// The text without white space at both ends.
    var trimmedText: String { String(decoding: self, as: UTF8.self).trimmingFieldWhitespace }
}

/// The parts of a request target (RFC 9112 §3.2) as slices of it.
struct RequestTarget {
    let path: Substring
    let query: Substring?

    init(_ target: String) {
        let parts = URLParts(target)
        // A target that begins with two slashes is a path, too.
        let rest = parts.isAbsolute ? parts.pathAndQuery : target[...]
        let utf8 = rest.utf8
        path = Substring(utf8.prefix { $0 != UInt8(ascii: "?") })
        query = path.endIndex < rest.endIndex ? rest[utf8.index(after: path.endIndex)...] : nil
    }

    static func items(of text: String) -> [RecordedRequest.Item] {
        text.split(separator: "&").map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                .map { $0.percentDecoded(plusIsSpace: true) }
            return RecordedRequest.Item(pair[0], pair.count > 1 ? pair[1] : nil)
        }
    }
}

/// A method and a path with placeholders: `GET`, `/users/{id}/files/*`.
struct RoutePattern: Sendable {
    private enum Segment: Sendable, Equatable {
        case literal(String)
        case parameter(String)
        /// The rest of the path, at least one segment.
        case rest
    }

    private let method: String?
    private let segments: [Segment]
    /// The path when it has no placeholders and can be compared as a whole.
    private let literalPath: String?

    /// - Parameters:
    ///   - method: `*` matches any. Compared byte for byte.
    ///   - path: Its segments are literal (compared decoded), `{name}`, or, at the end, `*`.
    init(method: String, path: String) {
        self.method = method == "*" ? nil : method
        let parts = RoutePattern.parts(of: path[...])
        segments = parts.enumerated().map { index, part in
            if part == "*", index == parts.count - 1 { return .rest }
            if part.hasPrefix("{"), part.hasSuffix("}"), part.count > 2 {
                return .parameter(String(part.dropFirst().dropLast()))
            }
            return .literal(part.percentDecoded())
        }
        let isLiteral = segments.allSatisfy { if case .literal = $0 { true } else { false } }
        literalPath = isLiteral ? path : nil
    }

    /// The decoded values of the placeholders, or `nil` when the request does not match.
    func match(method: String, path: Substring) -> [String: String]? {
        if let own = self.method, own != method { return nil }
        if let literalPath, literalPath == path { return [:] }
        let parts = RoutePattern.parts(of: path)
        var parameters: [String: String] = [:]
        for (index, segment) in segments.enumerated() {
            guard index < parts.count else { return nil }
            switch segment {
            case .literal(let text):
                guard parts[index].percentDecoded() == text else { return nil }
            case .parameter(let name):
                // As for a server, a path without the value is another path.
                guard !parts[index].isEmpty else { return nil }
                parameters[name] = parts[index].percentDecoded()
            case .rest:
                parameters["*"] = parts[index...].map { $0.percentDecoded() }.joined(separator: "/")
                return parameters
            }
        }
        return parts.count == segments.count ? parameters : nil
    }

    private static func parts(of path: Substring) -> [Substring] {
        let relative = path.utf8.first == UInt8(ascii: "/") ? path.dropFirst() : path
        return relative.split(separator: "/", omittingEmptySubsequences: false)
    }
}

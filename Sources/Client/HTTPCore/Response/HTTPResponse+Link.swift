extension HTTPResponse {
    /// A link to another resource, from the field `Link` of a response (RFC 8288).
    ///
    /// ```swift
    /// let next = response.links["next"]?.url         // the next page, absolute
    /// ```
    public struct Link: Sendable, Hashable {
        /// The URL that the link points to. In ``HTTPResponse`` it is absolute.
        public var url: String
        /// The types of the relation, such as `next`, in lower case; empty when the server gave none.
        public var relations: [String]
        /// The URL that the link is about; `nil` for the response itself.
        public var anchor: String?
        /// The other parameters, such as `title`, with their names in lower case.
        public var parameters: [String: String]

        /// Makes a link.
        public init(
            url: String, relations: [String], anchor: String? = nil, parameters: [String: String] = [:]
        ) {
            self.url = url
            self.relations = relations
            self.anchor = anchor
            self.parameters = parameters
        }
    }
}

extension HTTPResponse.Link {
    /// Reads the links of a field value as RFC 8288, appendix B.2, does: what follows a malformed link is left out. Empty
    /// elements of the list are skipped (RFC 9110 §5.6.1.2).
    package static func all(in value: String) -> [HTTPResponse.Link] { read(value).links }

    /// The links of a field value, and the text of what is malformed.
    package static func read(_ value: String) -> (links: [HTTPResponse.Link], unread: String) {
        var value = value
        return value.withUTF8 { bytes in
            var reader = Reader(rest: bytes[...])
            var links: [HTTPResponse.Link] = []
            while let link = reader.link() { links.append(link) }
            return (links, reader.unread + String(decoding: reader.rest, as: UTF8.self))
        }
    }

    private struct Reader {
        var rest: Slice<UnsafeBufferPointer<UInt8>>
        /// What was left out.
        var unread = ""

        mutating func link() -> HTTPResponse.Link? {
            repeat { skipSpace() } while take(",")
            let start = rest
            guard take("<"), let end = rest.firstIndex(of: UInt8(ascii: ">")) else {
                rest = start
                return nil
            }
            var link = HTTPResponse.Link(url: String(decoding: rest[..<end], as: UTF8.self), relations: [])
            rest = rest[(end + 1)...]
            var hasRelation = false
            while let (name, value) = parameter() {
                switch name {
                case "": break
                // Of several, only the first counts (RFC 8288 §3.3).
                case "rel":
                    guard !hasRelation else { continue }
                    hasRelation = true
                    let isOne = !value.isEmpty && !value.utf8.contains(where: Self.isSpace)
                    link.relations =
                        isOne
                        ? [value.lowercased()]
                        : value.utf8.split(whereSeparator: Self.isSpace).map { Substring($0).lowercased() }
                case "anchor": link.anchor = link.anchor ?? value
                default: if link.parameters[name] == nil { link.parameters[name] = value }
                }
            }
            let comma = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.endIndex
            if comma > rest.startIndex { unread += String(decoding: rest[..<comma], as: UTF8.self) }
            rest = rest[comma...]
            return link
        }

        private mutating func parameter() -> (name: String, value: String)? {
            skipSpace()
            guard take(";") else { return nil }
            skipSpace()
            let name = token { $0 == UInt8(ascii: "=") }.lowercased()
            guard take("=") else { return (name, "") }
            skipSpace()
            if take("\"") { return (name, quoted()) }
            // Not of RFC 8288, but some servers write `rel='next'`.
            let isQuoted = name == "rel" && take("'")
            return (name, isQuoted ? quoted(by: UInt8(ascii: "'")) : token { _ in false })
        }

        private mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        private mutating func skipSpace() { rest = rest.drop(while: Self.isSpace) }

        private static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

        /// The text up to a space, a semicolon, a comma, or a byte that ends it.
        private mutating func token(_ ends: (UInt8) -> Bool) -> String {
            let text = rest.prefix {
                !Self.isSpace($0) && $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") && !ends($0)
            }
            rest = rest[text.endIndex...]
            skipSpace()
            return String(decoding: text, as: UTF8.self)
        }

        /// The text up to the closing quote, which is discarded.
        private mutating func quoted(by end: UInt8 = UInt8(ascii: "\"")) -> String {
            let plain = rest.prefix { $0 != end && $0 != UInt8(ascii: "\\") }
            if plain.endIndex < rest.endIndex, rest[plain.endIndex] == end {
                rest = rest[(plain.endIndex + 1)...]
                return String(decoding: plain, as: UTF8.self)
            }
            var bytes: [UInt8] = []
            while let byte = rest.popFirst(), byte != end {
                guard byte == UInt8(ascii: "\\") else {
                    bytes.append(byte)
                    continue
                }
                if let escaped = rest.popFirst() { bytes.append(escaped) }
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

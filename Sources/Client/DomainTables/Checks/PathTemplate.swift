import JSONText

/// The path of a server, with parameters in braces: `v1/users/{id}/posts`.
package struct PathTemplate: Hashable, Sendable {
    package enum Piece: Hashable, Sendable {
        case literal(String)
        case parameter(String)
    }

    /// A problem with a path, and the part of the path that it is about.
    package struct Problem: Error {
        package var reason: String
        /// The range in the UTF-8 of the path.
        package var range: Range<Int>
    }

    package let pieces: [Piece]

    /// Parses a path.
    ///
    /// - Throws: ``Problem`` for unbalanced braces and invalid names, and for a path with a dot segment, a fragment or
    ///   control characters.
    package init(_ text: String) throws(Problem) {
        let bytes = Array(text.utf8)
        var pieces: [Piece] = []
        var literal: [UInt8] = []
        var index = 0
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "{"):
                let end = bytes[index...].firstIndex(of: UInt8(ascii: "}")) ?? bytes.count
                let inside = bytes[(index + 1)..<end]
                guard end < bytes.count, !inside.contains(UInt8(ascii: "{")) else {
                    throw Problem(reason: "{ is not closed; write {name}", range: index..<(index + 1))
                }
                guard Self.isName(inside) else {
                    let name = QuotedText.of(String(decoding: inside, as: UTF8.self)).dropFirst().dropLast()
                    let reason =
                        inside.isEmpty
                        ? "{} has no name; write {name}" : "{\(name)} is not a name; use letters, digits, _, - and ."
                    throw Problem(reason: reason, range: index..<(end + 1))
                }
                if !literal.isEmpty { pieces.append(.literal(String(decoding: literal, as: UTF8.self))) }
                literal = []
                pieces.append(.parameter(String(decoding: inside, as: UTF8.self)))
                index = end + 1
            case UInt8(ascii: "}"):
                throw Problem(reason: "} has no { before it", range: index..<(index + 1))
            case UInt8(ascii: "#"):
                throw Problem(reason: "it has a fragment (#), which is never sent", range: index..<(index + 1))
            case 0..<0x20, 0x7F:
                throw Problem(reason: "it contains a control character", range: index..<(index + 1))
            default:
                literal.append(bytes[index])
                index += 1
            }
        }
        if !literal.isEmpty { pieces.append(.literal(String(decoding: literal, as: UTF8.self))) }
        if let range = Self.dotSegment(bytes) {
            throw Problem(reason: "it has the segment \"..\" or \".\", which leaves the base URL", range: range)
        }
        self.pieces = pieces
    }

    /// Makes a template without parameters, whatever the text contains.
    package init(literal: String) { pieces = [.literal(literal)] }

    /// The names in braces, in order, without duplicates.
    package var parameters: [String] {
        var seen: Set<String> = []
        return pieces.compactMap { piece in
            guard case .parameter(let name) = piece, seen.insert(name).inserted else { return nil }
            return name
        }
    }

    /// The range of the first segment that is `.` or `..`, also with escaped dots (RFC 3986 §5.2.4).
    package static func dotSegment(_ url: [UInt8]) -> Range<Int>? {
        var start = 0
        while start <= url.count {
            var end = start
            var dots = 0
            var isDots = true
            while end < url.count, !"/\\?#".utf8.contains(url[end]) {
                if url[end] == UInt8(ascii: ".") {
                    dots += 1
                    end += 1
                } else if end + 2 < url.count, url[end] == UInt8(ascii: "%"), url[end + 1] == UInt8(ascii: "2"),
                    url[end + 2] | 0x20 == UInt8(ascii: "e")
                {
                    dots += 1
                    end += 3
                } else {
                    isDots = false
                    end += 1
                }
            }
            if isDots, dots == 1 || dots == 2 { return start..<end }
            guard end < url.count, url[end] == UInt8(ascii: "/") || url[end] == UInt8(ascii: "\\") else { return nil }
            start = end + 1
        }
        return nil
    }

    private static func isName(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let first = bytes.first, first.isNameLetter else { return false }
        return bytes.allSatisfy { $0.isNameLetter || $0.isDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }
    }
}

extension UInt8 {
    fileprivate var isNameLetter: Bool {
        isLetter || self == UInt8(ascii: "_") || self >= 0x80
    }
}

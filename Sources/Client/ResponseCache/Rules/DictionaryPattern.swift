/// The URL pattern of `Use-As-Dictionary` (RFC 9842 §2.1.1), as far as it is understood: texts, `*` and `:name` in the path and
/// the query, at the origin of the response.
///
/// Other patterns of the URL Pattern Standard make no value, so that none is guessed: regular expressions and groups, modifiers,
/// escapes, fragments, dot segments, and other origins.
package struct DictionaryPattern: Hashable, Sendable {
    private enum Part: Hashable {
        case text([UInt8])
        /// `*`: any bytes, or none.
        case anything
        /// `:name`: at least one byte, in a path up to the next slash.
        case name
    }

    private let path: [Part]
    /// `nil` for every query.
    private let query: [Part]?

    /// - Parameter url: that of the response, against which a relative pattern is resolved.
    package init?(_ text: String, at url: CanonicalURL) {
        guard text.utf8.count <= 1_024 else { return nil }
        var rest = text[...]
        if rest.hasPrefix(url.origin + "/") { rest = rest.dropFirst(url.origin.count) }
        let mark = rest.firstIndex(of: "?")
        let pathText = rest[..<(mark ?? rest.endIndex)]
        guard !pathText.isEmpty, !pathText.hasPrefix("//"), var path = Self.parts(pathText) else { return nil }
        // After a wildcard the question mark is a modifier and begins no query.
        if mark != nil, case .text? = path.last {} else if mark != nil { return nil }
        if !pathText.hasPrefix("/") {
            let folder = Array(url.path[...(url.path.lastIndex(of: "/") ?? url.path.startIndex)].utf8)
            if case .text(let text)? = path.first {
                path[0] = .text(folder + text)
            } else {
                path.insert(.text(folder), at: 0)
            }
        }
        guard !path.contains(where: Self.hasDotSegment) else { return nil }
        self.path = path
        guard let mark else {
            query = nil
            return
        }
        guard let query = Self.parts(rest[rest.index(after: mark)...]) else { return nil }
        self.query = query
    }

    /// - Returns: `nil` for a text that is not understood.
    private static func parts(_ text: Substring) -> [Part]? {
        var parts: [Part] = []
        var names: Set<[UInt8]> = []
        var rest = text.utf8[...]
        while let byte = rest.first {
            rest.removeFirst()
            switch byte {
            case UInt8(ascii: "*"):
                // After a wildcard or a name it is a modifier.
                switch parts.last {
                case .anything?, .name?: return nil
                case .text?, nil: parts.append(.anything)
                }
            case UInt8(ascii: ":"):
                let name = Array(
                    rest.prefix { isLetterOrDigit($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "$") })
                guard let first = name.first, !(0x30...0x39).contains(first), names.insert(name).inserted else {
                    return nil
                }
                rest = rest.dropFirst(name.count)
                parts.append(.name)
            case _ where isLetterOrDigit(byte) || "-._~%!$&',;=@/".utf8.contains(byte):
                if case .text(let text)? = parts.last {
                    parts[parts.count - 1] = .text(text + [byte])
                } else {
                    parts.append(.text([byte]))
                }
            default: return nil
            }
        }
        return parts
    }

    /// Whether a text has a dot segment, which the standard removes even before a wildcard: `/.*` means `/*`.
    private static func hasDotSegment(_ part: Part) -> Bool {
        guard case .text(let text) = part else { return false }
        return String(decoding: text, as: UTF8.self).lowercased().replacing("%2e", with: ".")
            .split(separator: "/", omittingEmptySubsequences: false).dropFirst().contains { $0 == "." || $0 == ".." }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20)
    }

    /// Whether a URL matches, whose origin is that of the response.
    package func matches(_ url: CanonicalURL) -> Bool {
        Self.matches(path, Array(url.path.utf8), namesEnd: UInt8(ascii: "/"))
            && (query.map { Self.matches($0, Array((url.query ?? "").utf8), namesEnd: nil) } ?? true)
    }

    /// Goes through the parts with the set of the places that they can reach, so no pattern takes more than the product of both
    /// lengths.
    private static func matches(_ parts: [Part], _ text: [UInt8], namesEnd end: UInt8?) -> Bool {
        var reached = [Bool](repeating: false, count: text.count + 1)
        reached[0] = true
        for part in parts {
            var next = [Bool](repeating: false, count: text.count + 1)
            var isOpen = false
            var isReached = false
            for place in 0...text.count {
                switch part {
                case .text(let wanted):
                    guard reached[place], text[place...].starts(with: wanted) else { continue }
                    next[place + wanted.count] = true
                    isReached = true
                case .anything:
                    isOpen = isOpen || reached[place]
                    next[place] = isOpen
                    isReached = isReached || isOpen
                case .name:
                    isOpen = isOpen && place > 0 && text[place - 1] != end
                    next[place] = isOpen
                    isReached = isReached || isOpen
                    isOpen = isOpen || reached[place]
                }
            }
            guard isReached else { return false }
            reached = next
        }
        return reached[text.count]
    }
}

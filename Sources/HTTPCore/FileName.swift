internal import FoundationEssentials

/// The name of a file from what a server or a URL says, made harmless: a pure function.
package enum FileName {
    /// A name may have 255 bytes; the rest is for what is put behind it while the download goes on.
    package static let longest = 200
    /// When nothing else is left.
    package static let fallback = "download"

    /// The name that `Content-Disposition` gives, whatever the disposition (RFC 6266); `filename*` wins over `filename`
    /// (§4.3). `nil` when it gives none.
    package static func disposition(_ field: String?) -> String? {
        guard let field else { return nil }
        let parameters = Self.parameters(of: field)
        if let extended = parameters.first(where: { $0.name == "filename*" }).flatMap({ decodedExtended($0.value) }) {
            if let name = sanitized(extended) { return name }
        }
        return parameters.first { $0.name == "filename" }.flatMap { sanitized($0.value) }
    }

    /// The last segment of a URL's path, percent-decoded; ``fallback`` when it has none.
    package static func url(_ url: String) -> String {
        let bytes = Array(url.utf8)
        let end = bytes.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? bytes.count
        var path = String(decoding: bytes[..<end], as: UTF8.self)
        if let slashes = path.firstRange(of: "://") {
            let rest = path[slashes.upperBound...]
            path = rest.firstIndex(of: "/").map { String(rest[$0...]) } ?? ""
        }
        let segment = path.split(separator: "/", omittingEmptySubsequences: false).last.map(String.init) ?? ""
        return sanitized(segment[...].percentDecoded()) ?? fallback
    }

    /// One name of a file, and nothing that a shell, a terminal or a directory could take for more: what comes after the
    /// last slash or backslash, without control characters and signs that turn the writing direction, without dots and
    /// blanks at its beginning, and short enough. `nil` when nothing is left.
    package static func sanitized(_ text: String) -> String? {
        // By scalars: a slash and a combining mark after it would be one character, and still lead elsewhere; a dot and a
        // mark would still be a hidden file.
        let last = text.unicodeScalars.split(omittingEmptySubsequences: false) { $0 == "/" || $0 == "\\" }.last
        var scalars = String.UnicodeScalarView()
        for scalar in last ?? Substring.UnicodeScalarView() where !isForbidden(scalar) { scalars.append(scalar) }
        var name = Substring.UnicodeScalarView(scalars).drop(while: isTrimmed)
        while let end = name.last, isTrimmed(end) { name.removeLast() }
        guard !name.isEmpty else { return nil }
        return shortened(String(name))
    }

    /// Cuts before the extension, and inside a character only when that alone is too long.
    private static func shortened(_ name: String) -> String {
        guard name.utf8.count > longest else { return name }
        let suffix = name.lastIndex(of: ".").map { name[$0...] } ?? ""
        let ending = suffix.utf8.count <= 16 ? String(suffix) : ""
        var stem = name.dropLast(ending.count)
        let room = longest - ending.utf8.count
        while stem.utf8.count > room, !stem.dropFirst().isEmpty { stem.removeLast() }
        while stem.utf8.count > room { stem.unicodeScalars.removeLast() }
        while let end = stem.unicodeScalars.last, isTrimmed(end) { stem.unicodeScalars.removeLast() }
        return stem + ending
    }

    private static func isTrimmed(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "." || scalar.properties.isWhitespace
    }

    /// Control characters (C0, DEL, C1), line separators, NUL's kin, and the signs of UAX #9 that could make `exe.gpj` of
    /// a name.
    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF, 0xFFFD: true
        default: false
        }
    }

    // MARK: Content-Disposition

    /// The parameters after the disposition, names in lower case, quoted values without their quotes (RFC 9110 §5.6.6).
    package static func parameters(of field: String) -> [(name: String, value: String)] {
        var parameters: [(name: String, value: String)] = []
        var scanner = Array(field.unicodeScalars)[...]
        _ = take(&scanner) { $0 != ";" }
        while scanner.popFirst() != nil {
            let name = take(&scanner) { $0 != "=" && $0 != ";" }.trimmingFieldWhitespace.lowercased()
            guard scanner.first == "=" else { continue }
            scanner.removeFirst()
            _ = take(&scanner) { $0 == " " || $0 == "\t" }
            let value: String
            if scanner.first == "\"" {
                scanner.removeFirst()
                value = quoted(&scanner)
                _ = take(&scanner) { $0 != ";" }
            } else {
                value = take(&scanner) { $0 != ";" }.trimmingFieldWhitespace
            }
            // The first of a name counts; a second one is somebody's trick.
            if !parameters.contains(where: { $0.name == name }) { parameters.append((name, value)) }
        }
        return parameters
    }

    private static func quoted(_ scanner: inout ArraySlice<Unicode.Scalar>) -> String {
        var text = String.UnicodeScalarView()
        while let scalar = scanner.popFirst(), scalar != "\"" {
            // Browsers write C:\dir\name with single backslashes, so only quotes and backslashes are unescaped.
            if scalar == "\\", let next = scanner.first, next == "\"" || next == "\\" {
                text.append(next)
                scanner.removeFirst()
            } else {
                text.append(scalar)
            }
        }
        return String(text)
    }

    private static func take(
        _ scanner: inout ArraySlice<Unicode.Scalar>, while isTaken: (Unicode.Scalar) -> Bool
    ) -> String {
        var text = String.UnicodeScalarView()
        while let scalar = scanner.first, isTaken(scalar) {
            text.append(scalar)
            scanner.removeFirst()
        }
        return String(text)
    }

    /// `UTF-8'de'na%C3%AFve.txt` (RFC 8187 §3.2); `nil` for other charsets than UTF-8 and ISO-8859-1, and bad escapes.
    private static func decodedExtended(_ value: String) -> String? {
        let parts = value.split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = parts[2].percentDecodedBytes else { return nil }
        switch parts[0].lowercased() {
        case "utf-8": return String(validating: bytes, as: UTF8.self)
        case "iso-8859-1": return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        default: return nil
        }
    }
}

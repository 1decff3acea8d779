internal import FoundationEssentials

/// Pure functions that derive a safe file name from a header field or a URL.
package enum FileName {
    /// The largest length in bytes. File systems allow 255; the difference is left for the suffixes of a running download.
    package static let longest = 200
    /// The name when no other can be derived.
    package static let fallback = "download"

    /// The file name in `Content-Disposition`, for any disposition type (RFC 6266); `filename*` takes precedence over
    /// `filename` (§4.3). `nil` when there is none.
    package static func disposition(_ field: String?) -> String? {
        guard let field else { return nil }
        let parameters = Self.parameters(of: field)
        let extended = parameters.first { $0.name == "filename*" }.flatMap { decodedExtended($0.value) }
        return extended.flatMap(sanitized)
            ?? parameters.first { $0.name == "filename" }.flatMap { sanitized($0.value) }
    }

    /// The last segment of a URL's path, percent-decoded; ``fallback`` when it has none.
    package static func url(_ url: String) -> String {
        let segment = URLParts(url).path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        return sanitized(segment.percentDecoded()) ?? fallback
    }

    /// Returns a file name that is safe to print and to create: the text after the last slash or backslash, without
    /// control characters, bidirectional marks, and dots and white space at both ends, cut to ``longest`` bytes. `nil`
    /// when nothing is left.
    package static func sanitized(_ text: String) -> String? {
        // Works on scalars: a slash followed by a combining mark is one `Character` but still separates directories, and a
        // dot followed by one still hides the file.
        let last = text.unicodeScalars.split(omittingEmptySubsequences: false) { $0 == "/" || $0 == "\\" }.last
        var scalars = String.UnicodeScalarView()
        for scalar in last ?? Substring.UnicodeScalarView() where !isForbidden(scalar) { scalars.append(scalar) }
        var name = Substring.UnicodeScalarView(scalars).drop(while: isTrimmed)
        while let end = name.last, isTrimmed(end) { name.removeLast() }
        guard !name.isEmpty else { return nil }
        return shortened(String(name))
    }

    /// Shortens the name before its extension. Splits a character only when that character alone is too long.
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

    /// Whether a scalar is a control character (C0, DEL, C1), a line separator, a byte order mark, U+FFFD, or a
    /// bidirectional mark of UAX #9, which could show `gpj.exe` as `exe.jpg`.
    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF, 0xFFFD: true
        default: false
        }
    }

    // MARK: Content-Disposition

    /// The parameters of a field value such as that of `Content-Disposition` or `Content-Type`, with names in lower
    /// case and values unquoted (RFC 9110 §5.6.6).
    package static func parameters(of field: String) -> [(name: String, value: String)] {
        var parameters: [(name: String, value: String)] = []
        var names: Set<String> = []
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
            // The first parameter of a name counts; a second one may be an attack.
            if names.insert(name).inserted { parameters.append((name, value)) }
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
        let taken = scanner.prefix(while: isTaken)
        scanner = scanner[taken.endIndex...]
        return String(String.UnicodeScalarView(taken))
    }

    /// Decodes `UTF-8'de'na%C3%AFve.txt` (RFC 8187 §3.2); `nil` for bad escapes and charsets other than UTF-8 and
    /// ISO-8859-1.
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

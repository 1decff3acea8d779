import FoundationEssentials
import HTTPCore
import ResponseCache

@testable import CurlTransport

/// The first line is `Use-As-Dictionary`, the second a path, and the rest the body of a response in `dcz` after its head: a
/// pattern matches as one that tries all ways, and a body gives the same bytes in all pieces.
@Sendable func fuzzDictionaries(_ bytes: [UInt8]) throws {
    let lines = bytes.split(separator: 0x0A, maxSplits: 2, omittingEmptySubsequences: false)
    let url = CanonicalURL("https://a.example/b/c?d")
    if let first = lines.first, let url {
        let headers = HTTPHeaders([("Use-As-Dictionary", text(first))])
        let target = CanonicalURL("https://a.example/" + text(lines.count > 1 ? lines[1] : []))
        if let use = DictionaryRule.Use(headers, at: url), let target,
            use.match.utf8.count + target.text.utf8.count < 80
        {
            let expected = matches(use.match, target)
            try expect(
                use.pattern.matches(target) == expected, "\(use.match) matches \(target.text) if not \(expected)")
        }
    }
    guard lines.count == 3, ZstdLibrary.shared != nil else { return }
    try fuzzBody([UInt8](lines[2]))
}

/// Whether a pattern that is understood matches, by trying all ways.
private func matches(_ pattern: String, _ url: CanonicalURL) -> Bool {
    let whole =
        pattern.hasPrefix("/") ? pattern : pattern.hasPrefix("https:") ? String(pattern.dropFirst(17)) : "/b/" + pattern
    let parts = whole.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    func matches(_ pattern: Substring.UTF8View, _ text: Substring.UTF8View, _ end: UInt8?) -> Bool {
        guard let first = pattern.first else { return text.isEmpty }
        switch first {
        case UInt8(ascii: "*"):
            return matches(pattern.dropFirst(), text, end) || !text.isEmpty && matches(pattern, text.dropFirst(), end)
        case UInt8(ascii: ":"):
            let rest = pattern.dropFirst().drop { isPartOfName($0) }
            var length = 0
            for byte in text {
                guard byte != end else { return false }
                length += 1
                if matches(rest, text.dropFirst(length), end) { return true }
            }
            return false
        default: return text.first == first && matches(pattern.dropFirst(), text.dropFirst(), end)
        }
    }
    let query = parts.count == 1 || matches(parts[1].utf8, Substring(url.query ?? "").utf8, nil)
    return query && matches(parts[0].utf8, url.path.utf8, UInt8(ascii: "/"))
}

private func isPartOfName(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20) || byte == UInt8(ascii: "_")
        || byte == UInt8(ascii: "$")
}

/// What a body decodes to, and how it ends.
private struct Decoded: Equatable, CustomStringConvertible {
    var bytes: [UInt8] = []
    var isComplete = false
    var isValid = true

    var description: String { "\(bytes.count) bytes, \(isValid ? isComplete ? "whole" : "cut" : "invalid")" }
}

private func fuzzBody(_ body: [UInt8]) throws {
    let digest = [UInt8](repeating: 7, count: 32)
    let content = Data("The quick brown fox jumps over the lazy dog. ".utf8)
    let head: [UInt8] = [0x5E, 0x2A, 0x4D, 0x18, 0x20, 0, 0, 0] + digest
    func decoded(inPiecesOf size: Int) throws -> Decoded? {
        let dictionary = CompressionDictionary(content, digest: digest, of: "https://a.example/")
        guard let decoder = BodyDecoder(["dcz"], [], dictionary) else { return nil }
        let (place, limit) = (UnsafeMutableRawBufferPointer.allocate(byteCount: 4_096, alignment: 16), 1 << 20)
        defer { place.deallocate() }
        var (result, rest) = (Decoded(), (head + body)[...])
        while !rest.isEmpty {
            let piece = Array(rest.prefix(size))
            rest = rest.dropFirst(piece.count)
            var isBomb = false
            piece.withUnsafeBytes { whole in
                var input = whole
                do throws(CodingFault) {
                    while true {
                        let count = try decoder.decode(&input, into: place)
                        result.bytes += place[..<count]
                        isBomb = result.bytes.count >= limit
                        guard count == place.count, !isBomb else { return }
                    }
                } catch {
                    result.isValid = false
                }
            }
            guard !isBomb else { return nil }
            guard result.isValid else { break }
        }
        result.isComplete = result.isValid && decoder.isComplete
        return result
    }
    guard let whole = try decoded(inPiecesOf: .max) else { return }
    for size in [1, 3, 64] {
        guard let pieces = try decoded(inPiecesOf: size) else { continue }
        // libzstd allows a small frame that is there at once a window that it refuses otherwise.
        guard whole.isComplete, pieces.isComplete else { continue }
        try expect(pieces == whole, "at once \(whole), in pieces of \(size) \(pieces)")
    }
}

package import HTTPCore

/// The byte ranges that an incomplete stored response holds (RFC 9111 §3.3).
///
/// The entry's body is these ranges one after another. Its `Content-Range` lists them: `bytes 0-99,200-299/1000`.
package struct StoredParts: Hashable, Sendable {
    package let ranges: ByteRanges
    /// The length of the complete content, in bytes.
    package let completeLength: Int64

    private static let rangeLimit = 16

    private init(_ ranges: ByteRanges, of completeLength: Int64) {
        self.ranges = ranges
        self.completeLength = completeLength
    }

    /// The parts that an entry holds; `nil` when it is complete, or when its body contradicts its fields.
    package init?(_ entry: CacheEntry) {
        guard entry.status == 206, let text = entry.headers["Content-Range"], let parts = Self.parsed(text),
            parts.ranges.count == entry.bodyByteCount
        else { return nil }
        self = parts
    }

    /// The range of a 206 with one range, no content coding and a known complete length; `nil` for any other response, and
    /// when the length of the body contradicts the fields.
    package init?(received response: HTTPResponse) {
        let lines = response.headers[values: "Content-Range"]
        let type = response.headers["Content-Type"]?.trimmingFieldWhitespace.lowercased() ?? ""
        guard response.status == 206, lines.count == 1, case .part(let range, let total?) = ContentRange(lines[0]),
            !response.headers.contains("Content-Encoding"), !type.hasPrefix("multipart/byteranges")
        else { return nil }
        let announced = StorageRule.announcedLength(of: response, method: .get)
        let arrived = response.body.data.map { Int64($0.count) }
        // A stream has not arrived yet: only its announced length can be checked.
        let count = Int64(range.count)
        guard arrived ?? announced == count, announced ?? count == count else { return nil }
        self.init(ByteRanges([range]), of: total)
    }

    package var isComplete: Bool { ranges.contains(0..<completeLength) }

    /// Where a part of the content lies in the entry's body; `nil` unless all of it is stored.
    package func place(of part: Range<Int64>) -> Range<Int64>? {
        guard !part.isEmpty, let range = range(around: part.lowerBound), part.upperBound <= range.upperBound else {
            return nil
        }
        let start = byteCount(before: part.lowerBound)
        return start..<start + Int64(part.count)
    }

    func range(around position: Int64) -> Range<Int64>? { ranges.ranges.first { $0.contains(position) } }

    /// How many stored bytes come before a position of the complete content.
    package func byteCount(before position: Int64) -> Int64 {
        ranges.ranges.reduce(0) { $0 + max(0, min($1.upperBound, position) - $1.lowerBound) }
    }

    /// These parts and another one; `nil` when that makes too many ranges.
    package func adding(_ part: Range<Int64>) -> StoredParts? {
        let joined = ranges.union([part])
        return joined.ranges.count <= Self.rangeLimit ? StoredParts(joined, of: completeLength) : nil
    }

    // MARK: Content-Range

    package var contentRange: String {
        let texts = ranges.ranges.map { "\($0.lowerBound)-\($0.upperBound - 1)" }
        return "bytes \(texts.joined(separator: ","))/\(completeLength)"
    }

    private static func parsed(_ text: String) -> StoredParts? {
        guard let start = text.firstIndex(of: " "), let end = text.firstIndex(of: "/"), start < end else { return nil }
        var ranges = ByteRanges()
        var completeLength: Int64?
        // Each element of the list is parsed as a Content-Range of its own.
        for part in text[text.index(after: start)..<end].split(separator: ",", omittingEmptySubsequences: false) {
            guard case .part(let range, let total?) = ContentRange("\(text[...start])\(part)\(text[end...])"),
                range.lowerBound > ranges.upperBound || ranges.ranges.isEmpty
            else { return nil }
            ranges.insert(range)
            completeLength = total
        }
        return completeLength.map { StoredParts(ranges, of: $0) }
    }
}

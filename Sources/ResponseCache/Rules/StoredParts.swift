package import HTTPCore

/// The bytes that an incomplete stored response has of the whole (RFC 9111 §3.3).
///
/// In the entry's body the ranges follow one another; its `Content-Range` lists them: `bytes 0-99,200-299/1000`.
package struct StoredParts: Hashable, Sendable {
    /// What is there.
    package let ranges: ByteRanges
    /// The bytes of the whole.
    package let completeLength: Int64

    /// More ranges than these are not kept.
    private static let rangeLimit = 16

    private init(_ ranges: ByteRanges, of completeLength: Int64) {
        self.ranges = ranges
        self.completeLength = completeLength
    }

    /// What an entry has; `nil` for one that is whole, or whose body is not what its fields say.
    package init?(_ entry: CacheEntry) {
        guard entry.status == 206, let text = entry.headers["Content-Range"], let parts = Self.parsed(text),
            parts.ranges.count == entry.bodyByteCount
        else { return nil }
        self = parts
    }

    /// What a response brings: one range of a whole whose length is known, all of its bytes, as they are. `nil` for
    /// several ranges, codings, and what contradicts itself.
    package init?(received response: HTTPResponse) {
        let lines = response.headers[values: "Content-Range"]
        let type = response.headers["Content-Type"]?.trimmingFieldWhitespace.lowercased() ?? ""
        guard response.status == 206, lines.count == 1, case .part(let range, let total?) = ContentRange(lines[0]),
            !response.headers.contains("Content-Encoding"), !type.hasPrefix("multipart/byteranges")
        else { return nil }
        let announced = StorageRule.announcedLength(of: response, method: .get)
        let arrived = response.body.data.map { Int64($0.count) }
        // Of a stream only its length tells that it will be all there.
        let count = Int64(range.count)
        guard arrived ?? announced == count, announced ?? count == count else { return nil }
        self.init(ByteRanges([range]), of: total)
    }

    /// Whether nothing is missing.
    package var isComplete: Bool { ranges.contains(0..<completeLength) }

    /// Where a part lies in the body; `nil` unless all of it is there.
    package func place(of part: Range<Int64>) -> Range<Int64>? {
        guard !part.isEmpty, let range = range(around: part.lowerBound), part.upperBound <= range.upperBound else {
            return nil
        }
        let start = byteCount(before: part.lowerBound)
        return start..<start + Int64(part.count)
    }

    /// The range that a position is in.
    func range(around position: Int64) -> Range<Int64>? { ranges.ranges.first { $0.contains(position) } }

    /// How many bytes of the body lie before a position of the whole.
    package func byteCount(before position: Int64) -> Int64 {
        ranges.ranges.reduce(0) { $0 + max(0, min($1.upperBound, position) - $1.lowerBound) }
    }

    /// These and another one; `nil` when there are too many.
    package func adding(_ part: Range<Int64>) -> StoredParts? {
        let joined = ranges.union([part])
        return joined.ranges.count <= Self.rangeLimit ? StoredParts(joined, of: completeLength) : nil
    }

    // MARK: Content-Range

    /// The field of the entry.
    package var contentRange: String {
        let texts = ranges.ranges.map { "\($0.lowerBound)-\($0.upperBound - 1)" }
        return "bytes \(texts.joined(separator: ","))/\(completeLength)"
    }

    private static func parsed(_ text: String) -> StoredParts? {
        guard let start = text.firstIndex(of: " "), let end = text.firstIndex(of: "/"), start < end else { return nil }
        var ranges = ByteRanges()
        var completeLength: Int64?
        // Each of the list is a Content-Range of its own.
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

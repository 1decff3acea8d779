import FoundationEssentials
package import HTTPCore

/// A parsed `Content-Range` (RFC 9110 §14.4).
package enum ContentRange: Hashable, Sendable {
    /// `bytes 0-99/1000`; the total is `nil` for `*`.
    case part(Range<Int64>, total: Int64?)
    /// `bytes */1000`, of a 416.
    case unsatisfied(total: Int64)

    /// Parses a field value; `nil` for another unit and for invalid ranges.
    package init?(_ text: String?) {
        guard let text, let blank = text.firstIndex(of: " "), text[..<blank].lowercased() == "bytes" else { return nil }
        let parts = text[text.index(after: blank)...].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let total = Self.number(parts[1])
        guard total != nil || parts[1] == "*" else { return nil }
        if parts[0] == "*" {
            guard let total else { return nil }
            self = .unsatisfied(total: total)
            return
        }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]), first <= last,
            last < .max, total.map({ last < $0 }) ?? true
        else { return nil }
        self = .part(first..<(last + 1), total: total)
    }

    /// Whether it is a range that is certainly not all of the content.
    package var isIncomplete: Bool {
        guard case .part(let range, let total) = self else { return false }
        return range != 0..<(total ?? range.upperBound)
    }

    /// Whether a success that is not 206 has only a part of the content all the same. RFC 9110 §14.4 gives its `Content-Range` no
    /// meaning, but some servers answer a `Range` so, and the part must not pass for the whole.
    package static func isPart(status: Int, _ headers: HTTPHeaders) -> Bool {
        guard (200...299).contains(status), status != 206 else { return false }
        if headers["Content-Type"]?.lowercased().hasPrefix("multipart/byteranges") == true { return true }
        guard let field = ContentRange(headers["Content-Range"]), field.isIncomplete, case .part(let range, _) = field
        else { return false }
        // With the length of the whole, the field is what is wrong.
        return headers["Content-Length"].flatMap { number($0) }.map { $0 == Int64(range.count) } ?? true
    }

    /// Parses digits only, since `Int64` itself accepts a sign.
    package static func number(_ text: some StringProtocol) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text)
    }
}

/// A set of byte positions: sorted ranges that neither overlap nor touch.
package struct ByteRanges: Hashable, Sendable {
    package private(set) var ranges: [Range<Int64>] = []

    package init() {}

    package init(_ ranges: some Sequence<Range<Int64>>) {
        for range in ranges { insert(range) }
    }

    package var count: Int64 { ranges.reduce(0) { $0 + Int64($1.count) } }

    /// The end of the last range; 0 when the set is empty.
    package var upperBound: Int64 { ranges.last?.upperBound ?? 0 }

    /// The lowest position that is not in the set.
    package var firstMissing: Int64 {
        guard let first = ranges.first, first.lowerBound == 0 else { return 0 }
        return first.upperBound
    }

    package mutating func insert(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        // The usual case: the range continues the last one.
        if let last = ranges.indices.last, ranges[last].upperBound == range.lowerBound {
            ranges[last] = ranges[last].lowerBound..<range.upperBound
            return
        }
        let first = ranges.firstIndex { $0.upperBound >= range.lowerBound } ?? ranges.endIndex
        let end = ranges[first...].firstIndex { $0.lowerBound > range.upperBound } ?? ranges.endIndex
        var joined = range
        if first < end {
            joined =
                min(ranges[first].lowerBound, range.lowerBound)..<max(ranges[end - 1].upperBound, range.upperBound)
        }
        ranges.replaceSubrange(first..<end, with: CollectionOfOne(joined))
    }

    package func contains(_ range: Range<Int64>) -> Bool {
        range.isEmpty || ranges.contains { $0.lowerBound <= range.lowerBound && range.upperBound <= $0.upperBound }
    }

    package func gaps(upTo total: Int64) -> [Range<Int64>] {
        var gaps: [Range<Int64>] = []
        var position: Int64 = 0
        for range in ranges where range.lowerBound < total {
            if range.lowerBound > position { gaps.append(position..<range.lowerBound) }
            position = max(position, range.upperBound)
        }
        if position < total { gaps.append(position..<total) }
        return gaps
    }

    package func union(_ others: some Sequence<Range<Int64>>) -> ByteRanges {
        var union = self
        for range in others { union.insert(range) }
        return union
    }
}

/// A strong validator, which identifies one version of content that arrives in parts (RFC 9110 §8.8, §13.1.5).
///
/// Some servers keep an entity tag after the content has changed: Tornado computes it once for each file and process, and
/// ignores `If-Range`. So `Last-Modified` is compared too.
package enum ContentValidator: Hashable, Sendable {
    /// A strong entity tag, quotes included, and the `Last-Modified` of the same version, if it is known.
    case entityTag(String, modified: String? = nil)
    /// A `Last-Modified` that is a strong validator.
    case modified(String)

    /// The strong validator of a response; `nil` when it has none.
    ///
    /// `Last-Modified` counts only if there is no entity tag, not even a weak one (§13.1.5), and if it is at least a
    /// minute before `Date`: then the content cannot have changed twice in the second that `Last-Modified` names.
    /// §8.8.2.2 asks for one second on the same clock; a minute allows for clocks that differ.
    package init?(_ headers: HTTPHeaders) {
        if let tag = headers["ETag"] {
            guard Self.isStrong(tag) else { return nil }
            self = .entityTag(tag, modified: headers["Last-Modified"])
            return
        }
        guard let modified = headers["Last-Modified"], let then = HTTPDate.parse(modified),
            let now = headers.date, now.timeIntervalSince(then) >= 60
        else { return nil }
        self = .modified(modified)
    }

    /// The value for `If-Range`.
    package var fieldValue: String {
        switch self {
        case .entityTag(let tag, _): tag
        case .modified(let date): date
        }
    }

    /// Whether a part belongs to this version.
    package enum Comparison: Hashable {
        case same
        case different
        /// The part lacks the entity tag that it must have (RFC 9110 §15.3.7).
        case unknown
    }

    /// Compares strongly with the fields of a 206. `ETag` is required when this is an entity tag. `Last-Modified` is not,
    /// since the request already had `If-Range`, but must agree where both have it.
    package func compare(with headers: HTTPHeaders) -> Comparison {
        switch self {
        case .entityTag(let tag, let date):
            guard let other = headers["ETag"] else { return .unknown }
            return other == tag && Self.agree(date, headers["Last-Modified"]) ? .same : .different
        case .modified(let date):
            return Self.agree(date, headers["Last-Modified"]) ? .same : .different
        }
    }

    /// This validator with the `Last-Modified` of another part of the same version, if it has none yet.
    package func adding(_ headers: HTTPHeaders) -> ContentValidator {
        guard case .entityTag(let tag, nil) = self else { return self }
        return .entityTag(tag, modified: headers["Last-Modified"])
    }

    private static func agree(_ date: String?, _ other: String?) -> Bool {
        guard let date, let other, date != other else { return true }
        guard let time = HTTPDate.parse(date) else { return false }
        return time == HTTPDate.parse(other)
    }

    /// Whether an entity tag is well-formed and has no `W/` (RFC 9110 §8.8.3).
    private static func isStrong(_ tag: String) -> Bool {
        let bytes = Array(tag.utf8)
        let quote = UInt8(ascii: "\"")
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return false }
        return bytes.dropFirst().dropLast().allSatisfy { $0 == 0x21 || (0x23...0x7E).contains($0) || $0 >= 0x80 }
    }
}

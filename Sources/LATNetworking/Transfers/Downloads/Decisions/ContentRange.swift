/// What `Content-Range` says (RFC 9110 §14.4).
enum ContentRange: Hashable, Sendable {
    /// `bytes 0-99/1000`; the total is `nil` where it says `*`.
    case part(Range<Int64>, total: Int64?)
    /// `bytes */1000`, of a 416.
    case unsatisfied(total: Int64)

    /// `nil` for another unit, and for ranges that cannot be.
    init?(_ text: String?) {
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

    /// Digits and nothing else: `Int64` itself would take a sign.
    static func number(_ text: some StringProtocol) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text)
    }
}

package import HTTPCore

/// Answers range requests from stored responses (RFC 9110 §14).
package enum RangeRule {
    /// The bytes that a request with `Range` selects from a complete body of this length; `nil` when only the server can
    /// answer: several ranges, another unit, no byte in range.
    package static func part(_ request: HTTPRequest, of byteCount: Int64) -> Range<Int64>? {
        let lines = request.headers[values: "Range"]
        guard lines.count == 1, let equals = lines[0].firstIndex(of: "="), byteCount > 0,
            lines[0][..<equals].lowercased() == "bytes"
        else { return nil }
        let text = String(lines[0][lines[0].index(after: equals)...]).trimmingFieldWhitespace
        guard !text.contains(","), let dash = text.firstIndex(of: "-") else { return nil }
        let first = text[..<dash]
        let last = text[text.index(after: dash)...]
        if first.isEmpty {
            guard let length = ContentRange.number(last), length > 0 else { return nil }
            return max(0, byteCount - length)..<byteCount
        }
        guard let start = ContentRange.number(first), start < byteCount else { return nil }
        guard !last.isEmpty else { return start..<byteCount }
        guard let end = ContentRange.number(last), end >= start else { return nil }
        return start..<min(end, byteCount - 1) + 1
    }

    /// Whether ranges can be taken from a stored response: its status is 200 or 206, and its body has no content coding.
    package static func hasParts(_ entry: CacheEntry) -> Bool {
        [200, 206].contains(entry.status) && !entry.headers.contains("Content-Encoding")
    }

    package static func headers(_ headers: HTTPHeaders, part: Range<Int64>, of byteCount: Int64) -> HTTPHeaders {
        var headers = headers
        headers["Content-Range"] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(byteCount)"
        headers["Content-Length"] = "\(part.count)"
        return headers
    }
}

package import FoundationEssentials
package import HTTPCore

/// A received part of a response, combined with the stored parts (RFC 9111 §3.4).
package struct JoinedParts: Sendable {
    /// The status and fields to store: 200 when the content is complete, else 206.
    package private(set) var response: HTTPResponse
    /// The ranges that the combined response holds.
    package let parts: StoredParts
    package let received: Range<Int64>
    /// The bytes of the stored body to put before the received ones.
    package private(set) var before: Range<Int64> = 0..<0
    /// The bytes of the stored body to put after the received ones.
    package private(set) var after: Range<Int64> = 0..<0

    /// The maximum number of stored bytes that are copied beyond those that the reader asked for: 8 MiB.
    static let copyLimit: Int64 = 8 << 20

    /// Combines a part with the stored entry. If the entry is of another version (another entity tag, `Last-Modified` or
    /// length) or has no strong validator, the part alone is stored.
    ///
    /// The reader gets the range `wanted`; the rest is copied only for the store. With `asked`, the request had `If-Range`, so
    /// that the response need not repeat `Last-Modified`.
    ///
    /// - Returns: `nil` when the response is not a usable part, and when the stored entry is complete or too large to copy.
    package init?(
        _ response: HTTPResponse, kept: CacheEntry?, wanted: Range<Int64>? = nil, asked: Bool = false, at time: Date
    ) {
        let isWhole = kept.map { $0.status != 206 && (200...299).contains($0.status) } ?? false
        guard let own = StoredParts(received: response), let received = own.ranges.ranges.first, !isWhole else {
            return nil
        }
        self.received = received
        self.response = response
        guard let kept, let old = StoredParts(kept), old.completeLength == own.completeLength,
            let validator = ContentValidator(kept.headers),
            validator.compare(with: response.headers) == .same,
            asked || ContentValidator(response.headers)?.fieldValue == validator.fieldValue,
            VaryRule.fields(of: response.headers) == VaryRule.fields(of: kept.headers),
            let joined = old.adding(received)
        else {
            parts = own
            describe(response.headers)
            return
        }
        guard joined.ranges.count - Int64((wanted ?? received).count) <= Self.copyLimit else { return nil }
        parts = joined
        before = 0..<old.byteCount(before: received.lowerBound)
        after = old.byteCount(before: received.upperBound)..<old.ranges.count
        // The new fields replace the stored ones (§3.4).
        let whole = ValidationRule.freshened(kept, by: response.headers, requestTime: time, responseTime: time)
        var headers = whole.headers
        headers.removeAll { RangeRule.contentFields.contains($0.lowercased()) }
        describe(headers)
    }

    private mutating func describe(_ headers: HTTPHeaders) {
        response.headers = headers
        response.headers.removeAll { $0.hasPrefix(":") }
        response.headers["Content-Length"] = "\(parts.ranges.count)"
        response.headers.removeAll { $0.equalsIgnoringASCIICase("Content-Range") }
        response.status = parts.isComplete ? 200 : 206
        response.reason = parts.isComplete ? "OK" : "Partial Content"
        if !parts.isComplete { response.headers["Content-Range"] = parts.contentRange }
    }
}

/// Completes an incomplete stored response with a request for the missing part (RFC 9111 §3.3).
package struct Completion: Sendable {
    package let entry: CacheEntry
    /// The range that the reader asks for.
    package let wanted: Range<Int64>
    /// The range to request from the server: the part of `wanted` after the stored bytes.
    package let missing: Range<Int64>
    /// Whether the reader asks for the complete content.
    package let isWhole: Bool
    private let validator: ContentValidator

    /// - Returns: `nil` when the first byte of the wanted range is not stored, when the whole range is stored, when the entry
    ///   has no strong validator or is too large to copy, and when the request is not a GET or has conditions.
    init?(of entry: CacheEntry, for request: HTTPRequest) {
        guard request.method == .get, !ValidationRule.hasConditions(request), let parts = StoredParts(entry),
            let validator = ContentValidator(entry.headers)
        else { return nil }
        isWhole = !request.headers.contains("Range")
        guard let wanted = isWhole ? 0..<parts.completeLength : RangeRule.part(request, of: parts.completeLength),
            let kept = parts.range(around: wanted.lowerBound), kept.upperBound < wanted.upperBound,
            let joined = parts.adding(wanted),
            joined.ranges.count - Int64(wanted.count) <= JoinedParts.copyLimit
        else { return nil }
        self.entry = entry
        self.wanted = wanted
        missing = kept.upperBound..<wanted.upperBound
        self.validator = validator
    }

    /// The request for the missing part. The server sends the complete content if it has changed (RFC 9110 §13.1.5).
    func request(_ request: HTTPRequest) -> HTTPRequest {
        var request = request
        let isToTheEnd = isWhole || missing.upperBound == StoredParts(entry)?.completeLength
        request.headers["Range"] = "bytes=\(missing.lowerBound)-\(isToTheEnd ? "" : "\(missing.upperBound - 1)")"
        request.headers["If-Range"] = validator.fieldValue
        return request
    }

    /// The received part combined with the stored ones; `nil` when the server did not send exactly the missing range.
    package func joined(_ response: HTTPResponse, at time: Date) -> JoinedParts? {
        guard let joined = JoinedParts(response, kept: entry, wanted: wanted, asked: true, at: time),
            joined.received == missing, joined.parts.place(of: wanted) != nil
        else { return nil }
        return joined
    }

    /// The response for the reader, without its body.
    package func answer(_ joined: JoinedParts) -> HTTPResponse {
        var answer = joined.response
        guard !isWhole else { return answer }
        answer.status = 206
        answer.reason = "Partial Content"
        answer.headers = RangeRule.headers(answer.headers, part: wanted, of: joined.parts.completeLength)
        return answer
    }
}

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

    /// The fields about the content of one message, which those of another part, and of a response without content, do not
    /// have (RFC 9530 §2, RFC 1864).
    static let contentFields: Set<String> = ["content-digest", "content-md5"]

    package static func headers(_ headers: HTTPHeaders, part: Range<Int64>, of byteCount: Int64) -> HTTPHeaders {
        var headers = headers
        headers.removeAll { contentFields.contains($0.lowercased()) }
        headers["Content-Range"] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(byteCount)"
        headers["Content-Length"] = "\(part.count)"
        return headers
    }
}

package import FoundationEssentials
package import HTTPCore

/// A part of a response that has come, put together with what is kept of it (RFC 9111 §3.4).
package struct JoinedParts: Sendable {
    /// What is to be stored: its status and fields. 200 when nothing is missing any more, else 206.
    package private(set) var response: HTTPResponse
    /// What it has of the whole.
    package let parts: StoredParts
    /// What has come.
    package let received: Range<Int64>
    /// The kept bytes that go before those that have come.
    package private(set) var before: Range<Int64> = 0..<0
    /// The kept bytes that go after them.
    package private(set) var after: Range<Int64> = 0..<0

    /// The most bytes that are copied so that parts of which a reader has asked for one lie together.
    static let copyLimit: Int64 = 8 << 20

    /// Joins a part with what is kept. Where that is of another state of the resource, or without a strong validator, the
    /// part stands for itself.
    ///
    /// - Parameters:
    ///   - kept: what is stored for the request.
    ///   - wanted: what the reader gets; the rest is copied for the store alone.
    ///   - time: when the part came.
    /// - Returns: `nil` when the part is none, and where what is kept stays as it is: it is whole, or too large to copy.
    package init?(_ response: HTTPResponse, kept: CacheEntry?, wanted: Range<Int64>? = nil, at time: Date) {
        self.init(response, kept, wanted: wanted, asked: false, at: time)
    }

    /// - Parameter asked: whether the request named the validator, so that the answer need not repeat it.
    fileprivate init?(
        _ response: HTTPResponse, _ kept: CacheEntry?, wanted: Range<Int64>?, asked: Bool, at time: Date
    ) {
        let isWhole = kept.map { $0.status != 206 && (200...299).contains($0.status) } ?? false
        guard let own = StoredParts(received: response), let received = own.ranges.ranges.first, !isWhole else {
            return nil
        }
        self.received = received
        self.response = response
        guard let kept, let old = StoredParts(kept), old.completeLength == own.completeLength,
            let validator = ContentValidator(kept.headers),
            asked
                ? validator.compare(with: response.headers) == .same : validator == ContentValidator(response.headers),
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
        // The new fields take the place of the stored ones (§3.4).
        describe(
            ValidationRule.freshened(kept, by: response.headers, requestTime: time, responseTime: time).headers)
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

/// Asking only for what is missing of an answer (RFC 9111 §3.3).
package struct Completion: Sendable {
    /// The incomplete stored response.
    package let entry: CacheEntry
    /// What the reader asks for.
    package let wanted: Range<Int64>
    /// What the server is asked for: the end of it.
    package let missing: Range<Int64>
    /// Whether the reader has asked for the whole.
    package let isWhole: Bool
    private let validator: ContentValidator

    /// - Returns: `nil` where the beginning is not kept, or what is kept has no strong validator.
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

    /// The request for what is missing; the server sends all of it anew when it has changed (RFC 9110 §13.1.5).
    func request(_ request: HTTPRequest) -> HTTPRequest {
        var request = request
        let isToTheEnd = isWhole || missing.upperBound == StoredParts(entry)?.completeLength
        request.headers["Range"] = "bytes=\(missing.lowerBound)-\(isToTheEnd ? "" : "\(missing.upperBound - 1)")"
        request.headers["If-Range"] = validator.fieldValue
        return request
    }

    /// What has come, joined with what is kept; `nil` when the server has sent something else than what is missing.
    package func joined(_ response: HTTPResponse, at time: Date) -> JoinedParts? {
        guard let joined = JoinedParts(response, entry, wanted: wanted, asked: true, at: time),
            joined.received == missing, joined.parts.place(of: wanted) != nil
        else { return nil }
        return joined
    }

    /// The reader's answer, its body to be filled in.
    package func answer(_ joined: JoinedParts) -> HTTPResponse {
        var answer = joined.response
        guard !isWhole else { return answer }
        answer.status = 206
        answer.reason = "Partial Content"
        answer.headers = RangeRule.headers(answer.headers, part: wanted, of: joined.parts.completeLength)
        return answer
    }
}

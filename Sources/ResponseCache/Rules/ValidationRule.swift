package import FoundationEssentials
package import HTTPCore

/// Validates stored responses and updates them from a 304 or a HEAD (RFC 9111 §4.3).
package enum ValidationRule {
    /// The conditional request that validates an entry; `nil` when the entry has no validator that may be sent.
    package static func conditional(_ request: HTTPRequest, on entry: CacheEntry) -> HTTPRequest? {
        var conditional = request
        var isConditional = false
        if let tag = entry.headers["ETag"], !tag.isEmpty, tag.utf8.isFieldValue {
            conditional.headers["If-None-Match"] = tag
            isConditional = true
        }
        if let modified = entry.headers["Last-Modified"], !modified.isEmpty, modified.utf8.isFieldValue {
            conditional.headers["If-Modified-Since"] = modified
            isConditional = true
        }
        return isConditional ? conditional : nil
    }

    package static func hasConditions(_ request: HTTPRequest) -> Bool {
        guard !request.headers.hasNoFields else { return false }
        return request.headers.fields.contains { field in
            field.value != nil && conditions.contains { $0.equalsIgnoringASCIICase(field.name) }
        }
    }

    private static let conditions = [
        "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range",
    ]

    /// The result of evaluating a request's own conditions against a stored response (§4.3.2).
    package enum Verdict: Hashable, Sendable {
        /// The caller's copy is current: 304.
        case notModified
        /// The stored response answers the request.
        case modified
        /// Only the server can tell.
        case unknown
    }

    /// Evaluates a request's conditions, which concern successful responses only (RFC 9110 §13.2.1). `If-None-Match` takes
    /// precedence over `If-Modified-Since`; only the server can evaluate the others.
    package static func verdict(on request: HTTPRequest, by entry: CacheEntry) -> Verdict {
        for name in ["If-Match", "If-Unmodified-Since", "If-Range"] where request.headers.contains(name) {
            return .unknown
        }
        guard (200...299).contains(entry.status) else { return .modified }
        let tags = request.headers[values: "If-None-Match"].flatMap { FieldList.elements(of: $0) }
        if !tags.isEmpty {
            if tags == ["*"] { return .notModified }
            guard let own = entry.headers["ETag"] else { return .unknown }
            return tags.contains { weakly($0) == weakly(own) } ? .notModified : .modified
        }
        guard let since = request.headers["If-Modified-Since"].flatMap(HTTPDate.parse) else { return .unknown }
        let changed =
            entry.headers["Last-Modified"].flatMap(HTTPDate.parse)
            ?? entry.headers["Date"].flatMap(HTTPDate.parse) ?? entry.responseTime
        return changed <= since ? .notModified : .modified
    }

    /// An entity tag without `W/`, for the weak comparison (RFC 9110 §8.8.3.2).
    private static func weakly(_ tag: String) -> String {
        let tag = tag.trimmingFieldWhitespace
        return tag.hasPrefix("W/") ? String(tag.dropFirst(2)) : tag
    }

    /// The entry updated by a 304 or a HEAD that confirms it: new fields, new times, no expiry mark (§3.2, §4.3.4).
    package static func freshened(
        _ entry: CacheEntry, by headers: HTTPHeaders, requestTime: Date, responseTime: Date,
        _ mode: CacheMode = .private
    ) -> CacheEntry {
        var entry = entry
        entry.requestTime = requestTime
        entry.responseTime = responseTime
        entry.lastUse = responseTime
        entry.isExpired = false
        // Age belongs to the response that carried it.
        entry.headers.removeAll { $0.equalsIgnoringASCIICase("Age") }
        var updates = StorageRule.storedHeaders(headers, mode)
        updates.removeAll { name in keptFields.contains(name.lowercased()) }
        entry.headers.merge(updates)
        if !headers.contains("Date") { entry.headers["Date"] = HTTPDate.format(responseTime) }
        if entry.retainUntil != nil { entry.retainUntil = RetentionRule.end(of: entry, under: .http, mode) }
        entry.tags = InvalidationRule.tags(of: entry.headers)
        return entry
    }

    /// The fields that describe the stored body, which a 304 does not replace (§3.2).
    private static let keptFields: Set<String> = ["content-length", "content-encoding", "content-range", "vary"]

    /// Whether a 304 confirms the entry that was validated (§4.3.4). A strong entity tag must equal the entry's, a weak one
    /// must match weakly. Without a tag, `Last-Modified` must agree. A 304 without either confirms the entry.
    package static func confirms(_ headers: HTTPHeaders, _ entry: CacheEntry) -> Bool {
        if let tag = headers["ETag"]?.trimmingFieldWhitespace,
            let own = entry.headers["ETag"]?.trimmingFieldWhitespace
        {
            return tag.hasPrefix("W/") ? weakly(tag) == weakly(own) : tag == own
        }
        guard let modified = headers["Last-Modified"].flatMap(HTTPDate.parse),
            let own = entry.headers["Last-Modified"].flatMap(HTTPDate.parse)
        else { return true }
        return modified == own
    }

    /// Whether the response to a HEAD confirms a stored response, which it may then update (§4.3.5).
    package static func matches(head response: HTTPResponse, _ entry: CacheEntry) -> Bool {
        guard response.status == 200, entry.status == 200 else { return false }
        return ["ETag", "Last-Modified", "Content-Length"].allSatisfy { name in
            guard let new = response.headers[name] else { return true }
            return new == entry.headers[name]
        }
    }
}

package import FoundationEssentials
package import HTTPCore

/// Asking whether a stored response is still right, and taking the answer in (RFC 9111 §4.3).
package enum ValidationRule {
    /// The request that asks for a change since an entry was stored; `nil` when the entry has nothing to ask by.
    package static func conditional(_ request: HTTPRequest, on entry: CacheEntry) -> HTTPRequest? {
        var conditional = request
        var isConditional = false
        if let tag = entry.headers["ETag"], !tag.isEmpty {
            conditional.headers["If-None-Match"] = tag
            isConditional = true
        }
        if let modified = entry.headers["Last-Modified"], !modified.isEmpty {
            conditional.headers["If-Modified-Since"] = modified
            isConditional = true
        }
        return isConditional ? conditional : nil
    }

    /// Whether a request brings conditions of its own.
    package static func hasConditions(_ request: HTTPRequest) -> Bool {
        guard !request.headers.hasNoFields else { return false }
        return request.headers.fields.contains { field in
            field.value != nil && conditions.contains { $0.equalsIgnoringASCIICase(field.name) }
        }
    }

    private static let conditions = [
        "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range",
    ]

    /// What a stored response says to a request's own conditions (§4.3.2).
    package enum Verdict: Hashable, Sendable {
        /// What the caller has is right: 304.
        case notModified
        /// The stored response is the answer.
        case modified
        /// Only the server can tell.
        case unknown
    }

    /// `If-None-Match` goes before `If-Modified-Since`; the other conditions are the server's.
    package static func verdict(on request: HTTPRequest, by entry: CacheEntry) -> Verdict {
        for name in ["If-Match", "If-Unmodified-Since", "If-Range"] where request.headers.contains(name) {
            return .unknown
        }
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

    /// An entity tag without its mark of weakness: what the weak comparison compares (RFC 9110 §8.8.3.2).
    private static func weakly(_ tag: String) -> String {
        let tag = tag.trimmingFieldWhitespace
        return tag.hasPrefix("W/") ? String(tag.dropFirst(2)) : tag
    }

    /// The entry after a 304, or after the answer to a HEAD, that confirms it: fields replaced, times anew, fresh again
    /// (§3.2, §4.3.4).
    package static func freshened(
        _ entry: CacheEntry, by headers: HTTPHeaders, requestTime: Date, responseTime: Date,
        _ mode: CacheMode = .private
    ) -> CacheEntry {
        var entry = entry
        entry.requestTime = requestTime
        entry.responseTime = responseTime
        entry.lastUse = responseTime
        entry.isExpired = false
        // An age belongs to the answer that brought it.
        entry.headers.removeAll { $0.equalsIgnoringASCIICase("Age") }
        var news = StorageRule.storedHeaders(headers, mode)
        news.removeAll { name in keptFields.contains(name.lowercased()) }
        entry.headers.merge(news)
        if !headers.contains("Date") { entry.headers["Date"] = HTTPDate.format(responseTime) }
        if entry.retainUntil != nil { entry.retainUntil = RetentionRule.end(of: entry, under: .http) }
        entry.tags = InvalidationRule.tags(of: entry.headers)
        return entry
    }

    /// Those that tell of the bytes that are stored, which a 304 does not bring (§3.2).
    private static let keptFields: Set<String> = ["content-length", "content-encoding", "content-range", "vary"]

    /// Whether a 304 speaks of the entry that was asked about (§4.3.4): a strong tag in it must be the entry's, a weak one
    /// must be like it, and where there is no tag the dates must agree. One without either answers what was asked.
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

    /// What the answer to a HEAD says of a stored response (§4.3.5): `true` when it may be updated by it, `false` when
    /// it is no longer what the server has.
    package static func matches(head response: HTTPResponse, _ entry: CacheEntry) -> Bool {
        guard response.status == 200, entry.status == 200 else { return false }
        return ["ETag", "Last-Modified", "Content-Length"].allSatisfy { name in
            guard let new = response.headers[name] else { return true }
            return new == entry.headers[name]
        }
    }
}

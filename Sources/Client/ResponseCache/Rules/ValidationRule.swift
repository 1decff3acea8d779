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
            ?? entry.headers.date ?? entry.responseTime
        return changed <= since ? .notModified : .modified
    }

    /// An entity tag without `W/`, for the weak comparison (RFC 9110 §8.8.3.2).
    private static func weakly(_ tag: String) -> String {
        let tag = tag.trimmingFieldWhitespace
        return tag.hasPrefix("W/") ? String(tag.dropFirst(2)) : tag
    }

    /// The entry updated by a 304 or a HEAD that confirms it: new fields, new times, no expiry mark (§3.2, §4.3.4).
    ///
    /// - Parameter identity: Who asked. A cookie that the answer sets is not for others who find the entry.
    package static func freshened(
        _ entry: CacheEntry, by headers: HTTPHeaders, for identity: RequestIdentity = .everybody, requestTime: Date,
        responseTime: Date, _ mode: CacheMode = .private
    ) -> CacheEntry {
        let isForOthers =
            mode == .shared || identity.credentials != nil && !entry.varyFields.contains(RequestIdentity.field)
        var entry = entry
        entry.requestTime = requestTime
        entry.responseTime = responseTime
        entry.lastUse = responseTime
        ExpiryMark.clear(on: &entry)
        // Age belongs to the response that carried it.
        entry.headers.removeAll { $0.equalsIgnoringASCIICase("Age") }
        var updates = StorageRule.storedHeaders(headers, mode)
        // A tag that confirms the entry may be that of another coding; the entry's own belongs to the stored body.
        let hasTag = entry.headers.contains("ETag")
        updates.removeAll { name in
            keptFields.contains(name.lowercased()) || hasTag && name.equalsIgnoringASCIICase("ETag")
                || isForOthers && name.equalsIgnoringASCIICase("Set-Cookie")
        }
        entry.headers.merge(updates)
        StorageRule.removePersonalFields(&entry.headers, mode)
        if !headers.contains("Date") { entry.headers["Date"] = HTTPDate.format(responseTime) }
        if entry.retainUntil != nil { entry.retainUntil = RetentionRule.end(of: entry, under: .http, mode) }
        entry.tags =
            InvalidationRule.tags(of: entry.headers, at: StoredResponseCoding.url(of: entry))
            + entry.tags.filter(DictionaryRule.isTag)
        return entry
    }

    /// The fields that describe the stored body, which a 304 does not replace (§3.2).
    private static let keptFields: Set<String> = ["content-length", "content-encoding", "content-range", "vary"]

    /// Whether a 304 confirms the entry that was validated (§4.3.4). A strong entity tag must equal the entry's, a weak one
    /// must match weakly. Without a tag, `Last-Modified` must agree. A 304 without either confirms the entry.
    ///
    /// - Parameter isOnlyTag: whether the request asked about the entry's tag and no other. `If-None-Match` compares weakly
    ///   (RFC 9110 §13.1.2), so then a strong tag need not be equal either: a server that compresses weakens the tag of a
    ///   200 and often not that of a 304 (nginx, Django).
    package static func confirms(_ headers: HTTPHeaders, _ entry: CacheEntry, isOnlyTag: Bool = false) -> Bool {
        // An incomplete response keeps the fields of its version, with which further parts are compared.
        if entry.status == 206, ContentValidator(entry.headers)?.compare(with: headers) == .different { return false }
        if let tag = headers["ETag"]?.trimmingFieldWhitespace,
            let own = entry.headers["ETag"]?.trimmingFieldWhitespace
        {
            return isOnlyTag || tag.hasPrefix("W/") ? isSame(tag, entry, own) : tag == own
        }
        guard let modified = headers["Last-Modified"].flatMap(HTTPDate.parse),
            let own = entry.headers["Last-Modified"].flatMap(HTTPDate.parse)
        else { return true }
        return modified == own
    }

    /// Whether a tag names the content of an entry: both match weakly, or only the entry's ends with the coding of its body,
    /// which Caddy, Apache and lighttpd append when they compress (`"x-gzip"`), and leave out of a 304.
    private static func isSame(_ tag: String, _ entry: CacheEntry, _ own: String) -> Bool {
        let (tag, own) = (weakly(tag), weakly(own))
        if tag == own { return true }
        guard tag.hasPrefix("\""), tag.hasSuffix("\""), own.hasSuffix("\"") else { return false }
        let codings = entry.headers[values: "Content-Encoding"].flatMap { FieldList.names($0) }
        return codings.contains { coding in
            ["-", "--", ";", ":"].contains { own == "\(tag.dropLast())\($0)\(coding)\"" }
        }
    }

    /// What the response to a HEAD says about a stored response to GET (§4.3.5).
    package enum HeadVerdict: Hashable, Sendable {
        /// It confirms the stored response, which it may update.
        case confirmed
        /// The stored response is outdated.
        case outdated
        /// It shows neither.
        case unknown
    }

    /// Compares the response to a HEAD with a stored response: validators, and the length.
    ///
    /// The length is compared only if neither has a coding. Of a body that is compressed on the fly, a server may tell with a
    /// HEAD the length before, or that of an empty one (Caddy).
    package static func verdict(of head: HTTPResponse, on entry: CacheEntry) -> HeadVerdict {
        guard head.status == 200, entry.status == 200 else { return .outdated }
        let isCoded = head.headers.contains("Content-Encoding") || entry.headers.contains("Content-Encoding")
        if let tag = head.headers["ETag"] {
            guard let own = entry.headers["ETag"] else { return .outdated }
            guard tag == own || isCoded && isSame(tag.trimmingFieldWhitespace, entry, own) else { return .outdated }
        }
        if let modified = head.headers["Last-Modified"], modified != entry.headers["Last-Modified"] { return .outdated }
        guard let length = head.headers["Content-Length"] else { return .confirmed }
        guard isCoded else { return length == entry.headers["Content-Length"] ? .confirmed : .outdated }
        return head.headers.contains("ETag") || head.headers.contains("Last-Modified") ? .confirmed : .unknown
    }
}

package import HTTPCore

/// Which of several stored responses matches a request (RFC 9111 §4.1).
package enum VaryRule {
    /// The element of ``CacheEntry/varyFields`` that stands for `Vary: *`, which no request matches.
    static let any = "*"
    /// The element of ``CacheEntry/varyFields`` for the form of a coded body, decoded or as received. No field has this name.
    static let coding = ":coding"

    /// The fields that select a response, in lower case, sorted, without duplicates; `*` alone for `Vary: *`.
    package static func fields(of headers: HTTPHeaders) -> [String] {
        var names = Set<String>()
        for value in headers[values: "Vary"] { names.formUnion(FieldList.names(value)) }
        if names.contains(any) { return [any] }
        // A decoded body does not answer a request that wants the coded one, nor the reverse.
        if headers.contains("Content-Encoding") { names.insert(coding) }
        return names.sorted()
    }

    static func variesOnEverything(_ headers: HTTPHeaders) -> Bool {
        headers[values: "Vary"].contains { FieldList.elements(of: $0).contains(any) }
    }

    /// Whether these fields stand for `Vary: *`.
    package static func matchesNothing(_ fields: [String]) -> Bool { fields == [any] }

    /// The digest of the named fields of a request; empty without fields, `nil` when it cannot be computed.
    package static func variant(
        _ fields: [String], of request: HTTPRequest, _ identity: RequestIdentity = .everybody
    ) -> String? {
        guard !fields.isEmpty else { return "" }
        var digest = KeyDigest()
        for name in fields {
            digest.add(name, name == RequestIdentity.field ? identity.credentials : value(of: name, in: request))
            // The cookie jar adds its cookies to the same field.
            if name == "cookie", let cookies = identity.cookies { digest.add(":jar", cookies) }
        }
        return digest.text
    }

    /// Whether a request has the field values that an entry was stored for (§4.1).
    static func selects(_ entry: CacheEntry, for request: HTTPRequest, _ identity: RequestIdentity) -> Bool {
        variant(entry.varyFields, of: request, identity) == entry.key.variant
    }

    /// Whether a request differs only in `Accept-Language` from the request that an entry is for, and the entry is in the
    /// language that the request prefers.
    static func selectsByLanguage(_ entry: CacheEntry, for request: HTTPRequest, _ identity: RequestIdentity) -> Bool {
        guard let stored = entry.headers[StoredResponseCoding.variantWithoutLanguageField],
            request.headers.contains(LanguageRule.field),
            let language = LanguageRule.language(of: entry.headers), LanguageRule.isBest(language, for: request)
        else { return false }
        return stored == variantWithoutLanguage(entry.varyFields, of: request, identity)
    }

    /// The digest of the named fields of a request, without `Accept-Language`.
    static func variantWithoutLanguage(
        _ fields: [String], of request: HTTPRequest, _ identity: RequestIdentity
    ) -> String? {
        variant(fields.filter { $0 != LanguageRule.field }, of: request, identity)
    }

    /// Why no complete success among these entries matches a request. A digest tells that an entry's fields differ, but not
    /// which one, so all of them are named.
    static func miss(
        _ request: HTTPRequest, _ identity: RequestIdentity, among entries: [CacheEntry]
    ) -> CacheMiss {
        guard let entry = entries.first(where: { TimeToLiveRule.isStorable(status: $0.status) }) else {
            return entries.first.map { .refused(.status($0.status)) } ?? .nothingStored
        }
        if selects(entry, for: request, identity) {
            return StoredResponseCoding.isSingleHop(entry) ? .older : .redirected
        }
        return difference(of: request, identity, from: entry)
    }

    /// How a request differs from the requests that an entry is for.
    static func difference(
        of request: HTTPRequest, _ identity: RequestIdentity, from entry: CacheEntry
    ) -> CacheMiss {
        let names = entry.varyFields
        let isPersonal = names.contains(RequestIdentity.field)
        if isPersonal, names.count == 1 || identity.credentials == nil { return .otherCredentials }
        return .otherVariant(fields: Set(names.map { shown[$0] ?? $0 }).sorted())
    }

    /// The names shown to the user for elements that are not field names.
    private static let shown = [RequestIdentity.field: "credentials", coding: "accept-encoding"]

    /// The normalized value of a request field (§4.1): white space and the split into lines do not count, nor do order
    /// and case in lists of preferences.
    static func value(of name: String, in request: HTTPRequest) -> String? {
        if name == coding { return request.takesDecodedBody ? "decoded" : "as sent" }
        let lines = request.headers[values: name]
        guard !lines.isEmpty else { return implied(name, by: request) }
        if weighted.contains(name), let list = WeightedList(lines) { return list.canonicalText }
        return lines.flatMap { FieldList.elements(of: $0) }.joined(separator: ",")
    }

    /// Case-insensitive lists of preferences without a meaningful order (RFC 9110 §12.5).
    private static let weighted: Set<String> = [LanguageRule.field, "accept-encoding", "accept-charset"]

    /// A text for the value that is sent although the request does not set the field.
    private static func implied(_ name: String, by request: HTTPRequest) -> String? {
        switch name {
        case "accept-encoding": request.takesDecodedBody ? ":engine" : nil
        case "authorization":
            switch request.authentication {
            case nil: nil
            case .bearer(let token): "Bearer \(token)"
            case .basic(let user, let password), .digest(let user, let password), .any(let user, let password):
                "\(user)\u{0}\(password)"
            }
        default: nil
        }
    }
}

extension HTTPRequest {
    /// Whether the engine decodes the body of the response to this request.
    var takesDecodedBody: Bool {
        self.decompresses != false && !headers.contains("Accept-Encoding") && !headers.contains("Range")
    }
}

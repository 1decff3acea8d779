package import HTTPCore

/// Which of several stored responses belongs to a request (RFC 9111 §4.1).
package enum VaryRule {
    /// Stands among ``CacheEntry/varyFields`` for "any request", which nothing matches.
    static let any = "*"
    /// Stands there for how the body of a coded response was kept: decoded, or as it came. Not a name that a field
    /// could have.
    static let coding = ":coding"

    /// The fields that select a response, in lower case, sorted, each once; `*` alone when no request is like another.
    package static func fields(of headers: HTTPHeaders) -> [String] {
        var names = Set<String>()
        for value in headers[values: "Vary"] { names.formUnion(FieldList.names(value)) }
        if names.contains(any) { return [any] }
        // A body that was decoded is no answer to a request that wants it as it came, and the other way round.
        if headers.contains("Content-Encoding") { names.insert(coding) }
        return names.sorted()
    }

    /// Whether a response says that no request is like another.
    static func variesOnEverything(_ headers: HTTPHeaders) -> Bool {
        headers[values: "Vary"].contains { FieldList.elements(of: $0).contains(any) }
    }

    /// Whether no request can match.
    package static func matchesNothing(_ fields: [String]) -> Bool { fields == [any] }

    /// The digest of the fields of a request, which tells its variant; empty when there are none.
    /// `nil` when there is no digest to be had.
    package static func variant(
        _ fields: [String], of request: HTTPRequest, _ identity: RequestIdentity = .everybody
    ) -> String? {
        guard !fields.isEmpty else { return "" }
        var digest = KeyDigest()
        for name in fields {
            digest.add(name, name == RequestIdentity.field ? identity.credentials : value(of: name, in: request))
            // The jar's cookies go into the same field of the request.
            if name == "cookie", let cookies = identity.cookies { digest.add(":jar", cookies) }
        }
        return digest.text
    }

    /// Whether the fields that select a stored response are those of a request (§4.1).
    static func selects(_ entry: CacheEntry, for request: HTTPRequest, _ identity: RequestIdentity) -> Bool {
        variant(entry.varyFields, of: request, identity) == entry.key.variant
    }

    /// Whether a stored response is selected but for `Accept-Language`, and in the language that the request wants most.
    static func selectsByLanguage(_ entry: CacheEntry, for request: HTTPRequest, _ identity: RequestIdentity) -> Bool {
        guard let stored = entry.headers[StoredAnswer.unlanguagedField], request.headers.contains(LanguageRule.field),
            let language = LanguageRule.language(of: entry.headers), LanguageRule.isBest(language, for: request)
        else { return false }
        return stored == unlanguagedVariant(entry.varyFields, of: request, identity)
    }

    /// The digest of the fields of a request but for `Accept-Language`.
    static func unlanguagedVariant(
        _ fields: [String], of request: HTTPRequest, _ identity: RequestIdentity
    ) -> String? {
        variant(fields.filter { $0 != LanguageRule.field }, of: request, identity)
    }

    /// Why none of the entries under a key is for a request. Digests tell that the fields of an entry differ, and not
    /// which of several: then all of them are named.
    ///
    /// - Parameter isStorable: whether the rules that ask would have stored the entry.
    static func miss(
        _ request: HTTPRequest, _ identity: RequestIdentity, among entries: [CacheEntry],
        isStorable: (CacheEntry) -> Bool = { _ in true }
    ) -> CacheMiss {
        guard let entry = entries.first(where: isStorable) else {
            return entries.first.map { .refused(.status($0.status)) } ?? .nothingStored
        }
        return difference(of: request, identity, from: entry)
    }

    /// In what a request differs from those that an entry is for.
    static func difference(
        of request: HTTPRequest, _ identity: RequestIdentity, from entry: CacheEntry
    ) -> CacheMiss {
        let names = entry.varyFields
        let isPersonal = names.contains(RequestIdentity.field)
        if isPersonal, names.count == 1 || identity.credentials == nil { return .otherCredentials }
        return .otherVariant(fields: Set(names.map { shown[$0] ?? $0 }).sorted())
    }

    /// How names are told that are no fields.
    private static let shown = [RequestIdentity.field: "credentials", coding: "accept-encoding"]

    /// A field of a request in the form in which two are compared: white space, lines, and where their order means
    /// nothing order and case do not count (§4.1).
    static func value(of name: String, in request: HTTPRequest) -> String? {
        if name == coding { return request.takesDecodedBody ? "decoded" : "as sent" }
        let lines = request.headers[values: name]
        guard !lines.isEmpty else { return implied(name, by: request) }
        let elements = lines.flatMap { FieldList.elements(of: $0) }
        if weighted.contains(name), let list = WeightedList(lines) { return list.canonicalText }
        return elements.joined(separator: ",")
    }

    /// Lists without case whose order means nothing (RFC 9110 §12.5).
    private static let weighted: Set<String> = [LanguageRule.field, "accept-encoding", "accept-charset"]

    /// What is sent without standing among the fields.
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
    /// Whether codings are taken off the body that answers this request, as the engine decides it.
    var takesDecodedBody: Bool {
        decompresses && !headers.contains("Accept-Encoding") && !headers.contains("Range")
    }
}

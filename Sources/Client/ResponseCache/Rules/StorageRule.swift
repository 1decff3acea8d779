package import HTTPCore

/// Which responses are stored, and which of their fields (RFC 9111 §3).
package enum StorageRule {
    /// Why a response is not stored; `nil` when a cache may store it and could use it later. With `storesUnsafe`, the request
    /// asked for storage although its method is not GET.
    package static func refusal(
        of response: HTTPResponse, to request: HTTPRequest, storesUnsafe: Bool = false, _ mode: CacheMode = .private
    ) -> CacheRefusal? {
        guard request.method == .get || storesUnsafe else { return .method(request.method.rawValue) }
        // 206 and 304 carry no complete content (§3.3); 412 and 416 concern only this request's conditions and ranges.
        guard response.status >= 200, ![206, 304, 412, 416].contains(response.status) else {
            return .status(response.status)
        }
        if ContentRange.isPart(status: response.status, response.headers) { return .incomplete }
        if CacheControl(request: request.headers).noStore { return .requestNoStore }
        // The response to a condition or a range may differ from the response to a plain request.
        if request.headers.contains("Range") || ValidationRule.hasConditions(request),
            !StatusRule.isHeuristicallyCacheable(response.status)
        {
            return .status(response.status)
        }
        return refusal(
            status: response.status, response.headers, CacheControl(response.headers, mode), to: request, mode)
    }

    /// Why no policy would use a response that the app stores itself; `nil` when one would.
    package static func refusal(
        ofAppResponse response: HTTPResponse, to request: HTTPRequest, byteCount: Int64, storesUnsafe: Bool,
        _ mode: CacheMode = .private
    ) -> CacheRefusal? {
        guard isComplete(response, byteCount: byteCount, method: request.method) else { return .incomplete }
        // Only `.http` uses responses that are not successes.
        guard !ContentRange.isPart(status: response.status, response.headers) else { return .incomplete }
        guard !TimeToLiveRule.isStorable(status: response.status) else { return nil }
        return refusal(of: response, to: request, storesUnsafe: storesUnsafe, mode)
    }

    /// Why a 206 is not stored as an incomplete response (§3.3); `nil` when it is.
    package static func refusal(
        ofPart part: HTTPResponse, to request: HTTPRequest, _ mode: CacheMode = .private
    ) -> CacheRefusal? {
        guard request.method == .get else { return .method(request.method.rawValue) }
        guard part.status == 206 else { return .status(part.status) }
        if CacheControl(request: request.headers).noStore { return .requestNoStore }
        return refusal(status: part.status, part.headers, CacheControl(part.headers, mode), to: request, mode)
    }

    /// Why the response to a request may not be stored or used; `nil` when it may. This is checked on arrival and again at
    /// look-up, because another policy may have stored the entry.
    static func refusal(
        status: Int, _ headers: HTTPHeaders, _ control: CacheControl, to request: HTTPRequest, _ mode: CacheMode
    ) -> CacheRefusal? {
        if let refusal = refusal(status: status, headers, control, mode) { return refusal }
        // §3.5. A private cache needs no such rule, since credentials select the variant.
        guard mode == .shared, !control.allowsAuthorization else { return nil }
        return request.authentication != nil || request.headers.contains("Authorization") ? .authorization : nil
    }

    /// Why a response may not be stored or used, whatever the request's credentials; `nil` when it may.
    private static func refusal(
        status: Int, _ headers: HTTPHeaders, _ control: CacheControl, _ mode: CacheMode
    ) -> CacheRefusal? {
        if mode == .shared, isPersonal(headers, control) { return .privateAnswer }
        if control.mustUnderstand {
            // With an understood status, must-understand overrides no-store (§5.2.2.3).
            guard StatusRule.isUnderstood(status) else { return .notUnderstood(status: status) }
        } else if control.noStore {
            return .noStore
        }
        guard !VaryRule.variesOnEverything(headers) else { return .variesOnEverything }
        if control.maxAge != nil || headers.contains("Expires") { return nil }
        // An error without explicit freshness must not replace the stored response that could stand in for it.
        if CacheStrategy.isError(status: status) { return .noFreshness }
        if control.isPublic || control.isPrivate || !control.privateFields.isEmpty && mode == .private { return nil }
        // A response without explicit freshness is stored only if heuristic freshness or revalidation is possible.
        let isKnown =
            StatusRule.isHeuristicallyCacheable(status)
            && (headers.contains("ETag") || headers.contains("Last-Modified") || control.noCache)
        return isKnown ? nil : .noFreshness
    }

    /// Whether a response is for the user who asked: it says `private` (§5.2.2.7), or sets a cookie. §7.3 lets a cache share that
    /// with everybody. This one does so only if the server says that the response is for all, or what becomes of the field.
    package static func isPersonal(_ headers: HTTPHeaders, _ control: CacheControl) -> Bool {
        if control.isPrivate { return true }
        guard headers.contains("Set-Cookie"), !control.isPublic, control.sharedMaxAge == nil else { return false }
        return !(control.privateFields + control.noCacheFields).contains("set-cookie")
    }

    /// Whether a body that has been read is whole: it has its announced length or, without one, its end shows it.
    package static func isComplete(_ response: HTTPResponse, byteCount: Int64, method: HTTPMethod) -> Bool {
        !response.mayBeCut && announcedLength(of: response, method: method).map { $0 == byteCount } ?? true
    }

    /// The length that the body must have, in bytes; `nil` when the fields do not tell it, for example with a coding.
    package static func announcedLength(of response: HTTPResponse, method: HTTPMethod) -> Int64? {
        guard method != .head, !response.headers.contains("Content-Encoding"),
            !response.headers.contains("Transfer-Encoding"), response.status != 204
        else { return nil }
        return response.headers["Content-Length"].flatMap { Int64($0.trimmingFieldWhitespace) }
    }

    /// The fields that are stored: all but those of the connection (§3.1) and, in a shared cache, of `private="…"` (§5.2.2.7).
    package static func storedHeaders(_ headers: HTTPHeaders, _ mode: CacheMode = .private) -> HTTPHeaders {
        var stored = headers
        let named = Set(headers[values: "Connection"].flatMap { FieldList.names($0) })
        stored.removeAll { name in
            let name = name.lowercased()
            return connectionFields.contains(name) || named.contains(name) || name.hasPrefix(":")
        }
        removePersonalFields(&stored, mode)
        return stored
    }

    /// Removes the fields that `private="…"` names, which only a private cache may store (§5.2.2.7).
    package static func removePersonalFields(_ headers: inout HTTPHeaders, _ mode: CacheMode) {
        let personal = mode == .shared ? Set(CacheControl(headers).privateFields) : []
        if !personal.isEmpty { headers.removeAll { personal.contains($0.lowercased()) } }
    }

    /// The fields of a single connection (RFC 9110 §7.6.1, RFC 9111 §3.1).
    static let connectionFields: Set<String> = [
        "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "trailer",
        "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
    ]

    /// Whether the response to a POST may be stored for later GETs (RFC 9110 §9.3.3): its `Content-Location` is the
    /// request's own URL, and it has explicit freshness.
    package static func isStorableForGet(
        _ response: HTTPResponse, to request: HTTPRequest, contentURL: String?, _ mode: CacheMode = .private
    ) -> Bool {
        let control = CacheControl(response.headers, mode)
        guard request.method == .post, response.status == 200, let contentURL, let own = CanonicalURL(response.url),
            control.maxAge != nil || response.headers.contains("Expires"),
            !CacheControl(request: request.headers).noStore
        else { return false }
        return CanonicalURL(contentURL) == own
            && refusal(status: response.status, response.headers, control, to: request, mode) == nil
    }
}

/// Which stored responses a response makes invalid (RFC 9111 §4.4).
package enum InvalidationRule {
    /// Whether a response invalidates what is stored for its URL: the method is unsafe and the response is not an error.
    package static func invalidates(_ response: HTTPResponse, to request: HTTPRequest) -> Bool {
        !request.method.isSafe && (200...399).contains(response.status)
    }

    /// The URI references in a response that are invalidated too if they have the same origin.
    package static func references(in response: HTTPResponse) -> [String] {
        ["Location", "Content-Location"].compactMap { response.headers[$0] }.filter { !$0.isEmpty }
    }

    /// The tags that a server gives a response, so that responses can be removed by tag: the elements of `Cache-Tag`,
    /// separated by commas, and of `Surrogate-Key`, separated by spaces, and the groups of `Cache-Groups` (RFC 9875), each
    /// by its name for the app and with its origin for invalidations by servers. At most 100 tags and 64 groups, of at most
    /// 1,024 bytes each.
    ///
    /// - Parameter url: the URL that sent the response.
    package static func tags(of headers: HTTPHeaders, at url: String) -> [String] {
        let tags =
            headers[values: "Cache-Tag"].flatMap { FieldList.elements(of: $0) }
            + headers[values: "Surrogate-Key"].flatMap { $0.split(separator: " ").map(String.init) }
        let groups = groupNames(headers[values: "Cache-Groups"])
        let origin = groups.isEmpty ? nil : URLParts(url).origin
        var seen: Set<String> = []
        let own = tags.filter { $0.utf8.count <= 1_024 && seen.insert($0).inserted }.prefix(100)
        return own + groups.filter { seen.insert($0).inserted }
            + (origin.map { origin in groups.map { Self.tag(ofGroup: $0, origin) } } ?? [])
    }

    /// The tags of the groups of its origin that a response to an unsafe request invalidates (`Cache-Group-Invalidation`).
    package static func invalidatedGroups(_ headers: HTTPHeaders, at url: String) -> [String] {
        let groups = groupNames(headers[values: "Cache-Group-Invalidation"])
        guard !groups.isEmpty, let origin = URLParts(url).origin else { return [] }
        return groups.map { tag(ofGroup: $0, origin) }
    }

    /// Whether an entry belongs to a group.
    static func hasGroups(_ entry: CacheEntry) -> Bool {
        entry.tags.contains { $0.utf8.contains(groupMark) }
    }

    /// The tags of the groups of a URL's origin that an entry belongs to.
    package static func groups(of entry: CacheEntry, at url: String) -> [String] {
        guard hasGroups(entry), let origin = URLParts(url).origin else { return [] }
        return entry.tags.filter { $0.hasPrefix(tag(ofGroup: "", origin)) }
    }

    /// A line break, which no field can contain, so that no `Cache-Tag` can name the group of an origin.
    private static let groupMark = UInt8(ascii: "\n")

    private static func tag(ofGroup name: String, _ origin: String) -> String { "\(origin)\n\(name)" }

    /// The names of a field that is a list of strings; none of one that cannot be read. Parameters are ignored (§2, §3).
    private static func groupNames(_ values: [String]) -> [String] {
        guard !values.isEmpty, let list = StructuredField.list(values.joined(separator: ", ")) else { return [] }
        var seen: Set<String> = []
        return Array(
            list.compactMap { member in
                guard case .string(let name)? = member.value, (1...1_024).contains(name.utf8.count) else { return nil }
                return seen.insert(name).inserted ? name : nil
            }.prefix(64))
    }
}

/// The keys whose last response could not be stored, so that no call waits for an equal one ("hit for miss").
package struct HitForMissKeys: Sendable {
    private var ends: [String: ContinuousClock.Instant] = [:]
    private let life: Duration
    private let limit: Int

    /// An empty set of keys, each of which is remembered for `life`. At the limit, expired keys are removed, or all if none
    /// has expired.
    package init(life: Duration = .seconds(30), limit: Int = 4_096) {
        self.life = life
        self.limit = limit
    }

    package func contains(_ key: String, at now: ContinuousClock.Instant = .now) -> Bool {
        ends[key].map { now < $0 } ?? false
    }

    package mutating func insert(_ key: String, at now: ContinuousClock.Instant = .now) {
        if ends.count >= limit {
            ends = ends.filter { now < $0.value }
            if ends.count >= limit { ends = [:] }
        }
        ends[key] = now + life
    }

    /// Forgets a key, because its response was stored.
    package mutating func remove(_ key: String) { ends[key] = nil }
}

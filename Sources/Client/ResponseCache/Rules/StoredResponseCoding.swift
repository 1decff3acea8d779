package import FoundationEssentials
package import HTTPCore

/// Makes entries from responses, and responses from entries.
///
/// An entry has no properties for a response's final URL, version and redirects. They are stored as header fields whose
/// names begin with a colon, which no field on the wire can have.
package enum StoredResponseCoding {
    private static let urlField = ":url"
    private static let versionField = ":version"
    private static let redirectField = ":redirect"
    /// The field with the digest of the selecting request fields other than `Accept-Language`.
    static let variantWithoutLanguageField = ":variant"

    /// The entry for a response with these ``VaryRule/fields(of:)``; `nil` when the digest for its key cannot be computed.
    package static func entry(
        _ response: HTTPResponse, to request: HTTPRequest, _ identity: RequestIdentity, url: CanonicalURL,
        primary: String, varyFields: [String], requestTime: Date, responseTime: Date, _ mode: CacheMode = .private
    ) -> CacheEntry? {
        // `public` of the last hop says nothing of the redirects, which may have been for one user.
        let said = response.redirects.isEmpty ? response.headers : HTTPHeaders()
        let varyFields = identity.varyFields(varyFields, of: said, mode)
        guard let variant = VaryRule.variant(varyFields, of: request, identity) else { return nil }
        var headers = StorageRule.storedHeaders(response.headers, mode)
        if response.version != .http1_1 { headers.append(versionField, response.version.rawValue) }
        if !response.redirects.isEmpty {
            headers.append(urlField, response.url)
            for hop in response.redirects { headers.append(redirectField, "\(hop.status) \(hop.url)") }
        }
        if varyFields.contains(LanguageRule.field), LanguageRule.language(of: headers) != nil {
            let digest = VaryRule.variantWithoutLanguage(varyFields, of: request, identity)
            headers.append(variantWithoutLanguageField, digest ?? "-")
        }
        var entry = CacheEntry(
            key: CacheKey(primary: primary, variant: variant), method: request.method.rawValue, url: url.text,
            status: response.status, reason: response.reason, headers: headers, requestTime: requestTime,
            responseTime: responseTime)
        entry.varyFields = varyFields
        entry.partition = identity.partition
        entry.tags = InvalidationRule.tags(of: response.headers, at: response.url)
        return entry
    }

    /// The URL that sent an entry's response.
    static func url(of entry: CacheEntry) -> String { entry.headers[urlField] ?? entry.url }

    /// Whether an entry's response came from the requested URL itself, without redirects.
    package static func isSingleHop(_ entry: CacheEntry) -> Bool { !entry.headers.contains(urlField) }

    static func redirectCount(of entry: CacheEntry) -> Int { entry.headers[values: redirectField].count }

    /// The response that was stored, without its body.
    package static func response(_ entry: CacheEntry, to request: HTTPRequest) -> HTTPResponse {
        var headers = entry.headers
        var response = HTTPResponse(status: entry.status, reason: entry.reason, url: request.url)
        guard headers.fields.contains(where: { $0.name.utf8.first == UInt8(ascii: ":") }) else {
            response.headers = headers
            return response
        }
        if let url = headers[urlField] { response.url = url }
        if let version = headers[versionField].flatMap(HTTPResponse.Version.init) { response.version = version }
        response.redirects = headers[values: redirectField].compactMap { line in
            let parts = line.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let status = Int(parts[0]) else { return nil }
            return HTTPResponse.Redirect(url: String(parts[1]), status: status)
        }
        headers.removeAll { $0.hasPrefix(":") }
        response.headers = headers
        return response
    }

    /// The response to give for a decision of ``CacheStrategy``, without its body.
    ///
    /// It has `Age` (RFC 9111 §4). It lacks the fields that `no-cache="…"` names (§5.2.2.4) and, in a shared cache,
    /// those that `private="…"` names (§5.2.2.7).
    package static func response(
        _ answer: CacheStrategy.Answer, to request: HTTPRequest, _ mode: CacheMode = .private
    ) -> HTTPResponse {
        var response = response(answer.entry, to: request)
        let withheld = Set(answer.control.noCacheFields + (mode == .shared ? answer.control.privateFields : []))
        if !withheld.isEmpty { response.headers.removeAll { withheld.contains($0.lowercased()) } }
        response.headers["Age"] = "\(Int64(min(answer.age, 0x1p31)))"
        switch answer.form {
        case .whole, .head: break
        case .notModified:
            response.status = 304
            response.reason = "Not Modified"
            response.headers.removeAll {
                $0.equalsIgnoringASCIICase("Content-Length") || RangeRule.contentFields.contains($0.lowercased())
            }
        case .part(let part, let byteCount, _):
            response.status = 206
            response.reason = "Partial Content"
            response.headers = RangeRule.headers(response.headers, part: part, of: byteCount)
        }
        return response
    }
}

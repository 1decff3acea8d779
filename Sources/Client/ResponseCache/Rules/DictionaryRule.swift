package import FoundationEssentials
package import HTTPCore

/// Which stored responses are offered as compression dictionaries, and for which requests (RFC 9842).
package enum DictionaryRule {
    /// What `Use-As-Dictionary` of a response says (§2.1). `match-dest` is ignored, because requests have no destination.
    package struct Use: Hashable, Sendable {
        package let match: String
        package let pattern: DictionaryPattern
        /// Empty for none.
        package let id: String

        /// `nil` if the field is absent, is none of RFC 9842, or has a pattern or a type that is not understood.
        package init?(_ headers: HTTPHeaders, at url: CanonicalURL) {
            let lines = headers[values: "Use-As-Dictionary"]
            guard !lines.isEmpty, let members = StructuredField.dictionary(lines.joined(separator: ", ")),
                case .string(let match)? = members["match"]?.value,
                let pattern = DictionaryPattern(match, at: url)
            else { return nil }
            var id = ""
            if let member = members["id"] {
                guard case .string(let text)? = member.value, text.utf8.count <= 1_024 else { return nil }
                id = text
            }
            guard members["type"].map({ $0.value == .token("raw") }) ?? true else { return nil }
            (self.match, self.pattern, self.id) = (match, pattern, id)
        }
    }

    /// The largest content that serves as a dictionary, and how much of them is kept in memory.
    package static let byteLimit = 32 << 20

    // MARK: Responses

    /// Whether what is stored of a response is its whole content. A coded body that is stored as it was sent is not.
    package static func hasContent(_ response: HTTPResponse, to request: HTTPRequest) -> Bool {
        response.status == 200 && (request.takesDecodedBody || !response.headers.contains("Content-Encoding"))
    }

    /// The tag of the dictionaries of an origin for a sender, by which the store finds them again. It has carriage returns, which no
    /// field can contain, so that no `Cache-Tag` names it.
    ///
    /// - Parameter credentials: those of the sender, if the response is only for them.
    package static func tag(
        _ url: CanonicalURL, _ identity: RequestIdentity, credentials: String?, version: Int
    ) -> String {
        "\(mark)\(version)\(mark)\(url.origin)\(mark)\(credentials ?? "")\(mark)\(identity.partition.map { "=\($0)" } ?? "")"
    }

    package static func isTag(_ tag: String) -> Bool { tag.hasPrefix(mark) }

    private static let mark = "\r"

    /// Whether a stored response is fresh, or may be used although it is stale (§2.2.1).
    package static func isUsable(_ entry: CacheEntry, at now: Date, _ mode: CacheMode) -> Bool {
        guard entry.status == 200, (0...Int64(byteLimit)).contains(entry.bodyByteCount) else { return false }
        let control = CacheControl(entry.headers, mode)
        return CacheStrategy.isUsable(control, Freshness(of: entry, control: control, at: now))
    }

    // MARK: Requests

    /// Whether a request may offer a dictionary: a GET of a whole response that the engine decodes, over TLS or to this machine,
    /// because intermediaries do not know the coding (§8), and others could read its content from the sizes of responses (§9.2).
    package static func mayOffer(_ request: HTTPRequest, to url: CanonicalURL) -> Bool {
        guard request.method == .get, request.body == nil, request.takesDecodedBody,
            !request.headers.contains("Available-Dictionary")
        else { return false }
        if request.headers.contains("Cache-Control"), CacheControl(request: request.headers).noStore { return false }
        return url.base.hasPrefix("https:") || NetworkError.AddressRule.ofHost(url.host) == .loopback
    }
}

/// The dictionaries that a manager knows: those of the tags that were asked for, and the content of those that were used last.
package struct DictionaryShelf: Sendable {
    package struct Record: Sendable {
        package let entry: CacheEntry
        package let use: DictionaryRule.Use
    }

    private struct Content {
        let dictionary: CompressionDictionary
        let entry: CacheEntry
        var lastUse: UInt64

        /// A confirmed response has another time, and the same content. One that waits to be written has no version.
        func isOf(_ other: CacheEntry) -> Bool {
            other.version == nil
                ? entry.version == nil && entry.responseTime == other.responseTime : entry.version == other.version
        }
    }

    private var records: [String: [Record]] = [:]
    private var asked: Set<String> = []
    private var contents: [CacheKey: Content] = [:]
    private var byteCount = 0
    private var useCount: UInt64 = 0
    private let byteLimit: Int

    /// How many tags are known, and how many dictionaries of each; the oldest are forgotten.
    package static let limits = (tags: 1_024, records: 64)

    /// - Parameter byteLimit: how much content is kept.
    package init(byteLimit: Int = DictionaryRule.byteLimit) { self.byteLimit = byteLimit }

    /// Whether the store was asked for the dictionaries of a tag.
    package func knows(_ tag: String) -> Bool { asked.contains(tag) }

    /// Adds what the store has for a tag. What was noted in the meantime is newer.
    package mutating func add(_ entries: [CacheEntry], for tag: String) {
        if asked.count >= Self.limits.tags { (records, asked) = ([:], []) }
        asked.insert(tag)
        let noted = records.removeValue(forKey: tag) ?? []
        for entry in entries.sorted(by: { $0.responseTime < $1.responseTime }) { insert(entry, tag) }
        for record in noted { insert(record.entry, tag) }
    }

    /// Adds or renews a dictionary that was stored or confirmed. It may still wait to be written when the store is asked.
    package mutating func note(_ entry: CacheEntry) {
        for tag in entry.tags where DictionaryRule.isTag(tag) { insert(entry, tag) }
    }

    private mutating func insert(_ entry: CacheEntry, _ tag: String) {
        if records[tag] == nil, records.count >= Self.limits.tags { (records, asked) = ([:], []) }
        var found = records[tag] ?? []
        found.removeAll { $0.entry.key == entry.key }
        if let content = contents[entry.key], !content.isOf(entry) { drop(entry.key) }
        if let use = CanonicalURL(entry.url).flatMap({ DictionaryRule.Use(entry.headers, at: $0) }) {
            found.append(Record(entry: Self.bodiless(entry), use: use))
        }
        records[tag] = found.suffix(Self.limits.records)
    }

    /// The dictionaries for a request, the best first (§2.2.3): the longest `match`, and of equal ones the newest.
    package func choices(for url: CanonicalURL, tags: [String], at now: Date, _ mode: CacheMode = .private) -> [Record]
    {
        var found = tags.flatMap { records[$0] ?? [] }
        guard !found.isEmpty else { return found }
        found.removeAll {
            contents[$0.entry.key]?.dictionary.hasFailed == true || !$0.use.pattern.matches(url)
                || !DictionaryRule.isUsable($0.entry, at: now, mode)
        }
        return found.sorted {
            let (one, other) = ($0.use.match.utf8.count, $1.use.match.utf8.count)
            return one == other ? $0.entry.responseTime > $1.entry.responseTime : one > other
        }
    }

    /// The content of a stored response, if it is kept.
    package mutating func content(of entry: CacheEntry) -> CompressionDictionary? {
        guard let content = contents[entry.key], content.isOf(entry) else { return nil }
        useCount += 1
        contents[entry.key]?.lastUse = useCount
        return content.dictionary
    }

    /// Keeps the content of a stored response, and drops that of those that were not used for the longest time.
    package mutating func keep(_ dictionary: CompressionDictionary, of entry: CacheEntry) {
        useCount += 1
        let replaced = contents.updateValue(
            Content(dictionary: dictionary, entry: Self.bodiless(entry), lastUse: useCount), forKey: entry.key)
        byteCount += dictionary.bytes.count - (replaced?.dictionary.bytes.count ?? 0)
        while byteCount > byteLimit, let oldest = contents.min(by: { $0.value.lastUse < $1.value.lastUse }) {
            drop(oldest.key)
        }
    }

    /// Forgets a dictionary that the store does not give any more, and has it asked again: one may wait to be written.
    package mutating func forget(_ entry: CacheEntry) {
        for tag in entry.tags {
            records[tag]?.removeAll { $0.entry.key == entry.key }
            asked.remove(tag)
        }
        drop(entry.key)
    }

    /// Look-ups may give entries with their bodies, which would stay here when the store has removed them.
    private static func bodiless(_ entry: CacheEntry) -> CacheEntry {
        var entry = entry
        (entry.attachedBody, entry.note) = (nil, nil)
        return entry
    }

    private mutating func drop(_ key: CacheKey) {
        byteCount -= contents.removeValue(forKey: key)?.dictionary.bytes.count ?? 0
    }
}

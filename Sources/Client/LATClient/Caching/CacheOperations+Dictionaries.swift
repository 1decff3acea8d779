import Cryptography
import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

/// The dictionaries that the manager knows.
final class DictionaryTable: Sendable {
    let shelf = Mutex(DictionaryShelf())
}

// Stored responses as compression dictionaries (RFC 9842). ``DictionaryRule`` and ``DictionaryShelf`` decide.
extension CacheOperations {
    func usesDictionaries(_ request: HTTPRequest) -> Bool {
        // A server does not compress sealed content. Behind a socket or a `Host`, there may be another server for each.
        (request.usesDictionaries ?? usesDictionaries) && !request.isSealed(byDefault: demands.sealsByDefault)
            && unixSocketPath == nil && request.unixSocketPath == nil && !UnixAddress.isOne(request.url)
            && !request.headers.contains("Host")
    }

    /// A stored response that serves as a dictionary.
    typealias FoundDictionary = (entry: CacheEntry, use: DictionaryRule.Use)

    /// The request with the best dictionary for its response, if there is one.
    func offeringDictionary(_ request: HTTPRequest, _ ticket: Ticket) async -> HTTPRequest {
        guard usesDictionaries(request) else { return request }
        var tried: Set<CacheKey> = []
        while let found = await dictionary(for: request, ticket, except: tried) {
            if let dictionary = await content(of: found) {
                var request = request
                request.context.dictionary = dictionary
                return request
            }
            tried.insert(found.entry.key)
        }
        return request
    }

    /// The best dictionary for a request that the store still has.
    func dictionary(
        for request: HTTPRequest, _ ticket: Ticket, except tried: Set<CacheKey> = []
    ) async -> FoundDictionary? {
        guard let behind = storage.behind, DictionaryRule.mayOffer(request, to: ticket.url) else { return nil }
        var tags = [tag(ticket, nil)]
        if let credentials = ticket.identity.credentials { tags.append(tag(ticket, credentials)) }
        for tag in tags where !dictionaries.shelf.withLock({ $0.knows(tag) }) {
            guard let entries = await behind.entries(tagged: tag) else { continue }
            dictionaries.shelf.withLock { $0.add(entries, for: tag) }
        }
        let now = storage.now()
        let choices = dictionaries.shelf.withLock { $0.choices(for: ticket.url, tags: tags, at: now, ticket.mode) }
        for choice in choices.lazy.filter({ !tried.contains($0.entry.key) }).prefix(Self.tries - tried.count) {
            // It may have been removed or replaced.
            let stored = await behind.entries(for: choice.entry.key.primary).first { $0.key == choice.entry.key }
            guard let stored else {
                dictionaries.shelf.withLock { $0.forget(choice.entry) }
                continue
            }
            guard stored.isCredible(for: choice.entry.key.primary),
                stored.tags.contains(where: tags.contains), DictionaryRule.isUsable(stored, at: now, ticket.mode),
                let url = CanonicalURL(stored.url), let use = DictionaryRule.Use(stored.headers, at: url),
                use == choice.use || use.pattern.matches(ticket.url)
            else { continue }
            return (stored, use)
        }
        return nil
    }

    /// How many dictionaries are looked up for a request.
    private static let tries = 4

    private func tag(_ ticket: Ticket, _ credentials: String?) -> String {
        DictionaryRule.tag(ticket.url, ticket.identity, credentials: credentials, version: version)
    }

    private func content(of found: FoundDictionary) async -> CompressionDictionary? {
        let kept = dictionaries.shelf.withLock { $0.content(of: found.entry) }
        if let kept { return kept.hasFailed ? nil : kept }
        guard let stored = await storage.behind?.body(of: found.entry),
            let content = try? await stored.collect(upTo: DictionaryRule.byteLimit),
            Int64(content.count) == found.entry.bodyByteCount,
            let digest = try? MessageDigest.of(content, .sha256)
        else { return nil }
        let counters = storage.ledger.counters
        let dictionary = CompressionDictionary(content, digest: digest, of: found.entry.url, id: found.use.id) {
            saved, isFirst in
            if isFirst { counters.add(.dictionaryResponses) }
            // A counter never falls.
            counters.add(.dictionarySavedBytes, Int64(max(0, saved)))
        }
        dictionaries.shelf.withLock { $0.keep(dictionary, of: found.entry) }
        return dictionary
    }

    /// Marks an entry that is to serve as a dictionary.
    func markDictionary(_ entry: inout CacheEntry, _ response: HTTPResponse, to request: HTTPRequest, _ ticket: Ticket)
    {
        guard usesDictionaries(request), response.headers.contains("Use-As-Dictionary") else { return }
        guard DictionaryRule.Use(response.headers, at: ticket.url) != nil else {
            storage.ledger.counters.add(.ignoredDictionaries)
            return
        }
        guard DictionaryRule.hasContent(response, to: request) else { return }
        let isPersonal = entry.varyFields.contains(RequestIdentity.field)
        entry.tags.append(tag(ticket, isPersonal ? ticket.identity.credentials : nil))
        dictionaries.shelf.withLock { $0.note(entry) }
    }

    /// Updates an entry that was confirmed.
    func update(_ entry: CacheEntry) async {
        await storage.behind?.update(entry)
        if !entry.tags.isEmpty { dictionaries.shelf.withLock { $0.note(entry) } }
    }
}

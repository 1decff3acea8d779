import FoundationEssentials
import HTTPCore
import ResponseCache

extension HTTPCacheRoom {
    /// Handles a partial response (RFC 9111 §3.4): combines it with the stored bytes, for a caller who asked for more
    /// and for the store.
    ///
    /// - Returns: `nil` if the server has sent something other than the missing part.
    func take(
        part response: HTTPResponse, _ forward: CacheStrategy.Forward, _ request: HTTPRequest,
        _ ticket: CacheOperations.Ticket, _ chain: Chain, _ requestTime: Date, _ responseTime: Date
    ) async throws -> (response: HTTPResponse, isStored: Bool)? {
        let refusal = StorageRule.refusal(ofPart: response, to: request, operations.mode)
        if let refusal { operations.storage.ledger.refuse(ticket.primary, refusal) }
        let isStorable = refusal == nil
        func keep(_ joined: JoinedParts, _ body: ResponseBody) async -> (response: HTTPResponse, isStored: Bool) {
            var stored = joined.response
            stored.body = body
            guard isStorable else { return (stored, false) }
            return await operations.store(
                stored, to: request, chain.call, ticket, under: .http, replacing: forward.candidate,
                varyFields: VaryRule.fields(of: stored.headers),
                requestTime: requestTime, responseTime: responseTime)
        }
        if let completion = forward.completion {
            let limit = request.maxBodySize ?? (request.streamsBody ? .max : operations.maxBodySize)
            guard completion.wanted.count <= limit else { throw NetworkError.bodyTooLarge(limit: limit) }
            guard let joined = completion.joined(response, at: responseTime),
                let body = try await body(joined, completion.entry, request),
                let place = joined.parts.place(of: completion.wanted)
            else { return nil }
            let kept = await keep(joined, body)
            var answer = completion.answer(joined)
            answer.body = kept.response.body
            if place != 0..<joined.parts.ranges.count {
                guard let part = answer.body.part(place, readsOn: true) else { return nil }
                answer.body = part
            }
            return (answer, kept.isStored)
        }
        guard isStorable else { return (response, false) }
        // Another request may have stored something since.
        let entry = CacheStrategy.stored(request, ticket.identity, among: await operations.entries(ticket))
        guard var joined = JoinedParts(response, kept: entry, at: responseTime) else { return (response, false) }
        var body: ResponseBody?
        if let entry { body = try await self.body(joined, entry, request) }
        if body == nil, let alone = JoinedParts(response, kept: nil, at: responseTime) {
            (joined, body) = (alone, response.body)
        }
        guard let body, let place = joined.parts.place(of: joined.received) else { return (response, false) }
        let kept = await keep(joined, body)
        var answer = response
        if response.body.isStream {
            let isAlone = place == 0..<joined.parts.ranges.count
            answer.body = (isAlone ? nil : kept.response.body.part(place, readsOn: true)) ?? kept.response.body
        }
        return (answer, kept.isStored)
    }

    /// The part's body with the stored bytes around it; `nil` when those are gone.
    private func body(
        _ joined: JoinedParts, _ entry: CacheEntry, _ request: HTTPRequest
    ) async throws -> ResponseBody? {
        var reading = request
        // The reader's limit was checked before; the other bytes are for the store.
        reading.maxBodySize = .max
        var bodies: [ResponseBody] = []
        for place in [joined.before, joined.after] {
            guard !place.isEmpty else { continue }
            guard let body = try await operations.body(of: entry, for: reading, part: place) else { return nil }
            bodies.append(body)
        }
        if bodies.isEmpty { return joined.response.body }
        bodies.insert(joined.response.body, at: joined.before.isEmpty ? 0 : 1)
        return ResponseBody.joining(bodies, byteCount: joined.parts.ranges.count)
    }
}

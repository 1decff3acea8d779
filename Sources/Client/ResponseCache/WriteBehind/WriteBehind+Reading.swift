package import HTTPCore
import Synchronization

// Look-ups find waiting entries like stored ones, and wait for the store only up to a limit.
extension WriteBehind {
    /// The entries under a primary key, newest first; only the waiting ones when the store fails or takes too long.
    package func entries(for primaryKey: String, _ urgency: Urgency = .optional) async -> [CacheEntry] {
        let view = isIdle.load(ordering: .acquiring) ? nil : state.withLock { $0.pending.view(of: primaryKey) }
        if let view, view.isComplete { return view.applied(to: []) }
        if view?.streams.isEmpty ?? true, let entries = quick?.quickEntries(for: primaryKey) {
            return view?.applied(to: entries) ?? entries
        }
        var limit = settings.lookUpTimeout
        if urgency == .required { limit = max(limit, .seconds(1)) }
        do {
            let entries: [CacheEntry]?
            let streams = view?.streams ?? []
            if limitsLookUps, streams.isEmpty {
                entries = try await store.entries(for: primaryKey)
            } else if let quick, streams.isEmpty {
                entries = try await limiter.run(within: limit) { quick.lookUp(primaryKey, $0) }
            } else {
                entries = try await limiter.run(within: limit) { [self] in
                    if !streams.isEmpty { await settle(streams) }
                    return try await store.entries(for: primaryKey)
                }
            }
            if entries == nil {
                ledger.counters.add(.lateLookups)
                report(Self.late("look up", limit), "look up in time")
            }
            return view?.applied(to: entries ?? []) ?? entries ?? []
        } catch {
            report(error, "look up")
            return view?.applied(to: []) ?? []
        }
    }

    /// The body of an entry; `nil` when it is missing, when its first byte takes too long, and when the store fails.
    package func body(of entry: CacheEntry) async -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        // The store checks the whole body before the first byte, at 20 MiB/s or more.
        let limit = settings.lookUpTimeout * 5 + .milliseconds(entry.bodyByteCount / (20 << 10))
        do {
            if let body = try await limiter.run(within: limit, { [store] in try await store.body(of: entry) }) {
                return body
            }
            ledger.counters.add(.lateLookups)
            report(Self.late("read", limit), "read in time")
        } catch {
            report(error, "read")
        }
        return nil
    }

    private static func late(_ operation: String, _ limit: Duration) -> NetworkError {
        NetworkError(
            .cache,
            message: "the response cache took longer than \(limit) to \(operation) an entry; check the disk "
                + "or raise cacheLookUpTimeout")
    }
}

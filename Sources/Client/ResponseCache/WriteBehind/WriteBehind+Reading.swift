package import HTTPCore
import Platform
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
        let limit = limit(urgency)
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

    /// How long a look-up may take.
    private func limit(_ urgency: Urgency) -> Duration {
        urgency == .required ? max(settings.lookUpTimeout, .seconds(1)) : settings.lookUpTimeout
    }

    /// The body of an entry; `nil` when it is missing, when its first byte takes too long, and when the store fails.
    package func body(of entry: CacheEntry, _ urgency: Urgency = .optional) async -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        // The store checks the whole body before the first byte, at 20 MiB/s or more.
        let limit = limit(urgency) * 5 + .milliseconds(entry.bodyByteCount / (20 << 10))
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

    /// The stored entries with a tag; `nil` when the store fails or takes too long, and none when it cannot list them.
    package func entries(tagged tag: String) async -> [CacheEntry]? {
        guard let inspecting = store.inspecting else { return [] }
        do {
            return try await limiter.run(within: settings.lookUpTimeout) { try await inspecting.entries(.tag(tag)) }
        } catch {
            report(error, "look up")
            return nil
        }
    }

    private static func late(_ operation: String, _ limit: Duration) -> NetworkError {
        NetworkError(
            .cache,
            message: "the response cache took longer than \(limit) to \(operation) an entry; check the disk "
                + "or raise cacheLookUpTimeout")
    }
}

extension WriteBehind {
    /// Which process fetches a response that several processes miss.
    package enum Lead: Sendable {
        /// This one, with a lease if the store gives leases.
        case own(CacheLease?)
        /// This one. Another process may have fetched it in the meantime, so look up the response first.
        case late(CacheLease?)
        /// Another process has just ended its fetch: look up the response, and ask again if nothing is stored.
        case ended
        /// Another process fetches it.
        case others
    }

    /// Decides whether this process fetches a response, and takes the lease for it.
    ///
    /// - Parameters:
    ///   - duration: The maximum time of the fetch; `nil` means 60 seconds.
    ///   - start: When the request began to wait for other processes. Default: now; `nil` if it does not wait, so that the
    ///     result is ``Lead/others`` at once while another process has the lease. It waits at most
    ///     ``CacheCoordinating/leaseWait``, or with other stores as long as for a look-up.
    package func lead(
        _ name: String, for duration: Duration?, waitingSince start: ContinuousClock.Instant? = .now
    ) async -> Lead {
        guard let leasing = store.leasing else { return .own(nil) }
        let duration = duration ?? .seconds(60)
        do {
            if let coordinator {
                let limit = start.map { max(.zero, coordinator.leaseWait - (ContinuousClock.now - $0)) } ?? .zero
                return switch try await coordinator.lease(name, for: duration, within: limit) {
                case .granted(let lease): .late(lease)
                case .ended: .ended
                case .held: .others
                }
            }
            let end = ContinuousClock.now + settings.lookUpTimeout
            let lead = try await limiter.run(within: settings.lookUpTimeout) {
                var backoff = Backoff(first: .milliseconds(1), longest: .milliseconds(10))
                var lead = try await leasing.lease(name, for: duration).map { Lead.own($0) }
                while lead == nil, start != nil, ContinuousClock.now < end {
                    try await Task.sleep(for: backoff.next())
                    lead = try await leasing.lease(name, for: duration).map { .late($0) }
                }
                return lead ?? .others
            }
            return lead ?? .others
        } catch {
            report(error, "take a lease")
            return .own(nil)
        }
    }
}

internal import CoreMetrics
public import LATNetworking

// The state of managers and outboxes. swift-metrics has no values that are asked for, so they are set again and again.
extension CallMetrics {
    /// Adds the state of an outbox to what ``run(observing:every:)`` and ``update(from:)`` set: depth, size and age of the
    /// oldest entry, and what was sent and failed. Several outboxes are added up. An outbox is not kept alive.
    public func observe(_ outbox: Outbox) { outboxes.add(outbox) }

    /// Sets the meters of a manager's state and of the observed outboxes again and again, until the current task is cancelled.
    /// Several managers are added up.
    ///
    /// - Parameters:
    ///   - manager: the manager. It is kept while this runs.
    ///   - interval: the time between two values. Default 10 seconds.
    public func run(observing manager: CentralRequestManager, every interval: Duration = .seconds(10)) async {
        while !Task.isCancelled {
            await update(from: manager)
            try? await Task.sleep(for: interval)
        }
    }

    /// Sets the meters of a manager's state and of the observed outboxes once, such as before an outbox is released.
    public func update(from manager: CentralRequestManager) async {
        let load = await manager.load
        count("lat_client_certificates_unchecked_total", load.uncheckedCertificates, in: manager)
        count("lat_client_dictionary_saved_bytes_total", Int(load.dictionarySavedBytes), in: manager)
        if let outboxes = outboxes.living { await set(outboxes) }
        loads.replace(load, of: manager) { set($0, earlier: $1) }
    }

    private func set(_ name: String, _ value: some BinaryInteger, _ labels: [(String, String)] = []) {
        Meter(label: name, dimensions: labels, factory: factory).set(value)
    }

    /// Adds what has come to a total since the last time.
    private func count(_ name: String, _ total: Int, in owner: any AnyObject & Sendable) {
        Counter(label: name, factory: factory).increment(by: totalsOfOwners.growth(of: name, to: total, in: owner))
    }

    private func set(_ outboxes: [Outbox]) async {
        var loads: [Outbox.Load] = []
        for outbox in outboxes {
            guard let load = try? await outbox.load else { continue }
            loads.append(load)
            count("lat_client_outbox_sent_total", load.sent, in: outbox)
            count("lat_client_outbox_failed_total", load.failed, in: outbox)
        }
        func sum<Number: BinaryInteger>(_ value: (Outbox.Load) -> Number) -> Number {
            loads.reduce(0) { $0 + value($1) }
        }
        set("lat_client_outbox_entries", sum(\.waiting), [("state", "waiting")])
        set("lat_client_outbox_entries", sum(\.answered), [("state", "answered")])
        set("lat_client_outbox_entries", sum(\.dead), [("state", "dead")])
        set("lat_client_outbox_sending", sum(\.sending))
        set("lat_client_outbox_size_bytes", sum(\.size))
        let oldest = loads.compactMap(\.oldest).max() ?? .zero
        Meter(label: "lat_client_outbox_oldest_seconds", factory: factory).set(oldest / .seconds(1))
    }

    /// - Parameter earlier: what had values before. What has none any more is set to 0.
    private func set(_ load: CentralRequestManager.Load, earlier: CentralRequestManager.Load?) {
        set("lat_client_calls_running", load.calls)
        set("lat_client_transfers_running", load.transfers)
        set("lat_client_transfers_queued", load.queued)
        set("lat_client_circuit_open", "circuit", load.circuits.mapValues { $0 ? 1 : 0 }, earlier?.circuits.keys)
        set("lat_client_adaptive_limit", "limit", load.adaptiveLimits, earlier?.adaptiveLimits.keys)
        for (target, isReachable) in load.reachability {
            set("lat_client_reachable", isReachable ? 1 : 0, [("target", target)])
        }
        for origin in Set(load.origins.keys).union(earlier.map { Array($0.origins.keys) } ?? []) {
            let labels = serverDimensions(HTTPRequest.Server(origin))
            let count = load.origins[origin]
            for (state, value) in [("active", count?.active ?? 0), ("idle", count?.idle ?? 0)] {
                set("http_client_open_connections", value, [("http_connection_state", state)] + labels)
            }
        }
    }

    /// Sets the values of hosts, unless there are very many.
    private func set(_ name: String, _ label: String, _ values: [String: Int], _ earlier: (some Collection<String>)?) {
        let shown = values.count > 2_000 ? [:] : values
        for key in Set(shown.keys).union(earlier.map { $0.count > 2_000 ? [] : Array($0) } ?? []) {
            set(name, shown[key] ?? 0, [(label, key)])
        }
    }
}

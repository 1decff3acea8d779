internal import CoreMetrics
public import LATNetworking

// The state of managers. swift-metrics has no values that are asked for, so they are set again and again.
extension CallMetrics {
    /// Sets the meters of a manager's state again and again, until the current task is cancelled.
    ///
    /// - Parameters:
    ///   - manager: the manager. It is kept while this runs.
    ///   - interval: the time between two values. Default 10 seconds.
    public func run(observing manager: CentralRequestManager, every interval: Duration = .seconds(10)) async {
        var earlier = Series()
        while !Task.isCancelled {
            earlier = set(await manager.load, earlier: earlier)
            try? await Task.sleep(for: interval)
        }
    }

    /// Sets the meters of a manager's state once.
    public func update(from manager: CentralRequestManager) async { _ = set(await manager.load, earlier: Series()) }

    /// What has values now, and may have none the next time.
    private struct Series {
        var origins: Set<String> = []
        var limits: Set<String> = []
    }

    /// - Parameter earlier: what had values before. What has none any more is set to 0.
    private func set(_ load: CentralRequestManager.Load, earlier: Series) -> Series {
        func set(_ name: String, _ value: Int, _ labels: [(String, String)] = []) {
            Meter(label: name, dimensions: labels, factory: factory).set(value)
        }
        set("lat_client_calls_running", load.calls)
        set("lat_client_transfers_running", load.transfers)
        set("lat_client_transfers_queued", load.queued)
        for (circuit, isOpen) in load.circuits {
            set("lat_client_circuit_open", isOpen ? 1 : 0, [("circuit", circuit)])
        }
        // Each host of each row has one.
        let limits = load.adaptiveLimits.count > 2_000 ? [] : Set(load.adaptiveLimits.keys)
        for limit in limits.union(earlier.limits) {
            set("lat_client_adaptive_limit", load.adaptiveLimits[limit] ?? 0, [("limit", limit)])
        }
        for (target, isReachable) in load.reachability {
            set("lat_client_reachable", isReachable ? 1 : 0, [("target", target)])
        }
        for origin in earlier.origins.union(load.origins.keys) {
            let labels = serverDimensions(HTTPRequest.Server(origin))
            let count = load.origins[origin]
            for (state, value) in [("active", count?.active ?? 0), ("idle", count?.idle ?? 0)] {
                set("http_client_open_connections", value, [("http_connection_state", state)] + labels)
            }
        }
        return Series(origins: Set(load.origins.keys), limits: limits)
    }
}

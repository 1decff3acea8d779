internal import LATNetworking

/// The gauges of managers, read at the time of a scrape.
enum LoadFamilies {
    static func families(of managers: [CentralRequestManager]) async -> [MetricFamily] {
        var loads: [CentralRequestManager.Load] = []
        for manager in managers { loads.append(await manager.load) }
        guard !loads.isEmpty else { return [] }
        func gauge(_ name: String, _ help: String, _ value: (CentralRequestManager.Load) -> Int) -> MetricFamily {
            MetricFamily(
                name: name, kind: .gauge, help: help,
                samples: [MetricSample([], Double(loads.reduce(0) { $0 + value($1) }))])
        }
        var circuits: [String: Bool] = [:]
        var reachable: [String: Bool] = [:]
        for load in loads {
            for (name, isOpen) in load.circuits { circuits[name] = isOpen || circuits[name] == true }
            for (target, isReachable) in load.reachability { reachable[target] = isReachable }
        }
        return [
            gauge("lat_client_calls_running", "Calls that run.", \.calls),
            gauge("http_client_open_connections", "Open connections.", \.connections),
            gauge("lat_client_transfers_running", "Transfers that have a connection or are getting one.", \.transfers),
            gauge("lat_client_transfers_queued", "Transfers that wait for a free connection.", \.queued),
            MetricFamily(
                name: "lat_client_circuit_open", kind: .gauge, help: "Circuits that have seen failures: 1 while open.",
                samples: circuits.sorted { $0.key < $1.key }.prefix(SeriesTable.limit).map {
                    MetricSample([("circuit", $0.key)], $0.value ? 1 : 0)
                }),
            MetricFamily(
                name: "lat_client_reachable", kind: .gauge, help: "Targets that were probed: 1 if reachable.",
                samples: reachable.sorted { $0.key < $1.key }.prefix(SeriesTable.limit).map {
                    MetricSample([("target", $0.key)], $0.value ? 1 : 0)
                }),
        ]
    }
}

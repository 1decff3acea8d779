internal import LATNetworking

/// The gauges of managers, read at each scrape.
enum LoadFamilies {
    static func families(of managers: [CentralRequestManager]) async -> [MetricFamily] {
        var loads: [CentralRequestManager.Load] = []
        for manager in managers { loads.append(await manager.load) }
        guard !loads.isEmpty else { return [] }
        func gauge(_ name: String, _ help: String, _ value: (CentralRequestManager.Load) -> Int) -> MetricFamily {
            MetricFamily(
                name: name, kind: .gauge, help: help,
                samples: [MetricSample(value: .number(Double(loads.reduce(0) { $0 + value($1) })))])
        }
        func flags(_ name: String, _ help: String, _ label: String, _ values: [String: Bool]) -> MetricFamily {
            MetricFamily(
                name: name, kind: .gauge, help: help,
                samples: values.sorted { $0.key < $1.key }.prefix(SeriesTable.limit).map {
                    MetricSample(labels: [(label, $0.key)], value: .number($0.value ? 1 : 0))
                })
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
            flags(
                "lat_client_circuit_open", "Circuits that have seen failures: 1 while open.", "circuit", circuits),
            flags("lat_client_reachable", "Targets that were probed: 1 if reachable.", "target", reachable),
        ]
    }
}

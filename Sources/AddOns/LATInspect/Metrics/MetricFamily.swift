internal import LATNetworking
internal import Synchronization

/// A metric with its samples, ready to be written.
struct MetricFamily {
    enum Kind: String {
        case counter, gauge, histogram
    }

    /// The name without `_total`.
    var name: String
    var kind: Kind
    /// The unit that the name ends with; `nil` for none.
    var unit: String?
    var help: String
    var samples: [MetricSample] = []

    /// The family with one sample for each set of labels: those with equal labels are added up.
    var merged: MetricFamily {
        var family = self
        family.samples = []
        var places: [[String]: Int] = [:]
        for sample in samples {
            let labels = sample.labels.flatMap { [$0.name, $0.value] }
            if let place = places[labels] {
                family.samples[place].value.add(sample.value)
            } else {
                places[labels] = family.samples.count
                family.samples.append(sample)
            }
        }
        return family
    }
}

struct MetricSample {
    enum Value {
        case number(Double)
        case histogram(Histogram)

        /// Adds a value of the same family, whose histograms have equal bounds.
        mutating func add(_ other: Value) {
            switch (self, other) {
            case (.number(let one), .number(let two)): self = .number(one + two)
            case (.histogram(let one), .histogram(let two)):
                let buckets = zip(one.buckets, two.buckets).map { ($0.bound, $0.count + $1.count) }
                self = .histogram(
                    Histogram(buckets: buckets, count: one.count + two.count, sum: one.sum + two.sum))
            default: break
            }
        }
    }

    struct Histogram {
        /// Upper bounds, with the number of values up to each.
        var buckets: [(bound: Double, count: UInt64)]
        var count: UInt64
        var sum: Double
    }

    var labels: [(name: String, value: String)] = []
    var value: Value
}

/// Writes families in one of the text formats of Prometheus.
struct MetricText {
    let format: Metrics.Format

    func text(_ families: [MetricFamily]) -> String {
        var output = ""
        for family in families where !family.samples.isEmpty { write(family, to: &output) }
        if format == .openMetrics { output += "# EOF\n" }
        return output
    }

    private func write(_ family: MetricFamily, to output: inout String) {
        // In OpenMetrics the family of a counter has the name without `_total`.
        let total = family.kind == .counter ? family.name + "_total" : family.name
        let title = format == .openMetrics ? family.name : total
        output += "# HELP \(title) \(escapedHelp(family.help))\n# TYPE \(title) \(family.kind.rawValue)\n"
        if format == .openMetrics, let unit = family.unit { output += "# UNIT \(title) \(unit)\n" }
        for sample in family.samples {
            switch sample.value {
            case .number(let number): output += "\(total)\(labels(sample.labels)) \(text(number))\n"
            case .histogram(let histogram):
                for (bound, count) in histogram.buckets {
                    output += "\(title)_bucket\(labels(sample.labels, le: text(bound))) \(text(Double(count)))\n"
                }
                output += "\(title)_bucket\(labels(sample.labels, le: "+Inf")) \(text(Double(histogram.count)))\n"
                output += "\(title)_sum\(labels(sample.labels)) \(text(histogram.sum))\n"
                output += "\(title)_count\(labels(sample.labels)) \(text(Double(histogram.count)))\n"
            }
        }
    }

    private func labels(_ labels: [(name: String, value: String)], le: String? = nil) -> String {
        var pairs = labels.map { "\($0.name)=\"\(escaped($0.value))\"" }
        if let le { pairs.append("le=\"\(le)\"") }
        return pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}"
    }

    /// A number: `1` in the older format, `1.0` in OpenMetrics, which asks for canonical numbers.
    private func text(_ number: Double) -> String {
        if number.isNaN { return "NaN" }
        if number.isInfinite { return number > 0 ? "+Inf" : "-Inf" }
        let text = "\(number)"
        return format == .openMetrics || !text.hasSuffix(".0") ? text : String(text.dropLast(2))
    }

    private func escaped(_ value: String) -> String {
        value.replacingScalars(["\\": "\\\\", "\n": "\\n", "\r": " ", "\"": "\\\""])
    }

    private func escapedHelp(_ text: String) -> String {
        text.replacingScalars(["\\": "\\\\", "\n": "\\n", "\r": " "])
    }
}

/// The counters of objects that may be released, closed or unreadable for a while. A total never falls, because Prometheus would
/// take that for a restart and count the rest once more.
struct KeptTotals {
    private struct Key: Hashable {
        let name: String
        let owner: ObjectIdentifier
    }

    private var last: [Key: Int] = [:]
    /// Of objects whose addresses others have now.
    private var gone: [String: Int] = [:]

    mutating func note(_ name: String, _ value: Int, of owner: AnyObject) {
        let key = Key(name: name, owner: ObjectIdentifier(owner))
        if let before = last[key], before > value { gone[name, default: 0] += before }
        last[key] = value
    }

    func total(_ name: String) -> Int {
        last.reduce(gone[name] ?? 0) { $0 + ($1.key.name == name ? $1.value : 0) }
    }
}

/// The gauges of managers, read at each scrape.
enum LoadFamilies {
    static func families(
        of managers: [CentralRequestManager], _ kept: borrowing Mutex<KeptTotals>
    ) async -> [MetricFamily] {
        let (unchecked, saved) = ("lat_client_certificates_unchecked", "lat_client_dictionary_saved_bytes")
        var loads: [CentralRequestManager.Load] = []
        for manager in managers {
            let load = await manager.load
            loads.append(load)
            kept.withLock {
                $0.note(unchecked, load.uncheckedCertificates, of: manager)
                $0.note(saved, Int(load.dictionarySavedBytes), of: manager)
            }
        }
        func total(_ name: String) -> MetricSample {
            MetricSample(value: .number(Double(kept.withLock { $0.total(name) })))
        }
        guard !loads.isEmpty else { return [] }
        func gauge(_ name: String, _ help: String, _ value: (CentralRequestManager.Load) -> Int) -> MetricFamily {
            MetricFamily(
                name: name, kind: .gauge, help: help,
                samples: [MetricSample(value: .number(Double(loads.reduce(0) { $0 + value($1) })))])
        }
        func values(_ name: String, _ help: String, _ label: String, _ values: [String: Int]) -> MetricFamily {
            MetricFamily(
                name: name, kind: .gauge, help: help,
                samples: values.sorted { $0.key < $1.key }.prefix(SeriesTable.limit).map {
                    MetricSample(labels: [(label, $0.key)], value: .number(Double($0.value)))
                })
        }
        func flag(_ isSet: Bool) -> Int { isSet ? 1 : 0 }
        var circuits: [String: Bool] = [:]
        var reachable: [String: Bool] = [:]
        var adaptive: [String: Int] = [:]
        for load in loads {
            for (name, isOpen) in load.circuits { circuits[name] = isOpen || circuits[name] == true }
            adaptive.merge(load.adaptiveLimits, uniquingKeysWith: +)
            for (target, isReachable) in load.reachability { reachable[target] = isReachable }
        }
        // With the labels that OpenTelemetry requires.
        var openConnections = MetricFamily(
            name: "http_client_open_connections", kind: .gauge, help: "Open connections, by whether they are in use.")
        for (origin, count) in loads.flatMap(\.origins).sorted(by: { $0.key < $1.key }).prefix(SeriesTable.limit) {
            let labels = Series.labels(of: HTTPRequest.Server(origin))
            for (state, value) in [("active", count.active), ("idle", count.idle)] {
                openConnections.samples.append(
                    MetricSample(labels: [("http_connection_state", state)] + labels, value: .number(Double(value))))
            }
        }
        return [
            gauge("lat_client_calls_running", "Calls that run.", \.calls),
            openConnections.merged,
            gauge("lat_client_transfers_running", "Transfers that have a connection or are getting one.", \.transfers),
            MetricFamily(
                name: unchecked, kind: .counter,
                help: "Certificates that were accepted without a check for revocation (soft).",
                samples: [total(unchecked)]),
            MetricFamily(
                name: saved, kind: .counter, unit: "bytes",
                help: "Bytes that were not received because stored responses served as dictionaries.",
                samples: [total(saved)]),
            gauge("lat_client_transfers_queued", "Transfers that wait for a free connection.", \.queued),
            values(
                "lat_client_circuit_open", "Circuits that have seen failures: 1 while open.", "circuit",
                circuits.mapValues(flag)),
            values(
                "lat_client_adaptive_limit", "Requests that may run at once, as found by their latency.", "limit",
                adaptive),
            values(
                "lat_client_reachable", "Targets that were probed: 1 if reachable.", "target",
                reachable.mapValues(flag)),
        ]
    }
}

/// The numbers of outboxes, read at each scrape.
enum OutboxFamilies {
    static func families(of outboxes: [Outbox], _ kept: borrowing Mutex<KeptTotals>) async -> [MetricFamily] {
        let (sent, failed) = ("lat_client_outbox_sent", "lat_client_outbox_failed")
        var loads: [Outbox.Load] = []
        for outbox in outboxes {
            guard let load = try? await outbox.load else { continue }
            loads.append(load)
            kept.withLock {
                $0.note(sent, load.sent, of: outbox)
                $0.note(failed, load.failed, of: outbox)
            }
        }
        func total(_ name: String) -> Double { Double(kept.withLock { $0.total(name) }) }
        guard !loads.isEmpty else { return [] }
        func family(
            _ name: String, _ kind: MetricFamily.Kind, _ help: String, unit: String? = nil,
            _ samples: [(labels: [(name: String, value: String)], value: Double)]
        ) -> MetricFamily {
            MetricFamily(
                name: name, kind: kind, unit: unit, help: help,
                samples: samples.map { MetricSample(labels: $0.labels, value: .number($0.value)) })
        }
        func sum(_ value: (Outbox.Load) -> Int) -> Double { Double(loads.reduce(0) { $0 + value($1) }) }
        let oldest = loads.compactMap(\.oldest).max() ?? .zero
        return [
            family(
                "lat_client_outbox_entries", .gauge, "Entries of outboxes, by their state.",
                [
                    ([("state", "waiting")], sum(\.waiting)), ([("state", "answered")], sum(\.answered)),
                    ([("state", "dead")], sum(\.dead)),
                ]),
            family("lat_client_outbox_sending", .gauge, "Entries that are being sent.", [([], sum(\.sending))]),
            family(
                "lat_client_outbox_size_bytes", .gauge, "Size of the entries with their bodies.", unit: "bytes",
                [([], Double(loads.reduce(0) { $0 + $1.size }))]),
            family(
                "lat_client_outbox_oldest_seconds", .gauge, "Age of the oldest entry that waits; 0 without one.",
                unit: "seconds", [([], oldest / .seconds(1))]),
            family(sent, .counter, "Entries that were sent successfully.", [([], total(sent))]),
            family(failed, .counter, "Attempts that failed.", [([], total(failed))]),
        ]
    }
}

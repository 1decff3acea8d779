import LATNetworking
import ResponseCache

/// What `lat cache` shows: lines for people, one object for programs. A pure value.
struct CacheReport {
    let directory: String
    /// What is stored now.
    let usage: CacheUsage
    /// What is stored, one by one; empty where only the sizes are known.
    var entries: [CacheEntry] = []
    /// What was removed; `nil` when nothing was to be.
    var removed: CacheUsage?

    private static let groups: [(name: String, of: @Sendable (CacheEntry) -> String?)] = [
        ("domains", { $0.domain }), ("servers", { $0.server }), ("users", { $0.partition }),
    ]

    /// `12 responses, 3.40 MiB in /var/cache/app`, then what they belong to.
    func lines(_ style: Style) -> [String] {
        let folder = SafeText.line(directory)
        if let removed { return ["removed \(Self.amount(removed)); \(Self.amount(usage)) left in \(folder)"] }
        var lines = [style.bold("\(Self.amount(usage)) in \(folder)")]
        let pinned = entries.count { $0.isPinned }
        if pinned > 0 { lines.append("  \(Quantity.grouped(pinned)) pinned") }
        let values = entries.count { $0.isValue }
        if values > 0 { lines.append("  \(Quantity.grouped(values)) of them values of the app") }
        for group in Self.groups {
            let sums = sums(group.of)
            guard !sums.isEmpty else { continue }
            lines.append(group.name)
            let width = sums.map { SafeText.line($0.name).count }.max() ?? 0
            for sum in sums {
                lines.append("  " + SafeText.line(sum.name).padded(toEnd: width) + "  " + Self.amount(sum.usage))
            }
        }
        return lines
    }

    var value: JSONValue {
        var value: JSONValue = ["directory": .string(directory), "stored": Self.value(usage)]
        if let removed {
            value["removed"] = Self.value(removed)
            return value
        }
        value["pinned"] = .int(Int64(entries.count { $0.isPinned }))
        value["values"] = .int(Int64(entries.count { $0.isValue }))
        for group in Self.groups {
            value[group.name] = .array(
                sums(group.of).map { sum in
                    var item = Self.value(sum.usage)
                    item["name"] = .string(sum.name)
                    return item
                })
        }
        return value
    }

    /// The largest first.
    private func sums(_ name: (CacheEntry) -> String?) -> [(name: String, usage: CacheUsage)] {
        var sums: [String: CacheUsage] = [:]
        for entry in entries {
            guard let name = name(entry) else { continue }
            sums[name, default: CacheUsage()].entryCount += 1
            sums[name, default: CacheUsage()].byteCount += entry.bodyByteCount
        }
        return sums.map { (name: $0.key, usage: $0.value) }
            .sorted { ($1.usage.byteCount, $0.name) < ($0.usage.byteCount, $1.name) }
    }

    private static func amount(_ usage: CacheUsage) -> String {
        let word = usage.entryCount == 1 ? "response" : "responses"
        return "\(Quantity.grouped(usage.entryCount)) \(word), \(Quantity.bytes(usage.byteCount))"
    }

    private static func value(_ usage: CacheUsage) -> JSONValue {
        ["entries": .int(Int64(usage.entryCount)), "bytes": .int(usage.byteCount)]
    }
}

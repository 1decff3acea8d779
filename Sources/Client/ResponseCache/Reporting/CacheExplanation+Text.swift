import FoundationEssentials
import HTTPCore

extension CacheExplanation: CustomStringConvertible {
    /// The explanation as text: the request, the policy, the verdict with its reason, and the stored responses.
    public var description: String {
        lines.map { "\($0.name)\(String(repeating: " ", count: 12 - $0.name.count))\($0.text)" }.joined(separator: "\n")
    }

    /// The lines of ``description``: a name and its text. A line without a name continues the one before.
    package var lines: [(name: String, text: String)] {
        var lines = [(name: "request", text: "\(method.rawValue) \(url)")]
        lines.append(("policy", "\(policy.name), of the \(policySource.rawValue)"))
        if let partition { lines.append(("partition", partition)) }
        if hasCredentials {
            lines.append(("sender", "has credentials: what is stored for it is only for the same ones"))
        }
        lines.append(("verdict", sentence))
        for item in stored {
            lines.append(("stored", text(of: item)))
            if let miss = item.miss { lines.append(("", "not used: \(miss)")) }
            for line in details(of: item.entry) { lines.append(("", line)) }
        }
        if let dictionary {
            let match = dictionary.headers["Use-As-Dictionary"] ?? ""
            lines.append(("dictionary", "\(dictionary.url), \(dictionary.bodyByteCount) bytes, for \(match)"))
        }
        if let line = elsewhere { lines.append(("elsewhere", line)) }
        if let refusal = lastRefusal {
            lines.append(
                (
                    "not stored",
                    "a response \(CacheMiss.text(time.timeIntervalSince(refusal.time))) ago: \(refusal.reason)"
                ))
        }
        return lines
    }

    private var sentence: String {
        let used = stored.first { $0.miss == nil }
        let place = used.map { $0.entry.tier == .remote ? "a shared store" : $0.entry.tier.rawValue } ?? "the cache"
        let rest = used.flatMap { item in item.lifetime.map { $0 - item.age } }
        switch verdict {
        case .answers:
            let left =
                policy == .cacheOnly
                ? "" : rest.map { ", valid for another \(CacheMiss.text($0))" } ?? ", valid forever"
            return "answered from \(place)\(left)"
        case .answersStale(let isRefreshed):
            let since = rest.map { ", expired \(CacheMiss.text(-$0)) ago" } ?? ""
            return "answered from \(place), stale\(since)" + (isRefreshed ? "; revalidated in the background" : "")
        case .answersFirst: return "delivered from \(place) first, then from the network"
        case .revalidates(let miss): return "the stored response is revalidated: \(miss)" + fallback
        case .fetches(let miss): return "the request is sent: \(miss)" + fallback
        case .fails(let miss): return "no response, as the network may not be used: \(miss)"
        case .bypasses(let refusal): return "the request bypasses the cache: \(refusal)"
        }
    }

    private var fallback: String { standsIn ? "; the stored response stands in if the network fails" : "" }

    private func text(of item: Stored) -> String {
        let entry = item.entry
        let place = entry.tier == .memory ? "in memory" : entry.tier == .disk ? "on disk" : "in a shared store"
        var text = "\(entry.status), \(entry.bodyByteCount) bytes, \(place), \(CacheMiss.text(item.age)) old"
        if let lifetime = item.lifetime {
            text +=
                item.age < lifetime
                ? ", valid for \(CacheMiss.text(lifetime))" : ", was valid for \(CacheMiss.text(lifetime))"
        }
        return text + (entry.isPinned ? ", pinned" : "")
    }

    /// The fields of an entry for freshness, validation and variants.
    private func details(of entry: CacheEntry) -> [String] {
        let names = ["Cache-Control", "Expires", "ETag", "Last-Modified", "Vary"]
        return names.compactMap { name in
            let values = entry.headers[values: name]
            return values.isEmpty ? nil : "\(name): \(values.joined(separator: ", "))"
        }
    }

    private var elsewhere: String? {
        guard !others.isEmpty else { return nil }
        let partitions = Set(others.filter { $0.partition != partition }.map { $0.partition ?? "" }).sorted()
        var parts = partitions.map { $0.isEmpty ? "without a partition" : "in the partition \($0)" }
        let methods = Set(others.filter { $0.partition == partition }.map(\.method)).sorted()
        parts += methods.map { $0 == method.rawValue ? "under another key" : "for \($0)" }
        let responses = others.count == 1 ? "1 response" : "\(others.count) responses"
        return "\(responses) of this URL: \(parts.joined(separator: ", "))"
    }
}

extension CachePolicy {
    /// The name of the policy, with its time to live.
    package var name: String {
        switch self {
        case .networkOnly: "networkOnly"
        case .writeOnly: "writeOnly"
        case .cacheOnly: "cacheOnly"
        case .cacheElseNetwork(.fixed(let time)): "cacheElseNetwork for \(time)"
        case .cacheElseNetwork(.sliding(let time)): "cacheElseNetwork for \(time) since the last use"
        case .cacheElseNetwork(.forever): "cacheElseNetwork forever"
        case .cacheThenNetwork: "cacheThenNetwork"
        case .networkElseCache: "networkElseCache"
        case .http: "http"
        }
    }
}

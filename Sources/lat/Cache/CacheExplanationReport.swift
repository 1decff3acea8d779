import LATNetworking
import ResponseCache

/// What `lat cache explain` shows: lines for people, one object for programs. A pure value.
struct CacheExplanationReport {
    let explanation: CacheExplanation
    /// Whether the folder holds entries that only their key opens.
    var isSealed = false

    /// Names on the left, what is to be said of them beside, the verdict in bold.
    func lines(_ style: Style) -> [String] {
        var lines = explanation.lines.map { line in
            let text = SafeText.line(line.text)
            return style.dim(line.name.padded(toEnd: 11)) + " " + (line.name == "verdict" ? style.bold(text) : text)
        }
        if isSealed {
            lines.append("the cache is encrypted: what it holds of this URL is not seen without the key")
        }
        return lines
    }

    var value: JSONValue {
        let verdict = Self.verdict(explanation.verdict)
        var value: JSONValue = [
            "method": .string(explanation.method.rawValue), "url": .string(explanation.url),
            "policy": .string(explanation.policy.name), "policySource": .string(explanation.policySource.rawValue),
            "verdict": .string(verdict.name), "standsIn": .bool(explanation.standsIn),
            "stored": .array(explanation.stored.map(Self.value)),
            "elsewhere": .int(Int64(explanation.others.count)), "sealed": .bool(isSealed),
        ]
        if let reason = verdict.reason { value["reason"] = .string(reason) }
        if let partition = explanation.partition { value["user"] = .string(partition) }
        return value
    }

    private static func value(_ stored: CacheExplanation.Stored) -> JSONValue {
        var value: JSONValue = [
            "status": .int(Int64(stored.entry.status)), "bytes": .int(stored.entry.bodyByteCount),
            "tier": .string(stored.entry.tier.rawValue), "age": .double(stored.age),
            "vary": .array(stored.entry.headers[values: "Vary"].map { .string($0) }),
            "pinned": .bool(stored.entry.isPinned),
        ]
        value["lifetime"] = stored.lifetime.map { .double($0) }
        value["etag"] = stored.entry.headers["ETag"].map { .string($0) }
        value["lastModified"] = stored.entry.headers["Last-Modified"].map { .string($0) }
        value["notUsed"] = stored.miss.map { .string("\($0)") }
        return value
    }

    private static func verdict(_ verdict: CacheExplanation.Verdict) -> (name: String, reason: String?) {
        switch verdict {
        case .answers: ("answers", nil)
        case .answersStale(let isRefreshed): (isRefreshed ? "answersStaleAndRefreshes" : "answersStale", nil)
        case .answersFirst: ("answersFirst", nil)
        case .revalidates(let miss): ("revalidates", "\(miss)")
        case .fetches(let miss): ("fetches", "\(miss)")
        case .fails(let miss): ("fails", "\(miss)")
        case .bypasses(let refusal): ("bypasses", "\(refusal)")
        }
    }
}

internal import LATNetworking
internal import ResponseCache

/// The counters that have no server label: their places in ``ShardedCounts``, and how they are written.
enum MetricTotals {
    static let started = 0
    static let retries = 1
    static let replays = 2
    static let notStored = 3
    static let opened = 4
    static let reused = 5
    private static let firstWait = 6
    private static let firstCache = firstWait + waits.count
    private static let firstSource = firstCache + cacheOutcomes.count
    private static let firstError = firstSource + sources.count
    static let duration = HistogramLayout.durations(at: firstError + groups.count)
    static let queue = HistogramLayout.durations(at: duration.start + duration.size)
    static let size = queue.start + queue.size

    private static let waits: [CallEvent.Wait] = [.barrier, .limits, .token, .sharedRequest, .connectivity]
    private static let sources: [HTTPResponse.Source] = [
        .network, .memoryCache, .diskCache, .remoteCache, .revalidated, .stale, .simulated,
    ]
    private static let cacheOutcomes: [CallRecord.CacheDecision.Action] = [
        .hit, .stale, .first, .revalidation, .miss, .failure, .bypass,
    ]
    /// The kinds of errors without their parentheses. The last counts all that are not listed.
    private static let groups = [
        "invalidRequest", "unknownName", "dns", "connect", "tls", "timeout", "cancelled", "httpStatus", "business",
        "decoding", "redirect", "bodyTooLarge", "connectionLost", "protocolViolation", "proxy", "addressBlocked",
        "cache",
        "storage", "requestBody", "integrity", "provider", "simulation", "unsupported", "authentication", "duplicate",
        "circuitOpen", "shutDown", "other",
    ]

    static func wait(_ reason: CallEvent.Wait) -> Int { firstWait + (waits.firstIndex(of: reason) ?? 0) }

    static func source(_ source: HTTPResponse.Source) -> Int {
        source == .network ? firstSource : firstSource + (sources.firstIndex(of: source) ?? 0)
    }

    static func cache(_ verdict: CacheExplanation.Verdict) -> Int {
        firstCache + (cacheOutcomes.firstIndex(of: CallRecord.CacheDecision.Action(verdict)) ?? 0)
    }

    static func error(_ kind: NetworkError.Kind) -> Int {
        firstError + (groups.firstIndex(of: group(kind)) ?? groups.count - 1)
    }

    /// The kind without its parentheses: `timeout` for `timeout(idle)`.
    static func group(_ kind: NetworkError.Kind) -> String { String(kind.description.prefix { $0 != "(" }) }

    static func families(_ counts: ShardedCounts) -> [MetricFamily] {
        func sample(_ place: Int, _ labels: (name: String, value: String)...) -> MetricSample {
            MetricSample(labels, Double(counts[place]))
        }
        var families = [
            MetricFamily(
                name: "lat_client_calls_started", kind: .counter, help: "Calls that began.", samples: [sample(started)]),
            MetricFamily(
                name: "lat_client_calls", kind: .counter,
                help: "Calls that ended with a response, by where it came from.",
                samples: sources.enumerated().map { sample(firstSource + $0, ("source", $1.rawValue)) }),
            MetricFamily(
                name: "lat_client_call_errors", kind: .counter, help: "Calls that ended with an error, by its kind.",
                samples: groups.enumerated().map { sample(firstError + $0, ("error_type", $1)) }),
            MetricFamily(
                name: "lat_client_call_duration_seconds", kind: .histogram, unit: "seconds",
                help: "Time of whole calls, with their repetitions and waits.",
                samples: [MetricSample([], duration.histogram(counts))]),
            MetricFamily(
                name: "lat_client_retries", kind: .counter, help: "Repetitions by the retry policy.",
                samples: [sample(retries)]),
            MetricFamily(
                name: "lat_client_replays", kind: .counter, help: "Repetitions with a renewed token.",
                samples: [sample(replays)]),
            MetricFamily(
                name: "lat_client_waits", kind: .counter, help: "Waits of calls, by what they wait for.",
                samples: waits.enumerated().map { sample(firstWait + $0, ("reason", $1.rawValue)) }),
        ]
        families.append(
            MetricFamily(
                name: "lat_client_cache_decisions", kind: .counter, help: "What the cache decided.",
                samples: cacheOutcomes.enumerated().map { sample(firstCache + $0, ("decision", $1.rawValue)) }))
        families.append(
            MetricFamily(
                name: "lat_client_cache_not_stored", kind: .counter, help: "Responses that the cache may not store.",
                samples: [sample(notStored)]))
        families.append(
            MetricFamily(
                name: "lat_client_connections", kind: .counter,
                help: "Requests by whether their connection was opened for them.",
                samples: [sample(opened, ("state", "opened")), sample(reused, ("state", "reused"))]))
        families.append(
            MetricFamily(
                name: "lat_client_queue_duration_seconds", kind: .histogram, unit: "seconds",
                help: "Wait for a free connection.", samples: [MetricSample([], queue.histogram(counts))]))
        return families
    }
}

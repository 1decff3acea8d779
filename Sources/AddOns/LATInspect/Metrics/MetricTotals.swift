internal import LATNetworking
internal import ResponseCache

/// The counters without a server label: their indices in ``ShardedCounts``, and how they are written.
enum MetricTotals {
    static let started = 0
    static let retries = 1
    static let replays = 2
    static let notStored = 3
    static let opened = 4
    static let reused = 5
    static let hedges = 6
    static let abandoned = 7
    static let undocumentedStatus = 8
    static let unknownValue = 9
    private static let firstWait = 10
    private static let firstCache = firstWait + waits.count
    private static let firstSource = firstCache + cacheOutcomes.count
    private static let firstError = firstSource + sources.count
    private static let firstFault = firstError + groups.count
    static let duration = HistogramLayout.durations(at: firstFault + faults.count)
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
    private static let groups = NetworkError.Kind.examples.map { CallRecord.Failure.group(of: $0.description) }

    private static let faults = ["delay", "refusal", "loss", "cut"]

    static func fault(_ fault: RequestOptions.Chaos.Fault) -> Int {
        firstFault + (faults.firstIndex(of: fault.name) ?? 0)
    }

    static func wait(_ reason: CallEvent.Wait) -> Int { firstWait + (waits.firstIndex(of: reason) ?? 0) }

    static func source(_ source: HTTPResponse.Source) -> Int {
        source == .network ? firstSource : firstSource + (sources.firstIndex(of: source) ?? 0)
    }

    static func cache(_ verdict: CacheExplanation.Verdict) -> Int {
        firstCache + (cacheOutcomes.firstIndex(of: CallRecord.CacheDecision.Action(verdict)) ?? 0)
    }

    static func error(_ kind: NetworkError.Kind) -> Int {
        firstError + (groups.firstIndex(of: CallRecord.Failure.group(of: kind.description)) ?? groups.count - 1)
    }

    static func families(_ counts: ShardedCounts) -> [MetricFamily] {
        func counter(_ name: String, _ help: String, at place: Int) -> MetricFamily {
            MetricFamily(
                name: name, kind: .counter, help: help, samples: [MetricSample(value: .number(Double(counts[place])))])
        }
        /// - Parameter start: the index of the first value; those of the others follow.
        func counters(
            _ name: String, _ help: String, by label: String, _ values: [String], from start: Int
        ) -> MetricFamily {
            let samples = values.enumerated().map {
                MetricSample(labels: [(label, $1)], value: .number(Double(counts[start + $0])))
            }
            return MetricFamily(name: name, kind: .counter, help: help, samples: samples)
        }
        func histogram(_ name: String, _ help: String, _ layout: HistogramLayout) -> MetricFamily {
            MetricFamily(
                name: name, kind: .histogram, unit: "seconds", help: help,
                samples: [MetricSample(value: .histogram(layout.histogram(counts)))])
        }
        return [
            counter("lat_client_calls_started", "Calls that began.", at: started),
            counters(
                "lat_client_calls", "Calls that ended with a response, by where it came from.", by: "source",
                sources.map(\.rawValue), from: firstSource),
            counters(
                "lat_client_call_errors", "Calls that ended with an error, by its kind.", by: "error_type", groups,
                from: firstError),
            histogram(
                "lat_client_call_duration_seconds", "Time of whole calls, with their repetitions and waits.", duration),
            counter("lat_client_retries", "Repetitions by the retry policy.", at: retries),
            counter("lat_client_hedges", "Requests that were sent a second time because they took long.", at: hedges),
            counter(
                "lat_client_attempts_abandoned", "Attempts that were cancelled because another one was answered first.",
                at: abandoned),
            counter("lat_client_replays", "Repetitions with a renewed token.", at: replays),
            counters(
                "lat_client_waits", "Waits of calls, by what they wait for.", by: "reason", waits.map(\.rawValue),
                from: firstWait),
            counters(
                "lat_client_chaos_faults", "Faults that were made on purpose, by their kind.", by: "fault", faults,
                from: firstFault),
            counters(
                "lat_client_cache_decisions", "What the cache decided.", by: "decision", cacheOutcomes.map(\.rawValue),
                from: firstCache),
            counter("lat_client_cache_not_stored", "Responses that the cache did not store.", at: notStored),
            counters(
                "lat_client_undocumented",
                "Answers that the document of the API does not have, by what is new in them.",
                by: "what", ["status", "value"], from: undocumentedStatus),
            counters(
                "lat_client_connections", "Requests by whether their connection was opened for them.", by: "state",
                ["opened", "reused"], from: opened),
            histogram("lat_client_queue_duration_seconds", "Wait for a free connection.", queue),
        ]
    }
}

import HTTPCore
import Platform

/// The number of concurrent requests that a host takes, found by their latency. A pure value: its methods receive the time.
///
/// While requests queue at the server, they take longer than at their best. After each window of responses, the limit is
/// multiplied by the gradient, which is the best latency with some tolerance divided by the present one, and gets room for a
/// small queue, without which it could never grow. Refusals and timeouts lower it by their share of the window.
///
/// The best latency of a server may rise, by a new version or more data. So it ages: while the limit is not used, and after a
/// window with half the limit that was no faster than the one before, because then no request waited in a queue of ours.
struct AdaptiveLimit: Sendable {
    /// What the end of a request says.
    enum Sample: Hashable, Sendable {
        /// The server took this long. The request was sent the second time ago.
        case answered(Duration, after: Duration)
        /// 429, 503 or a timeout of a request that was sent this time ago.
        case overloaded(after: Duration)
        /// Nothing about the server, such as a cancellation.
        case nothing
    }

    /// The requests that ended since the last change.
    private struct Window {
        var began: Duration
        var sum = 0.0
        var count = 0
        var refused = 0
        var mostRunning = 0

        /// The share of refusals; they lower the limit by a quarter at most.
        var decrease: Double { min(AdaptiveLimit.largestDecrease, Double(refused) / Double(max(1, count + refused))) }
    }

    /// A window with half the limit.
    private struct Probe {
        /// The limit to return to.
        let limit: Double
        let latency: Double
        let began: Duration
    }

    private static let tolerance = 1.2
    private static let smoothing = 0.4
    private static let largestDecrease = 0.25
    private static let fewestSamples = 10
    /// How often the best latency may rise, and by which factor. So a slow time of the server is not taken for its best.
    private static let aging = Duration.seconds(30)
    private static let largestRise = 1.5

    var bounds: RequestLimits.Adaptive { didSet { exact = within(exact) } }
    private var exact: Double
    private var window: Window
    private var best: Double?
    private var probe: Probe?
    private var windowsSinceProbe = 0
    private var agedAt: Duration
    /// When the limit was lowered by refusals. Refusals of requests sent before say the same once more.
    private var loweredAt = Duration.zero

    init(_ bounds: RequestLimits.Adaptive, at now: Duration) {
        self.bounds = bounds
        exact = Double(min(max(10, bounds.floor), bounds.ceiling))
        window = Window(began: now)
        agedAt = now
    }

    /// The number of requests that may run now.
    var limit: Int { Int(exact) }

    /// Whether what was learned is too old to be worth its memory.
    func isStale(at now: Duration) -> Bool { now - window.began > .seconds(600) }

    /// Records the end of a request.
    ///
    /// - Parameter running: how many ran, with this one.
    mutating func note(_ sample: Sample, running: Int, at now: Duration) {
        switch sample {
        case .answered(let latency, let age):
            // Those sent before the limit was halved waited in the queue that is measured.
            if let probe, now - age < probe.began { return }
            window.sum += latency.inSeconds
            window.count += 1
        case .overloaded(let age) where now - age >= loweredAt: window.refused += 1
        default: return
        }
        window.mostRunning = max(window.mostRunning, running)
        let average = window.count > 0 ? window.sum / Double(window.count) : best ?? 0
        // Refusals come at once, and their places are taken at once: waiting for a response would mean many more of them.
        guard
            window.refused >= max(3, limit / 2)
                || window.count + window.refused >= max(Self.fewestSamples, limit / 2)
                    && (now - window.began).inSeconds >= average
        else { return }
        if let probe { end(probe, average, at: now) } else { adjust(average, at: now) }
        if window.refused > 0 {
            exact = within(exact * (1 - window.decrease))
            loweredAt = now
        }
        window = Window(began: now)
    }

    private mutating func adjust(_ average: Double, at now: Duration) {
        windowsSinceProbe += 1
        if window.count >= Self.fewestSamples / 2 { best = min(best ?? average, average) }
        guard let best, window.count > 0 else { return }
        // With fewer requests than the limit allows, the latency says nothing about it.
        guard 2 * window.mostRunning > limit else { return age(to: average, at: now) }
        let gradient = max(0.5, min(1, Self.tolerance * best / max(average, 1e-9)))
        let wanted = exact * gradient + exact.squareRoot()
        exact = within(exact + Self.smoothing * (wanted - exact))
        // At the floor there is no half of the limit.
        guard window.refused == 0, now - agedAt >= Self.aging, windowsSinceProbe >= 20, within(exact / 2) <= 0.6 * exact
        else { return }
        probe = Probe(limit: exact, latency: average, began: now)
        exact = within(exact / 2)
    }

    private mutating func end(_ probe: Probe, _ average: Double, at now: Duration) {
        exact = within(probe.limit)
        self.probe = nil
        windowsSinceProbe = 0
        if window.refused == 0, average >= 0.9 * probe.latency { age(to: average, at: now) }
        best = min(best ?? average, average)
        agedAt = now
    }

    private mutating func age(to average: Double, at now: Duration) {
        guard let best, average > best, now - agedAt >= Self.aging else { return }
        self.best = min(average, best * Self.largestRise)
        agedAt = now
    }

    private func within(_ limit: Double) -> Double { min(max(limit, Double(bounds.floor)), Double(bounds.ceiling)) }
}

extension AdaptiveLimit.Sample {
    /// - Parameters:
    ///   - time: the time since the request was sent. It may include waits for a connection of ours and the body.
    ///   - wasSuspended: whether the caller suspended the request meanwhile.
    init(_ answer: Result<HTTPResponse, any Error>, after time: Duration, wasSuspended: Bool) {
        switch answer {
        case .success(let response) where response.status == 429 || response.status == 503:
            self = .overloaded(after: time)
        // Other responses, such as errors and redirects, often take less work, and so would be the best latency.
        case .success(let response) where (200..<300).contains(response.status) && !wasSuspended:
            let timings = response.timings
            let opened = timings.tls ?? timings.connect ?? .zero
            self = .answered(timings.firstByte.map { max(.zero, $0 - opened) } ?? time, after: time)
        case .failure(let error) where !wasSuspended:
            switch (error as? NetworkError)?.kind {
            // The deadline of a call includes its waits for the limit.
            case .timeout(.deadline): self = .nothing
            case .timeout: self = .overloaded(after: time)
            default: self = .nothing
            }
        default: self = .nothing
        }
    }
}

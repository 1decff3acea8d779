import HTTPCore
import Platform

/// The number of concurrent requests that a host takes, found by their latency. A pure value: its methods receive the time.
///
/// While requests queue at the server, they take longer than at their best. After each window of responses, the limit is
/// multiplied by the gradient, which is the best latency with some tolerance divided by the present one, and gets room for a
/// small queue, without which it could never grow. Refusals and timeouts lower it by their share of the window.
///
/// The latency of a window is the mean of the logarithms, so that a few slow responses do not hide that all others wait longer.
/// It differs from window to window also without a queue, and this spread is tolerated too. The best latency follows windows
/// that are faster than it by more than twice the spread, a part of the way: the fastest of many windows is a lucky one.
///
/// The best latency of a server may rise, by a new version or more data. So it ages: while the limit is not used, and after a
/// window with half the limit that was no faster than the one before, because then no request waited in a queue of ours.
struct AdaptiveLimit: Sendable {
    /// What the end of a request says.
    enum Sample: Hashable, Sendable {
        /// The server took this long. The request was sent the second time ago.
        case answered(Duration, after: Duration)
        /// 429 or 503 for a request that was sent this time ago.
        case overloaded(after: Duration)
        /// A timeout of the caller's after this time. A short one says nothing about the server.
        case timedOut(after: Duration)
        /// Nothing about the server, such as a cancellation.
        case nothing
    }

    /// The requests that ended since the last change.
    private struct Window {
        var began: Duration
        /// Of the logarithms of the latencies, and of their squares.
        var sum = 0.0
        var squares = 0.0
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
        /// When its window begins.
        let begins: Duration
    }

    private static let tolerance = 1.2
    private static let smoothing = 0.6
    private static let largestDecrease = 0.25
    /// The responses of a window, unless the limit is larger.
    private static let fewestSamples = 50
    private static let largestSpread = 1.0
    /// How often the best latency may rise, and by how much of its logarithm. So a slow time of the server is not taken for its
    /// best.
    private static let aging = Duration.seconds(30)
    private static let largestRise = 0.6
    /// A timeout after this many times the best latency means that the server is overloaded.
    private static let mostTimesBest = 4.0

    var bounds: RequestLimits.Adaptive { didSet { exact = within(exact) } }
    private var exact: Double
    private var window: Window
    /// The best latency and that of the last window, as logarithms to the base of 2, and how much windows differ.
    private var best: Double?
    private var previous: Double?
    private var variance = 0.0
    private var windows = 0
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

    /// How much the latencies of windows differ without a reason.
    private var spread: Double { min(Self.largestSpread, variance.squareRoot()) }

    /// Records the end of a request.
    ///
    /// - Parameter running: how many ran, with this one.
    mutating func note(_ sample: Sample, running: Int, at now: Duration) {
        switch sample {
        case .answered(let latency, _):
            // Those sent before the limit was halved waited in the queue that is measured. Of those sent after it, the fast ones
            // end first, so all wait for a while.
            if let probe, now < probe.begins { return }
            let logarithm = Self.logarithm(latency.inSeconds)
            window.sum += logarithm
            window.squares += logarithm * logarithm
            window.count += 1
        case .overloaded(let age) where now - age >= loweredAt: window.refused += 1
        case .timedOut(let age) where now - age >= loweredAt && isLong(age): window.refused += 1
        default: return
        }
        window.mostRunning = max(window.mostRunning, running)
        let average = window.count > 0 ? window.sum / Double(window.count) : best ?? Self.logarithm(0)
        // Refusals come at once, and their places are taken at once: waiting for a response would mean many more of them.
        guard
            window.refused >= max(3, limit / 2)
                || window.count + window.refused >= windowSize && (now - window.began).inSeconds >= Self.power(average)
        else { return }
        if let probe { end(probe, average, at: now) } else { adjust(average, at: now) }
        if window.refused > 0 {
            exact = within(exact * (1 - window.decrease))
            loweredAt = now
        }
        window = Window(began: now)
    }

    private var windowSize: Int { max(Self.fewestSamples, limit) }

    /// Whether a timeout says something about the server; while its best latency is unknown, from a second on.
    private func isLong(_ timeout: Duration) -> Bool {
        timeout.inSeconds >= (best.map { Self.mostTimesBest * Self.power($0) } ?? 1)
    }

    private mutating func adjust(_ average: Double, at now: Duration) {
        windowsSinceProbe += 1
        if window.count >= 5 { learn(average) }
        guard let best, window.count > 0 else { return }
        // With fewer requests than the limit allows, the latency says nothing about it.
        guard 2 * window.mostRunning > limit else { return age(to: average, at: now) }
        let gradient = max(0.5, min(1, Self.tolerance * Self.power(best + 2 * spread - average)))
        let wanted = exact * gradient + exact.squareRoot()
        exact = within(exact + Self.smoothing * (wanted - exact))
        // At the floor there is no half of the limit.
        guard window.refused == 0, now - agedAt >= Self.aging, windowsSinceProbe >= 20, within(exact / 2) <= 0.6 * exact
        else { return }
        probe = Probe(limit: exact, latency: average, begins: now + .seconds(4 * Self.power(average)))
        exact = within(exact / 2)
    }

    /// Learns the spread and the best latency from a window.
    private mutating func learn(_ average: Double) {
        windows += 1
        // Of single responses, as if they did not depend on each other, and of whole windows.
        let within = max(0, window.squares / Double(window.count) - average * average) / Double(window.count)
        let between = previous.map { (average - $0) * (average - $0) / 2 } ?? 0
        variance += (max(within, between) - variance) / Double(min(windows, 10))
        previous = average
        guard let known = best else { return best = average }
        if average < known - 2 * spread { best = known + 0.3 * (average + 2 * spread - known) }
    }

    private mutating func end(_ probe: Probe, _ average: Double, at now: Duration) {
        exact = within(probe.limit)
        self.probe = nil
        windowsSinceProbe = 0
        if window.refused == 0, average >= probe.latency - max(0.15, spread) { age(to: average, at: now) }
        best = min(best ?? average, average + spread)
        agedAt = now
    }

    private mutating func age(to average: Double, at now: Duration) {
        guard let best, average > best, now - agedAt >= Self.aging else { return }
        self.best = min(average, best + Self.largestRise)
        agedAt = now
    }

    private func within(_ limit: Double) -> Double { min(max(limit, Double(bounds.floor)), Double(bounds.ceiling)) }

    /// The logarithm to the base of 2, straight between the powers of 2.
    private static func logarithm(_ value: Double) -> Double {
        let value = max(value, 1e-9)
        return Double(value.exponent) + value.significand - 1
    }

    /// The inverse of the logarithm.
    private static func power(_ logarithm: Double) -> Double {
        let whole = logarithm.rounded(.down)
        return Double(sign: .plus, exponent: Int(whole), significand: 1 + logarithm - whole)
    }
}

extension AdaptiveLimit.Sample {
    /// - Parameters:
    ///   - time: the time since the request was sent. It may include waits for a connection of ours and the body.
    ///   - isUntimed: whether the time is not that of the server, as of an upload or a request that was suspended.
    init(_ answer: Result<HTTPResponse, any Error>, after time: Duration, isUntimed: Bool) {
        switch answer {
        case .success(let response) where response.status == 429 || response.status == 503:
            self = .overloaded(after: time)
        // Other responses, such as errors and redirects, often take less work, and so would be the best latency.
        case .success(let response) where (200..<300).contains(response.status) && !isUntimed:
            let timings = response.timings
            let opened = timings.tls ?? timings.connect ?? .zero
            self = .answered(timings.firstByte.map { max(.zero, $0 - opened) } ?? time, after: time)
        case .failure(let error) where !isUntimed:
            switch (error as? NetworkError)?.kind {
            // The deadline of a call includes its waits for the limit.
            case .timeout(.total), .timeout(.idle): self = .timedOut(after: time)
            default: self = .nothing
            }
        default: self = .nothing
        }
    }
}

extension HTTPBody {
    /// Whether sending it may take longer than the server does.
    var isUpload: Bool {
        switch content {
        case .data(let data): data.count > 16_384
        case .parameters, .encoded: false
        case .file, .stream, .multipart: true
        }
    }
}

import HTTPCore

/// How long the calls of a row took lately. A pure value: its methods receive the time.
///
/// Eight buckets for each doubling, so that a percentile is at most an eighth too high, and never too low. There are two
/// generations: the counts of at least 30 s and 100 calls, and those before them. What is older than 20 minutes is forgotten.
struct LatencyHistogram: Sendable {
    static let fewestSamples = 100
    private static let shortestGeneration = Duration.seconds(30)
    private static let longestGeneration = Duration.seconds(600)
    /// The first bucket ends at 2^16 ns, the last has all from 2^41 ns (37 minutes) on.
    private static let firstExponent = 16
    private static let size = 8 * 25

    private var counts = [UInt32](repeating: 0, count: size)
    private var older = [UInt32](repeating: 0, count: size)
    private var count = 0
    private var olderCount = 0
    private var began: Duration?
    /// The percentile that was asked for last, which is kept for a few samples.
    private var memo: (percentile: Double, value: Duration?, samples: Int)?

    mutating func note(_ latency: Duration, at now: Duration) {
        forget(at: now)
        if let began, now - began >= Self.shortestGeneration, count >= Self.fewestSamples { turn(at: now) }
        if began == nil { began = now }
        counts[Self.bucket(of: latency)] &+= 1
        count += 1
    }

    /// The time within which a percentage of the calls ended; `nil` with too few calls to tell.
    mutating func percentile(_ percentile: Double, at now: Duration) -> Duration? {
        forget(at: now)
        let samples = count + olderCount
        guard samples >= Self.fewestSamples else { return nil }
        if let memo, memo.percentile == percentile, samples - memo.samples < 50 { return memo.value }
        var above = Double(samples) * (1 - percentile / 100)
        var bucket = Self.size - 1
        while bucket > 0 {
            above -= Double(counts[bucket] + older[bucket])
            if above < 0 { break }
            bucket -= 1
        }
        let value = Self.end(of: bucket)
        memo = (percentile, value, samples)
        return value
    }

    mutating func isEmpty(at now: Duration) -> Bool {
        forget(at: now)
        return count + olderCount == 0
    }

    private mutating func forget(at now: Duration) {
        guard let began, now - began >= Self.longestGeneration else { return }
        turn(at: now)
        if now - began >= Self.longestGeneration * 2 { turn(at: now) }
    }

    private mutating func turn(at now: Duration) {
        (older, olderCount) = (counts, count)
        counts = [UInt32](repeating: 0, count: Self.size)
        (count, began, memo) = (0, now, nil)
    }

    private static func bucket(of latency: Duration) -> Int {
        let (seconds, attoseconds) = latency.components
        guard seconds < 4_000 else { return size - 1 }
        let time = max(1 << firstExponent, Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
        let exponent = Int.bitWidth - 1 - time.leadingZeroBitCount
        return min(size - 1, (exponent - firstExponent) * 8 + (time >> (exponent - 3)) & 7)
    }

    private static func end(of bucket: Int) -> Duration {
        .nanoseconds((9 + bucket & 7) << (firstExponent + bucket >> 3 - 3))
    }
}

/// How many of a row's calls are hedged. A pure value: its methods receive the time.
///
/// Hedges are only worth what they cost while few calls are slow. When a whole server is slow, nearly all calls are, and
/// hedging all of them would double its load. So the share holds over a minute and over ten seconds, and in one or two seconds
/// at most four times as many calls are hedged.
struct HedgeShare: Sendable {
    private static let seconds = 60
    private static let burst = 4.0

    private var calls = [UInt32](repeating: 0, count: seconds)
    private var hedges = [UInt32](repeating: 0, count: seconds)
    private(set) var callsInWindow = 0
    private(set) var hedgesInWindow = 0
    private var second = 0
    /// The end of that second.
    private var end = Duration.zero

    mutating func noteCall(at now: Duration) {
        advance(to: now)
        calls[second % Self.seconds] &+= 1
        callsInWindow += 1
    }

    /// Whether another call may be hedged, and if so counts it.
    ///
    /// - Parameter pays: called last; whether the hedge is paid for.
    mutating func take(_ share: Double, at now: Duration, pays: () -> Bool) -> Bool {
        advance(to: now)
        guard Double(hedgesInWindow + 1) <= share * Double(callsInWindow) else { return false }
        // The minute may allow a hedge to a row with few calls, of which hardly any are in these seconds.
        guard hasRoom(share, in: 10), hasRoom(Self.burst * share, in: 2), pays() else { return false }
        hedges[second % Self.seconds] += 1
        hedgesInWindow += 1
        return true
    }

    private func hasRoom(_ share: Double, in seconds: Int) -> Bool {
        var (recentCalls, recentHedges) = (0, 0)
        for back in 0..<seconds {
            let place = (second + Self.seconds - back) % Self.seconds
            recentCalls += Int(calls[place])
            recentHedges += Int(hedges[place])
        }
        return Double(recentHedges + 1) <= max(1, share * Double(recentCalls))
    }

    /// Takes back a hedge that was not sent.
    ///
    /// - Parameter time: when it was taken.
    mutating func giveBack(_ time: Duration, at now: Duration) {
        advance(to: now)
        let taken = Int(time.components.seconds)
        guard second - taken < Self.seconds, hedges[taken % Self.seconds] > 0 else { return }
        hedges[taken % Self.seconds] -= 1
        hedgesInWindow -= 1
    }

    mutating func advance(to now: Duration) {
        guard now >= end else { return }
        let next = max(second, Int(now.components.seconds))
        for second in max(second + 1, next - Self.seconds + 1)..<(next + 1) where next > self.second {
            callsInWindow -= Int(calls[second % Self.seconds])
            hedgesInWindow -= Int(hedges[second % Self.seconds])
            calls[second % Self.seconds] = 0
            hedges[second % Self.seconds] = 0
        }
        second = next
        end = .seconds(next + 1)
    }
}

/// What hedging knows of a row's calls, and what it decides. A pure value: its methods receive the time.
struct HedgeRow: Sendable {
    private(set) var share = HedgeShare()
    private var latencies = LatencyHistogram()

    /// Begins an attempt of a call.
    ///
    /// - Parameter isFirst: whether nothing of the call was sent before. Then it is counted.
    /// - Returns: how long its request may take before it is sent again; `nil` while nothing is known.
    mutating func begin(_ policy: RequestOptions.Hedge, isFirst: Bool = true, at now: Duration) -> Duration? {
        if isFirst { share.noteCall(at: now) }
        return switch policy.after {
        case .time(let time): time
        case .percentile(let percentile): latencies.percentile(percentile, at: now) ?? policy.initially
        }
    }

    /// Whether a call may be sent again now, and if so counts that.
    mutating func hedges(_ policy: RequestOptions.Hedge, at now: Duration, pays: () -> Bool) -> Bool {
        share.take(policy.share, at: now, pays: pays)
    }

    /// Whether nothing is known that a new value would not know.
    mutating func isIdle(at now: Duration) -> Bool {
        share.advance(to: now)
        return share.callsInWindow == 0 && latencies.isEmpty(at: now)
    }

    /// Takes back a hedge that was not sent, such as one that waited for a limit until the first request was answered.
    mutating func giveBack(_ time: Duration, at now: Duration) { share.giveBack(time, at: now) }

    /// Records the response to a call, whichever of its requests it is for. A call whose first request was slower than its
    /// hedge counts with the time until then, so that hedging does not hide slow servers from the percentile.
    ///
    /// - Parameter time: the time since its first request was sent.
    mutating func end(after time: Duration, at now: Duration) { latencies.note(time, at: now) }
}

extension RequestOptions.Hedge {
    /// Whether a response ends the wait for another one: a server that is overloaded or fails may be alone with that. A server
    /// responds 409 to an idempotency key whose first request it still processes (draft-ietf-httpapi-idempotency-key-header-07
    /// §2.6), so that the other request has the response.
    ///
    /// - Parameter isRepetition: whether it is for a request to another address, which may lack what the first one has, or for one
    ///   with values that the server may take only once. Then only success counts.
    static func isGood(
        _ answer: Result<HTTPResponse, any Error>, to request: HTTPRequest, isRepetition: Bool = false
    ) -> Bool {
        guard case .success(let response) = answer, response.partFault == nil else { return false }
        return switch response.status {
        case 408, 421, 425, 429, 500...: false
        case 409: request.method.isSafe && !isRepetition
        case 400...: !isRepetition
        default: true
        }
    }

    /// Whether the time of a response is that of a usual one. Refusals and errors are often faster.
    static func isSample(_ response: HTTPResponse) -> Bool { (200..<400).contains(response.status) }

    /// Whether a request may be sent twice at the same time.
    static func isPossible(_ request: HTTPRequest) -> Bool {
        (request.method.isSafe || request.idempotencyKey != nil) && request.streamsBody != true
            && !request.context.isLive && !request.context.upgrades
            // An interceptor may have set another body than that of the call. Trailers are made once, after the body.
            && request.body?.isReplayable ?? true && request.trailers == nil
    }
}

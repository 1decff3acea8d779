import HTTPCore
import Platform
import TestSupport
import Testing

@testable import LATClient
@testable import LATKit

/// Queues, token renewals and activity indicators as pure values, driven at random.
@Suite struct FlowQueueTests {
    // MARK: Limits

    private struct Running: Hashable {
        let id: Int
        let host: String
    }

    @Test(arguments: 0..<25)
    func limitsHoldAndEveryWaiterStarts(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var limits = RequestLimits()
        if Bool.random(using: &generator) { limits.maxConcurrentRequests = Int.random(in: 1...6, using: &generator) }
        if Bool.random(using: &generator) {
            limits.maxConcurrentRequestsPerHost = Int.random(in: 1...3, using: &generator)
        }
        if Bool.random(using: &generator) { limits.rate = RequestLimits.RateLimit(perSecond: 20, burst: 3) }
        if Bool.random(using: &generator) { limits.ratePerHost = RequestLimits.RateLimit(perSecond: 8, burst: 2) }
        var now = Duration.zero
        var queue = LimitQueue<Int>(limits, at: now)
        var hosts: [Int: String] = [:]
        var waiting: Set<Int> = []
        var running: [Running] = []
        var starts = 0
        func take(_ turn: LimitQueue<Int>.Turn) {
            for id in turn.started {
                #expect(waiting.remove(id) != nil)
                running.append(Running(id: id, host: hosts[id] ?? ""))
                starts += 1
            }
        }
        func check() {
            #expect(queue.running == running.count)
            if let limit = limits.maxConcurrentRequests { #expect(running.count <= limit) }
            if let limit = limits.maxConcurrentRequestsPerHost {
                for host in ["a", "b", "c"] { #expect(running.count { $0.host == host } <= limit) }
            }
            if let rate = limits.rate { #expect(Double(starts) <= 3 + now.inSeconds * rate.perSecond + 1e-6) }
        }
        for id in 0..<300 {
            now += .milliseconds(Int64.random(in: 0...30, using: &generator))
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1, 2:
                let host = ["a", "b", "c"].randomElement(using: &generator) ?? "a"
                hosts[id] = host
                waiting.insert(id)
                let priority = RequestPriority.allCases.randomElement(using: &generator) ?? .normal
                take(queue.enter(id, host: host, priority: priority, at: now))
            case 3:
                guard !running.isEmpty else { continue }
                let over = running.remove(at: Int.random(in: running.indices, using: &generator))
                take(queue.leave(host: over.host, at: now))
            case 4:
                guard let id = waiting.randomElement(using: &generator), let host = hosts[id] else { continue }
                waiting.remove(id)
                #expect(queue.cancel(id, host: host) == true)
                #expect(queue.cancel(id, host: host) == false)
            default:
                take(queue.advance(at: now))
            }
            check()
        }
        // Drain the queue: ends and the requested wake-ups must start every waiter.
        var rounds = 0
        while !waiting.isEmpty || !running.isEmpty, rounds < 5_000 {
            rounds += 1
            if let over = running.popLast() {
                take(queue.leave(host: over.host, at: now))
            } else {
                let turn = queue.advance(at: now)
                take(turn)
                guard running.isEmpty else { continue }
                guard let wait = turn.wakeAfter else {
                    Issue.record("\(waiting.count) requests wait without a wake-up")
                    return
                }
                now += wait
            }
            check()
        }
        #expect(waiting.isEmpty)
    }

    @Test func priorityThenArrivalDecidesTheOrder() {
        var limits = RequestLimits()
        limits.maxConcurrentRequests = 1
        var queue = LimitQueue<String>(limits, at: .zero)
        #expect(queue.enter("running", host: "h", priority: .normal, at: .zero).started == ["running"])
        for (id, priority) in [
            ("low", RequestPriority.low), ("a", .normal), ("high", .high), ("b", .normal), ("late", .low),
        ] {
            #expect(queue.enter(id, host: id == "a" ? "other" : "h", priority: priority, at: .zero).started == [])
        }
        queue.raise("late", host: "h", to: .high)
        var order: [String] = []
        for host in ["h", "h", "h", "other", "h"] {
            order += queue.leave(host: host, at: .zero).started
        }
        #expect(order == ["high", "late", "a", "b", "low"])
    }

    /// A crawler has a request for each of very many hosts, and ends or hurries thousands of waiting requests at once.
    @Test func manyHostsAndWaitersStartInOrder() {
        var limits = RequestLimits()
        limits.maxConcurrentRequests = 100
        limits.ratePerHost = RequestLimits.RateLimit(perSecond: 10)
        var queue = LimitQueue<Int>(limits, at: .zero)
        var order: [Int] = []
        for id in 0..<20_000 {
            order += queue.enter(id, host: "\(id)", priority: .normal, at: .milliseconds(id)).started
        }
        for id in 0..<20_000 { order += queue.leave(host: "\(id)", at: .seconds(100)).started }
        #expect(order == Array(0..<20_000))
        #expect(queue.running == 0)

        limits.ratePerHost = nil
        queue = LimitQueue<Int>(limits, at: .zero)
        order = []
        for id in 0..<20_000 { order += queue.enter(id, host: "h", priority: .normal, at: .zero).started }
        for id in 10_000..<15_000 { queue.raise(id, host: "h", to: .high) }
        for id in (15_000..<20_000).reversed() { #expect(queue.cancel(id, host: "h") == true) }
        for _ in 0..<15_000 { order += queue.leave(host: "h", at: .zero).started }
        #expect(order == Array(0..<100) + Array(10_000..<15_000) + Array(100..<10_000))
    }

    /// A host that waits for a time begins when that is over, although nothing else happens to it.
    @Test func hostsThatWaitForATimeStartByThemselves() {
        var limits = RequestLimits()
        limits.followsServer = true
        limits.maxConcurrentRequestsPerHost = 2
        var queue = LimitQueue<String>(limits, at: .zero)
        for host in ["a", "b"] {
            #expect(queue.enter(host + "0", host: host, priority: .normal, at: .zero).started == [host + "0"])
        }
        _ = queue.learn([], pause: .seconds(2), of: "a", at: .zero)
        _ = queue.learn([], pause: .seconds(1), of: "b", at: .zero)
        for id in ["a1", "b1", "a2", "b2"] {
            #expect(queue.enter(id, host: String(id.prefix(1)), priority: .normal, at: .zero).started.isEmpty)
        }
        let turn = queue.advance(at: .seconds(1))
        #expect(turn.started == ["b1"] && turn.wakeAfter == .seconds(1))
        #expect(queue.advance(at: .seconds(2)).started == ["a1"])
        #expect(queue.leave(host: "b", at: .seconds(3)).started == ["b2"])
    }

    @Test func unusedRateTokenIsReturned() {
        var limits = RequestLimits()
        limits.rate = RequestLimits.RateLimit(perSecond: 0.001)
        var queue = LimitQueue<Int>(limits, at: .zero)
        #expect(queue.enter(1, host: "h", priority: .normal, at: .zero).started == [1])
        #expect(queue.enter(2, host: "h", priority: .normal, at: .zero).started == [])
        #expect(queue.leave(host: "h", isUnused: true, at: .zero).started == [2])
    }

    // MARK: Renewal

    /// Requests start, are refused and accepted at random by a server that knows the valid token.
    @Test(arguments: 0..<25)
    func refusalsOfOneTokenRenewItOnce(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var now = Duration.zero
        var state = RefreshState(pause: .seconds(1))
        /// The requests in flight: the epoch of the token, and whether it is a replay.
        var flying: [(epoch: Int, isReplay: Bool)] = []
        var isRefreshing = false
        var waiting = 0
        var renewalsOfEpoch: [Int: Int] = [:]
        for _ in 0..<600 {
            now += .milliseconds(Int64.random(in: 0...100, using: &generator))
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1:
                #expect(state.isRefreshing == isRefreshing)
                if !isRefreshing { flying.append((state.epoch, false)) }
            case 2:
                guard !flying.isEmpty else { continue }
                let done = flying.remove(at: Int.random(in: flying.indices, using: &generator))
                state.accepted(epoch: done.epoch)
            case 3, 4:
                guard !flying.isEmpty else { continue }
                let refused = flying.remove(at: Int.random(in: flying.indices, using: &generator))
                let decision = state.rejected(epoch: refused.epoch, isReplay: refused.isReplay, at: now)
                if refused.isReplay { #expect(decision == .deliver) }
                switch decision {
                case .refresh:
                    #expect(!isRefreshing)
                    #expect(refused.epoch == state.epoch)
                    renewalsOfEpoch[state.epoch, default: 0] += 1
                    isRefreshing = true
                    waiting = 1
                case .wait:
                    #expect(isRefreshing)
                    waiting += 1
                case .replay:
                    #expect(!isRefreshing)
                    flying.append((state.epoch, true))
                case .deliver, .fail:
                    break
                }
            default:
                guard isRefreshing else { continue }
                let isSuccess = Bool.random(using: &generator)
                state.finished(isRenewed: isSuccess, at: now)
                isRefreshing = false
                if isSuccess {
                    flying += [(epoch: Int, isReplay: Bool)](repeating: (state.epoch, true), count: waiting)
                }
                waiting = 0
            }
        }
        #expect(renewalsOfEpoch.values.allSatisfy { $0 == 1 })
    }

    @Test func tokenRefusedAtOnceWaitsForThePause() {
        var state = RefreshState(pause: .seconds(1))
        #expect(state.rejected(epoch: 0, isReplay: false, at: .zero) == .refresh)
        state.finished(isRenewed: true, at: .zero)
        #expect(state.rejected(epoch: 1, isReplay: true, at: .zero) == .deliver)
        #expect(state.rejected(epoch: 1, isReplay: false, at: .milliseconds(999)) == .deliver)
        #expect(state.rejected(epoch: 1, isReplay: false, at: .seconds(1)) == .refresh)
    }

    @Test func tokenAcceptedOnceIsRenewedAtOnce() {
        var state = RefreshState(pause: .seconds(1))
        #expect(state.rejected(epoch: 0, isReplay: false, at: .zero) == .refresh)
        state.finished(isRenewed: true, at: .zero)
        state.accepted(epoch: 1)
        #expect(state.rejected(epoch: 1, isReplay: false, at: .zero) == .refresh)
    }

    /// One endpoint refuses every token, and the others accept it.
    @Test func refusalThatARenewalDoesNotHelpWaitsForThePause() {
        var state = RefreshState(pause: .seconds(1))
        #expect(state.rejected(epoch: 0, isReplay: false, at: .zero) == .refresh)
        state.finished(isRenewed: true, at: .zero)
        #expect(state.rejected(epoch: 1, isReplay: true, at: .zero) == .deliver)
        state.accepted(epoch: 1)
        #expect(state.rejected(epoch: 1, isReplay: false, at: .milliseconds(999)) == .deliver)
        #expect(state.rejected(epoch: 1, isReplay: false, at: .seconds(1)) == .refresh)
    }

    /// The server of the tokens is down, and the token is still valid.
    @Test func failedRenewalAheadWaitsForThePause() {
        var state = RefreshState(pause: .seconds(1))
        #expect(state.ending(at: .zero) == .refresh)
        state.finished(isRenewed: false, at: .zero)
        state.accepted(epoch: 1)
        #expect(state.ending(at: .milliseconds(999)) == .proceed)
        #expect(state.ending(at: .seconds(1)) == .refresh)
    }

    @Test func lateRefusalSharesTheFailedRenewal() {
        var state = RefreshState(pause: .zero)
        #expect(state.rejected(epoch: 0, isReplay: false, at: .zero) == .refresh)
        state.finished(isRenewed: false, at: .zero)
        #expect(state.rejected(epoch: 0, isReplay: false, at: .zero) == .fail)
        #expect(state.rejected(epoch: 1, isReplay: false, at: .zero) == .refresh)
    }

    // MARK: Indicator

    @Test func shortActivityIsNotShown() {
        var state = ActivityState(delay: .milliseconds(300), minimum: .milliseconds(500))
        #expect(state.begin(1, tip: nil, at: .zero) == .init(wakeAfter: .milliseconds(300)))
        #expect(state.end(1, at: .milliseconds(299)).action == nil)
        #expect(state.tick(at: .milliseconds(300)).action == nil)
    }

    @Test func indicatorStaysForItsMinimumTime() {
        var state = ActivityState(delay: .milliseconds(300), minimum: .milliseconds(500))
        _ = state.begin(1, tip: "a", at: .zero)
        #expect(state.tick(at: .milliseconds(300)).action == .show(tip: "a"))
        #expect(state.end(1, at: .milliseconds(310)) == .init(wakeAfter: .milliseconds(490)))
        // Work that begins in that time is shown without a gap.
        #expect(state.begin(2, tip: "b", at: .milliseconds(400)).action == .show(tip: "b"))
        #expect(state.tick(at: .milliseconds(800)).action == nil)
        #expect(state.end(2, at: .seconds(2)).action == .hide)
    }

    @Test(arguments: 0..<25)
    func indicatorNeverFlickers(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let delay = Duration.milliseconds(300)
        let minimum = Duration.milliseconds(500)
        var state = ActivityState(delay: delay, minimum: minimum)
        var working: Set<UInt64> = []
        var wakeUp: Duration?
        var shownAt: Duration?
        var now = Duration.zero
        func take(_ step: ActivityState.Step) {
            switch step.action {
            case .show: if shownAt == nil { shownAt = now }
            case .hide:
                #expect(working.isEmpty)
                #expect(shownAt.map { now - $0 >= minimum } ?? false)
                shownAt = nil
            case nil: break
            }
            if let wait = step.wakeAfter { wakeUp = min(wakeUp ?? .seconds(1_000_000), now + wait) }
        }
        func runUntil(_ end: Duration) {
            while let next = wakeUp, next <= end {
                wakeUp = nil
                now = next
                take(state.tick(at: now))
            }
            now = end
        }
        for id in 0..<300 as Range<UInt64> {
            runUntil(now + .milliseconds(Int64.random(in: 0...400, using: &generator)))
            if Bool.random(using: &generator) {
                working.insert(id)
                take(state.begin(id, tip: id.isMultiple(of: 3) ? "\(id)" : nil, at: now))
            } else if let done = working.randomElement(using: &generator) {
                working.remove(done)
                take(state.end(done, at: now))
                #expect(state.end(done, at: now) == .init() || state.count == working.count)
            }
            #expect(state.count == working.count)
        }
        while let id = working.popFirst() { take(state.end(id, at: now)) }
        runUntil(now + .seconds(2))
        #expect(state.shownSince == nil)
    }

    // MARK: Batch

    @Test(arguments: 0..<25)
    func batchProgressNeverDecreases(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let count = Int.random(in: 1...8, using: &generator)
        var tally = BatchTally(stepCount: count)
        var last = tally.sum()
        var left = Array(0..<count)
        while let step = left.randomElement(using: &generator) {
            let sum: BatchProgress?
            if Int.random(in: 0..<5, using: &generator) == 0 {
                left.removeAll { $0 == step }
                sum = tally.end(step, isSuccess: Bool.random(using: &generator))
            } else {
                let completed = Int64.random(in: 0...100, using: &generator)
                let total: Int64? = Bool.random(using: &generator) ? 100 : nil
                sum = tally.report(.init(direction: .download, completed: completed, total: total), of: step)
            }
            guard let sum else { continue }
            #expect(sum.fraction >= last.fraction && sum.fraction <= 1)
            #expect(sum.completed >= last.completed)
            #expect(sum.finishedSteps >= last.finishedSteps)
            last = sum
        }
        #expect(last.fraction == 1)
        #expect(last.finishedSteps == count)
        #expect(last.total == last.completed)
        #expect(tally.report(.init(direction: .download, completed: 1, total: 1), of: 0) == nil)
    }

    @Test func sumsOfManyStepsAreExact() {
        var tally = BatchTally(stepCount: 20_000)
        var last = tally.sum()
        #expect(last.total == nil)
        for step in 0..<20_000 {
            _ = tally.report(.init(direction: .download, completed: 5, total: .max), of: step)
            _ = tally.report(.init(direction: .download, completed: 7, total: 10), of: step)
            last =
                tally.report(.init(direction: .download, completed: 6, total: step == 0 ? .max : 10), of: step) ?? last
        }
        #expect(last.completed == 140_000 && last.total == .max && last.fraction < 1)
        for step in 0..<20_000 { last = tally.end(step, isSuccess: step > 2, isCached: step > 3) }
        #expect(last.failedSteps == 3 && last.cachedSteps == 19_996 && last.finishedSteps == 20_000)
        #expect(last.completed == 140_000 && last.total == 140_000 && last.fraction == 1)
    }
}

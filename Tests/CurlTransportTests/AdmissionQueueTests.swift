import HTTPCore
import TestSupport
import Testing

@testable import CurlTransport

/// A naive queue with the same rules: every decision scans all waiters.
private struct NaiveQueue {
    struct Waiter {
        let id: Int
        let host: String
        let priority: RequestPriority
    }

    let limitPerHost: Int
    let totalLimit: Int
    var running: [String: Int] = [:]
    var multiplexed: Set<String> = []
    /// In order of arrival.
    var waiters: [Waiter] = []

    var total: Int { running.values.reduce(0, +) }

    func limit(_ host: String) -> Int { multiplexed.contains(host) ? limitPerHost * 100 : limitPerHost }

    func hasRoom(_ host: String) -> Bool { total < totalLimit && running[host, default: 0] < limit(host) }

    mutating func submit(_ id: Int, _ host: String, _ priority: RequestPriority) -> Bool {
        waiters.append(Waiter(id: id, host: host, priority: priority))
        return startAll().contains(id)
    }

    /// Starts waiters by priority, then by age, as long as a host has room.
    mutating func startAll() -> [Int] {
        var started: [Int] = []
        while true {
            let open = Set(waiters.map(\.host)).filter(hasRoom)
            guard !open.isEmpty,
                let best = waiters.indices.filter({ open.contains(waiters[$0].host) })
                    .max(by: { (waiters[$0].priority, -$0) < (waiters[$1].priority, -$1) })
            else { break }
            let waiter = waiters.remove(at: best)
            running[waiter.host, default: 0] += 1
            started.append(waiter.id)
        }
        return started
    }
}

@Suite struct AdmissionQueueTests {
    @Test func largestLimitOfAMultiplexedHostHasRoom() {
        var queue = AdmissionQueue<Int>(totalLimit: .max)
        let first = queue.submit(1, host: "a", priority: .normal, limit: .max)
        #expect(queue.setMultiplexed(true, at: first.place).isEmpty)
        #expect(queue.submit(2, host: "a", priority: .normal, limit: .max).mayStart)
    }

    @Test func higherLimitStartsWaitingRequests() {
        var queue = AdmissionQueue<Int>(totalLimit: .max)
        #expect(queue.submit(1, host: "a", priority: .normal, limit: 1).mayStart)
        #expect(!queue.submit(2, host: "a", priority: .normal, limit: 1).mayStart)
        let last = queue.submit(3, host: "a", priority: .normal, limit: 5)
        #expect(!last.mayStart)
        #expect(queue.startWaiting(at: last.place) == [2, 3])
        #expect(queue.running == 3 && queue.waiting == 0)
    }

    @Test(arguments: [(1, Int.max), (2, 3), (5, 7), (3, 1), (2, .max)], 0..<3)
    func decisionsMatchNaiveQueue(limits: (perHost: Int, total: Int), seed: UInt64) {
        var random = SeededGenerator(seed: seed &* 7919 &+ UInt64(limits.perHost))
        var queue = AdmissionQueue<Int>(totalLimit: limits.total)
        var naive = NaiveQueue(limitPerHost: limits.perHost, totalLimit: limits.total)
        var running: [Int: (host: String, place: AdmissionQueue<Int>.Place)] = [:]
        var known: [Int: (host: String, place: AdmissionQueue<Int>.Place, priority: RequestPriority)] = [:]
        let hosts = ["a", "b", "c", "d"]
        // Recorded only on failure, since an expectation costs more than everything else here.
        func expect(_ isSo: Bool, _ what: String) { if !isSo { Issue.record("\(what)") } }
        func start(_ ids: [Int]) {
            for id in ids {
                expect(running[id] == nil, "\(id) was started twice")
                running[id] = known[id].map { ($0.host, $0.place) }
            }
        }
        for id in 0..<400 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0...4:
                let host = hosts.randomElement(using: &random) ?? "a"
                let priority = RequestPriority.allCases.randomElement(using: &random) ?? .normal
                let (place, mayStart) = queue.submit(id, host: host, priority: priority, limit: limits.perHost)
                known[id] = (host, place, priority)
                let naiveMayStart = naive.submit(id, host, priority)
                expect(mayStart == naiveMayStart, "\(id): mayStart is \(mayStart)")
                if mayStart { start([id]) }
            case 5...7:
                guard let id = running.keys.sorted().randomElement(using: &random), let gone = running[id] else {
                    break
                }
                running[id] = nil
                naive.running[gone.host, default: 0] -= 1
                let started = queue.finish(gone.place)
                let expected = naive.startAll()
                expect(started == expected, "started \(started) and not \(expected)")
                start(started)
            case 8:
                guard let index = naive.waiters.indices.randomElement(using: &random) else { break }
                let waiter = naive.waiters.remove(at: index)
                guard let place = known[waiter.id]?.place else { break }
                let removals = (0..<2).map { _ in queue.remove(waiter.id, at: place, priority: waiter.priority) }
                expect(removals == [true, false], "removed \(removals)")
            default:
                guard let host = hosts.randomElement(using: &random),
                    let place = known.values.first(where: { $0.host == host })?.place
                else { break }
                let isMultiplexed = Bool.random(using: &random)
                if isMultiplexed { naive.multiplexed.insert(host) } else { naive.multiplexed.remove(host) }
                let started = queue.setMultiplexed(isMultiplexed, at: place)
                let expected = naive.startAll()
                expect(started == expected, "started \(started) and not \(expected)")
                start(started)
                expect(queue.isMultiplexed(place) == isMultiplexed, "isMultiplexed is not \(isMultiplexed)")
            }
            expect(queue.running == running.count && queue.running <= limits.total, "\(queue.running) are running")
            expect(queue.waiting == naive.waiters.count, "\(queue.waiting) are waiting")
        }
        let left = queue.removeAll()
        #expect(Set(left) == Set(naive.waiters.map(\.id)))
        #expect(queue.waiting == 0)
    }

    @Test func manyIdleHostsAreForgotten() {
        var queue = AdmissionQueue<Int>(totalLimit: .max)
        let busy = queue.submit(-1, host: "busy", priority: .normal, limit: 1).place
        _ = queue.setMultiplexed(true, at: busy)
        for id in 0..<4000 {
            let (place, mayStart) = queue.submit(id, host: "host \(id)", priority: .normal, limit: 1)
            let started = queue.finish(place)
            if !mayStart || !started.isEmpty { Issue.record("\(id): \(mayStart) \(started)") }
        }
        #expect(queue.hostCount <= AdmissionQueue<Int>.rememberedHosts)
        #expect(queue.isMultiplexed(busy))
        let (_, mayStart) = queue.submit(9999, host: "busy", priority: .normal, limit: 1)
        #expect(mayStart)
    }

    /// A crawler has a request for each of many hosts. Looking through all hosts for the next one would take minutes.
    @Test(.timeLimit(.minutes(1)), arguments: [100, Int.max]) func manyHostsStartInOrder(totalLimit: Int) {
        var queue = AdmissionQueue<Int>(totalLimit: totalLimit)
        let count = 20_000
        let requests = (0..<count).map { queue.submit($0, host: "host \($0)", priority: .normal, limit: 5) }
        var started = requests.indices.filter { requests[$0].mayStart }
        var next = 0
        while next < started.count {
            started += queue.finish(requests[started[next]].place)
            next += 1
        }
        #expect(started == Array(0..<count))
        _ = queue.submit(count, host: "another", priority: .normal, limit: 5)
        #expect(queue.hostCount == 1, "idle hosts are forgotten after a burst, too")
    }

    /// A removal moves at most one element on average, whatever the order of removals.
    @Test(arguments: [10_000, 100_000])
    func cancellingManyIsLinear(count: Int) {
        var random = SeededGenerator(seed: 7)
        for order in [Array(0..<count), (0..<count).reversed(), (0..<count).shuffled(using: &random)] {
            var queue = AdmissionQueue<Int>(totalLimit: .max)
            _ = queue.submit(-1, host: "a", priority: .normal, limit: 1)
            let places = (0..<count).map { queue.submit($0, host: "a", priority: .normal, limit: 1).place }
            let wrong = order.count { !queue.remove($0, at: places[$0], priority: .normal) }
            #expect(wrong == 0 && queue.waiting == 0)
            #expect(queue.movedCount <= count)
        }
    }

    @Test func gapsKeepTheOrder() {
        var queue = AdmissionQueue<Int>(totalLimit: .max)
        let first = queue.submit(-1, host: "a", priority: .normal, limit: 1).place
        let places = (0..<1000).map { queue.submit($0, host: "a", priority: .normal, limit: 1).place }
        for id in 0..<1000 where id % 7 != 3 { queue.remove(id, at: places[id], priority: .normal) }
        var started: [Int] = []
        var place = first
        while let next = queue.finish(place).first {
            started.append(next)
            place = places[next]
        }
        #expect(started == (0..<1000).filter { $0 % 7 == 3 })
    }

    /// The identifiers are transfers with their bodies, so the queue must not retain them.
    @Test func startedRequestIsReleased() {
        final class Item: Hashable {
            static func == (lhs: Item, rhs: Item) -> Bool { lhs === rhs }
            func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
        }
        var queue = AdmissionQueue<Item>(totalLimit: .max)
        let place = queue.submit(Item(), host: "a", priority: .normal, limit: 1).place
        weak var waiter: Item?
        do {
            let item = Item()
            waiter = item
            let (_, mayStart) = queue.submit(item, host: "a", priority: .normal, limit: 1)
            let started = (queue.finish(place), queue.finish(place))
            #expect(!mayStart)
            #expect(started == ([item], []))
        }
        #expect(waiter == nil)
    }
}

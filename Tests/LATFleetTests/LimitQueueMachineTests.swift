import HTTPCore
import TestSupport
import Testing

@testable import LATFleet

/// The queue of calls that wait for shared limits, without a Redis.
struct LimitQueueMachineTests {
    private static func queue(_ keepsPlaces: Bool = true) -> LimitQueueMachine {
        LimitQueueMachine(keepsPlaces: keepsPlaces, renewal: .seconds(3))
    }

    private func expectStep(
        _ queue: inout LimitQueueMachine, _ now: Duration, _ expected: LimitQueueMachine.Step, _ why: Comment? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let step = queue.step(at: now)
        #expect(step == expected, why, sourceLocation: sourceLocation)
    }

    @Test func allThatWaitAreAskedForAtOnce() {
        var queue = Self.queue()
        for id in 1...3 { queue.enter(UInt64(id), priority: .normal) }
        expectStep(&queue, .zero, .ask(.init(want: 3, used: 0, returned: 0)))
        expectStep(&queue, .zero, .rest, "one question at a time")
        queue.answered(
            .init(delays: [.zero, .milliseconds(20)], next: .milliseconds(70), isFull: false), at: .seconds(1))
        expectStep(&queue, .seconds(1), .start([1]))
        expectStep(&queue, .seconds(1), .sleep(until: .milliseconds(1_020)))
        expectStep(&queue, .milliseconds(1_020), .start([2]))
        expectStep(&queue, .milliseconds(1_020), .sleep(until: .milliseconds(1_070)))
        expectStep(&queue, .milliseconds(1_070), .ask(.init(want: 1, used: 2, returned: 0)))
    }

    @Test func higherPriorityGoesFirst() {
        var queue = Self.queue()
        queue.enter(1, priority: .normal)
        queue.enter(2, priority: .high)
        queue.enter(3, priority: .low)
        queue.raise(3, to: .high)
        _ = queue.step(at: .zero)
        queue.answered(.init(delays: [.zero, .zero, .zero], next: .zero, isFull: false), at: .zero)
        expectStep(&queue, .zero, .start([2, 3, 1]))
    }

    @Test func tokenOfACancelledCallGoesToTheNextOrBack() {
        var queue = Self.queue()
        queue.enter(1, priority: .normal)
        queue.enter(2, priority: .normal)
        _ = queue.step(at: .zero)
        queue.answered(
            .init(delays: [.milliseconds(10), .milliseconds(20)], next: .zero, isFull: false), at: .zero)
        let isCancelled = queue.cancel(1)
        #expect(isCancelled)
        let isCancelledAgain = queue.cancel(1)
        #expect(!isCancelledAgain)
        expectStep(&queue, .zero, .ask(.init(want: 0, used: 1, returned: 1)))
        queue.answered(.init(delays: [], next: .zero, isFull: false), at: .zero)
        expectStep(&queue, .milliseconds(10), .start([2]))
    }

    @Test func withoutARedisAllStart() {
        var queue = Self.queue()
        for id in 1...3 { queue.enter(UInt64(id), priority: .normal) }
        _ = queue.step(at: .zero)
        let alone = queue.failed(at: .zero)
        #expect(alone.started == [1, 2, 3] && alone.alone == 3)
        queue.leave(isUnused: false)
        expectStep(&queue, .zero, .ask(.init(want: 0, used: 2, returned: 0)), "the truth is told again")
    }

    @Test func placesAreRenewedWhileTheyAreUsed() {
        var queue = Self.queue()
        queue.enter(1, priority: .normal)
        _ = queue.step(at: .zero)
        queue.answered(.init(delays: [.zero], next: .zero, isFull: false), at: .zero)
        _ = queue.step(at: .zero)
        expectStep(&queue, .zero, .sleep(until: .seconds(3)))
        expectStep(&queue, .seconds(3), .ask(.init(want: 0, used: 1, returned: 0)))
        queue.answered(.init(delays: [], next: .zero, isFull: false), at: .seconds(3))
        queue.leave(isUnused: false)
        expectStep(&queue, .seconds(4), .ask(.init(want: 0, used: 0, returned: 0)))
        queue.answered(.init(delays: [], next: .zero, isFull: false), at: .seconds(4))
        expectStep(&queue, .seconds(4), .rest)
        #expect(queue.isIdle)
    }

    @Test func wakeWhileAskingIsNotLost() {
        var queue = Self.queue()
        queue.enter(1, priority: .normal)
        _ = queue.step(at: .zero)
        queue.wake()
        queue.answered(.init(delays: [], next: .milliseconds(250), isFull: true), at: .zero)
        expectStep(&queue, .zero, .ask(.init(want: 1, used: 0, returned: 0)))
        queue.answered(.init(delays: [], next: .milliseconds(250), isFull: true), at: .zero)
        expectStep(&queue, .zero, .sleep(until: .milliseconds(250)))
        queue.wake()
        expectStep(&queue, .zero, .ask(.init(want: 1, used: 0, returned: 0)))
    }

    @Test func onlyRatesNeedNoStepAfterTheCall() {
        var queue = Self.queue(false)
        queue.enter(1, priority: .normal)
        _ = queue.step(at: .zero)
        queue.answered(.init(delays: [.zero], next: .zero, isFull: false), at: .zero)
        expectStep(&queue, .zero, .start([1]))
        queue.leave(isUnused: false)
        expectStep(&queue, .seconds(100), .rest)
    }

    /// Whatever happens, no call starts twice or is lost, and the reported number of places is that of the running calls.
    @Test(arguments: 0..<40)
    func everyCallStartsOnce(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var queue = Self.queue()
        var now = Duration.zero
        var ids: UInt64 = 0
        var (waiting, running, ended): (Set<UInt64>, Set<UInt64>, Set<UInt64>) = ([], [], [])
        var asked: LimitQueueMachine.Demand?
        func start(_ started: [UInt64]) {
            for id in started {
                let isNew = waiting.remove(id) != nil && running.insert(id).inserted
                #expect(isNew)
            }
        }
        for _ in 0..<400 {
            now += .milliseconds(Int64.random(in: 0...200, using: &generator))
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1:
                ids += 1
                waiting.insert(ids)
                queue.enter(ids, priority: RequestPriority.allCases.randomElement(using: &generator) ?? .normal)
            case 2:
                if let id = waiting.min(), queue.cancel(id) {
                    waiting.remove(id)
                    ended.insert(id)
                }
            case 3:
                if let id = running.min() {
                    running.remove(id)
                    ended.insert(id)
                    queue.leave(isUnused: Bool.random(using: &generator))
                }
            case 4:
                if let demand = asked {
                    asked = nil
                    if Int.random(in: 0..<5, using: &generator) == 0 {
                        start(queue.failed(at: now).started)
                    } else {
                        let count = Int.random(in: 0...demand.want, using: &generator)
                        let delays = (0..<count).map { _ in
                            Duration.milliseconds(Int64.random(in: 0...100, using: &generator))
                        }
                        queue.answered(
                            .init(delays: delays, next: .milliseconds(50), isFull: count < demand.want), at: now)
                    }
                }
            default: queue.wake()
            }
            steps: while true {
                switch queue.step(at: now) {
                case .start(let started): start(started)
                case .ask(let demand):
                    #expect(asked == nil, "two questions at once")
                    #expect(demand.used >= running.count && demand.used <= running.count + waiting.count)
                    asked = demand
                case .sleep(let until):
                    #expect(until > now)
                    break steps
                case .rest: break steps
                }
            }
        }
        for id in waiting {
            let isWaiting = queue.cancel(id)
            #expect(isWaiting)
        }
        #expect(waiting.count + running.count + ended.count == Int(ids))
    }
}

import Platform
import Synchronization
import TestSupport
import Testing

/// The hubs of events and of changing values.
@Suite(.timeLimit(.minutes(1))) struct EventHubTests {
    /// The end of a cancelled reader's stream and an element for it come at the same time.
    @Test func readersAreCancelledWhileValuesAreSent() async throws {
        let value = LatestValue(0)
        let hub = EventHub<Int>()
        for round in 1...5_000 {
            let isReading = Event()
            let first = Task {
                for await _ in value.values() { isReading.happen() }
            }
            let second = Task { for await _ in hub.events() {} }
            await isReading.wait()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { value.send(round) }
                group.addTask { hub.send(round) }
                group.addTask { first.cancel() }
                group.addTask { second.cancel() }
            }
            await first.value
            await second.value
        }
        #expect(!value.hasReaders && !hub.isActive)
        #expect(value.current == 5_000)
    }

    @Test func eventsOfEachSenderArriveInOrder() async throws {
        let hub = EventHub<(sender: Int, number: Int)>()
        let readers = (0..<3).map { _ in hub.events() }
        await withTaskGroup(of: Void.self) { group in
            for sender in 0..<4 { group.addTask { for number in 0..<2_000 { hub.send((sender, number)) } } }
        }
        hub.finish()
        var all: [[Int]] = []
        for reader in readers {
            var seen = [Int](repeating: 0, count: 4)
            var order: [Int] = []
            for await event in reader {
                #expect(event.number == seen[event.sender])
                seen[event.sender] += 1
                order.append(event.sender)
            }
            #expect(seen == [2_000, 2_000, 2_000, 2_000])
            all.append(order)
        }
        #expect(all[0] == all[1] && all[1] == all[2])
        var late = hub.events().makeAsyncIterator()
        #expect(await late.next() == nil)
    }

    @Test func readersGetTheCurrentValueAndTheLast() async throws {
        let value = LatestValue(1)
        var early = value.values().makeAsyncIterator()
        #expect(await early.next() == 1)
        await withTaskGroup(of: Void.self) { group in
            for number in 2...1_000 { group.addTask { value.send(number) } }
        }
        value.finish(-1)
        value.send(5)
        var seen: [Int] = []
        while let next = await early.next() { seen.append(next) }
        #expect(seen.last == -1)
        var late: [Int] = []
        for await next in value.values() { late.append(next) }
        #expect(late == [-1])
        #expect(!value.hasReaders)
    }

    @Test func stagedValuesArriveInOrder() async throws {
        let value = LatestValue(0)
        let counter = Counter()
        let stream = value.values()
        async let received = stream.reduce(into: [Int]()) { $0.append($1) }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<5_000 {
                        counter.last.withLock { last in
                            last += 1
                            value.stage(last)
                        }
                        value.deliver()
                    }
                }
            }
        }
        value.finish()
        let all = await received
        #expect(all == all.sorted() && all.last == 20_000)
    }

    private final class Counter: Sendable {
        let last = Mutex(0)
    }
}

import HTTPCore
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

@Suite struct DownloadQueueTests {
    private func item(_ number: UInt64, _ priority: RequestPriority = .normal) -> DownloadManager.Item {
        DownloadManager.Item(
            id: .init(number: number), url: "u", path: "p", segments: 1, priority: priority, state: .waiting,
            progress: TransferProgress(direction: .download))
    }

    private func id(_ number: UInt64) -> DownloadManager.Item.ID { .init(number: number) }

    @Test func priorityThenOrderWithinTheLimit() {
        var queue = DownloadQueue(limit: 2)
        #expect(queue.add(item(1)).start == [id(1)] && queue.add(item(2)).start == [id(2)])
        #expect(
            queue.add(item(3)) == .init() && queue.add(item(4, .high)) == .init() && queue.add(item(5, .low)) == .init()
        )
        #expect(queue.ordered.map(\.id.number) == [4, 1, 2, 3, 5])
        #expect(queue.end(id(1), .finished).start == [id(4)])
        #expect(queue.setPriority(.high, of: id(5)) == .init())
        #expect(queue.end(id(4), .failed("x")).start == [id(5)])
        #expect(queue.resume(id(4)) == .init() && queue.items[id(4)]?.state == .waiting)
    }

    @Test func pauseFreesAPlaceAndResumeWaits() {
        var queue = DownloadQueue(limit: 1)
        _ = queue.add(item(1))
        _ = queue.add(item(2))
        #expect(queue.pause(id(1)) == .init(stop: [id(1)], start: [id(2)]))
        #expect(queue.pause(id(1)) == .init() && queue.resume(id(1)) == .init())
        #expect(queue.remove(id(2)) == .init(stop: [id(2)], start: [id(1)]))
        #expect(queue.pause(id(9)) == .init() && queue.resume(id(9)) == .init())
    }

    @Test func lowerLimitStopsTheLatest() {
        var queue = DownloadQueue(limit: 3)
        for number in 1...4 { _ = queue.add(item(UInt64(number))) }
        #expect(queue.setLimit(1) == .init(stop: [id(3), id(2)]))
        #expect(queue.running == 1 && queue.setLimit(3) == .init(start: [id(2), id(3)]))
    }

    /// The queue as a search through all items, which is obviously right.
    private struct Model {
        var limit: Int
        var items: [UInt64: (priority: RequestPriority, state: DownloadManager.Item.State)] = [:]

        var ordered: [UInt64] {
            items.keys.sorted { one, other in
                let (first, second) = (items[one]?.priority ?? .low, items[other]?.priority ?? .low)
                return first == second ? one < other : first > second
            }
        }

        var running: [UInt64] { ordered.filter { items[$0]?.state == .running } }

        mutating func settle() -> (stop: [UInt64], start: [UInt64]) {
            let stop = Array(running.dropFirst(limit).reversed())
            for number in stop { items[number]?.state = .waiting }
            let start = Array(ordered.filter { items[$0]?.state == .waiting }.prefix(max(0, limit - running.count)))
            for number in start { items[number]?.state = .running }
            return (stop, start)
        }
    }

    @Test(arguments: [43, UInt64.random(in: 1_000..<1_000_000)])
    func randomChangesFollowTheModel(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = DownloadQueue(limit: 3)
        var model = Model(limit: 3)
        var last: UInt64 = 0
        for step in 0..<3_000 {
            let number = UInt64.random(in: 0...last, using: &random)
            let state = model.items[number]?.state
            let priority = RequestPriority.allCases.randomElement(using: &random) ?? .normal
            let actions: DownloadQueue.Actions
            var settles = true
            var stopped: [UInt64] = []
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1:
                last += 1
                model.items[last] = (priority, .waiting)
                actions = queue.add(item(last, priority))
            case 2:
                model.limit = Int.random(in: 1...6, using: &random)
                actions = queue.setLimit(model.limit)
            case 3:
                model.items[number]?.priority = priority
                actions = queue.setPriority(priority, of: id(number))
            case 4, 5:
                settles = state == .waiting || state == .running
                if settles { model.items[number]?.state = .paused }
                if state == .running { stopped = [number] }
                actions = queue.pause(id(number))
            case 6, 7:
                settles = state == .paused || state == .failed("x")
                if settles { model.items[number]?.state = .waiting }
                actions = queue.resume(id(number))
            case 8:
                let number = model.running.randomElement(using: &random) ?? number
                let end: DownloadManager.Item.State = Bool.random(using: &random) ? .finished : .failed("x")
                if model.items[number] != nil { model.items[number]?.state = end }
                actions = queue.end(id(number), end)
            default:
                model.items[number] = nil
                if state == .running { stopped = [number] }
                actions = queue.remove(id(number))
            }
            let (stop, start) = settles ? model.settle() : ([], [])
            let isRight =
                actions == .init(stop: (stopped + stop).map(id), start: start.map(id))
                && queue.ordered.map(\.id.number) == model.ordered && queue.running == model.running.count
                && queue.ordered.allSatisfy { $0.state == model.items[$0.id.number]?.state }
            #expect(isRight, "seed \(seed), change \(step)")
            if !isRight { return }
        }
    }

    /// Adding, ending and resuming looks at as many items with 5,000 others in the queue as with none.
    @Test(arguments: [0, 5_000]) func workOfAChangeIsIndependentOfTheOthers(others: UInt64) {
        var queue = DownloadQueue(limit: 3)
        for number in 0..<others { _ = queue.add(item(number, .high)) }
        for number in 0..<(others / 2) { _ = queue.end(id(number), .finished) }
        for number in (others / 2)..<others { _ = queue.pause(id(number)) }
        let before = queue.examinedCount
        for number in others..<(others + 2_000) {
            _ = queue.add(item(number))
            _ = queue.pause(id(number))
            _ = queue.resume(id(number))
            _ = queue.setPriority(.low, of: id(number))
        }
        for number in others..<(others + 2_000) { _ = queue.end(id(number), .finished) }
        #expect(queue.examinedCount - before < 2_000 * 16)
        #expect(queue.running == 0)
    }
}

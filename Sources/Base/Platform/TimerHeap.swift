/// Values with times, of which the earliest can be taken out. A value that is no longer wanted stays until ``keep(where:)``
/// removes it, or until it is taken out and the caller ignores it.
package struct TimerHeap<Time: Comparable, Value> {
    package typealias Entry = (time: Time, value: Value)

    private var entries: [Entry] = []

    package init() {}

    package var first: Entry? { entries.first }
    package var count: Int { entries.count }

    package mutating func insert(_ value: Value, at time: Time) {
        entries.append((time, value))
        var index = entries.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard entries[index].time < entries[parent].time else { return }
            entries.swapAt(index, parent)
            index = parent
        }
    }

    /// Takes out the earliest value if its time has come.
    package mutating func popDue(at now: Time) -> Entry? {
        guard let top = entries.first, top.time <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var index = 0
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2] where child < entries.count {
                if entries[child].time < entries[smallest].time { smallest = child }
            }
            guard smallest != index else { return top }
            entries.swapAt(index, smallest)
            index = smallest
        }
    }

    package mutating func keep(where isWanted: (Value) -> Bool) {
        let kept = entries.filter { isWanted($0.value) }
        entries.removeAll(keepingCapacity: true)
        for entry in kept { insert(entry.value, at: entry.time) }
    }
}

extension TimerHeap: Sendable where Time: Sendable, Value: Sendable {}

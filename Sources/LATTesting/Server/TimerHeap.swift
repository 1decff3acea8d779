/// The times at which connections are handled without an event, the earliest first. When a connection gets another
/// time, the old one stays in the heap and is ignored when it is taken out.
struct TimerHeap {
    struct Entry: Equatable {
        let time: Nanoseconds
        let connection: Int
    }

    private var entries: [Entry] = []

    var first: Entry? { entries.first }

    mutating func insert(_ entry: Entry) {
        entries.append(entry)
        var index = entries.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard entries[index].time < entries[parent].time else { return }
            entries.swapAt(index, parent)
            index = parent
        }
    }

    /// Takes out the earliest entry if its time has come.
    mutating func popDue(at now: Nanoseconds) -> Entry? {
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
}

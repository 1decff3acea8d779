/// What `/proc/meminfo` and the control groups say of memory.
struct MemoryFacts {
    private let files: SystemFiles

    init(_ files: SystemFiles) { self.files = files }

    var memory: DeviceInfo.Memory? {
        let machine = information
        let limit = self.limit.flatMap { limit in machine["MemTotal"].map { limit < $0 } ?? true ? limit : nil }
        guard let total = limit ?? machine["MemTotal"] else { return nil }
        var memory = DeviceInfo.Memory(
            total: total, free: machine["MemFree"], available: machine["MemAvailable"], limit: limit)
        if let limit, let used {
            // What the group has used up nobody else's free memory gives back.
            let left = max(0, limit - used)
            memory.free = memory.free.map { min($0, left) } ?? left
            memory.available = memory.available.map { min($0, left) } ?? left
        }
        return memory
    }

    /// In bytes; the file has kibibytes.
    private var information: [String: Int64] {
        var values: [String: Int64] = [:]
        for line in (files.text("proc/meminfo") ?? "").split(whereSeparator: \.isNewline) {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == ":" })
            guard words.count >= 2, let number = Int64(words[1]), number >= 0 else { continue }
            let isKibibytes = words.count > 2 && words[2] == "kB"
            values[String(words[0])] = number.multipliedReportingOverflow(by: isKibibytes ? 1_024 : 1).partialValue
        }
        return values
    }

    /// The least on the way; `max`, and in the older files a number near 2^63, is none.
    private var limit: Int64? {
        files.limits("memory.max", legacy: ("memory", "memory.limit_in_bytes")).compactMap { Int64($0) }
            .filter { $0 > 0 && $0 < 1 << 62 }.min()
    }

    private var used: Int64? {
        files.limits("memory.current", legacy: ("memory", "memory.usage_in_bytes")).compactMap { Int64($0) }.first
    }
}

import Glibc
import HTTPCore
import Platform

/// The processor, from `/proc/cpuinfo`, whose form differs by architecture, and from the control groups.
struct ProcessorFacts {
    private let files: SystemFiles
    /// One dictionary for each block of lines. A block describes one processor, or all of them.
    private let blocks: [[String: String]]

    init(_ files: SystemFiles) {
        self.files = files
        var blocks: [[String: String]] = [[:]]
        let text = files.text("proc/cpuinfo") ?? ""
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            guard let colon = line.firstIndex(of: ":") else {
                if !(blocks.last?.isEmpty ?? true) { blocks.append([:]) }
                continue
            }
            let name = String(line[..<colon]).trimmingFieldWhitespace
            let value = String(line[line.index(after: colon)...]).trimmingFieldWhitespace
            if !value.isEmpty { blocks[blocks.count - 1][name] = value }
        }
        self.blocks = blocks.filter { !$0.isEmpty }
    }

    var processor: DeviceInfo.Processor {
        DeviceInfo.Processor(name: name, logicalCount: logicalCount, coreCount: coreCount, limit: limit)
    }

    private func first(_ name: String) -> String? { blocks.lazy.compactMap { $0[name] }.first }

    private var name: String? {
        if let name = first("model name") ?? first("cpu model") ?? first("uarch") ?? first("cpu") { return name }
        if let implementer = first("CPU implementer").flatMap(Self.hexadecimal),
            let part = first("CPU part").flatMap(Self.hexadecimal)
        {
            let maker = Self.makers[implementer] ?? "ARM implementer 0x\(String(implementer, radix: 16))"
            if implementer == 0x41, let model = Self.models[part] { return "\(maker) \(model)" }
            return "\(maker) part 0x\(String(part, radix: 16))"
        }
        // Old ARM kernels write `Processor`, and `Hardware` for the board.
        return first("Processor") ?? first("Hardware")
    }

    private var logicalCount: Int? {
        if let online = files.line("sys/devices/system/cpu/online").flatMap(Self.count) { return online }
        let count = blocks.count { $0["processor"].flatMap { Int($0) } != nil }
        return count > 0 ? count : nil
    }

    private var coreCount: Int? {
        let cores = Set(blocks.compactMap { block in block["core id"].map { [block["physical id"] ?? "0", $0] } })
        if !cores.isEmpty { return cores.count }
        var siblings: Set<String> = []
        for name in files.names(in: "sys/devices/system/cpu")
        where name.hasPrefix("cpu") && Int(name.dropFirst(3)) != nil {
            let folder = "sys/devices/system/cpu/\(name)/topology/"
            if let list = files.line(folder + "core_cpus_list") ?? files.line(folder + "thread_siblings_list") {
                siblings.insert(list)
            }
        }
        return siblings.isEmpty ? nil : siblings.count
    }

    /// The lowest limit of the group and its parents. `cpu.max` holds a quota and a period, such as `150000 100000`, or
    /// `max 100000` for no limit. Version 1 of control groups keeps the two numbers in two files, where a quota of -1 means no
    /// limit.
    private var limit: Double? {
        files.controlGroups("cpu").compactMap { group -> Double? in
            let words = files.line(group + "cpu.max")?.split(separator: " ").map { Double($0) }
            guard let quota = words?.first ?? files.number(group + "cpu.cfs_quota_us").map(Double.init), quota > 0
            else {
                return nil
            }
            let period = words?.dropFirst().first ?? files.number(group + "cpu.cfs_period_us").map(Double.init)
            return quota / max(1, period ?? 100_000)
        }.min()
    }

    /// The number of processors in a list: 5 for `0-3,5`.
    private static func count(_ list: String) -> Int? {
        var count = 0
        for part in list.split(separator: ",") {
            let ends = part.split(separator: "-").compactMap { Int($0) }
            guard let first = ends.first, let last = ends.last, first >= 0, last >= first, last < 1 << 16 else {
                return nil
            }
            count += last - first + 1
        }
        return count > 0 ? count : nil
    }

    private static func hexadecimal(_ text: String) -> Int? { Int(text.drop { $0 == "0" || $0 == "x" }, radix: 16) }

    /// Implementers of ARM processors (ARM DDI 0487, MIDR_EL1).
    private static let makers = [
        0x41: "ARM", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA",
        0x51: "Qualcomm", 0x53: "Samsung", 0x61: "Apple", 0xC0: "Ampere",
    ]

    private static let models = [
        0xC07: "Cortex-A7", 0xC09: "Cortex-A9", 0xC0F: "Cortex-A15", 0xB76: "ARM1176", 0xD03: "Cortex-A53",
        0xD04: "Cortex-A35", 0xD05: "Cortex-A55", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72", 0xD09: "Cortex-A73",
        0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1", 0xD0D: "Cortex-A77", 0xD40: "Neoverse-V1",
        0xD41: "Cortex-A78", 0xD44: "Cortex-X1", 0xD46: "Cortex-A510", 0xD47: "Cortex-A710", 0xD49: "Neoverse-N2",
        0xD4F: "Neoverse-V2",
    ]
}

/// The memory, from `/proc/meminfo` and the control groups.
struct MemoryFacts {
    private let files: SystemFiles

    init(_ files: SystemFiles) { self.files = files }

    var memory: DeviceInfo.Memory? {
        let machine = information
        let groups = self.groups
        let limit = groups.map(\.limit).min().flatMap { limit in
            machine["MemTotal"].map { limit < $0 } ?? true ? limit : nil
        }
        guard let total = limit ?? machine["MemTotal"] else { return nil }
        var memory = DeviceInfo.Memory(
            total: total, free: machine["MemFree"], available: machine["MemAvailable"], limit: limit)
        // A group gets no more than its limit leaves, however much memory the machine has free.
        if limit != nil {
            memory.free = [memory.free, groups.compactMap(\.free).min()].compactMap(\.self).min()
            memory.available = [memory.available, groups.compactMap(\.available).min()].compactMap(\.self).min()
        }
        return memory
    }

    /// The values in bytes; the file has kibibytes.
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

    /// The groups with a limit: the process's own and those above it. `max`, or in version 1 a number near 2^63, means no
    /// limit.
    private var groups: [(limit: Int64, free: Int64?, available: Int64?)] {
        files.controlGroups("memory").compactMap { group in
            func number(_ name: String, _ legacyName: String) -> Int64? {
                files.number(group + name) ?? files.number(group + legacyName)
            }
            guard let limit = number("memory.max", "memory.limit_in_bytes"), limit > 0, limit < 1 << 62 else {
                return nil
            }
            let used = number("memory.current", "memory.usage_in_bytes")
            // The kernel frees cached pages of files that were not used lately before it refuses memory.
            let statistics = files.text(group + "memory.stat")?.split(whereSeparator: \.isWhitespace) ?? []
            let place =
                statistics.firstIndex { $0 == "total_inactive_file" } ?? statistics.firstIndex(of: "inactive_file")
            let reclaimable = place.flatMap { statistics.dropFirst($0 + 1).first }.flatMap { Int64($0) } ?? 0
            let free = used.map { max(0, limit - $0) }
            return (limit, free, used.map { min(limit, max(0, limit - $0) + max(0, reclaimable)) })
        }
    }
}

/// The network interfaces, from `/sys/class/net` and `getifaddrs(3)`.
struct InterfaceFacts {
    private let files: SystemFiles

    init(_ files: SystemFiles) { self.files = files }

    var interfaces: [DeviceInfo.Interface] {
        let live = files.isLive ? Self.live() : [:]
        return Set(SystemInterface.names(files)).union(live.keys).sorted().map { name in
            let found = SystemInterface(name, files)
            let flags = found.flags ?? live[name]?.flags
            let isUp =
                switch found.state {
                case "up": true
                // Loopback and tunnels report "unknown" while they work.
                case "unknown", nil: flags.map { $0 & UInt32(IFF_UP) != 0 } ?? false
                default: false
                }
            return DeviceInfo.Interface(
                name: name, kind: DeviceInfo.Interface.Kind(rawValue: found.kind.rawValue) ?? .other, isUp: isUp,
                macAddress: found.hardwareAddress, addresses: live[name]?.addresses ?? [])
        }
    }

    private static func live() -> [String: (flags: UInt32, addresses: [String])] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [:] }
        defer { freeifaddrs(list) }
        var result: [String: (flags: UInt32, four: [String], six: [String])] = [:]
        var next = list
        while let entry = next?.pointee {
            next = entry.ifa_next
            guard let name = entry.ifa_name.map({ String(cString: $0) }) else { continue }
            result[name, default: (entry.ifa_flags, [], [])].flags = entry.ifa_flags
            guard let address = entry.ifa_addr else { continue }
            switch Int32(address.pointee.sa_family) {
            case AF_INET:
                if let text = text(address, MemoryLayout<sockaddr_in>.size) { result[name]?.four.append(text) }
            case AF_INET6:
                if let text = text(address, MemoryLayout<sockaddr_in6>.size) { result[name]?.six.append(text) }
            default: break
            }
        }
        return result.mapValues { ($0.flags, $0.four + $0.six) }
    }

    private static func text(_ address: UnsafeMutablePointer<sockaddr>, _ size: Int) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let code = getnameinfo(
            address, socklen_t(size), &buffer, socklen_t(buffer.count), nil, 0, NI_NUMERICHOST)
        guard code == 0 else { return nil }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

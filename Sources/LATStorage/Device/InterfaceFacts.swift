import Glibc

/// What `/sys/class/net` and `getifaddrs(3)` say of network interfaces.
struct InterfaceFacts {
    private let files: SystemFiles

    init(_ files: SystemFiles) { self.files = files }

    var interfaces: [DeviceInfo.Interface] {
        let live = files.isLive ? Self.live() : [:]
        let names = Set(files.names(in: "sys/class/net").filter { files.exists("sys/class/net/\($0)/type") })
        return names.union(live.keys).sorted().map { name in
            let folder = "sys/class/net/\(name)/"
            let state = files.line(folder + "operstate")
            let flags = files.line(folder + "flags").flatMap { UInt32($0.dropFirst(2), radix: 16) } ?? live[name]?.flags
            // Loopback and tunnels say "unknown" while they work.
            let isUp = state == "up" || (state != "down" && flags.map { $0 & UInt32(IFF_UP) != 0 } ?? false)
            let mac = files.line(folder + "address").flatMap { Self.isHardware($0) ? $0 : nil }
            return DeviceInfo.Interface(
                name: name, kind: kind(name, folder), isUp: isUp, macAddress: mac,
                addresses: live[name]?.addresses ?? [])
        }
    }

    private func kind(_ name: String, _ folder: String) -> DeviceInfo.Interface.Kind {
        // ARPHRD_LOOPBACK, ARPHRD_ETHER of linux/if_arp.h.
        let type = files.number(folder + "type")
        if type == 772 || (type == nil && name == "lo") { return .loopback }
        if files.exists(folder + "wireless") || files.exists(folder + "phy80211") { return .wifi }
        let event = files.text(folder + "uevent") ?? ""
        if event.contains("DEVTYPE=wwan") || name.hasPrefix("wwan") { return .cellular }
        if event.contains("DEVTYPE=wlan") { return .wifi }
        if !event.isEmpty, event.contains("DEVTYPE=") { return .virtual }
        if files.exists(folder + "device") { return type == 1 ? .wired : .other }
        return type == 1 && !name.hasPrefix("eth") ? .virtual : type == 1 ? .wired : .other
    }

    private static func isHardware(_ text: String) -> Bool {
        let parts = text.split(separator: ":")
        return parts.count >= 6 && parts.allSatisfy { $0.count == 2 } && parts.contains { $0 != "00" }
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

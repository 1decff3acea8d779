internal import Glibc

/// A network interface in `/sys/class/net`.
package struct SystemInterface: Sendable {
    package enum Kind: String, Sendable {
        case loopback, wired, wifi, cellular, virtual, other
    }

    package let name: String
    package let kind: Kind
    /// The flags (`IFF_UP` and others); `nil` when unknown.
    package let flags: UInt32?
    /// The operational state (`up`, `down`, `unknown` and others); `nil` when the kernel reports none.
    package let state: String?
    /// The hardware address, such as `52:54:00:12:34:56`; `nil` for an interface without one.
    package let hardwareAddress: String?

    /// The names of all interfaces, sorted. Other entries, such as the bonding driver's file, are left out.
    package static func names(_ files: SystemFiles) -> [String] {
        files.names(in: "sys/class/net").filter { files.exists("sys/class/net/\($0)/type") }
    }

    package init(_ name: String, _ files: SystemFiles) {
        let folder = "sys/class/net/\(name)/"
        self.name = name
        kind = Self.kind(of: name, folder, files)
        flags = files.line(folder + "flags").flatMap { UInt32($0.dropFirst(2), radix: 16) }
        state = files.line(folder + "operstate")
        hardwareAddress = files.line(folder + "address").flatMap { Self.isHardware($0) ? $0 : nil }
    }

    private static func kind(of name: String, _ folder: String, _ files: SystemFiles) -> Kind {
        let type = files.number(folder + "type")
        // ARPHRD_* of <linux/if_arp.h>.
        switch type {
        case 772: return .loopback
        case 801, 802, 803: return .wifi  // Raw 802.11.
        case 519: return .cellular  // Raw IP of modems.
        case nil where name == "lo": return .loopback
        default: break
        }
        let event = files.text(folder + "uevent") ?? ""
        if event.contains("DEVTYPE=wwan") || name.hasPrefix("wwan") || name.hasPrefix("rmnet") { return .cellular }
        if event.contains("DEVTYPE=wlan") || files.exists(folder + "wireless") || files.exists(folder + "phy80211") {
            return .wifi
        }
        if event.contains("DEVTYPE=") { return .virtual }
        if files.exists(folder + "device") { return type == 1 ? .wired : .other }
        return type != 1 ? .other : name.hasPrefix("eth") ? .wired : .virtual
    }

    private static func isHardware(_ text: String) -> Bool {
        let parts = text.split(separator: ":")
        return parts.count >= 6 && parts.allSatisfy { $0.count == 2 } && parts.contains { $0 != "00" }
    }
}

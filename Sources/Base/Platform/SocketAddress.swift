package import Glibc

/// The address of a socket, in the form of the kernel (`sockaddr`).
package struct SocketAddress: Hashable, Sendable {
    private let bytes: [UInt8]

    private init<Address>(_ address: Address) { bytes = withUnsafeBytes(of: address) { Array($0) } }

    /// Copies an address; `nil` when it is neither IPv4 nor IPv6.
    package init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET: self.init(UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self))
        case AF_INET6: self.init(UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in6.self))
        default: return nil
        }
    }

    /// Makes an address from 4 bytes (IPv4) or 16 (IPv6); `nil` for any other number of bytes.
    ///
    /// - Parameter port: the port. Default 0: any free port.
    package init?(host: [UInt8], port: UInt16 = 0) {
        switch host.count {
        case 4:
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            withUnsafeMutableBytes(of: &address.sin_addr) { $0.copyBytes(from: host) }
            self.init(address)
        case 16:
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &address.sin6_addr) { $0.copyBytes(from: host) }
            self.init(address)
        default: return nil
        }
    }

    /// The largest length of a Unix socket's path, in bytes.
    package static let unixPathLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    /// The address of a Unix socket; `nil` when the path is empty or longer than ``unixPathLimit``.
    package init?(unixPath: String) {
        guard (1...Self.unixPathLimit).contains(unixPath.utf8.count) else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: unixPath.utf8) }
        self.init(address)
    }

    /// The local address of a socket; `nil` when it is neither IPv4 nor IPv6.
    package static func own(of socket: Int32) -> SocketAddress? { name(of: socket, getsockname) }

    /// The peer's address of a connected socket; `nil` when it is neither IPv4 nor IPv6.
    package static func peer(of socket: Int32) -> SocketAddress? { name(of: socket, getpeername) }

    private static func name(
        of socket: Int32, _ call: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
    ) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                call(socket, $0, &length) == 0 ? SocketAddress($0) : nil
            }
        }
    }

    /// `AF_INET`, `AF_INET6` or `AF_UNIX`.
    package var family: Int32 { Int32(load(sockaddr.self).sa_family) }

    /// The address without the port, in network byte order: 4 or 16 bytes; empty for a Unix socket.
    package var host: [UInt8] {
        switch family {
        case AF_INET: withUnsafeBytes(of: load(sockaddr_in.self).sin_addr) { Array($0) }
        case AF_INET6: withUnsafeBytes(of: load(sockaddr_in6.self).sin6_addr) { Array($0) }
        default: []
        }
    }

    /// The port; 0 for a Unix socket.
    package var port: Int {
        switch family {
        case AF_INET: Int(UInt16(bigEndian: load(sockaddr_in.self).sin_port))
        case AF_INET6: Int(UInt16(bigEndian: load(sockaddr_in6.self).sin6_port))
        default: 0
        }
    }

    /// The same address with port 0.
    package var withoutPort: SocketAddress {
        switch family {
        case AF_INET:
            var address = load(sockaddr_in.self)
            address.sin_port = 0
            return SocketAddress(address)
        case AF_INET6:
            var address = load(sockaddr_in6.self)
            address.sin6_port = 0
            return SocketAddress(address)
        default: return self
        }
    }

    /// The address in the form of its family.
    private func load<Address>(_ type: Address.Type) -> Address { bytes.withUnsafeBytes { $0.loadUnaligned(as: type) } }

    /// Copies the address to memory that has room for it.
    package func copy(to memory: UnsafeMutableRawPointer) {
        bytes.withUnsafeBytes { if let start = $0.baseAddress { memory.copyMemory(from: start, byteCount: $0.count) } }
    }

    /// Calls `bind(2)` or `connect(2)`.
    ///
    /// - Returns: whether it succeeded. On failure `errno` is set.
    package func call(_ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ socket: Int32) -> Bool {
        bytes.withUnsafeBytes {
            function(socket, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count)) == 0
        }
    }
}

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

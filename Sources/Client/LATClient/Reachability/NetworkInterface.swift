import Platform

extension Reachability {
    /// The kind of a machine's network connection.
    public enum InterfaceKind: String, Hashable, Sendable, CaseIterable {
        /// A cable, or a device that looks like one: Ethernet, a bridge, a tunnel, a virtual pair.
        case wired
        /// A wireless network.
        case wifi
        /// A mobile network.
        case cellular
        /// Only the machine itself.
        case loopback
        /// No connection.
        case none
    }
}

/// A network interface of this machine, as the kernel describes it in `/sys/class/net`.
package struct NetworkInterface: Hashable, Sendable {
    /// The name, such as `eth0`.
    public var name: String
    /// The kind.
    public var kind: Reachability.InterfaceKind
    /// Whether it is enabled and has a carrier.
    public var isRunning: Bool
    /// Whether it has a default route, so that packets to any address can leave through it.
    public var hasDefaultRoute: Bool

    /// All interfaces: first those with a default route, the preferred one at the beginning, and the loopback last.
    public static var all: [NetworkInterface] { InterfaceReader().interfaces }
}

/// Reads interfaces and routes from the kernel's files, or from others in tests.
struct InterfaceReader {
    private let files: SystemFiles

    /// - Parameter root: The directory that contains `sys` and `proc`. Default: `/`.
    init(root: String = "") { files = SystemFiles(root: root) }

    /// The kind of the preferred running interface, with a default route if there is one; `none` without any.
    var currentKind: Reachability.InterfaceKind { interfaces.first { $0.isRunning }?.kind ?? .none }

    var interfaces: [NetworkInterface] {
        let routes = defaultRoutes
        let found = SystemInterface.names(files).map { name in
            let interface = SystemInterface(name, files)
            // Tunnels and the loopback report no state.
            let isRunning =
                (interface.flags ?? 0) & 0x1 != 0 && ["up", "unknown"].contains(interface.state ?? "unknown")
            return NetworkInterface(
                name: name, kind: Reachability.InterfaceKind(rawValue: interface.kind.rawValue) ?? .wired,
                isRunning: isRunning, hasDefaultRoute: routes[name] != nil)
        }
        func rank(_ interface: NetworkInterface) -> (Int, Int, String) {
            let place = interface.hasDefaultRoute ? 0 : interface.kind == .loopback ? 2 : 1
            return (place, routes[interface.name] ?? 0, interface.name)
        }
        return found.sorted { rank($0) < rank($1) }
    }

    /// The metric of the best default route of each interface.
    private var defaultRoutes: [String: Int] {
        var routes: [String: Int] = [:]
        func add(_ name: Substring, flags: Substring, metric: Int?) {
            // RTF_UP, and not RTF_REJECT.
            guard let flags = Int(flags, radix: 16), flags & 0x1 != 0, flags & 0x200 == 0 else { return }
            routes[String(name)] = min(routes[String(name)] ?? .max, metric ?? 0)
        }
        for line in (files.text("proc/net/route") ?? "").split(separator: "\n").dropFirst() {
            let fields = line.split(whereSeparator: \.isWhitespace)
            guard fields.count > 7, fields[1] == "00000000", fields[7] == "00000000" else { continue }
            add(fields[0], flags: fields[3], metric: Int(fields[6]))
        }
        for line in (files.text("proc/net/ipv6_route") ?? "").split(separator: "\n") {
            let fields = line.split(whereSeparator: \.isWhitespace)
            guard fields.count > 9, fields[0].allSatisfy({ $0 == "0" }), fields[1] == "00", fields[9] != "lo" else {
                continue
            }
            add(fields[9], flags: fields[8], metric: Int(fields[5], radix: 16))
        }
        return routes
    }
}

import FoundationEssentials
import LATTesting
import Testing

@testable import LATClient

/// Interfaces read from a copy of the kernel's `/sys` and `/proc` files that the test writes.
@Suite struct NetworkInterfaceTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func write(_ path: String, _ text: String) throws {
        let whole = folder.path + path
        try FileManager.default.createDirectory(
            atPath: String(whole[..<whole.lastIndex(of: "/")!]), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: URL(filePath: whole))
    }

    private func addInterface(
        _ name: String, type: Int, uevent: String = "", flags: String = "0x1003", state: String = "up"
    ) throws {
        let path = "/sys/class/net/\(name)"
        try write(path + "/type", "\(type)\n")
        try write(path + "/flags", flags + "\n")
        try write(path + "/operstate", state + "\n")
        try write(path + "/uevent", "INTERFACE=\(name)\n" + uevent)
    }

    private func setRoutes(_ routes: [(name: String, metric: Int)]) throws {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        let lines = routes.map { "\($0.name)\t00000000\t0100000A\t0003\t0\t0\t\($0.metric)\t00000000\t0\t0\t0\n" }
        try write(
            "/proc/net/route", head + "eth9\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" + lines.joined())
    }

    private var reader: InterfaceReader { InterfaceReader(root: folder.path) }

    @Test func interfaceKindsAreRecognised() throws {
        try addInterface("lo", type: 772, flags: "0x9", state: "unknown")
        try addInterface("eth0", type: 1)
        try addInterface("wlan0", type: 1, uevent: "DEVTYPE=wlan\n")
        try addInterface("old0", type: 1)
        try FileManager.default.createDirectory(
            atPath: folder.path + "/sys/class/net/old0/wireless", withIntermediateDirectories: true)
        try addInterface("wwp0s20", type: 65_534, uevent: "DEVTYPE=wwan\n", state: "unknown")
        try addInterface("modem", type: 519, state: "unknown")
        try write("/sys/class/net/bonding_masters", "")
        let kinds = Dictionary(uniqueKeysWithValues: reader.interfaces.map { ($0.name, $0.kind) })
        #expect(
            kinds == [
                "lo": .loopback, "eth0": .wired, "wlan0": .wifi, "old0": .wifi, "wwp0s20": .cellular,
                "modem": .cellular,
            ])
    }

    @Test func defaultRouteDecidesTheCurrentKind() throws {
        try addInterface("lo", type: 772, flags: "0x9", state: "unknown")
        try addInterface("eth0", type: 1)
        try addInterface("wlan0", type: 1, uevent: "DEVTYPE=wlan\n")
        #expect(reader.currentKind == .wired)
        try setRoutes([("wlan0", 600)])
        #expect(reader.currentKind == .wifi)
        try setRoutes([("wlan0", 600), ("eth0", 100)])
        #expect(reader.currentKind == .wired)
        #expect(reader.interfaces.map(\.name) == ["eth0", "wlan0", "lo"])
        // An unplugged interface does not count, even while its route remains.
        try addInterface("eth0", type: 1, state: "down")
        #expect(reader.currentKind == .wifi)
    }

    @Test func ipv6RouteDecidesTheCurrentKind() throws {
        try addInterface("eth0", type: 1)
        try addInterface("wlan0", type: 1, uevent: "DEVTYPE=wlan\n")
        let zeros = String(repeating: "0", count: 32)
        try write(
            "/proc/net/ipv6_route",
            "\(zeros) 00 \(zeros) 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003    wlan0\n"
                + "\(zeros) 00 \(zeros) 00 \(zeros) ffffffff 00000001 00000000 00200200       lo\n")
        #expect(reader.currentKind == .wifi)
    }

    @Test func currentKindWithoutRouteIsLoopbackOrNone() throws {
        #expect(reader.currentKind == .none)
        try addInterface("lo", type: 772, flags: "0x9", state: "unknown")
        try addInterface("eth0", type: 1, flags: "0x1002", state: "down")
        #expect(reader.currentKind == .loopback)
    }

    @Test func realMachineHasALoopback() {
        #expect(NetworkInterface.all.contains { $0.kind == .loopback })
    }
}

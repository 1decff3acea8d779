import Foundation
@testable import LATStorage
import LATTesting
import Testing

@Suite struct DeviceInfoTests {
    let directory: TemporaryDirectory
    var device: DeviceInfo { DeviceInfo(root: directory.path) }

    init() throws { directory = try TemporaryDirectory() }

    private func write(_ text: String, to name: String) throws { try directory.write(Data(text.utf8), to: name) }

    @Test func emptySystemReportsNothing() {
        let facts = device.snapshot
        #expect(facts.operatingSystem == DeviceInfo.OperatingSystem())
        #expect(facts.model == nil && facts.hostName == nil && facts.architecture == nil && facts.uptimeSeconds == nil)
        #expect(facts.processor == DeviceInfo.Processor() && facts.memory == nil && facts.interfaces.isEmpty)
        #expect(facts.application.name == nil)
        #expect(DeviceInfo(root: directory.path(of: "absent")).disk() == nil)
    }

    @Test func osReleaseIsParsedWithQuotesAndComments() throws {
        try write(
            "# x\nNAME=\"A \\\"q\\\" \\$ Linux\"\n  VERSION_ID='24.04'\r\nPRETTY_NAME=Plain\nbroken\nEMPTY=\n",
            to: "usr/lib/os-release")
        #expect(device.operatingSystem.name == "A \"q\" $" && device.operatingSystem.version == "24.04")
        try write("ID=arch\n", to: "etc/os-release")
        #expect(device.operatingSystem.name == "arch" && device.operatingSystem.version == nil)
        try write("", to: "etc/os-release")
        #expect(device.operatingSystem.name == nil)
        try write("\u{FFFD}\0NAME", to: "etc/os-release")
        #expect(device.operatingSystem.name == nil)
    }

    @Test func coresAndThreadsAreCounted() throws {
        var text = ""
        for number in 0..<4 {
            text +=
                "processor\t: \(number)\nmodel name\t: AMD EPYC 7B13\nphysical id\t: 0\ncore id\t\t: \(number / 2)\n\n"
        }
        try write(text, to: "proc/cpuinfo")
        #expect(
            device.processor == DeviceInfo.Processor(name: "AMD EPYC 7B13", logicalCount: 4, coreCount: 2, limit: nil))
        try write("0-1,3\n", to: "sys/devices/system/cpu/online")
        #expect(device.processor.logicalCount == 3)
    }

    @Test func armProcessorsAreNamed() throws {
        let block =
            "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n\n"
        try write(
            block + block + "Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n", to: "proc/cpuinfo")
        try write("Raspberry Pi 4 Model B Rev 1.4\0", to: "proc/device-tree/model")
        #expect(device.processor.name == "ARM Cortex-A72" && device.processor.logicalCount == 2)
        #expect(device.model == "Raspberry Pi 4 Model B Rev 1.4")
        try write("CPU implementer\t: 0x99\nCPU part\t: 0x001\n", to: "proc/cpuinfo")
        #expect(device.processor.name == "ARM implementer 0x99 part 0x1")
        try write("CPU implementer\t: zz\n:\n: x\nprocessor\t: ?\n", to: "proc/cpuinfo")
        #expect(device.processor.name == nil && device.processor.logicalCount == nil)
    }

    @Test func memoryRespectsContainerLimits() throws {
        try write(
            "MemTotal:       8000000 kB\nMemFree: 100 kB\nMemAvailable:    4000000 kB\nBroken\nNeg: -1 kB\n",
            to: "proc/meminfo")
        #expect(
            device.memory
                == DeviceInfo.Memory(total: 8_192_000_000, free: 102_400, available: 4_096_000_000, limit: nil))
        try write("0::/app.slice/web\n", to: "proc/self/cgroup")
        try write("max\n", to: "sys/fs/cgroup/app.slice/web/memory.max")
        try write("536870912\n", to: "sys/fs/cgroup/app.slice/memory.max")
        try write("536000000\n", to: "sys/fs/cgroup/app.slice/memory.current")
        try write("150000 100000\n", to: "sys/fs/cgroup/app.slice/cpu.max")
        #expect(
            device.memory
                == DeviceInfo.Memory(total: 536_870_912, free: 102_400, available: 870_912, limit: 536_870_912))
        #expect(device.processor.limit == 1.5)
        // The usage that counts is that of the group with the limit.
        try write("1000\n", to: "sys/fs/cgroup/app.slice/web/memory.current")
        #expect(device.memory?.available == 870_912)
        try write("100000000\n", to: "sys/fs/cgroup/app.slice/web/memory.max")
        try write("99999000\n", to: "sys/fs/cgroup/app.slice/web/memory.current")
        #expect(device.memory?.limit == 100_000_000 && device.memory?.available == 1_000)
        // Cached files can be given up.
        try write("anon 5\ninactive_file 70000\nactive_file 9\n", to: "sys/fs/cgroup/app.slice/web/memory.stat")
        #expect(device.memory?.free == 1_000 && device.memory?.available == 71_000)
    }

    @Test func controlGroupsVersion1AreRead() throws {
        try write("MemTotal: 2000 kB\n", to: "proc/meminfo")
        try write("4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/../..\n", to: "proc/self/cgroup")
        try write("9223372036854771712\n", to: "sys/fs/cgroup/memory/memory.limit_in_bytes")
        #expect(device.memory?.limit == nil)
        try write("1000000\n", to: "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes")
        try write("50000\n", to: "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        try write("100000\n", to: "sys/fs/cgroup/cpu/cpu.cfs_period_us")
        #expect(device.memory?.total == 1_000_000 && device.processor.limit == 0.5)
        try write("900000\n", to: "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes")
        try write("inactive_file 1\ntotal_inactive_file 2000\n", to: "sys/fs/cgroup/memory/docker/x/memory.stat")
        #expect(device.memory?.free == 100_000 && device.memory?.available == 102_000)
        // The top group has no limit, and its usage is that of the whole machine.
        try write("1900000\n", to: "sys/fs/cgroup/memory/memory.usage_in_bytes")
        try write("400000\n", to: "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes")
        #expect(device.memory?.available == 602_000)
        try write("20000\n", to: "sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us")
        try write("50000\n", to: "sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us")
        #expect(device.processor.limit == 0.4)
    }

    @Test func interfacesAreReadFromFiles() throws {
        for (name, type, mac, state, extra) in [
            ("lo", "772", "00:00:00:00:00:00", "unknown", ""), ("eth0", "1", "52:54:00:12:34:56", "up", ""),
            ("wlan0", "1", "52:54:00:12:34:57", "down", "wireless/x"), ("wwan0", "65534", "", "unknown", ""),
        ] {
            let folder = "sys/class/net/\(name)/"
            try write(type + "\n", to: folder + "type")
            try write(mac + "\n", to: folder + "address")
            try write(state + "\n", to: folder + "operstate")
            try write("0x1003\n", to: folder + "flags")
            if !extra.isEmpty { try write("", to: folder + extra) }
        }
        try write("eth0", to: "sys/class/net/bonding_masters")
        #expect(device.interfaces.map(\.name) == ["eth0", "lo", "wlan0", "wwan0"])
        #expect(device.interfaces.map(\.kind) == [.wired, .loopback, .wifi, .cellular])
        #expect(device.interfaces.map(\.isUp) == [true, true, false, true])
        #expect(device.interfaces.map(\.macAddress) == ["52:54:00:12:34:56", nil, "52:54:00:12:34:57", nil])
    }

    @Test(arguments: ["lowerlayerdown", "dormant", "notpresent", "testing", "down"])
    func interfaceThatCannotSendIsNotUp(state: String) throws {
        try write("1\n", to: "sys/class/net/eth0/type")
        try write("0x1003\n", to: "sys/class/net/eth0/flags")
        #expect(device.interfaces.map(\.isUp) == [true])
        try write(state + "\n", to: "sys/class/net/eth0/operstate")
        #expect(device.interfaces.map(\.isUp) == [false])
    }

    @Test func modelIncludesItsMaker() throws {
        try write("ThinkPad X1\n", to: "sys/class/dmi/id/product_name")
        #expect(device.model == "ThinkPad X1")
        try write("LENOVO  \n", to: "sys/class/dmi/id/sys_vendor")
        #expect(device.model == "LENOVO ThinkPad X1")
        try write("To Be Filled By O.E.M.\n", to: "sys/class/dmi/id/product_name")
        #expect(device.model == nil)
    }

    @Test func thisMachineReportsItsFacts() throws {
        let application = DeviceInfo.Application(version: "2.1", build: "77")
        let device = DeviceInfo(application: application)
        let facts = device.snapshot
        var names = utsname()
        #expect(uname(&names) == 0)
        let machine = withUnsafeBytes(of: names.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        #expect(facts.architecture == machine)
        #expect((facts.processor.logicalCount ?? 0) > 0 && (facts.memory?.total ?? 0) > 1 << 20)
        #expect((facts.disk?.total ?? 0) > 0 && (facts.uptimeSeconds ?? 0) > 0)
        #expect(facts.interfaces.first { $0.kind == .loopback }?.addresses.contains("127.0.0.1") == true)
        #expect(facts.application.name?.hasSuffix(".xctest") == true && facts.application.build == "77")
        #expect(try JSONDecoder().decode(DeviceInfo.Snapshot.self, from: JSONEncoder().encode(facts)) == facts)
    }
}

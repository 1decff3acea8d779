import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// What the system reports about the machine and the program: live values, `nil` when it does not report them.
///
/// ```swift
/// let device = DeviceInfo.current
/// device.operatingSystem.title        // "Debian GNU/Linux 12 (bookworm)"
/// device.memory?.available            // bytes that programs can have now
/// device.interfaces.filter(\.isUp).flatMap(\.addresses)
/// try JSONEncoder().encode(device.snapshot)
/// ```
///
/// Sources: `/etc/os-release`, `uname(2)`, `/proc`, `/sys`, `statvfs(3)`, `getifaddrs(3)`, the control groups of a
/// container. Every property reads its source again, which takes between microseconds and a millisecond.
public struct DeviceInfo: Sendable {
    /// This machine and program.
    public static let current = DeviceInfo()

    let files: SystemFiles
    let givenApplication: Application

    /// Makes device information from a system's files.
    ///
    /// - Parameters:
    ///   - root: the folder of the system's files. Default `/`. For any other folder, only files are read, and the
    ///     running kernel is not asked.
    ///   - application: the description of the program. It is given here because Linux keeps no versions of programs.
    ///     Default: only the executable's name.
    public init(root: String = "/", application: Application = Application()) {
        files = SystemFiles(root: root)
        givenApplication = application
    }

    // MARK: System

    /// The operating system.
    public var operatingSystem: OperatingSystem {
        let text = files.text("etc/os-release") ?? files.text("usr/lib/os-release")
        let release = text.map { SystemRelease(parsing: $0) }
        return OperatingSystem(
            name: release?.name, version: release?.version, title: release?.title,
            kernel: files.line("proc/sys/kernel/osrelease") ?? files.uname { $0.release })
    }

    /// The machine's model name: `Raspberry Pi 4 Model B Rev 1.4`, `ThinkPad X1 Carbon`. `nil` in most containers.
    public var model: String? {
        if let model = files.line("proc/device-tree/model") { return model }
        let product = files.line("sys/class/dmi/id/product_name").flatMap { Self.meaningless.contains($0) ? nil : $0 }
        let maker = files.line("sys/class/dmi/id/sys_vendor").flatMap { Self.meaningless.contains($0) ? nil : $0 }
        guard let product else { return nil }
        guard let maker, !product.hasPrefix(maker) else { return product }
        return "\(maker) \(product)"
    }

    /// Placeholders that makers leave in the firmware.
    private static let meaningless: Set<String> = [
        "To Be Filled By O.E.M.", "System Product Name", "System manufacturer", "Default string", "None",
        "Not Specified",
    ]

    /// The host name.
    public var hostName: String? { files.line("proc/sys/kernel/hostname") ?? files.uname { $0.nodename } }

    /// The architecture of the kernel: `x86_64`, `aarch64`.
    public var architecture: String? { files.line("proc/sys/kernel/arch") ?? files.uname { $0.machine } }

    /// How long the system has been up.
    public var uptime: Duration? {
        guard let text = files.line("proc/uptime")?.split(separator: " ").first, let seconds = Double(text),
            seconds.isFinite, seconds >= 0, seconds < 1e12
        else { return nil }
        return .milliseconds(Int64(seconds * 1_000))
    }

    // MARK: Hardware

    /// The processor.
    public var processor: Processor { ProcessorFacts(files).processor }

    /// The memory; in a container, that of the container.
    public var memory: Memory? { MemoryFacts(files).memory }

    /// Returns the file system of a path; `nil` when there is no such path.
    ///
    /// - Parameter path: a path below the root of the system. Default: the root itself.
    public func disk(at path: String = "/") -> Disk? {
        var status = statvfs()
        guard statvfs(files.path(path), &status) == 0, status.f_blocks > 0 else { return nil }
        let size = Int64(clamping: status.f_frsize)
        func bytes(_ blocks: some FixedWidthInteger) -> Int64 {
            Int64(clamping: blocks).multipliedReportingOverflow(by: size).partialValue
        }
        return Disk(total: bytes(status.f_blocks), free: bytes(status.f_bfree), available: bytes(status.f_bavail))
    }

    /// The network interfaces, sorted by name.
    public var interfaces: [Interface] { InterfaceFacts(files).interfaces }

    // MARK: Program

    /// The program.
    public var application: Application {
        var application = givenApplication
        if application.name == nil { application.name = files.executableName }
        return application
    }

    /// All facts at one moment.
    public var snapshot: Snapshot {
        Snapshot(
            operatingSystem: operatingSystem, model: model, hostName: hostName, architecture: architecture,
            uptimeSeconds: uptime?.inSeconds,
            processor: processor, memory: memory, disk: disk(), interfaces: interfaces, application: application)
    }
}

extension DeviceInfo {
    /// The operating system.
    public struct OperatingSystem: Hashable, Codable, Sendable {
        /// The name, `Debian`.
        public var name: String?
        /// The version, `12`; `nil` for a rolling release.
        public var version: String?
        /// Name and version for people, `Debian GNU/Linux 12 (bookworm)`.
        public var title: String?
        /// The version of the kernel, `6.1.0-18-amd64`.
        public var kernel: String?
    }

    /// The processor.
    public struct Processor: Hashable, Codable, Sendable {
        /// The model: `AMD EPYC 7B13`, `ARM Cortex-A72`.
        public var name: String?
        /// The number of logical processors.
        public var logicalCount: Int?
        /// The number of physical cores.
        public var coreCount: Int?
        /// The container's limit in processors, such as `1.5`; `nil` without a limit.
        public var limit: Double?
    }

    /// Memory in bytes.
    public struct Memory: Hashable, Codable, Sendable {
        /// The total: the machine's, or the container's limit when that is less.
        public var total: Int64
        /// Memory that is not used at all; `nil` when unknown.
        public var free: Int64?
        /// Memory that programs can get, including caches that the system can drop; `nil` when unknown.
        public var available: Int64?
        /// The container's limit; `nil` when it has none, or none that is less than the machine's memory.
        public var limit: Int64?
    }

    /// A file system, in bytes.
    public struct Disk: Hashable, Codable, Sendable {
        /// The size.
        public var total: Int64
        /// The free space.
        public var free: Int64
        /// The free space that is not reserved for root.
        public var available: Int64
    }

    /// A network interface.
    public struct Interface: Hashable, Codable, Sendable {
        /// The kind of interface.
        public enum Kind: String, Hashable, Codable, Sendable {
            case loopback, wired, wifi, cellular, virtual, other
        }

        /// The name, `eth0`.
        public var name: String
        /// The kind.
        public var kind: Kind
        /// Whether it can carry packets, according to `operstate` or, where that is unknown, its flags.
        public var isUp: Bool
        /// The hardware address, `52:54:00:12:34:56`; `nil` for interfaces without one.
        public var macAddress: String?
        /// The IPv4 addresses, then the IPv6 ones, with a zone where they need one.
        public var addresses: [String]
    }

    /// The program.
    public struct Application: Hashable, Codable, Sendable {
        /// The name; by default the executable's.
        public var name: String?
        /// The version; `nil` when the program gives none.
        public var version: String?
        /// The build; `nil` when the program gives none.
        public var build: String?

        /// Makes a description of the program, by default an empty one.
        public init(name: String? = nil, version: String? = nil, build: String? = nil) {
            self.name = name
            self.version = version
            self.build = build
        }
    }

    /// All facts at one moment.
    public struct Snapshot: Hashable, Codable, Sendable {
        /// See ``DeviceInfo/operatingSystem``.
        public var operatingSystem: OperatingSystem
        /// See ``DeviceInfo/model``.
        public var model: String?
        /// See ``DeviceInfo/hostName``.
        public var hostName: String?
        /// See ``DeviceInfo/architecture``.
        public var architecture: String?
        /// ``DeviceInfo/uptime`` in seconds.
        public var uptimeSeconds: Double?
        /// See ``DeviceInfo/processor``.
        public var processor: Processor
        /// See ``DeviceInfo/memory``.
        public var memory: Memory?
        /// The file system of `/`; see ``DeviceInfo/disk(at:)``.
        public var disk: Disk?
        /// See ``DeviceInfo/interfaces``.
        public var interfaces: [Interface]
        /// See ``DeviceInfo/application``.
        public var application: Application
    }
}

extension DeviceInfo {
    /// The operating system.
    public struct OperatingSystem: Hashable, Codable, Sendable {
        /// The name, `Debian`.
        public var name: String?
        /// The version, `12`; `nil` for a rolling one.
        public var version: String?
        /// Name and version for people, `Debian GNU/Linux 12 (bookworm)`.
        public var title: String?
        /// The version of the kernel, `6.1.0-18-amd64`.
        public var kernel: String?
    }

    /// The processor.
    public struct Processor: Hashable, Codable, Sendable {
        /// What it is called: `AMD EPYC 7B13`, `ARM Cortex-A72`.
        public var name: String?
        /// How many threads the system runs at the same time.
        public var logicalCount: Int?
        /// How many cores that are.
        public var coreCount: Int?
        /// How many processors' time the container may have, `1.5` for one; `nil` without a limit.
        public var limit: Double?
    }

    /// Memory in bytes.
    public struct Memory: Hashable, Codable, Sendable {
        /// All of it: the machine's, or the container's limit when that is less.
        public var total: Int64
        /// Used for nothing at all; `nil` when unknown.
        public var free: Int64?
        /// What programs can have, caches that give way included; `nil` when unknown.
        public var available: Int64?
        /// What is limited by the container; `nil` without a limit.
        public var limit: Int64?
    }

    /// A file system, in bytes.
    public struct Disk: Hashable, Codable, Sendable {
        /// All of it.
        public var total: Int64
        /// Unused.
        public var free: Int64
        /// Unused and not kept for the administrator.
        public var available: Int64
    }

    /// A network interface.
    public struct Interface: Hashable, Codable, Sendable {
        /// What it is.
        public enum Kind: String, Hashable, Codable, Sendable {
            case loopback, wired, wifi, cellular, virtual, other
        }

        /// The name, `eth0`.
        public var name: String
        /// What it is.
        public var kind: Kind
        /// Whether it can carry packets (`operstate`, else its flags).
        public var isUp: Bool
        /// The hardware address, `52:54:00:12:34:56`; `nil` for interfaces without one.
        public var macAddress: String?
        /// The IPv4 addresses, then the IPv6 ones with their zone where they need one.
        public var addresses: [String]
    }

    /// The program.
    public struct Application: Hashable, Codable, Sendable {
        /// The name; of the executable unless the program said another.
        public var name: String?
        /// The version, as the program said.
        public var version: String?
        /// The build, as the program said.
        public var build: String?

        /// Says what the program is.
        public init(name: String? = nil, version: String? = nil, build: String? = nil) {
            self.name = name
            self.version = version
            self.build = build
        }
    }

    /// All facts at one time.
    public struct Snapshot: Hashable, Codable, Sendable {
        /// See ``DeviceInfo/operatingSystem``.
        public var operatingSystem: OperatingSystem
        /// See ``DeviceInfo/model``.
        public var model: String?
        /// See ``DeviceInfo/hostName``.
        public var hostName: String?
        /// See ``DeviceInfo/architecture``.
        public var architecture: String?
        /// See ``DeviceInfo/uptime``.
        public var uptimeSeconds: Double?
        /// See ``DeviceInfo/processor``.
        public var processor: Processor
        /// See ``DeviceInfo/memory``.
        public var memory: Memory?
        /// See ``DeviceInfo/disk(at:)``, of the root.
        public var disk: Disk?
        /// See ``DeviceInfo/interfaces``.
        public var interfaces: [Interface]
        /// See ``DeviceInfo/application``.
        public var application: Application
    }
}

import FoundationEssentials
import LATNetworking
import LATStorage

/// `lat device`: shows what the system reports about this machine.
struct DeviceCommand: Command {
    static let name = "device"
    static let summary = "Shows what the system reports about this machine."
    static let usage = "[options]"
    static let options = [OutputFormat.option]
    static let details = """
        Facts that the system does not report are left out. In a container, memory and
        processors are those of the container.

        Examples
          lat device
          lat device --format json

        Exit code: 0.
        """

    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        try UsageError.refuse(arguments.operands, after: 0, "lat device --help shows the usage")
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        let application = DeviceInfo.Application(name: "lat", version: VersionCommand.version)
        let facts = DeviceInfo(application: application).snapshot
        switch format {
        case .json: try console.print(JSONValue(parsing: JSONEncoder().encode(facts)))
        case .text: for line in Self.lines(facts, console.outStyle) { try console.print(line) }
        }
        return .success
    }

    /// One line for each known fact.
    static func lines(_ facts: DeviceInfo.Snapshot, _ style: Style) -> [String] {
        var rows: [(String, String)] = []
        func add(_ name: String, _ value: String?) {
            if let value { rows.append((name, value)) }
        }
        let system = facts.operatingSystem
        let title = [system.name, system.version].compactMap { $0 }.joined(separator: " ")
        add("system", system.title ?? (title.isEmpty ? nil : title))
        add("kernel", system.kernel)
        add("model", facts.model)
        add("host", facts.hostName)
        add("architecture", facts.architecture)
        add("up for", facts.uptimeSeconds.map { Quantity.duration(.milliseconds(Int64($0 * 1_000))) })
        add("processor", facts.processor.name)
        add("cores", cores(facts.processor))
        add(
            "memory",
            facts.memory.map { memory in
                "\(Quantity.bytes(memory.total))" + (memory.available.map { ", \(Quantity.bytes($0)) available" } ?? "")
                    + (memory.limit == nil ? "" : ", limited by the container")
            })
        add("disk", facts.disk.map { "\(Quantity.bytes($0.total)), \(Quantity.bytes($0.available)) available" })
        for interface in facts.interfaces {
            let words =
                [interface.kind.rawValue, interface.isUp ? "up" : "down"] + [interface.macAddress].compactMap { $0 }
                + interface.addresses
            add("interface", "\(interface.name): \(words.joined(separator: ", "))")
        }
        let application = facts.application
        add(
            "program",
            application.name.map { name in
                name + (application.version.map { " \($0)" } ?? "") + (application.build.map { " (\($0))" } ?? "")
            })
        return style.columns(rows)
    }

    private static func cores(_ processor: DeviceInfo.Processor) -> String? {
        var words: [String] = []
        if let cores = processor.coreCount { words.append("\(cores)") }
        if let threads = processor.logicalCount { words.append(words.isEmpty ? "\(threads)" : "\(threads) threads") }
        if let limit = processor.limit { words.append("limited to \(limit)") }
        return words.isEmpty ? nil : words.joined(separator: ", ")
    }
}

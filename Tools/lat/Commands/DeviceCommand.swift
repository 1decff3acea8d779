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
        try console.print(
            JSONValue(parsing: JSONEncoder().encode(facts)), or: Self.lines(facts, console.outStyle), as: format)
        return .success
    }

    /// One line for each known fact.
    static func lines(_ facts: DeviceInfo.Snapshot, _ style: Style) -> [String] {
        let system = facts.operatingSystem
        let title = system.title ?? [system.name, system.version].compactMap { $0 }.joined(separator: " ")
        let uptime = facts.uptimeSeconds.map { Quantity.duration(.milliseconds(Int64($0 * 1_000))) }
        let memory = facts.memory.map { memory in
            Quantity.bytes(memory.total) + (memory.available.map { ", \(Quantity.bytes($0)) available" } ?? "")
                + (memory.limit == nil ? "" : ", limited by the container")
        }
        let disk = facts.disk.map { "\(Quantity.bytes($0.total)), \(Quantity.bytes($0.available)) available" }
        let application = facts.application
        let program = application.name.map { name in
            name + (application.version.map { " \($0)" } ?? "") + (application.build.map { " (\($0))" } ?? "")
        }
        var rows: [(String, String?)] = [
            ("system", title.isEmpty ? nil : title), ("kernel", system.kernel), ("model", facts.model),
            ("host", facts.hostName), ("architecture", facts.architecture), ("up for", uptime),
            ("processor", facts.processor.name), ("cores", cores(facts.processor)), ("memory", memory), ("disk", disk),
        ]
        for interface in facts.interfaces {
            let words =
                [interface.kind.rawValue, interface.isUp ? "up" : "down"] + [interface.macAddress].compactMap { $0 }
                + interface.addresses
            rows.append(("interface", "\(interface.name): \(words.joined(separator: ", "))"))
        }
        rows.append(("program", program))
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

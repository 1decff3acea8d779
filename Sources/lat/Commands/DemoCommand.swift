import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// `lat demo`: shows the features of the library, on a server of its own.
struct DemoCommand: Command {
    static let name = "demo"
    static let summary = "Demonstrates the library against a server of its own."
    static let usage = ""
    static let details = """
        Starts a server inside this process, on a free port of 127.0.0.1, and makes
        typical calls. Each is shown in Swift, with its outcome and the time of its
        stages. Nothing leaves this machine. On a terminal two transfers are slowed
        down, so that their progress is visible. The table that the demo edits is a
        copy of Config/domains.json5 in this folder, when there is one.

        Exit codes: 0 every step succeeded, 1 a step failed.
        """

    init(_ arguments: ParsedArguments) throws(UsageError) {
        if let operand = arguments.operands.first {
            throw UsageError("demo takes no arguments, found \"\(SafeText.line(operand))\"; write lat demo")
        }
    }

    func run(_ console: Console) async throws -> ExitCode {
        let server = try MockServer()
        DemoServer.setUp(server, isUnhurried: console.errTerminal.canRedraw)
        var configuration = CentralRequestManager.Configuration()
        configuration.baseURL = server.baseURL
        configuration.maxConnectionsPerHost = 8
        configuration.proxy = .none
        let table = try DemoTable()
        try table.set(up: &configuration, baseURL: server.baseURL)
        let central = try CentralRequestManager(configuration: configuration)
        let steps = DemoSteps(central: central, server: server, table: table, stage: DemoStage(console))
        let isAllRight = try await steps.run()
        await central.shutdown()
        server.stop()
        return isAllRight ? .success : .failure
    }
}

/// The routes of the demo's server.
enum DemoServer {
    /// The size of the download in bytes.
    static let downloadSize: Int64 = 6 << 20
    /// The size of the uploaded file in bytes: more than the system buffers at once.
    static let uploadSize: Int64 = 16 << 20

    /// - Parameter isUnhurried: whether transfers are slowed to about 1.5 s, so that their progress can be seen.
    static func setUp(_ server: MockServer, isUnhurried: Bool) {
        server.echo(path: "/search")
        server.echo(path: "/get")
        server.echo(path: "/v2/get")
        server.route("POST", "/orders") { request in
            let order = try JSONValue(parsing: request.body)
            let reply: JSONValue = ["id": 7, "item": order["item"] ?? nil, "count": order["count"] ?? nil]
            return try .json(encoding: reply, status: 201)
        }
        server.route("POST", "/photos") { request in
            .json(#"{"received": \#(request.bodyByteCount)}"#, status: 201)
        }
        server.route("GET", "/film") { _ in
            let reply = MockReply.pattern(byteCount: downloadSize)
            return isUnhurried ? reply.throttled(bytesPerSecond: 4 << 20) : reply
        }
        server.route("GET", "/stall") { _ in .text("never whole").stalling(.beforeHead) }
        server.route("GET", "/items/{id}") { request in
            .json(#"{"id": \#(request.pathParameters["id"] ?? "0")}"#)
        }
        // The bodies are only counted, so they need not be recorded.
        server.bodyLimit = 65_536
        if isUnhurried { server.bodyReadRate = 10 << 20 }
    }
}

/// The table of the demo, in a folder of its own so that it can be edited. It is a copy of `Config/domains.json5` in
/// the current folder if that file has the demo's row, otherwise a short table.
final class DemoTable: Sendable {
    /// The row that the demo calls and edits.
    static let server: ServerName = "demo.get"
    private static let domain: DomainName = "demo"
    private static let row = #""demo.get": { domain: "demo", path: "get", method: "GET" }"#
    private static let editedRow = #""demo.get": { domain: "demo", path: "v2/get", method: "GET" }"#
    private static let short = """
        {
          domains: { demo: { baseURL: "http://127.0.0.1:8080", headers: { "X-App": "demo" } } },
          servers: { \(row) },
        }
        """

    private let directory: TemporaryDirectory
    private let text: String
    private let events: AsyncStream<DomainTable.FileEvent>
    /// The reason why the file was last refused.
    private let refusal = Mutex<NetworkError?>(nil)
    private let report: AsyncStream<DomainTable.FileEvent>.Continuation

    init() throws {
        directory = try TemporaryDirectory()
        let own = (try? Data(contentsOf: URL(filePath: TableArgument.standardPath))).map {
            String(decoding: $0, as: UTF8.self)
        }
        text = own.flatMap { Self.isUsable($0) ? $0 : nil } ?? Self.short
        (events, report) = AsyncStream.makeStream()
        _ = try directory.write(Data(text.utf8), to: Self.fileName)
    }

    /// Sets the table in a configuration, with the demo's server as the base URL of the domain.
    func set(up configuration: inout CentralRequestManager.Configuration, baseURL: String) throws {
        var table = try DomainTable(contentsOf: directory.path(of: Self.fileName), environment: nil)
        try table.setBaseURL(baseURL, forDomain: Self.domain)
        configuration.domains = table
        configuration.domainsObserver = { [report] event in report.yield(event) }
    }

    /// Edits the row in the file, and returns when the manager has read it.
    ///
    /// - Throws: ``NetworkError`` when the file was refused, or the change was not noticed within two seconds.
    func edit() async throws {
        let edited = text.replacing(Self.row, with: Self.editedRow)
        _ = try directory.write(Data(edited.utf8), to: Self.fileName)
        let isSeen = await withTaskGroup(of: Bool.self) { group in
            group.addTask { await self.isReloaded() }
            group.addTask {
                try? await Task.sleep(for: .seconds(2))
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        try Task.checkCancellation()
        guard !isSeen else { return }
        let message = "the change of the table was not noticed within two seconds"
        throw refusal.withLock { $0 } ?? NetworkError(.other, message: message)
    }

    private func isReloaded() async -> Bool {
        for await event in events {
            switch event {
            case .reloaded: return true
            case .rejected(let error): refusal.withLock { $0 = error }
            }
        }
        return false
    }

    private static let fileName = "domains.json5"

    /// Whether the demo works with this table.
    private static func isUsable(_ text: String) -> Bool {
        guard text.contains(row), let table = try? DomainTable(json5: text, environment: nil),
            let route = try? table.resolve(server: server)
        else { return false }
        let settings = route.settings
        return route.path == "get" && settings.headers["X-App"] == "demo" && settings.envelope == nil
            && settings.simulation == nil
    }
}

/// The output of the demo: for each step a title, the call in Swift, the outcome and its timings.
struct DemoStage: Sendable {
    private let console: Console
    private let style: Style

    init(_ console: Console) {
        self.console = console
        style = console.outStyle
    }

    func open(address: String) throws {
        let name = style.bold("LATNetworking \(VersionCommand.version)")
        try console.print("\(name), talking to a server in this process")
        try console.print(style.dim("central is a CentralRequestManager with baseURL \(address)"))
    }

    func step(_ number: Int, _ title: String, _ call: String) throws {
        try console.print("\n\(style.bold("\(number)  \(title)"))")
        for line in call.split(separator: "\n", omittingEmptySubsequences: false) {
            try console.print("   " + style.cyan(String(line)))
        }
    }

    /// A progress bar for the current step.
    func bar(_ label: String) -> ProgressLine {
        ProgressLine("   \(label)", on: console.err, console.errTerminal, isActive: true, delay: .zero)
    }

    func show(_ outcome: DemoOutcome) throws {
        let sign = outcome.isExpected ? style.green(style.sign("✓", "ok")) : style.red(style.sign("✗", "failed:"))
        for (index, line) in outcome.text.wrapped(to: 74).enumerated() {
            try console.print("   " + (index == 0 ? sign + " " : "  ") + line)
        }
        if let timings = outcome.timings { try console.print("     " + row(timings, outcome.total)) }
        if let figures = outcome.figures { try console.print("     " + columns(figures)) }
    }

    func close(succeeded: Int, of count: Int, after time: Duration) throws {
        let text = "\(succeeded) of \(count) steps succeeded, in \(Quantity.duration(time))"
        try console.print("\n" + (succeeded == count ? style.green(text) : style.red(text)))
        guard succeeded == count else { return }
        try console.print(style.dim("Next: lat help, lat request GET URL, and the README for these calls in code."))
    }

    /// The stages of a transfer, in the same columns for each step.
    private func row(_ timings: Timings, _ total: Duration?) -> String {
        let stages = [
            ("dns", timings.nameLookup), ("connect", timings.connect), ("first byte", timings.firstByte),
            ("total", total ?? timings.total),
        ]
        let times = stages.map { name, duration in
            (name, duration.map { Quantity.duration($0) } ?? style.sign("–", "-"))
        }
        return columns(times + [("reused", timings.connectionReused ? "yes" : "no")])
    }

    private func columns(_ figures: [(name: String, value: String)]) -> String {
        figures.map { name, value in
            let padding = String(repeating: " ", count: max(0, 7 - value.count))
            return style.dim(name) + " " + (name == "reused" ? value : value + padding)
        }.joined(separator: "  ")
    }
}

/// The outcome of a step.
struct DemoOutcome: Sendable {
    var isExpected: Bool
    var text: String
    var timings: Timings?
    /// The total time if the timings do not contain it, as for a stream.
    var total: Duration?
    /// Other numbers to show.
    var figures: [(name: String, value: String)]?
}

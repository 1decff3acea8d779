import Demo
import FoundationEssentials
import LATNetworking
import LATTesting

/// `lat demo`: shows the features of the library, with its own server.
struct DemoCommand: Command {
    static let name = "demo"
    static let summary = "Shows the library at work, with its own server."
    static let usage = "[--serve [--port N]]"

    static let serve = Option(
        "--serve", help: "Only starts the server, until Ctrl-C. The examples in help can be sent to it.")
    static let port = Option(
        "--port", value: "N", help: "With --serve: the port on 127.0.0.1; 0 for a free one. Default: 8080.")
    static let options = [serve, port]

    static let details = """
        The server is inside this process, on a free port of 127.0.0.1. Each call is
        shown in Swift, with its outcome and the time of its stages. Nothing leaves this
        machine. On a terminal two transfers are slowed down, so that their progress is
        visible. The table that the demo edits is a copy of Config/domains.json5 in this
        folder, when there is one.

        Examples
          lat demo
          lat demo --serve --port 8081

        Exit codes: 0 every step succeeded, 1 a step failed, 2 the command line cannot
        be used, 130 interrupted.
        """

    /// The port to serve on; `nil` to run the steps.
    let servedPort: Int?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        if let operand = arguments.operands.first {
            throw UsageError("demo takes no arguments, found \"\(SafeText.line(operand))\"; write lat demo")
        }
        let port = try arguments.number(Self.port, 0...65_535)
        if port != nil, !arguments.contains(Self.serve) {
            throw UsageError("--port is for --serve; add --serve, or leave it out")
        }
        servedPort = arguments.contains(Self.serve) ? port ?? 8_080 : nil
    }

    func run(_ console: Console) async throws -> ExitCode {
        if let servedPort { return try await serve(on: servedPort, console) }
        let server = try MockServer()
        DemoServer.setUp(server, slowsTransfers: console.errTerminal.canRedraw)
        var configuration = CentralRequestManager.Configuration()
        configuration.baseURL = server.baseURL
        configuration.maxConnectionsPerHost = 8
        configuration.proxy = .direct
        configuration.cacheStorage = .memory
        let table = try DemoTable(path: TableArgument.standardPath)
        try table.set(up: &configuration, baseURL: server.baseURL)
        let central = try CentralRequestManager(configuration: configuration)
        let steps = DemoSteps(central: central, server: server, table: table, output: DemoOutput(console: console))
        let isAllRight = try await steps.run()
        await central.shutdown()
        server.stop()
        return isAllRight ? .success : .failure
    }

    private func serve(on port: Int, _ console: Console) async throws -> ExitCode {
        let server: MockServer
        do {
            server = try MockServer(port: port)
        } catch {
            throw UsageError(
                "port \(port) of 127.0.0.1 cannot be used; name another with --port N, or --port 0 for a free one")
        }
        defer { server.stop() }
        DemoServer.setUp(server, slowsTransfers: false)
        server.recordsRequests = false
        try console.print("The server is at \(server.baseURL) until Ctrl-C. Try this in another terminal:")
        let address = server.baseURL
        for example in ["\(address)/get q==tea", "download \(address)/big.iso -o big.iso", "doctor \(address)/get"] {
            try console.print("  \(Self.program) \(example)")
        }
        while true { try await Task.sleep(for: .seconds(3_600)) }
    }

    /// How `lat` was started: by its name or by its path.
    static var program: String { CommandLine.arguments.first ?? "lat" }
}

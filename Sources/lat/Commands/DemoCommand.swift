import LATNetworking
import LATTesting

/// `lat demo`: shows what the library does, on a server of its own.
struct DemoCommand: Command {
    static let name = "demo"
    static let summary = "Shows the library at work, on a server of its own."
    static let usage = ""
    static let details = """
        Starts a server inside this process, on a free port of 127.0.0.1, and makes the
        calls of every day: each is shown as it stands in Swift, with what came of it
        and how long the stages took. Nothing leaves this machine. On a terminal two
        transfers are slowed down, so that there is something to see. The table it
        edits is a copy of Config/domains.json5, when that is below this folder.

        Exit codes: 0 when every step went as it should, 1 when one did not.
        """

    init(_ arguments: ParsedArguments) throws(UsageError) {
        if let operand = arguments.operands.first {
            throw UsageError("demo takes no arguments, here is \"\(SafeText.line(operand))\"; write lat demo")
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

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
        let table = try DemoTable()
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

/// The routes of the demo's server.
enum DemoServer {
    /// The size of the download in bytes.
    static let downloadSize: Int64 = 6 << 20
    /// Where the first download stops.
    static let downloadStop: Int64 = 4 << 20
    /// The size of the uploaded file in bytes: more than the system buffers at once.
    static let uploadSize: Int64 = 16 << 20

    /// - Parameter slowsTransfers: whether transfers are slowed to about 1.5 s, so that their progress can be seen.
    static func setUp(_ server: MockServer, slowsTransfers: Bool) {
        // The last route that matches is taken, so this first one answers only where no other matches. Its answer shows
        // what was sent.
        server.echo(path: "/")
        server.route("POST", "/orders") { request in
            let order = try JSONValue(parsing: request.body)
            let reply: JSONValue = ["id": 7, "item": order["item"] ?? nil, "count": order["count"] ?? nil]
            return try .json(encoding: reply, status: 201)
        }
        server.route("*", "/photos") { request in
            .json(#"{"received": \#(request.bodyByteCount)}"#, status: 201)
        }
        server.route("GET", "/film") { request in
            // A request without a range is the first download, which the server does not finish.
            let reply = file(request)
            let whole = request.headers["Range"] == nil ? reply.stalling(.afterBodyBytes(downloadStop)) : reply
            return slowsTransfers ? whole.throttled(bytesPerSecond: 4 << 20) : whole
        }
        server.route("GET", "/big.iso") { file($0) }
        server.route("GET", "/stall") { _ in .text("never sent").stalling(.beforeHead) }
        server.route("GET", "/prices") { _ in
            .events((1...10).map { .event(#"{"price": \#(100 + $0)}"#, type: "price", id: "\($0)") })
        }
        server.route("POST", "/chat") { _ in
            .events(.event(#"{"text": "Hello"}"#), .event("[DONE]"))
        }
        server.route("GET", "/chat") { _ in
            .webSocket([.text("Welcome. Each message is sent back.")]) { [.text($0.text)] }
        }
        server.route("GET", "/items/{id}") { request in
            .json(#"{"id": \#(request.pathParameters["id"] ?? "0")}"#)
        }
        server.route("*", "/v1/users/{id}") { request in
            let user: JSONValue = ["id": .string(request.pathParameters["id"] ?? ""), "name": "Ada"]
            return try .json(encoding: ["status": 10_000, "message": "ok", "datas": user] as JSONValue)
        }
        // The bodies are only counted, so they need not be recorded.
        server.bodyLimit = 65_536
        if slowsTransfers { server.bodyReadRate = 10 << 20 }
    }

    /// The file, or the range of it that is asked for (RFC 9110 §14.2).
    private static func file(_ request: RecordedRequest) -> MockReply {
        var reply = MockReply.pattern(byteCount: downloadSize)
        let field = request.headers["Range"] ?? ""
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
        let end = min(
            downloadSize, ends.count > 1 ? ends[1].map { min($0, downloadSize - 1) + 1 } ?? downloadSize : downloadSize)
        if field.hasPrefix("bytes="), let start = ends.first ?? nil, start < end, end - start < downloadSize {
            let range = start..<end
            let place = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(downloadSize)"
            reply = MockReply(
                status: 206, headers: ["Content-Range": place], body: .bytes(MockPattern.bytes(in: range)))
        }
        return reply.header("ETag", "\"1\"").header("Accept-Ranges", "bytes")
    }
}

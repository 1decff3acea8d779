import FoundationEssentials
import LATInspect
import LATRealtime
import LATTesting
import Synchronization
import TestSupport
import Testing

/// The page as a person uses it. Each test fails when the console shows an error, or when the page asks for anything from
/// elsewhere.
@Suite(.timeLimit(.minutes(5)), .needsChromium, .serialized) struct PageBrowserTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    @Test func thousandsOfCallsAreFilteredOpenedAndCopied() async throws {
        let inspected = try InspectedManager()
        inspected.server.route("GET", "/users/{id}") { _ in .json(#"{"id": 7, "name": "Ada"}"#) }
        inspected.server.route("GET", "/missing/{id}") { _ in .status(404) }
        inspected.server.route("GET", "/broken/{id}") { _ in .status(503) }
        inspected.server.route("POST", "/orders") { _ in .json(#"{"ok": true}"#, status: 201) }
        let (manager, server) = (inspected.manager, inspected.server)
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<20 {
                group.addTask {
                    for number in 0..<250 {
                        let id = worker * 250 + number
                        _ =
                            switch id % 25 {
                            case 3: try? await manager.startRequest("GET", server.url("/missing/\(id)"))
                            case 4: try? await manager.startRequest("GET", server.url("/broken/\(id)"))
                            case 5, 6:
                                try? await manager.startRequest(
                                    "POST", server.url("/orders?page=1"), body: .json(["name": "ada's \(id)"]),
                                    headers: ["X-Quote": "it's"])
                            default: try? await manager.startRequest("GET", server.url("/users/\(id)"))
                            }
                    }
                }
            }
        }
        let result = try await PageBrowser.run("many", inspected.address, "5000", folder: folder)
        let curl = try #require(result["texts"]["curl"].string)
        let count = server.requests.count
        let shell = try LatProcess(["-c", curl + " --silent"], program: "/bin/sh")
        #expect(await shell.result.text == #"{"ok": true}"#)
        let sent = try #require(server.requests.last)
        #expect(server.requests.count == count + 1)
        let original = try #require(server.requests.first { $0.body == sent.body })
        #expect(sent.method == "POST")
        #expect(sent.target == original.target)
        #expect(sent.headers["X-Quote"] == "it's")
        #expect(sent.headers["Content-Type"] == original.headers["Content-Type"])
        #expect(result["texts"]["swift"].string?.contains("central.startRequest(") == true)
        #expect(result["texts"]["entity"].string?.contains("struct PostOrders: RequestEntity {") == true)
        #expect(result["texts"]["httpie"].string?.contains(#"name=ada'\''s"#) == true)
    }

    @Test func contentOfACallIsNeverExecuted() async throws {
        let inspected = try InspectedManager()
        let script = "</script><script>window.ran = 1</script>"
        let replies: [MockReply] = [
            .data(Data("<html><body onload='window.ran=1'>\(script)</body></html>".utf8), contentType: "text/html"),
            .data(
                Data(
                    #"<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran=1"><script>window.ran=1</script></svg>"#
                        .utf8),
                contentType: "image/svg+xml"),
            .json(#"{"__proto__": {"ran": 1}, "constructor": 1, "a": "\#(script)", "n": 12345678901234567890}"#),
            .json(String(repeating: "[", count: 20_000) + String(repeating: "]", count: 20_000)),
            .json(#"{"cut": [1, 2"#),
            .data(Data((0...255).map { UInt8($0) }), contentType: "image/png"),
            .data(Data([0xFF, 0xFE, 0x00, 0x41]), contentType: "text/plain; charset=\(script)"),
            .status(500, reason: script),
        ]
        for reply in replies {
            var reply = reply
            reply.headers["X-Evil"] = script
            inspected.server.enqueue(reply)
            _ = try? await inspected.manager.startRequest(
                "GET", inspected.server.url("/%3Cimg%20src=x%20onerror=window.ran=1%3E?q=\(script)"),
                headers: ["X-Quote": "\"'><img src=x onerror=window.ran=1>"], tag: script)
        }
        let result = try await PageBrowser.run("hostile", inspected.address, "\(replies.count)", folder: folder)
        #expect(result["seen"].bool == true)
    }

    @Test func callsArePausedClearedPinnedAndCompared() async throws {
        let inspected = try InspectedManager()
        inspected.server.fallback { request in .json(#"{"path": "\#(request.path)"}"#) }
        for number in 0..<5 {
            _ = try await inspected.manager.startRequest("GET", inspected.server.url("/calls/\(number)"))
        }
        let trigger = try MockServer()
        let (manager, url) = (inspected.manager, inspected.server.url("/later"))
        trigger.fallback { _ in
            Task { try await manager.startRequest("GET", url) }
            return .status(204)
        }
        let result = try await PageBrowser.run("views", inspected.address, trigger.url(), folder: folder)
        #expect(result["start"].int == 5)
    }

    @Test func eventsSearchGroupsAndChangedRequestsWork() async throws {
        let table = try DomainTable(
            json5: """
                { domains: { shop: { baseURL: "http://127.0.0.1:1" } },
                  servers: { item: { domain: "shop", path: "items/{id}", method: "GET" } } }
                """, environment: nil)
        let inspected = try InspectedManager { $0.domains = table }
        let (server, manager) = (inspected.server, inspected.manager)
        server.echo(path: "/orders")
        server.route("GET", "/live") { _ in .webSocket([.text(#"{"n": 1, "name": "Ada"}"#), .text("tick")]) { _ in [] }
        }
        server.fallback { _ in .json("{}") }
        let socket = try await manager.webSocket(server.url("/live"))
        let trigger = try MockServer()
        trigger.fallback { _ in
            Task { try await socket.send("three") }
            return .status(204)
        }
        _ = try await manager.startRequest("POST", server.url("/orders"), body: .json(["hay": "a Needle"]))
        for id in 1...2 { _ = try? await manager.startRequest(server: "item", parameters: ["id": id]) }
        let result = try await PageBrowser.run("live", inspected.address, trigger.url(), folder: folder)
        #expect(
            result["messages"].string?.contains("tick") == true && result["messages"].string?.contains("three") == true)
        for name in ["User-Agent", "Sec-WebSocket-Key", "Host"] {
            #expect(result["headers"].string?.contains(name) == true, "\(name)")
        }
        #expect(result["form"][0].string == "POST" && result["form"][1].string == server.url("/orders"))
        #expect(result["form"][3].string?.contains("Needle") == true)
        _ = try await socket.close()
        let again = try #require(server.requests.last { $0.target == "/orders?again=1" })
        #expect(again.method == "POST" && again.text == #"{"changed": true}"#)
        #expect(again.headers["Content-Type"] == "application/json")
        #expect(result["rows"].string?.contains("item") == true)
    }

    @Test func bodySentAgainKeepsItsBytes() async throws {
        let inspected = try InspectedManager()
        inspected.server.fallback { _ in .status(204) }
        let body = Data("\u{FEFF}one\r\ntwo\r\n".utf8)
        _ = try await inspected.manager.startRequest(
            "POST", inspected.server.url("/lines"), body: .data(body, contentType: "text/plain"))
        let result = try await PageBrowser.run("resend", inspected.address, folder: folder)
        #expect(result["note"].string == "This is no field, as name: value: X-No-Colon here")
        try await eventually { inspected.server.requests.count == 3 }
        let sent = inspected.server.requests
        #expect(sent[1].body == body && sent[2].body == Data("one\r\nthree\r\n".utf8))
        #expect(sent[2].headers["X-Colon"] == "here")
    }

    @Test func remarksOfAFileAreShownWithItsBodies() async throws {
        let posted = #"{"mimeType":"application/x-www-form-urlencoded","params":[{"name":"a","value":"1 2"}]}"#
        let content = #"{"size":300000,"mimeType":"text/plain","text":"half","comment":"only the beginning was kept"}"#
        let entry = """
            {"startedDateTime":"2026-01-01T00:00:00.000Z","time":5,"timings":{},"request":{"method":"POST",\
            "url":"http://a.test/","headers":[],"queryString":[],"postData":\(posted)},"response":{"status":200,\
            "headers":[],"content":\(content),"_error":"connectionLost: gone"}}
            """
        try folder.write(Data(#"{"log":{"comment":"9 more","entries":[\#(entry)]}}"#.utf8), to: "a.har")
        let command = try LatProcess(["inspect", folder.path(of: "a.har")])
        let shown = try await PageBrowser.run("file", try #require(await command.lines(1).first), "1", folder: folder)
        #expect(shown["body"].string?.contains("The file says of this body: only the beginning was kept.") == true)
        #expect(shown["request"].string?.contains("a=1 2") == true)
        #expect(shown["status"].string == "failed" && shown["hint"].string == "The file says: 9 more.")
        #expect(shown["curl"].string?.contains("--data-raw 'a=1%202'") == true)
        command.send(signal: 2)
        #expect(await command.result.exitCode == 130)
    }

    @Test func savedFileIsOpenedAgain() async throws {
        let inspected = try InspectedManager()
        inspected.server.fallback { _ in .json(#"{"name": "Ada Lovelace"}"#) }
        for number in 0..<30 {
            _ = try await inspected.manager.startRequest(
                "POST", inspected.server.url("/calls/\(number)"), body: .json(["a": number]),
                headers: ["X-Number": "\(number)"])
        }
        let result = try await PageBrowser.run("export", inspected.address, "30", folder.path, folder: folder)
        #expect(result["headers"].string?.lowercased().contains("x-number") == true)
        #expect(result["body"].string?.contains("Ada Lovelace") == true)

        let path = try #require(result["file"].string)
        let command = try LatProcess(["inspect", path])
        let address = await command.lines(1)
        let shown = try await PageBrowser.run("file", try #require(address.first), "30", folder: folder)
        #expect(
            shown["curl"].string?.hasPrefix("curl -X POST") == true
                || shown["curl"].string?.hasPrefix("curl -H") == true)
        #expect(shown["body"].string?.contains("Ada Lovelace") == true)
        command.send(signal: 2)
        #expect(await command.result.exitCode == 130)
    }

    @Test func largeFileShowsItsLastCalls() async throws {
        let entry = """
            {"startedDateTime":"2026-01-01T00:00:00.000Z","time":5,"request":{"method":"GET","url":"http://a.test/",\
            "headers":[],"queryString":[]},"response":{"status":200,"headers":[],"content":{"size":0}},"timings":{}}
            """
        let entries = [String](repeating: entry, count: 200_000).joined(separator: ",")
        try folder.write(Data(#"{"log":{"entries":[\#(entries)]}}"#.utf8), to: "large.har")
        let command = try LatProcess(["inspect", folder.path(of: "large.har")])
        let address = try #require(await command.lines(1).first)
        let shown = try await PageBrowser.run("strange", address, folder: folder)
        #expect(shown["hint"].string == "The file has 200,000 calls; only the last 20,000 are shown.")
        #expect(shown["sums"].string?.hasPrefix("20,000 calls") == true)
        command.send(signal: 2)
        #expect(await command.result.exitCode == 130)
    }

    /// Each member of the file in turn has each of the types that it should not have.
    @Test func wrongTypesInAFileAreTold() async throws {
        let values = ["5", #""x""#, "true", "[]", "{}", "[1]", #"{"toString":1}"#, "null", "[null]"]
        let templates = [
            "@", #"{"startedDateTime":@,"time":@,"_attempt":@,"connection":@,"_call":@}"#,
            #"{"request":@,"response":@}"#,
            #"{"timings":@,"_call":{"id":@,"spans":@,"url":@,"status":@,"cache":@,"state":@,"duration":@}}"#,
            #"{"_call":{"id":"a","spans":[@],"startedDateTime":@}}"#,
            #"{"request":{"headers":@,"queryString":@,"postData":@}}"#,
            #"{"request":{"method":@,"url":@,"headers":[@]},"response":{"status":@,"statusText":@,"content":@}}"#,
            #"{"response":{"status":200,"headers":[{"name":@,"value":@}],"content":{"size":@,"mimeType":@,"text":@}}}"#,
        ]
        let entries = templates.flatMap { template in values.map { template.replacing("@", with: $0) } }
        try folder.write(Data(#"{"log":{"entries":[\#(entries.joined(separator: ","))]}}"#.utf8), to: "strange.har")
        let command = try LatProcess(["inspect", folder.path(of: "strange.har")])
        let shown = try await PageBrowser.run("strange", try #require(await command.lines(1).first), folder: folder)
        #expect(shown["hint"].string?.hasPrefix("Entries that are not as HAR 1.2 says: ") == true)
        command.send(signal: 2)
        #expect(await command.result.exitCode == 130)
    }

    @Test func listOfAPageLeftOpenIsBounded() async throws {
        let inspected = try InspectedManager()
        inspected.server.fallback { _ in .text("x") }
        _ = try await inspected.manager.startRequest("GET", inspected.server.url())
        let result = try await PageBrowser.run("bounded", inspected.address, folder: folder)
        let limit = try #require(result["limit"].int)
        #expect(limit == 20_000)
        #expect(result["kept"] == [20_000, 20_000])
        #expect(result["held"].int == limit)
        #expect(result["after"] == [20_000, 20_000, 0])
        #expect(result["pinned"].int == 7)
        #expect(result["last"].int == 99_999)
        // Clearing removes all calls of a file. For a running program it keeps the pinned one, even on reconnection.
        #expect(result["cleared"] == [0, 1])
    }

    @Test func pageWithoutItsKeyShowsNothing() async throws {
        let inspected = try InspectedManager()
        inspected.server.enqueue(.text("secret"))
        _ = try await inspected.manager.startRequest("GET", inspected.server.url("/"))
        let result = try await PageBrowser.run("locked", inspected.address, folder: folder)
        #expect(result["hint"].string?.contains("Open the address that the program printed") == true)
    }

    /// The browser does not ask again after an answer that is an error.
    @Test func pageOfAProgramThatWasReplacedSaysSo() async throws {
        let inspected = try InspectedManager()
        inspected.server.enqueue(.text("one"))
        _ = try await inspected.manager.startRequest("GET", inspected.server.url("/"))
        let port = try #require(URL(string: inspected.address)?.port)
        let (inspector, later) = (inspected.inspector, Inspector())
        let trigger = try MockServer()
        trigger.fallback { _ in
            inspector.stop()
            Task { try await eventually("a free port") { (try? later.start(port: port)) != nil } }
            return .status(204)
        }
        let result = try await PageBrowser.run("replaced", inspected.address, trigger.url(), folder: folder)
        #expect(result["hint"].string?.contains("no longer valid") == true)
        later.stop()
    }

    private static let pictures = ProcessInfo.processInfo.environment["LAT_PICTURES"]

    /// Takes pictures of the page: `LAT_PICTURES=FOLDER scripts/test PageBrowserTests`.
    @Test(.enabled(if: pictures != nil, "takes pictures where LAT_PICTURES says"))
    func picturesAreTaken() async throws {
        let inspected = try InspectedManager {
            $0.cachePolicy = .http
            $0.retries = 1
            $0.retryPolicy.firstWait = .milliseconds(40)
            $0.headers = ["X-App": "shop"]
            $0.immediateHeaderProvider = { _ in ["Authorization": "Bearer secret", "X-Request": "42"] }
        }
        let (server, manager) = (inspected.server, inspected.manager)
        let failures = Atomic(0)
        server.route("GET", "/users/{id}") { request in
            var reply = MockReply.json(
                #"{"id": 7, "name": "Ada Lovelace", "roles": ["admin", "editor"], "address": {"city": "London"}}"#)
            reply.headers["Cache-Control"] = "max-age=60"
            return reply
        }
        server.route("GET", "/search") { _ in
            failures.add(1, ordering: .relaxed).newValue % 3 == 0 ? .status(503) : .json(#"{"hits": [1, 2, 3]}"#)
        }
        server.route("GET", "/old") { _ in .redirect(to: "/users/1") }
        server.route("GET", "/missing") { _ in .status(404) }
        server.route("POST", "/orders") { _ in .json(#"{"ok": true}"#, status: 201) }
        server.route("GET", "/prices") { _ in
            .webSocket([.text(#"{"symbol": "ABC", "price": 12.5, "at": "2026-11-29T10:00:00Z"}"#), .text("tick")]) {
                message in
                [.text(#"{"reply": "to \#(message.text)"}"#)]
            }
        }
        let socket = try await manager.webSocket(server.url("/prices"))
        try await socket.send(#"{"subscribe": "ABC"}"#)
        for number in 0..<60 {
            let url = server.url
            switch number % 8 {
            case 0: _ = try? await manager.startRequest("GET", url("/search?q=swift&page=\(number)"))
            case 1: _ = try? await manager.startRequest("GET", url("/old"))
            case 2:
                _ = try? await manager.startRequest(
                    "POST", url("/orders"), body: .json(["name": "Ada"]), tag: "checkout")
            case 3: _ = try? await manager.startRequest("GET", url("/missing"))
            case 4: _ = try? await manager.startRequest("GET", "http://127.0.0.1:1/down")
            default: _ = try? await manager.startRequest("GET", url("/users/\(number % 12)"))
            }
        }
        let folder = try #require(Self.pictures)
        let result = try await PageBrowser.run("pictures", inspected.address, folder, folder: self.folder)
        print("pictures are in \(result["folder"].string ?? "")")
    }
}

import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(2))) struct HARTests {
    private func manager(
        _ recorder: HARRecorder, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try CentralRequestManager.make {
            $0.accessories = [recorder]
            change(&$0)
        }
    }

    private func entries(_ recorder: HARRecorder) throws -> [JSONValue] {
        try #require(JSONValue(parsing: recorder.data())["log"]["entries"].array)
    }

    /// Calls of every kind.
    private func scene(_ recorder: HARRecorder, in directory: TemporaryDirectory) async throws {
        let server = try MockServer()
        let manager = try manager(recorder) {
            $0.cacheStorage = .memory
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
            $0.retryPolicy.statuses = [503]
        }
        server.enqueue(.redirect(to: "/b?x=1&y"), .text("b"))
        _ = try await manager.startRequest("GET", server.url("/a"))
        server.enqueue(.status(503), .json(#"{"a":[1,2]}"#))
        _ = try await manager.startRequest("GET", server.url("/retry"))
        server.enqueue(.text("kept"))
        for _ in 0..<2 {
            _ = try await manager.startRequest("GET", server.url("/c"), cache: .cacheElseNetwork(.forever))
        }
        server.enqueue(.data(Data([0, 1, 2, 0xFF]), contentType: "image/png"), .status(204), .status(304))
        _ = try await manager.startRequest("GET", server.url("/binary"))
        _ = try await manager.startRequest("DELETE", server.url("/empty"))
        _ = try await manager.startRequest("GET", server.url("/not-modified"))
        server.fallback { _ in .json("{}") }
        _ = try await manager.startRequest("POST", server.url("/form"), parameters: ["a": "b c", "d": 1], body: .form)
        _ = try await manager.startRequest("POST", server.url("/json"), body: .json(["a": 1]))
        _ = try await manager.startRequest("POST", server.url("/bytes"), body: .data(Data([0, 1, 2])))
        _ = try await manager.startRequest(
            "POST", server.url("/files"), files: [UploadFile(name: "f", fileName: "a.txt", data: Data("text".utf8))])
        for try await _ in try await manager.stream("GET", server.url("/stream")).body {}
        let closed = try ClosedPort()
        _ = try? await manager.startRequest("GET", closed.url("/refused"))
        _ = try? await manager.startRequest("GET", "http://127.0.0.1:\(closed.port)/</script>?q=\u{1F600}")
        var request = HTTPRequest("GET", server.url("/headers"))
        request.headers["X-Script"] = "</script><b>\"\\"
        _ = try await manager.send(request)
    }

    /// The caller of a stream gets the last response only.
    @Test func bodiesOfRepeatedRefusalsAreKept() async throws {
        let recorder = HARRecorder()
        let server = try MockServer()
        server.enqueue(.text("first", status: 503), .text("second", status: 503))
        server.fallback { _ in .text("whole") }
        let manager = try manager(recorder) {
            $0.retries = 2
            $0.retryPolicy.firstWait = .zero
        }
        for try await _ in try await manager.stream("GET", server.url()).body {}
        let contents = try entries(recorder).map { $0["response"]["content"]["text"].string }
        #expect(contents == ["first", "second", "whole"])
        #expect(try entries(recorder).map { $0["response"]["content"]["size"].int } == [5, 6, 5])
    }

    @Test func bodyThatEndedEarlyHasItsError() async throws {
        let recorder = HARRecorder()
        let server = try MockServer()
        server.route("GET", "/cut") { _ in .text(String(repeating: "x", count: 5_000)).closing(afterBytes: 1_000) }
        server.route("GET", "/left") { _ in .text(String(repeating: "x", count: 8 << 20)) }
        server.route("GET", "/missing") { _ in .text("none", status: 404) }
        let manager = try manager(recorder)
        var size = 0
        let cut = try await manager.stream("GET", server.url("/cut"))
        await #expect(throws: NetworkError.self) { for try await piece in cut.body { size += piece.count } }
        for try await _ in try await manager.stream("GET", server.url("/left")).body { break }
        try await eventually("the call that was left") { recorder.count == 2 }
        _ = try? await manager.stream("GET", server.url("/missing"))
        let responses = try entries(recorder).map { $0["response"] }
        #expect(size > 0 && responses[0]["content"]["size"].int == size)
        #expect(responses[0]["content"]["text"].string?.count == size)
        #expect(responses.map { $0["status"].int } == [200, 200, 404])
        let errors = responses.map { $0["_error"].string?.prefix { $0 != ":" } }
        #expect(errors == ["connectionLost", "cancelled", nil])
    }

    @Test func runningCallsAndOldMessagesAreTold() async throws {
        let server = try MockServer()
        server.route("GET", "/live") { _ in .webSocket((0..<600).map { .text("\($0)") }) { _ in [] } }
        server.route("GET", "/long") { _ in .text("abc").stalling(.afterBodyBytes(1)) }
        let recorder = HARRecorder()
        let manager = try manager(recorder)
        let socket = try await manager.webSocket(server.url("/live"))
        for try await message in socket.messages { if case .text("599") = message { break } }
        _ = try await socket.close()
        try await eventually("the socket") { recorder.count == 1 }
        let long = try await manager.stream("GET", server.url("/long"))
        let log = try JSONValue(parsing: recorder.data())["log"]
        #expect(log["comment"].string == "1 calls were still running, and are not in this file")
        let socketEntry = log["entries"][0]
        #expect(socketEntry["comment"].string?.hasPrefix("only the newest 500 of ") == true)
        #expect((socketEntry["_webSocketMessages"].array?.count ?? 0) <= 500)
        withExtendedLifetime(long) {}
    }

    @Test func everyNumberThatChromeAsksForIsThere() async throws {
        let recorder = HARRecorder()
        try await scene(recorder, in: try TemporaryDirectory())
        let log = try JSONValue(parsing: recorder.data())["log"]
        #expect(log["version"].string == "1.2")
        #expect(log["creator"]["name"].string == "LATNetworking")
        let entries = try #require(log["entries"].array)
        #expect(entries.count == recorder.count)
        #expect(entries.count >= 18)
        for entry in entries {
            let url = entry["request"]["url"].string ?? ""
            for name in ["send", "wait", "receive"] {
                #expect((entry["timings"][name].double ?? -1) >= 0, "\(name) of \(url)")
            }
            for name in ["blocked", "dns", "connect", "ssl"] { #expect(entry["timings"][name].double != nil) }
            for part in ["request", "response"] {
                #expect(entry[part]["headersSize"].int != nil)
                #expect(entry[part]["bodySize"].int != nil)
            }
            #expect(entry["response"]["status"].int != nil)
            #expect(entry["response"]["content"]["size"].int != nil)
            #expect(entry["response"]["redirectURL"].string != nil)
            #expect(entry["response"]["_transferSize"].int != nil)
            #expect(!url.contains("#"))
            // A browser adds up these timings.
            let timings = entry["timings"]
            let sum = ["blocked", "dns", "connect", "send", "wait", "receive"].reduce(0.0) {
                $0 + max(0, timings[$1].double ?? 0)
            }
            #expect(abs(sum - (entry["time"].double ?? -1)) < 0.001, "time of \(url)")
            #expect((timings["ssl"].double ?? 0) <= max(-1, timings["connect"].double ?? 0))
            if entry["request"]["postData"].object != nil {
                #expect(entry["request"]["postData"]["text"].string != nil)
            }
        }
        #expect(entries.filter { $0["_fromCache"].string == "memory" }.count == 1)
        let failed = entries.filter { $0["response"]["_error"].string != nil }
        #expect(failed.count >= 2)
        for entry in failed {
            #expect(entry["response"]["status"].int == 0)
            #expect(entry["response"]["content"]["mimeType"].string == "x-unknown")
        }
        let binary = try #require(entries.first { $0["request"]["url"].string?.hasSuffix("/binary") == true })
        #expect(binary["response"]["content"]["encoding"].string == "base64")
        #expect(binary["response"]["content"]["text"].string == Data([0, 1, 2, 0xFF]).base64EncodedString())
        let redirect = try #require(entries.first { $0["request"]["url"].string?.hasSuffix("/a") == true })
        #expect(redirect["response"]["redirectURL"].string == "/b?x=1&y")
        let reused = try #require(entries.first { $0["request"]["url"].string?.contains("/b?x=1") == true })
        for name in ["dns", "connect", "ssl"] { #expect(reused["timings"][name].int == -1) }
        #expect(reused["request"]["queryString"].array?.count == 2)
        #expect(reused["serverIPAddress"].string == "127.0.0.1")
        #expect(reused["connection"].string == redirect["connection"].string)
        #expect(
            entries.first { $0["request"]["url"].string?.hasSuffix("/not-modified") == true }?["response"]["bodySize"]
                .int == 0)
    }

    @Test(.needsPython)
    func fileIsValidByTheSchema() async throws {
        let directory = try TemporaryDirectory()
        let recorder = HARRecorder()
        try await scene(recorder, in: directory)
        let path = directory.path(of: "calls.har")
        try recorder.write(to: path)
        let output = try PythonScript.run("check_har.py", [path], in: directory.path)
        #expect(output.contains("\(recorder.count)"))
    }

    /// Answers that claim to come from the source that their path names.
    private struct Sources: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var response = HTTPResponse(status: 200, url: request.url)
            response.source =
                HTTPResponse.Source(rawValue: String(request.url.split(separator: "/").last ?? "")) ?? .network
            return response
        }
    }

    @Test func eachCacheHasItsName() async throws {
        let recorder = HARRecorder()
        let manager = try manager(recorder) { $0.interceptors = [Sources()] }
        for source in ["memoryCache", "diskCache", "remoteCache", "stale", "simulated"] {
            _ = try await manager.startRequest("GET", "http://a.test/\(source)")
        }
        #expect(try entries(recorder).map { $0["_fromCache"].string } == ["memory", "disk", "remote", "stale", nil])
    }

    @Test func emptyRecordingIsAValidFile() throws {
        let recorder = HARRecorder()
        #expect(try JSONValue(parsing: recorder.data())["log"]["entries"].array?.isEmpty == true)
    }

    @Test func manyCallsAreSpilledToAFile() async throws {
        var limits = HARRecorder.Limits()
        limits.memory = 10_000
        let recorder = HARRecorder(limits: limits)
        let manager = try manager(recorder) { $0.transport = Echo() }
        for index in 0..<500 { _ = try await manager.startRequest("GET", "http://a.test/\(index)") }
        let entries = try entries(recorder)
        #expect(entries.map { $0["request"]["url"].string } == (0..<500).map { "http://a.test/\($0)" })
        let directory = try TemporaryDirectory()
        try recorder.write(to: directory.path(of: "a.har"))
        #expect(directory.read("a.har") == (try recorder.data()))
        recorder.clear()
        #expect(try self.entries(recorder).isEmpty)
    }

    @Test func fullRecorderCountsWhatItDrops() async throws {
        var limits = HARRecorder.Limits()
        limits.size = 5_000
        let recorder = HARRecorder(limits: limits)
        let manager = try manager(recorder) { $0.transport = Echo() }
        for index in 0..<50 { _ = try await manager.startRequest("GET", "http://a.test/\(index)") }
        #expect(recorder.droppedCount > 0)
        #expect(recorder.count + recorder.droppedCount == 50)
        #expect(try recorder.data().count < 6_000)
        #expect(try JSONValue(parsing: recorder.data())["log"]["comment"].string?.contains("not kept") == true)
    }

    @Test func hugeBodyIsKeptByItsBeginning() async throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 100 << 20))
        let recorder = HARRecorder()
        let manager = try manager(recorder)
        var size = 0
        for try await chunk in try await manager.stream("GET", server.url("/huge")).body { size += chunk.count }
        #expect(size == 100 << 20)
        let content = try #require(try entries(recorder).first?["response"]["content"])
        #expect(content["size"].int == 100 << 20)
        #expect(try recorder.data().count < 1 << 20)
    }

    @Test func fileThatCannotBeWrittenIsOneSentence() throws {
        let error = #expect(throws: NetworkError.self) { try HARRecorder().write(to: "/nowhere/at/all.har") }
        #expect(error?.kind == .storage)
        #expect(error?.message.contains("/nowhere/at/all.har") == true)
    }
}

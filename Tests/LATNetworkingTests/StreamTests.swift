import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct StreamTests {
    private func lines(_ manager: CentralRequestManager, _ url: String) async throws -> [String] {
        var lines: [String] = []
        for try await line in try await manager.stream("GET", url).body.lines { lines.append(line) }
        return lines
    }

    /// Uses a zstd frame of 320 blocks that each repeat one byte 131,072 times (RFC 8878 §3.1.1.2): 40 MiB.
    @Test func compressedErrorBodyIsLimitedToOneMebibyte() async throws {
        var frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58]
        for block in 0..<320 { frame += [block == 319 ? 0x03 : 0x02, 0x00, 0x10, 0] }
        let reply = MockReply.data(Data(frame), status: 500).header("Content-Encoding", "zstd")
        let server = try MockServer()
        server.fallback { _ in reply }
        let manager = try CentralRequestManager.make()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let error = await failure { try await manager.stream("GET", server.url()) }
                    #expect(error?.kind == .httpStatus)
                    #expect(error?.response?.status == 500)
                    let count = error?.response?.data.count ?? 0
                    #expect(count > 0 && count <= 1 << 20)
                }
            }
            try await group.waitForAll()
        }
        await manager.shutdown()
        try await server.waitUntilDisconnected()
    }

    @Test func errorStatusIsThrownWithItsBody() async throws {
        let server = try MockServer()
        server.route("GET", "/no") { _ in .json(#"{"why": "gone"}"#, status: 410) }
        server.route("GET", "/huge") { _ in .pattern(byteCount: 5_000_000).inChunks().failing() }
        server.route("GET", "/cut") { _ in .text("partly", status: 500).announcingLength(100) }
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.stream("GET", server.url("/no")) }
        #expect(error?.kind == .httpStatus)
        #expect(error?.response?.status == 410)
        #expect(try error?.response?.json()["why"].string == "gone")
        let huge = await failure { try await manager.stream("GET", server.url("/huge")) }
        #expect(huge?.response?.data.count == 1 << 20)
        #expect(huge.flatMap { $0.response }.map { MockPattern.firstMismatch(in: $0.data, at: 0) == nil } == true)
        let cut = await failure { try await manager.stream("GET", server.url("/cut")) }
        #expect(cut?.kind == .httpStatus)
        #expect(cut?.response?.text == "partly")
        await manager.shutdown()
        try await server.waitUntilDisconnected()
    }

    @Test func linesAreWholeAcrossChunks() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let text = "one\ntwo\r\n\r\n\nfünf 🎉\r\nsechs\rsieben\nlast"
        let expected = ["one", "two", "", "", "fünf 🎉", "sechs\rsieben", "last"]
        let bytes = Array(text.utf8)
        for size in [1, 2, 3, 5, 7, 100] {
            let chunks = stride(from: 0, to: bytes.count, by: size).map {
                Data(bytes[$0..<min($0 + size, bytes.count)])
            }
            server.enqueue(.chunked(chunks))
            #expect(try await lines(manager, server.url()) == expected, "\(size)")
        }
        // The server sends each byte in its own write.
        server.enqueue(.text(text).throttled(bytesPerSecond: 2_000))
        #expect(try await lines(manager, server.url()) == expected)
        server.enqueue(.text("a\nb\n"), .text(""), .text("\n"), .text("\r\n"))
        #expect(try await lines(manager, server.url()) == ["a", "b"])
        #expect(try await lines(manager, server.url()) == [])
        #expect(try await lines(manager, server.url()) == [""])
        #expect(try await lines(manager, server.url()) == [""])
    }

    @Test func tooLongLineThrows() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("short\n" + String(repeating: "x", count: 2_000_000) + "\nafter") }
        let manager = try CentralRequestManager.make()
        var got: [String] = []
        let error = await failure {
            for try await line in try await manager.stream("GET", server.url()).body.lines { got.append(line) }
        }
        #expect(error?.kind == .bodyTooLarge)
        #expect(got == ["short"])
        var count = 0
        for try await _ in try await manager.stream("GET", server.url()).body.lines(upTo: 3_000_000) { count += 1 }
        #expect(count == 3)
        try await server.waitForClosedConnections(1)
    }

    @Test func leavingTheStreamClosesTheConnection() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1 << 30) }
        let manager = try CentralRequestManager.make()
        do {
            for try await chunk in try await manager.stream("GET", server.url()).body where !chunk.isEmpty { break }
        }
        try await server.waitForClosedConnections(1)
        do {
            let response = try await manager.stream("GET", server.url())
            #expect(response.status == 200)
        }
        try await server.waitForClosedConnections(2)
        let gauges = try #require(await manager.gauges)
        #expect(gauges.sockets == 0)
    }

    @Test func cancellingTheReaderClosesTheConnection() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1_000).stalling(.afterBodyBytes(500)) }
        let manager = try CentralRequestManager.make()
        let url = server.url()
        let begun = Event()
        let reader = Task {
            for try await _ in try await manager.stream("GET", url).body { begun.happen() }
        }
        await begun.wait()
        reader.cancel()
        await #expect(throws: CancellationError.self) { try await reader.value }
        try await server.waitForClosedConnections(1)
    }

    /// The reply stalls for ever after the last event, so each event arrives at once or never.
    @Test(arguments: 1...4) func eventsArriveWithoutBuffering(_ count: Int) async throws {
        let server = try MockServer()
        let events = (1...4).map { Data("data: \($0)\n\n".utf8) }
        server.enqueue(
            .chunked(events, contentType: "text/event-stream").delayed(by: .milliseconds(20), at: .afterBodyBytes(9))
                .stalling(.afterBodyBytes(Int64(count * 9))))
        let manager = try CentralRequestManager.make()
        var lines: [String] = []
        for try await line in try await manager.stream("GET", server.url()).body.lines where !line.isEmpty {
            lines.append(line)
            if lines.count == count { break }
        }
        #expect(lines == (1...count).map { "data: \($0)" })
        try await server.waitForClosedConnections(1)
    }

    /// A reader that does not read stops the server from sending, so the buffer stays bounded.
    @Test func slowReaderBoundsTheBuffer() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 256 << 20) }
        let manager = try CentralRequestManager.make()
        var largest = 0
        var offset: Int64 = 0
        for try await chunk in try await manager.stream("GET", server.url()).body {
            largest = max(largest, chunk.count)
            if MockPattern.firstMismatch(in: chunk, at: offset) != nil { Issue.record("wrong bytes at \(offset)") }
            offset += Int64(chunk.count)
            if offset >= 64 << 20 { break }
            if offset % 7 == 0 { try await Task.sleep(for: .milliseconds(1)) }
        }
        #expect(largest <= 1 << 20)
        try await server.waitForClosedConnections(1)
    }

    @Test func headIsReturnedBeforeTheBody() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never whole").header("X-A", "1").stalling(.afterHead) }
        let manager = try CentralRequestManager.make()
        let response = try await manager.stream("GET", server.url())
        #expect(response.headers["X-A"] == "1")
        #expect(response.body.isStream)
        #expect(response.data.isEmpty)
    }

    @Test func truncatedBodyThrowsAfterItsBytes() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("hello").announcingLength(10) }
        let manager = try CentralRequestManager.make()
        var text = ""
        let error = await failure {
            for try await chunk in try await manager.stream("GET", server.url()).body {
                text += String(decoding: chunk, as: UTF8.self)
            }
        }
        #expect(text == "hello")
        #expect(error?.kind == .connectionLost)
    }

    @Test func totalTimeoutAppliesOnlyIfTheCallSetsIt() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("0123456789").delayed(by: .milliseconds(300), at: .afterBodyBytes(5)) }
        let manager = try CentralRequestManager.make { $0.timeout = .milliseconds(150) }
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.kind == .timeout(.total))
        #expect(try await lines(manager, server.url()) == ["0123456789"])
        let error = await failure {
            let response = try await manager.stream("GET", server.url(), timeout: .milliseconds(150))
            _ = try await response.body.collect(upTo: 100)
        }
        #expect(error?.kind == .timeout(.total))
    }

    @Test func collectingThrowsBeyondTheLimit() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1_000_000) }
        let manager = try CentralRequestManager.make()
        let whole = try await manager.stream("GET", server.url()).body.collect(upTo: 1_000_000)
        #expect(whole.count == 1_000_000)
        #expect(MockPattern.firstMismatch(in: whole, at: 0) == nil)
        let error = await failure { try await manager.stream("GET", server.url()).body.collect(upTo: 999_999) }
        #expect(error?.kind == .bodyTooLarge)
    }

    @Test func concurrentStreamsDoNotMix() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.route("GET", "/{n}") { request in
            let line = "line of \(request.pathParameters["n"] ?? "")\n"
            return .text(String(repeating: line, count: 2_000)).inChunks(of: 777)
        }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 16 }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<64 {
                let url = server.url("/\(number)")
                group.addTask {
                    let lines = try await lines(manager, url)
                    #expect(lines.count == 2_000)
                    #expect(Set(lines) == ["line of \(number)"])
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func streamSendsParametersHeadersAndBody() async throws {
        let server = try MockServer()
        server.fallback { .text("\($0.method) \($0.target) \($0.text) \($0.headers["X-A"] ?? "")") }
        let manager = try CentralRequestManager.make()
        let response = try await manager.stream("GET", server.url("/x"), parameters: ["a": 1], headers: ["X-A": "h"])
        #expect(String(decoding: try await response.body.collect(upTo: 100), as: UTF8.self) == "GET /x?a=1  h")
        let posted = try await manager.stream("POST", server.url("/x"), body: .text("body"))
        #expect(String(decoding: try await posted.body.collect(upTo: 100), as: UTF8.self) == "POST /x body ")
    }

    @Test func emptyBodyYieldsNoChunks() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(204) }
        let manager = try CentralRequestManager.make()
        for try await _ in try await manager.stream("GET", server.url()).body { Issue.record("unexpected chunk") }
        for try await _ in try await manager.stream("HEAD", server.url()).body { Issue.record("unexpected chunk") }
    }
}

extension MockReply {
    fileprivate func failing() -> MockReply {
        var copy = self
        copy.status = 500
        return copy
    }
}

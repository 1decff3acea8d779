import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct SuspensionTests {
    /// Lets time pass by sending another request whose response is delayed.
    private func pass(_ time: Duration, _ transport: CurlTransport) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("late").delayed(by: time) }
        _ = try await transport.get(server.url())
    }

    @Test func suspendedRequestIsSentAfterResume() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let owner = TestOwner(isSuspended: true)
            let request = HTTPRequest("GET", server.url("/held")).with {
                $0.idleTimeout = .seconds(2)
                $0.timeout = .seconds(20)
            }
            let task = Task { try await transport.send(request, for: owner) }
            _ = await transport.gauges
            // A suspended request does not block others, though only one connection is allowed.
            #expect(try await transport.get(server.url("/other")).text == "x")
            try await pass(.milliseconds(2_500), transport)
            #expect(server.requests.map(\.target) == ["/other"])
            owner.setSuspended(false)
            #expect(try await within { try await task.value }.text == "x")
        }
    }

    @Test(arguments: [false, true])
    func suspendedBodyCausesNoIdleTimeout(streams: Bool) async throws {
        let size: Int64 = 24 << 20
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: size))
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let isHeld = Event()
            let isOver = Box(false)
            owner.onProgress { [weak owner] _ in
                if !isHeld.hasHappened { owner?.setSuspended(true) }
                isHeld.happen()
            }
            let request = HTTPRequest("GET", server.url()).with {
                $0.streamsBody = streams
                $0.idleTimeout = .seconds(2)
            }
            let task = Task {
                let data = try await transport.send(request, for: owner).body.collect(upTo: 1 << 30)
                isOver.change { $0 = true }
                return data
            }
            await isHeld.wait()
            try await pass(.milliseconds(2_500), transport)
            #expect(!isOver.value)
            #expect(server.openConnections == 1)
            owner.setSuspended(false)
            let data = try await within { try await task.value }
            #expect(data.count == size)
            #expect(MockPattern.firstMismatch(in: data, at: 0) == nil)
        }
    }

    @Test(arguments: ["before", "waiting for the head", "body", "stream"])
    func suspendedRequestCanBeCancelled(place: String) async throws {
        let server = try MockServer()
        server.enqueue(place == "waiting for the head" ? .text("x").stalling(.start) : .pattern(byteCount: 64 << 20))
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let isHeld = Event()
            if place == "before" { owner.setSuspended(true) }
            owner.onProgress { [weak owner] _ in
                owner?.setSuspended(true)
                isHeld.happen()
            }
            let request = HTTPRequest("GET", server.url()).with {
                $0.streamsBody = place == "stream"
            }
            let task = Task { try await transport.send(request, for: owner).body.collect(upTo: 1 << 30) }
            switch place {
            case "before": break
            case "waiting for the head":
                try await server.waitForRequests(1)
                owner.setSuspended(true)
            default: await isHeld.wait()
            }
            _ = await transport.gauges
            task.cancel()
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
            if place != "before" { try await server.waitUntilDisconnected() }
            #expect(server.requestCount == (place == "before" ? 0 : 1))
        }
    }

    @Test func shutdownEndsASuspendedBody() async throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 64 << 20))
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let isHeld = Event()
            owner.onProgress { [weak owner] _ in
                owner?.setSuspended(true)
                isHeld.happen()
            }
            let request = HTTPRequest("GET", server.url())
            let task = Task { try await transport.send(request, for: owner) }
            await isHeld.wait()
            _ = await transport.gauges
            try await within { await transport.shutdown() }
            let error = await #expect(throws: NetworkError.self) { try await within { try await task.value } }
            #expect(error?.kind == .shutDown)
        }
    }

    @Test func suspendedRequestInQueueLetsOthersPass() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.start))
        server.fallback { .text($0.path) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let first = Task { try await transport.get(server.url("/1")) }
            try await server.waitForRequests(1)
            let owner = TestOwner()
            let held = HTTPRequest("GET", server.url("/2"))
            let second = try await transport.submit(held, for: owner)
            owner.setSuspended(true)
            first.cancel()
            #expect(try await transport.get(server.url("/3")).text == "/3")
            #expect(server.requests.map(\.path) == ["/1", "/3"])
            owner.setSuspended(false)
            #expect(try await within { try await second.value }.text == "/2")
        }
    }

    @Test func suspensionWhileConnectingCanBeResumed() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").delayed(by: .milliseconds(100), at: .afterHead))
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let request = HTTPRequest("GET", server.url())
            let task = Task { try await transport.send(request, for: owner) }
            _ = await transport.gauges
            owner.setSuspended(true)
            try await pass(.milliseconds(150), transport)
            owner.setSuspended(false)
            #expect(try await within { try await task.value }.text == "hello")
            owner.setSuspended(true)
            owner.setSuspended(false)
        }
    }

    @Test(arguments: [false, true])
    func repeatedSuspensionLosesNoBytes(uploads: Bool) async throws {
        let data = MockPattern.bytes(in: 0..<(8 << 20))
        let server = try MockServer()
        server.fallback { uploads ? .text("\($0.bodyByteCount)") : .pattern(byteCount: 8 << 20) }
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let request = HTTPRequest(uploads ? "POST" : "GET", server.url(), body: uploads ? .data(data) : nil)
            let task = Task { try await transport.send(request, for: owner) }
            for index in 0..<2000 {
                owner.setSuspended(index % 2 == 0)
                if index % 50 == 0 { _ = await transport.gauges }
            }
            owner.setSuspended(false)
            let response = try await within { try await task.value }
            if uploads {
                #expect(response.text == "\(data.count)")
                #expect(server.requests.first?.body == data)
            } else {
                #expect(response.data == data)
            }
        }
    }

    @Test func suspendedUploadWaitsForResume() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 64 << 20, to: "big")
        let server = try MockServer()
        server.bodyLimit = 0
        server.fallback { .text("\($0.bodyByteCount)") }
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let isHeld = Event()
            owner.onProgress { [weak owner] _ in
                if !isHeld.hasHappened { owner?.setSuspended(true) }
                isHeld.happen()
            }
            let request = HTTPRequest("PUT", server.url(), body: .file(path)).with {
                // Shorter than the suspension, but long enough for a busy machine to reach it.
                $0.idleTimeout = .seconds(2)
            }
            let task = Task { try await transport.send(request, for: owner) }
            await isHeld.wait()
            try await pass(.milliseconds(2_500), transport)
            #expect(server.receivedBodyBytes < 64 << 20)
            #expect(server.requestCount == 0)
            owner.setSuspended(false)
            #expect(try await within { try await task.value }.text == "\(64 << 20)")
        }
    }
}

import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// Live connections beside ordinary ones.
@Suite(.timeLimit(.minutes(2))) struct LiveConnectionTests {
    @Test func openStreamsHoldUpNoRequest() async throws {
        let server = try MockServer()
        server.route("GET", "/events") { _ in .events(.event("a"), .stall) }
        server.route("GET", "/get") { _ in .text("x") }
        let manager = try CentralRequestManager.make {
            $0.maxConnectionsPerHost = 1
            $0.maxConnections = 1
        }
        var iterators: [EventStream<ServerSentEvent>.Iterator] = []
        for _ in 0..<5 {
            var iterator = manager.events(server.url("/events")).makeAsyncIterator()
            #expect(try await iterator.next()?.data == "a")
            iterators.append(iterator)
        }
        for _ in 0..<20 { #expect(try await manager.startRequest("GET", server.url("/get")).text == "x") }
        // Five streams, and one connection for all requests.
        #expect(server.acceptedConnections == 6)
        #expect(iterators.count == 5)
    }

    @Test func manyStreamsAreOpenAtOnce() async throws {
        let server = try MockServer()
        server.fallback { request in .events(.event(request.path), .wait(.milliseconds(50)), .event("end")) }
        let manager = try CentralRequestManager.make()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let events = try await manager.events(server.url("/\(number)")).all()
                    #expect(events.map(\.data) == ["/\(number)", "end"])
                }
            }
            try await group.waitForAll()
        }
        await manager.shutdown()
        #expect(await manager.gauges?.sockets == 0)
    }

    /// nginx as a reverse proxy in front of the server, in clear text, over TLS with HTTP/2, and with several streams
    /// on one connection.
    @Test(.needsNginx)
    func streamsPassAReverseProxy() async throws {
        let server = try MockServer()
        server.fallback { request in
            request.path == "/short"
                ? .events(.event("a", id: "1"), .wait(.milliseconds(30)), .event("b", id: "2"))
                : .events(.event("a"), .stall)
        }
        let manager = try CentralRequestManager.make { $0.tls.caFile = Servers.authority }
        for base in [Servers.nginx ?? "", Servers.nginxTLS ?? ""] {
            let url = "\(base)/to/\(server.port)"
            #expect(try await manager.events(url + "/short").all().map(\.data) == ["a", "b"])
            // Events arrive while the stream is open.
            var iterators: [EventStream<ServerSentEvent>.Iterator] = []
            for _ in 0..<3 {
                var iterator = manager.events(url + "/open").makeAsyncIterator()
                #expect(try await iterator.next()?.data == "a")
                iterators.append(iterator)
            }
            #expect(try await manager.startRequest("GET", base + "/1k.bin").data.count == 1_024)
            #expect(iterators.count == 3)
        }
        server.stop()
    }

    @Test(.needsNginx)
    func floodPassesHTTP2() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.repeated([.event(String(repeating: "x", count: 500))], count: 20_000)) }
        let manager = try CentralRequestManager.make { $0.tls.caFile = Servers.authority }
        let stream = manager.events("\(Servers.nginxTLS ?? "")/to/\(server.port)/flood")
        var count = 0
        for try await event in stream {
            #expect(event.data.utf8.count == 500)
            count += 1
        }
        #expect(count == 20_000)
    }
}

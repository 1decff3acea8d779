import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct ConnectionLimitTests {
    @Test(arguments: [1, 3])
    func hostStaysWithinItsLimit(limit: Int) async throws {
        let server = try MockServer()
        let most = Box(0)
        server.fallback { [weak server] _ in
            most.change { $0 = max($0, server?.openConnections ?? 0) }
            return .text("x").delayed(by: .milliseconds(3))
        }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = limit }) { transport async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<60 {
                    group.addTask {
                        let request = HTTPRequest("GET", server.url("/\(index)")).with {
                            $0.streamsBody = index % 4 == 0
                        }
                        _ = try await transport.answer(to: request).body.collect(upTo: 100)
                    }
                }
                try await group.waitForAll()
            }
            #expect(most.value <= limit)
            #expect(await transport.gauges.sockets <= limit)
            // Requests that all wait for an answer use the whole limit.
            let stalled = try MockServer { _ in .text("never").stalling(.start) }
            let tasks = (0..<limit + 5).map { _ in Task { try await transport.get(stalled.url()) } }
            try await stalled.waitForRequests(limit)
            try await eventually("five waiting requests") { await transport.gauges.waiting == 5 }
            #expect(stalled.acceptedConnections == limit)
            for task in tasks { task.cancel() }
            for task in tasks { _ = await task.result }
        }
    }

    /// libcurl would count the connections to a proxy as those of one host.
    @Test func proxyOfRequestsHasTheLimitOfEachOrigin() async throws {
        let proxy = try MockServer { request in
            request.headers["Host"] == "slow.example.org" ? .text("never").stalling(.start) : .text("x")
        }
        let request = { @Sendable (host: String) in
            HTTPRequest("GET", "http://\(host)/").with {
                $0.proxy = .url(proxy.url())
                $0.timeout = .seconds(20)
            }
        }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 2 }) { transport async throws in
            let slow = (0..<2).map { _ in Task { try await transport.send(request("slow.example.org")) } }
            try await proxy.waitForRequests(2)
            #expect(try await transport.send(request("other.example.org")).text == "x")
            for task in slow { task.cancel() }
            for task in slow { _ = await task.result }
        }
    }

    /// To libcurl all of these are one host: a Unix domain socket is called `localhost`, and `connectTo` names the server.
    @Test(arguments: ["sockets", "connectTo"]) func originsAtOnePlaceHaveTheirOwnLimits(kind: String) async throws {
        let directory = try TemporaryDirectory()
        let names = ["slow", "other"]
        let servers = try names.map { name in
            kind == "sockets" ? try MockServer(unixSocketPath: directory.path(of: name)) : try MockServer()
        }
        for server in servers {
            server.fallback { $0.path == "/slow" ? .text("never").stalling(.start) : .text("x") }
        }
        let configuration = testConfiguration {
            $0.maxConnectionsPerHost = 1
            if kind == "connectTo" { $0.connectTo = ["::127.0.0.1:\(servers[0].port)"] }
        }
        let request = { @Sendable (name: String) in
            HTTPRequest(
                "GET",
                kind == "sockets" ? "unix://\(directory.path(of: name)):/\(name)" : "http://\(name).example.org/\(name)"
            )
        }
        try await withTransport(configuration) { transport async throws in
            let slow = Task { try await transport.send(request("slow")) }
            try await servers[0].waitForRequests(1)
            #expect(try await transport.answer(to: request("other")).text == "x")
            slow.cancel()
            _ = await slow.result
        }
    }

    @Test func totalLimitHoldsAcrossHosts() async throws {
        let servers = try (0..<4).map { _ in try MockServer() }
        for server in servers { server.fallback { _ in .text("x").delayed(by: .milliseconds(3)) } }
        let configuration = testConfiguration {
            $0.maxConnectionsPerHost = 2
            $0.maxConnections = 3
        }
        try await withTransport(configuration) { transport async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<60 {
                    group.addTask { _ = try await transport.get(servers[index % 4].url()) }
                }
                try await group.waitForAll()
            }
        }
        #expect(servers.map(\.requestCount) == [15, 15, 15, 15])
        #expect(servers.allSatisfy { $0.acceptedConnections <= 2 })
    }

    /// A busy host must not keep all places of the total limit forever.
    @Test func everyHostGetsATurnUnderTotalLimit() async throws {
        let busy = try MockServer()
        let quiet = try MockServer()
        busy.fallback { _ in .text("busy") }
        quiet.fallback { _ in .text("quiet") }
        let configuration = testConfiguration {
            $0.maxConnectionsPerHost = 2
            $0.maxConnections = 2
        }
        try await withTransport(configuration) { transport async throws in
            let hasBeenServed = Box(false)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask { while !hasBeenServed.value { _ = try await transport.get(busy.url()) } }
                }
                defer { hasBeenServed.change { $0 = true } }
                try await busy.waitForRequests(8, timeout: .seconds(15))
                _ = try await transport.get(quiet.url())
                hasBeenServed.change { $0 = true }
                try await group.waitForAll()
            }
        }
    }

    /// Sends requests to the URLs in turn, at most `inFlight` at once.
    private func send(_ count: Int, inFlight: Int, to urls: [String], _ transport: CurlTransport) async throws {
        try await within(.seconds(60)) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<count {
                    if index >= inFlight { try await group.next() }
                    let request = HTTPRequest("GET", urls[index % urls.count])
                    group.addTask { _ = try await transport.send(request) }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test(arguments: [400, 512])
    func busyHostKeepsItsConnections(inFlight: Int) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = inFlight }) { transport async throws in
            try await send(20_000, inFlight: inFlight, to: [server.url()], transport)
            #expect(server.acceptedConnections <= inFlight)
        }
    }

    @Test func raisedLimitKeepsItsConnections() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            try await within(.seconds(60)) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for index in 0..<3000 {
                        if index >= 400 { try await group.next() }
                        let request = HTTPRequest("GET", server.url()).with { $0.maxConnectionsPerHost = 400 }
                        group.addTask { _ = try await transport.send(request) }
                    }
                    try await group.waitForAll()
                }
            }
            #expect(server.acceptedConnections <= 400)
        }
    }

    /// Together the hosts have more connections than may be idle. No request is answered before its whole wave has arrived.
    @Test func manyBusyHostsKeepTheirConnections() async throws {
        let connections = Box(0)
        let arrived = Box(0)
        let isOver = Box(false)
        let servers = try (0..<8).map { _ in
            try RawServer { connection in
                connections.change { $0 += 1 }
                while !connection.read().isEmpty {
                    var end = 0
                    arrived.change {
                        $0 += 1
                        end = ($0 + 39) / 40 * 40
                    }
                    while arrived.value < end, !isOver.value { usleep(1000) }
                    connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".utf8))
                }
            }
        }
        defer { isOver.change { $0 = true } }
        let configuration = testConfiguration {
            $0.maxConnectionsPerHost = 5
            $0.maxIdleConnections = 8
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<20 { try await send(40, inFlight: 40, to: servers.map { $0.url() }, transport) }
            #expect(connections.value == 40)
        }
    }

    @Test func waitersStartByPriorityThenByAge() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.start))
        server.fallback { _ in .text("x") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let first = Task { try await transport.get(server.url("/first")) }
            try await server.waitForRequests(1)
            let priorities: [RequestPriority] = [.low, .normal, .high, .normal, .low, .high]
            var tasks: [Task<HTTPResponse, any Error>] = []
            for (index, priority) in priorities.enumerated() {
                let request = HTTPRequest("GET", server.url("/\(priority)\(index)")).with { $0.priority = priority }
                tasks.append(try await transport.submit(request))
            }
            first.cancel()
            for task in tasks { _ = try await within { try await task.value } }
            let order = server.requests.dropFirst().map(\.path)
            #expect(order == ["/high2", "/high5", "/normal1", "/normal3", "/low0", "/low4"])
        }
    }

    @Test func shutdownEndsThousandsOfWaiters() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        try await withTransport { transport async throws in
            let url = server.url()
            let tasks = (0..<5000).map { _ in Task { try await transport.send(HTTPRequest("GET", url)) } }
            try await server.waitForRequests(5)
            try await within { await transport.shutdown() }
            let count = try await within(.seconds(20), "an answer to every request") {
                var count = 0
                for task in tasks {
                    if case .failure(let error as NetworkError) = await task.result, error.kind == .shutDown {
                        count += 1
                    }
                }
                return count
            }
            #expect(count == 5000)
            #expect(server.requestCount == 5)
        }
    }

    @Test func manyWaitersCanAllBeCancelled() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        try await withTransport { transport async throws in
            let url = server.url()
            let tasks = (0..<1000).map { _ in Task { try await transport.send(HTTPRequest("GET", url)) } }
            try await server.waitForRequests(5)
            for task in tasks.reversed() { task.cancel() }
            try await within(.seconds(20), "an answer to every request") {
                for task in tasks {
                    await #expect(throws: CancellationError.self) { try await task.value }
                }
            }
            try await server.waitUntilDisconnected()
        }
    }
}

import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

@Suite struct ReachabilityTests {
    @Test func domainAndURLAreProbed() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(json5: #"{ domains: { here: { baseURL: "\#(server.url("/api"))" } } }"#)
        }
        #expect(manager.reachability.currentStatus(of: "here") == .unknown)
        #expect(!manager.reachability.isReachable("here"))
        let status = await manager.reachability.probe("here")
        guard case .reachable(let latency, let address) = status else {
            Issue.record("\(status)")
            return
        }
        #expect(latency > .zero)
        #expect(address == "127.0.0.1")
        #expect(manager.reachability.currentStatus(of: "here") == status)
        #expect(await manager.reachability.probe(server.url("/other")).isReachable)
        try await server.waitForClosedConnections(2)
        #expect(server.requestCount == 0)
    }

    @Test func reachableMirrorMakesItsDomainReachable() async throws {
        let server = try MockServer()
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: #"{ domains: { here: { baseURL: "\#(closed.url())", mirrors: ["\#(server.url())"] } } }"#)
        }
        let report = await manager.reachability.report(of: "here")
        #expect(report.status.isReachable)
        #expect(report.url.contains(":\(server.port)"))
    }

    @Test func probeGoesThroughTheProxyOfTheRow() async throws {
        let proxy = try MockServer()
        proxy.fallback { _ in .text("") }
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: #"{ domains: { here: { baseURL: "\#(closed.url())", proxy: "\#(proxy.url(""))" } } }"#)
        }
        #expect(await manager.reachability.probe("here").isReachable)
        // The system connects before the server accepts.
        try await eventually("the connection") { proxy.acceptedConnections > 0 }
    }

    @Test func unreachableStatusNamesItsReason() async throws {
        let closed = try ClosedPort()
        let full = try FullBacklogListener()
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.reachability.timeout = .seconds(2) }
        let reachability = manager.reachability
        let patient = try CentralRequestManager.make { $0.reachability.timeout = .seconds(60) }
        #expect(await patient.reachability.probe(closed.url()) == .unreachable(reason: .refused))
        #expect(await reachability.probe(full.url()) == .unreachable(reason: .timeout))
        // The resolver itself refuses a label of more than 63 bytes, without a DNS query.
        let unknown = "http://" + String(repeating: "a", count: 64) + ".invalid/"
        #expect(await patient.reachability.probe(unknown) == .unreachable(reason: .dns))
        let noTLS = await reachability.probe("https://127.0.0.1:\(server.port)/")
        #expect(noTLS == .unreachable(reason: .tls) || noTLS == .unreachable(reason: .timeout))
        #expect(await reachability.probe("daxian") == .unreachable(reason: .unknownName))
        #expect(await reachability.probe("ftp://127.0.0.1/") == .unreachable(reason: .unknownName))
        let report = await reachability.report(of: "daxian")
        #expect(report.error?.message.contains("daxian") == true)
        let address = try #require(URL(string: closed.url()))
        #expect(await patient.reachability.report(of: address).status == .unreachable(reason: .refused))
    }

    /// The probe itself would take an hour.
    @Test(.timeLimit(.minutes(1))) func firstProbeIsNotWaitedForBeyondTheLimit() async throws {
        let full = try FullBacklogListener()
        let manager = try CentralRequestManager.make { $0.reachability.timeout = .seconds(3600) }
        #expect(await manager.reachability.waitUntilReachable(full.url(), within: .milliseconds(20)) == false)
    }

    @Test(.timeLimit(.minutes(1)), arguments: [3_600, Int64.max])
    func cancelledTaskDoesNotWaitForTheProbe(_ limit: Int64) async throws {
        let full = try FullBacklogListener()
        let manager = try CentralRequestManager.make { $0.reachability.timeout = .seconds(3600) }
        let waiting = Task { await manager.reachability.waitUntilReachable(full.url(), within: .seconds(limit)) }
        waiting.cancel()
        #expect(await waiting.value == false)
    }

    @Test func missingProxyIsTheReason() async throws {
        let closed = try ClosedPort()
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.proxy = .url(closed.url("")) }
        #expect(await manager.reachability.probe(server.url()) == .unreachable(reason: .proxy))
        #expect(server.acceptedConnections == 0)
    }

    @Test func concurrentProbesShareOneConnection() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let count = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 { group.addTask { await manager.reachability.probe(server.url()).isReachable } }
            return await group.reduce(into: 0) { if $1 { $0 += 1 } }
        }
        #expect(count == 100)
        try await server.waitForClosedConnections(1)
        #expect(server.acceptedConnections == 1)
        _ = await manager.reachability.report(of: server.url(), isFresh: true)
        try await server.waitForClosedConnections(2)
        #expect(server.acceptedConnections == 2)
    }

    @Test func captivePortalIsUnreachable() async throws {
        let server = try MockServer()
        server.route("GET", "/health") { _ in .text("ok") }
        server.route("GET", "/portal") { _ in .status(302) }
        let good = try CentralRequestManager.make {
            $0.reachability.check = .init(path: "/health", status: 200, contains: "ok")
        }
        #expect(await good.reachability.probe(server.url()).isReachable)
        for check in [
            Reachability.Configuration.ResponseCheck(path: "/portal"),
            .init(path: "/health", status: 200, contains: "no"),
        ] {
            let manager = try CentralRequestManager.make { $0.reachability.check = check }
            let report = await manager.reachability.report(of: server.url())
            #expect(report.status == .unreachable(reason: .captivePortal))
            #expect(report.error?.message.contains("captive portal") == true)
        }
        try await server.waitUntilDisconnected()
    }

    /// An idle connection may be older than the portal, and reach the real server.
    @Test func checkDoesNotUseAPooledConnection() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(204) }
        let manager = try CentralRequestManager.make { $0.reachability.check = .init(path: "/health") }
        _ = try await manager.startRequest("GET", server.url())
        #expect(await manager.reachability.probe(server.url()).isReachable)
        // Those of the request, the probe and the check.
        #expect(server.acceptedConnections == 3)
        _ = try await manager.startRequest("GET", server.url())
        #expect(server.acceptedConnections == 3)
    }

    @Test func updatesFollowTheServersStopAndReturn() async throws {
        let port = try ReservedPort()
        let server = try MockServer(port: port.port)
        let manager = try CentralRequestManager.make {
            $0.reachability.ttl = .milliseconds(50)
            $0.reachability.failureTTL = .milliseconds(50)
        }
        let url = server.url()
        _ = await manager.reachability.probe(url)
        var updates = manager.reachability.updates(of: url).makeAsyncIterator()
        #expect(await updates.next()?.isReachable == true)
        server.stop()
        #expect(await updates.next() == .unreachable(reason: .refused))
        let again = try MockServer(port: port.port)
        #expect(await updates.next()?.isReachable == true)
        again.stop()
        #expect(await updates.next()?.isReachable == false)
    }

    @Test func observerGetsStatusesUntilCancelled() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let heard = Log<Reachability.Status>()
        let reached = Event()
        let observation = manager.reachability.observe(server.url()) { status in
            heard.append(status)
            if status.isReachable { reached.happen() }
        }
        await reached.wait()
        #expect(heard.elements.last?.isReachable == true)
        observation.cancel()
        #expect(observation.isCancelled)
    }

    @Test func updatesEndWithTheManager() async throws {
        let full = try FullBacklogListener()
        var manager: CentralRequestManager? = try CentralRequestManager.make()
        let updates = manager?.reachability.updates(of: full.url())
        let ended = Task {
            guard let updates else { return }
            for await _ in updates {}
        }
        manager = nil
        await ended.value
        let other = try CentralRequestManager.make()
        let followed = other.reachability.updates(of: full.url())
        await other.shutdown()
        for await _ in followed {}
        for await _ in other.reachability.updates(of: full.url()) {}
    }

    @Test func unreachableStatusDoesNotBlockRequests() async throws {
        let port = try ReservedPort()
        let manager = try CentralRequestManager.make()
        let url = "http://127.0.0.1:\(port.port)/"
        #expect(await manager.reachability.probe(url) == .unreachable(reason: .refused))
        let again = try MockServer(port: port.port)
        again.fallback { _ in .text("x") }
        // The last status is still valid, and it is `unreachable`.
        #expect(try await manager.startRequest("GET", url).status == 200)
    }

    @Test func customTransportStillHasProbes() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.transport = Stub() }
        #expect(await manager.reachability.probe(server.url()).isReachable)
        await manager.shutdown()
    }

    @Test func probeAfterShutdownMakesNoEngine() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.transport = Stub() }
        await manager.shutdown()
        let report = await manager.reachability.report(of: server.url())
        #expect(report.status == .unreachable(reason: .other))
        #expect(report.error?.kind == .shutDown)
    }

    private struct Stub: Transport {
        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            throw NetworkError(.other, message: "not asked")
        }
    }
}

@Suite struct WaitsForConnectivityTests {
    @Test func callIsSentWhenTheServerComesUp() async throws {
        let port = try ReservedPort()
        let manager = try CentralRequestManager.make {
            $0.reachability.failureTTL = .milliseconds(50)
            $0.reachability.ttl = .milliseconds(50)
        }
        var request = HTTPRequest(
            "POST", "http://127.0.0.1:\(port.port)/", body: .data(Data("x".utf8), contentType: "a/b"))
        request.waitsForConnectivity = true
        let sent = request
        let waiting = Task { try await manager.send(sent) }
        // Wait until the manager knows that the connection is refused.
        for await status in manager.reachability.updates(of: sent.url) where status == .unreachable(reason: .refused) {
            break
        }
        let again = try MockServer(port: port.port) { request in .text("\(request.body.count)") }
        #expect(try await waiting.value.text == "1")
        #expect(again.requestCount == 1)
    }

    @Test func waitEndsAfterItsTimeout() async throws {
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make {
            $0.reachability.waitsForConnectivity = true
            $0.reachability.connectivityTimeout = .milliseconds(200)
        }
        let start = ContinuousClock.now
        let error = await failure { try await manager.startRequest("GET", closed.url()) }
        #expect(error?.kind == .connect)
        #expect(ContinuousClock.now - start >= .milliseconds(200))
    }

    @Test func callMayOptOutOfWaiting() async throws {
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make {
            $0.reachability.waitsForConnectivity = true
            $0.reachability.connectivityTimeout = .seconds(3_600)
        }
        var request = HTTPRequest("GET", closed.url())
        request.waitsForConnectivity = false
        let sent = request
        #expect(await failure { try await manager.send(sent) }?.kind == .connect)
    }

    @Test func cancellingEndsTheWait() async throws {
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make { $0.reachability.waitsForConnectivity = true }
        let waiting = Task { try await manager.startRequest("GET", closed.url()) }
        for await status in manager.reachability.updates(of: closed.url()) where !status.isReachable {
            break
        }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }
}

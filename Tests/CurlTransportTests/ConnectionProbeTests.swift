import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct ConnectionProbeTests {
    @Test func probeConnectsAndSendsNothing() async throws {
        let server = try MockServer()
        try await withTransport { transport in
            let start = ContinuousClock.now
            let report = await transport.connect(for: HTTPRequest("GET", server.url("/path")))
            let duration = ContinuousClock.now - start
            #expect(report.error == nil)
            #expect(report.address == "127.0.0.1")
            #expect(report.port == server.port)
            #expect(report.latency.map { $0 > .zero && $0 <= duration } == true)
            try await server.waitForClosedConnections(1)
            #expect(server.requestCount == 0)
            #expect(server.openConnections == 0)
            #expect(await transport.gauges.sockets == 0)
        }
    }

    @Test func probeLeavesPooledConnectionAlone() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport in
            _ = try await transport.get(server.url())
            let report = await transport.connect(for: HTTPRequest("GET", server.url()))
            #expect(report.error == nil)
            try await server.waitForClosedConnections(1)
            // The pooled connection is still open and is reused.
            let response = try await transport.get(server.url())
            #expect(response.timings.connectionReused)
            #expect(server.acceptedConnections == 2)
        }
    }

    @Test func probeIgnoresTheConnectionLimit() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("late").delayed(by: .seconds(60)) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport in
            let waiting = Task { try await transport.send(HTTPRequest("GET", server.url())) }
            try await server.waitForRequests(1)
            let report = try await within { await transport.connect(for: HTTPRequest("GET", server.url())) }
            #expect(report.error == nil)
            waiting.cancel()
            _ = try? await waiting.value
        }
    }

    @Test func failureKindsAreDistinguished() async throws {
        let closed = try ClosedPort()
        let full = try FullBacklogListener()
        try await withTransport { transport in
            let refused = await transport.connect(for: HTTPRequest("GET", closed.url()))
            #expect(refused.error?.kind == .connect)
            #expect(refused.systemError == ECONNREFUSED)
            var request = HTTPRequest("GET", full.url())
            request.timeout = .milliseconds(200)
            let late = await transport.connect(for: request)
            #expect(late.error?.kind == .timeout(.connect))
            #expect(late.isResolved)
            let unknown = await transport.connect(for: HTTPRequest("GET", "http://nowhere.invalid/"))
            #expect(unknown.error?.kind == .dns)
            #expect(!unknown.isResolved)
        }
    }

    @Test(.needsNginx)
    func untrustedCertificateIsReported() async throws {
        let url = try #require(Servers.nginxTLS)
        try await withTransport { transport in
            let untrusted = await transport.connect(for: HTTPRequest("GET", url))
            guard case .tls = untrusted.error?.kind else {
                Issue.record("\(String(describing: untrusted.error))")
                return
            }
            var options = ConnectionOptions()
            options.verifiesCertificate = false
            let report = await transport.connect(for: HTTPRequest("GET", url), options: options)
            #expect(report.error == nil)
            #expect(report.certificates.first?.names.contains("localhost") == true)
            #expect(report.certificates.first?.issuer.contains("LATNetworking test CA") == true)
        }
        try await withTransport(testConfiguration { $0.tls.caFile = Servers.authority }) { transport in
            let trusted = await transport.connect(for: HTTPRequest("GET", url))
            #expect(trusted.error == nil)
            #expect(trusted.timings.tls != nil)
        }
    }

    @Test func cancellationOrShutdownEndsTheProbe() async throws {
        let full = try FullBacklogListener()
        try await withTransport { transport in
            let probe = Task { await transport.connect(for: HTTPRequest("GET", full.url())) }
            probe.cancel()
            let cancelled = try await within { await probe.value }
            #expect(cancelled.error?.kind == .cancelled)
            let another = Task { await transport.connect(for: HTTPRequest("GET", full.url())) }
            // The result is the same whether the probe or the shutdown comes first.
            await transport.shutdown()
            let ended = try await within { await another.value }
            #expect(ended.error?.kind == .shutDown)
        }
    }

    @Test func concurrentProbesCloseAllSockets() async throws {
        let server = try MockServer()
        try await withTransport { transport in
            let errors = await withTaskGroup(of: NetworkError?.self) { group in
                for _ in 0..<50 {
                    group.addTask { await transport.connect(for: HTTPRequest("GET", server.url())).error }
                }
                return await group.reduce(into: [NetworkError]()) { if let error = $1 { $0.append(error) } }
            }
            #expect(errors.isEmpty)
            try await server.waitForClosedConnections(50)
            #expect(await transport.gauges.sockets == 0)
        }
    }
}

@Suite struct CertificateFactsTests {
    @Test func openSSLCertificateTextIsParsed() {
        let facts = CertificateInfo([
            "Subject:CN = example.org", "Issuer:O = Authority, CN = Root", "Start date:Nov  1 00:00:00 2026 GMT",
            "Expire date:Nov 21 04:30:38 2027 GMT",
            "X509v3 Subject Alternative Name:DNS:example.org, DNS:*.example.org, IP Address:127.0.0.1", "odd",
        ])
        #expect(facts.subject == "CN = example.org")
        #expect(facts.issuer == "O = Authority, CN = Root")
        #expect(facts.validUntil == "Nov 21 04:30:38 2027 GMT")
        #expect(facts.names == ["example.org", "*.example.org", "127.0.0.1"])
    }
}

import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

/// The fields of a record are those that were sent.
@Suite(.timeLimit(.minutes(1))) struct SentFieldsTests {
    @Test func fieldsAreThoseThatTheServerReceived() async throws {
        let server = try MockServer()
        server.enqueue(.redirect(to: "/end", status: 307), .text("x"))
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder()]
            $0.headers = ["X-App": "demo"]
            $0.cookies = .memory
        }
        _ = try await manager.startRequest(
            "POST", server.url("/start"), body: .json(["a": 1]), headers: ["Authorization": "Bearer CANARY"])
        let record = try #require(records.all.first)
        #expect(record.exchanges.count == 2)
        for (exchange, received) in zip(record.exchanges, server.requests) {
            #expect(exchange.request.headers.map(\.name) == received.headers.map(\.name))
            for (field, other) in zip(exchange.request.headers, received.headers) where field.name != "Authorization" {
                #expect(field.value == other.value)
            }
        }
        let fields = Dictionary(uniqueKeysWithValues: record.exchanges[0].request.headers.map { ($0.name, $0) })
        #expect(
            fields["Host"]?.source == "sdk" && fields["Content-Length"]?.value == "7"
                && fields["X-App"]?.source == "manager")
        #expect(fields["Authorization"]?.value == "***" && fields["Accept-Encoding"]?.source == "sdk")
        #expect(record.exchanges[0].response?.connection?.tls == nil)
        // The request of the caller stays as it was made.
        #expect(record.request.headers.map(\.name) == ["Authorization"])
    }

    @Test func requestsOfAHedgedCallHaveTheirOwnFields() async throws {
        let server = try MockServer()
        server.enqueue(.text("late").stalling(.start), .text("ok"))
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder()]
            $0.hedge = .init(after: .time(.milliseconds(20)), share: 1)
        }
        let response = try await TraceParent.$current.withValue(TraceParent()) {
            try await manager.startRequest("GET", server.url("/"))
        }
        #expect(response.text == "ok")
        let exchanges = try #require(records.all.first).exchanges
        #expect(exchanges.map(\.attempt) == [1, 2] && exchanges.map { $0.response?.status } == [nil, 200])
        #expect(exchanges[0].failure != nil && exchanges[1].failure == nil)
        for (exchange, received) in zip(exchanges, server.requests) {
            let span = exchange.request.headers.first { $0.name.lowercased() == "traceparent" }?.value
            #expect(span == received.headers["traceparent"] && span != nil)
        }
    }

    @Test func digestShowsTheLastHead() async throws {
        let server = try MockServer()
        server.fallback { request in
            guard request.headers["Authorization"] == nil else { return .text("x") }
            var reply = MockReply.status(401)
            reply.headers["WWW-Authenticate"] = "Digest realm=\"r\", nonce=\"n\", qop=\"auth\""
            return reply
        }
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        var request = HTTPRequest("GET", server.url("/"))
        request.authentication = .digest(user: "ada", password: "CANARY")
        #expect(try await manager.send(request).status == 200)
        let fields = try #require(records.all.first?.exchanges.last).request.headers
        #expect(
            fields.contains {
                $0.name == "Authorization" && $0.value == "***" && $0.source == "sdk"
            })
    }

    @Test(.needsNginx) func connectionHasTheCertificate() async throws {
        let (base, authority) = (try #require(Servers.nginxTLS), try #require(Servers.authority))
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder()]
            $0.tls.caFile = authority
        }
        for _ in 0..<2 { _ = try await manager.startRequest("GET", base + "/1k.bin") }
        for record in records.all {
            let connection = try #require(record.exchanges.last?.response?.connection)
            let tls = try #require(connection.tls)
            #expect(tls.version.hasPrefix("TLSv1.") && !tls.cipher.isEmpty && tls.isTrusted)
            #expect(tls.validFrom < Date() && tls.validUntil > Date() && !tls.issuer.isEmpty)
            // HTTP/2 has no Host; the head is written as that of HTTP/1.1.
            #expect(record.exchanges.last?.request.headers.contains { $0.name.lowercased() == "host" } == true)
        }
        #expect(records.all.last?.exchanges.last?.response?.connection?.isReused == true)
    }
}

@testable import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Platform
import TestSupport
import Testing

/// These tests assert minimum durations only, never maximum ones.
@Suite(.timeLimit(.minutes(1))) struct BandwidthTests {
    private static func duration(_ body: () async throws -> Void) async throws -> Duration {
        let start = ContinuousClock.now
        try await body()
        return ContinuousClock.now - start
    }

    private static func server(_ size: Int) throws -> MockServer {
        let server = try MockServer()
        server.route("GET", "/large") { _ in .data(Data(count: 60_000_000)) }
        server.fallback { request in request.method == "GET" ? .data(Data(count: size)) : .text("\(request.body.count)")
        }
        return server
    }

    @Test func requestReceivesAtItsRate() async throws {
        let server = try Self.server(400_000)
        try await withTransport { transport async throws in
            let slow = HTTPRequest("GET", server.url()).with { $0.maxReceiveRate = 400_000 }
            let time = try await Self.duration { () async throws in
                #expect(try await transport.answer(to: slow).data.count == 400_000)
            }
            #expect(time > .milliseconds(700))
            // The rate does not apply to the next request on the handle: at that rate, it would exceed the time limit.
            #expect(try await transport.get(server.url("/large")).data.count == 60_000_000)
        }
    }

    @Test func requestSendsAtItsRate() async throws {
        let server = try Self.server(0)
        try await withTransport { transport async throws in
            for body in [
                HTTPBody.data(Data(count: 400_000)),
                .stream {
                    AsyncStream { stream in
                        for _ in 0..<4 { stream.yield(Data(count: 100_000)) }
                        stream.finish()
                    }
                },
            ] {
                let slow = HTTPRequest("POST", server.url(), body: body).with { $0.maxSendRate = 400_000 }
                let time = try await Self.duration { () async throws in
                    #expect(try await transport.answer(to: slow).text == "400000")
                }
                #expect(time > .milliseconds(600))
            }
        }
    }

    @Test func throttledRequestIsNotIdle() async throws {
        let server = try Self.server(6000)
        try await withTransport(testConfiguration { $0.idleTimeout = .seconds(2) }) { transport async throws in
            let slow = HTTPRequest("GET", server.url()).with { $0.maxReceiveRate = 2000 }
            #expect(try await transport.answer(to: slow).data.count == 6000)
        }
    }

    /// The server has answered all before it reads. An upload that waits for its rate does not stand.
    @Test func answeredUploadKeepsItsRate() async throws {
        let received = Box([UInt8]())
        let hasEnded = Event()
        let server = try RawServer { connection in
            connection.sendAtOnce()
            while !received.value.contains(UInt8(ascii: "}")) {
                let bytes = connection.read()
                if bytes.isEmpty { break }
                if received.value.isEmpty {
                    connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8))
                }
                received.change { $0 += bytes }
            }
            hasEnded.happen()
        }
        try await withTransport { transport async throws in
            // A byte in a second, so that each waits longer than an upload may stand.
            let request = HTTPRequest("POST", server.url(), body: .text("{1234}")).with { $0.maxSendRate = 1 }
            #expect(try await transport.answer(to: request).text == "ok")
            await hasEnded.wait()
            #expect(String(decoding: received.value, as: UTF8.self).hasSuffix("{1234}"))
        }
    }

    @Test func transfersShareTheEngineRate() async throws {
        let server = try Self.server(100_000)
        try await withTransport(testConfiguration { $0.maxReceiveRate = 500_000 }) { transport async throws in
            let time = try await Self.duration { () async throws in
                try await within {
                    try await withThrowingTaskGroup(of: Int.self) { group in
                        for _ in 0..<5 { group.addTask { try await transport.get(server.url()).data.count } }
                        for try await count in group { #expect(count == 100_000) }
                    }
                }
            }
            #expect(time > .milliseconds(700))
        }
    }

    @Test func smallRequestsShareTheEngineRate() async throws {
        let server = try Self.server(10_000)
        try await withTransport(testConfiguration { $0.maxReceiveRate = 200_000 }) { transport async throws in
            let time = try await Self.duration { () async throws in
                for _ in 0..<20 { #expect(try await transport.get(server.url()).data.count == 10_000) }
            }
            #expect(time > .milliseconds(650))
        }
    }

    @Test func uploadsShareTheEngineRate() async throws {
        let server = try Self.server(0)
        try await withTransport(testConfiguration { $0.maxSendRate = 500_000 }) { transport async throws in
            let time = try await Self.duration { () async throws in
                try await within {
                    try await withThrowingTaskGroup(of: String?.self) { group in
                        for size in [200_000, 200_000, 50_000, 50_000] {
                            let request = HTTPRequest("PUT", server.url(), body: .data(Data(count: size)))
                            group.addTask { try await transport.send(request).text }
                        }
                        for try await text in group { #expect(["200000", "50000"].contains(text)) }
                    }
                }
            }
            // The last piece of a body may overdraw the budget.
            #expect(time > .milliseconds(500))
        }
    }

    @Test func streamKeepsToTheEngineRate() async throws {
        let server = try Self.server(600_000)
        try await withTransport(testConfiguration { $0.maxReceiveRate = 600_000 }) { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            let time = try await Self.duration { () async throws in
                var count = 0
                for try await chunk in try await transport.answer(to: request).body { count += chunk.count }
                #expect(count == 600_000)
            }
            #expect(time > .milliseconds(650))
        }
    }

    @Test func throttledTransferCanBeCancelled() async throws {
        let server = try Self.server(1_000_000)
        try await withTransport(testConfiguration { $0.maxReceiveRate = 1000 }) { transport async throws in
            let owner = TestOwner()
            let task = Task { try await transport.send(HTTPRequest("GET", server.url()), for: owner) }
            try await server.waitForRequests(1)
            owner.cancel()
            await #expect(throws: NetworkError.self) { try await within { try await task.value } }
        }
    }

    @Test(arguments: [0, -1]) func rateMustBePositive(rate: Int64) async throws {
        for (name, change): (String, @Sendable (inout EngineConfiguration) -> Void) in [
            ("maxReceiveRate", { $0.maxReceiveRate = rate }), ("maxSendRate", { $0.maxSendRate = rate }),
        ] {
            let error = #expect(throws: NetworkError.self) {
                try CurlTransport(configuration: testConfiguration(change))
            }
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.contains(name) == true)
        }
        let server = try MockServer()
        try await withTransport { transport async throws in
            for request in [
                HTTPRequest("GET", server.url()).with { $0.maxReceiveRate = rate },
                HTTPRequest("GET", server.url()).with { $0.maxSendRate = rate },
            ] {
                let error = try await transport.failure(of: request)
                #expect(error.kind == .invalidRequest)
                #expect(error.message.contains("Rate"))
            }
            #expect(server.acceptedConnections == 0)
        }
    }

    // MARK: The budget

    @Test func budgetFillsAtItsRate() {
        let start = MonotonicTime(nanoseconds: 0)
        var budget = ByteBudget(rate: 1000, start)
        #expect(budget.allows(start) == true)
        budget.spend(600)
        #expect(budget.allows(start) == false)
        // 100 bytes were available, so 500 are overdrawn.
        #expect(budget.next(start) == start + Int64(501))
        #expect(budget.allows(start + Int64(499)) == false)
        #expect(budget.allows(start + Int64(501)) == true)
    }

    @Test func onlyReceivedBytesAreCharged() throws {
        let start = MonotonicTime(nanoseconds: 0)
        let transfer = Transfer(
            request: HTTPRequest("GET", "http://a.example/"), target: try Target("http://a.example/"),
            plan: TransferPlan(testConfiguration()), pipe: nil)
        transfer.receiveBudget = ByteBudget(rate: 1000, start)
        var throttle = Throttle(testConfiguration { $0.maxReceiveRate = 1000 }, start)
        // libcurl offers bytes that it kept during a pause again.
        for _ in 0..<3 { #expect(throttle.allowsReceiving(transfer, start) == true) }
        throttle.received(101, transfer)
        #expect(throttle.allowsReceiving(transfer, start) == false)
    }

    @Test func pauseSavesAtMostOneBurst() {
        let start = MonotonicTime(nanoseconds: 0)
        var budget = ByteBudget(rate: 1000, start)
        let later = start + Int64(3_600_000)
        #expect(budget.allows(later) == true)
        budget.spend(101)
        #expect(budget.allows(later) == false)
    }

    @Test func lowRateHasABoundedWait() {
        let start = MonotonicTime(nanoseconds: 0)
        var budget = ByteBudget(rate: 1, start)
        budget.spend(3)
        let next = budget.next(start)
        #expect(budget.allows(next) == true)
        budget.spend(Int.max)
        #expect(budget.next(next) == next + Int64(86_400_000))
    }
}

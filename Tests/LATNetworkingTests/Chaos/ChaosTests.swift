import FoundationEssentials
import HTTPCore
import LATTesting
import LATTransfers
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Faults on purpose, between an app and a real server.
@Suite(.timeLimit(.minutes(2))) struct ChaosTests {
    private typealias Chaos = RequestOptions.Chaos
    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.fallback { _ in .text("0123456789") }
    }

    /// The smallest seed whose first attempts have these faults.
    private func seed(_ chaos: Chaos, _ faults: [Chaos.Fault?]) throws -> Chaos {
        let found = (UInt64(0)..<100_000).first { seed in
            var generator = SeededGenerator(seed: seed)
            return faults.allSatisfy { chaos.decision(using: &generator).fault == $0 }
        }
        var seeded = chaos
        let seed: UInt64 = try #require(found)
        seeded.seed = seed
        return seeded
    }

    private func fault(
        _ method: String = "GET", on manager: CentralRequestManager, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async -> NetworkError? {
        var request = HTTPRequest(method, server.url("/a"))
        change(&request)
        return await failure { [request] in try await manager.startRequest(request) }
    }

    @Test func refusalSendsNothing() async throws {
        let chaos = try seed(Chaos(failures: 1), [.refusal])
        let manager = try CentralRequestManager.make { $0.chaos = chaos }
        let error = await fault(on: manager)
        #expect(error?.kind == .connect && error?.underlying as? Chaos.Fault == .refusal)
        #expect(error?.message.contains("on purpose") == true)
        #expect(server.requestCount == 0)
    }

    @Test func lossSendsAndLosesTheResponse() async throws {
        let chaos = try seed(Chaos(failures: 1), [.loss])
        let manager = try CentralRequestManager.make { $0.chaos = chaos }
        let error = await fault(on: manager)
        #expect(error?.kind == .connectionLost && error?.underlying as? Chaos.Fault == .loss)
        #expect(server.requestCount == 1)
    }

    @Test func retriesTakeFaultsForRealOnes() async throws {
        let chaos = try seed(Chaos(failures: 0.5), [.refusal, .loss, nil])
        let manager = try CentralRequestManager.make {
            $0.chaos = chaos
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1), longestWait: .milliseconds(1))
        }
        let response = try await manager.startRequest("GET", server.url("/a"))
        #expect(response.text == "0123456789" && response.attempts == 3 && server.requestCount == 2)
    }

    @Test func lostPostIsNotRepeated() async throws {
        let chaos = try seed(Chaos(failures: 0.5), [.loss, nil])
        let manager = try CentralRequestManager.make {
            $0.chaos = chaos
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1), longestWait: .milliseconds(1))
        }
        let error = await fault("POST", on: manager)
        #expect(error?.underlying as? Chaos.Fault == .loss && server.requestCount == 1)
    }

    @Test func circuitCountsFaults() async throws {
        let manager = try CentralRequestManager.make {
            $0.chaos = Chaos(failures: 1)
            $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 2, pause: .seconds(60))
        }
        for _ in 0..<2 { #expect(await fault(on: manager)?.underlying is Chaos.Fault) }
        #expect(await fault(on: manager)?.kind == .circuitOpen)
    }

    @Test func otherProcessesHearOfRealFailuresOnly() {
        let policy = RequestLimits.CircuitBreakerPolicy(failures: 2, pause: .seconds(10))
        let opened = CircuitBreaker.Change.opened(pause: .seconds(10))
        /// The changes after failures, of which some are made on purpose, and those of the probe after them.
        func changes(_ onPurpose: [Bool], probe: Bool?, probeOnPurpose: Bool = false) -> [CircuitBreaker.Change?] {
            var breaker = CircuitBreaker(policy)
            var changes: [CircuitBreaker.Change?] = []
            for isOnPurpose in onPurpose {
                guard case .pass(let ticket) = breaker.admit(at: .zero) else { return [] }
                changes.append(breaker.finish(ticket, isSuccess: false, isOnPurpose: isOnPurpose, at: .zero))
            }
            guard breaker.admit(at: .zero) == .refuse(pause: .seconds(10)),
                case .pass(let ticket) = breaker.admit(at: .seconds(10))
            else { return [] }
            // A probe of a circuit that only this process knows is no business of the others.
            let asks = breaker.ask(ticket)
            guard asks == !onPurpose.contains(true) else { return [] }
            if asks { _ = breaker.answer(ticket, pause: nil, at: .seconds(10)) }
            changes.append(
                breaker.finish(ticket, isSuccess: probe, isOnPurpose: probeOnPurpose, at: .seconds(10)))
            return changes
        }
        #expect(changes([false, false], probe: true) == [nil, opened, .closed])
        #expect(changes([false, false], probe: false) == [nil, opened, opened])
        #expect(changes([false, false], probe: false, probeOnPurpose: true) == [nil, opened, .undecided])
        for mixed in [[true, true], [true, false], [false, true]] {
            #expect(changes(mixed, probe: true) == [nil, nil, nil])
            #expect(changes(mixed, probe: nil) == [nil, nil, nil])
            #expect(changes(mixed, probe: false, probeOnPurpose: true) == [nil, nil, nil])
            #expect(changes(mixed, probe: false) == [nil, nil, opened])
        }
    }

    // MARK: Cut

    @Test func cutBodyIsNeverDelivered() async throws {
        let manager = try CentralRequestManager.make { $0.chaos = Chaos(cut: 1) }
        for text in ["0123456789", "1", String(repeating: "x", count: 100_000)] {
            server.enqueue(.text(text))
            let error = await fault(on: manager)
            #expect(error?.kind == .connectionLost && error?.underlying as? Chaos.Fault == .cut)
            #expect(error?.response == nil)
        }
        server.enqueue(.status(204))
        #expect(try await manager.startRequest("GET", server.url("/a")).status == 204)
    }

    @Test(arguments: ["length", "chunked", "byte"]) func cutStreamIsNeverWhole(_ form: String) async throws {
        let manager = try CentralRequestManager.make { $0.chaos = Chaos(cut: 1) }
        let whole = Data((0..<(form == "byte" ? 1 : 300_000)).map { UInt8(truncatingIfNeeded: $0) })
        for _ in 0..<10 {
            server.enqueue(form == "chunked" ? MockReply.data(whole).inChunks(of: 1_000) : .data(whole))
            let response = try await manager.stream("GET", server.url("/a"))
            var read = Data()
            let error = await failure { for try await chunk in response.body { read += chunk } }
            #expect(error?.kind == .connectionLost && error?.underlying as? Chaos.Fault == .cut)
            #expect(read.count < whole.count && whole.starts(with: read))
        }
    }

    /// Bodies that are decompressed, or of a transport of the app, may begin with an empty chunk.
    @Test(arguments: ["", "ab"]) func emptyChunksAreNoBytes(_ text: String) async throws {
        let cuts = Mutex(0)
        let body = ResponseBody(ChunkSource([Data(), Data(text.utf8), Data()]))
        let source = CutBody(body, length: nil, rest: 0.5, HTTPRequest("GET", "http://a.example")) {
            cuts.withLock { $0 += 1 }
        }
        var read = Data()
        var fault: Chaos.Fault?
        do {
            while let chunk = try await source.next() { read += chunk }
        } catch let error as NetworkError {
            fault = error.underlying as? Chaos.Fault
        }
        #expect(fault == (text.isEmpty ? nil : .cut))
        #expect(read == Data(text.utf8.dropLast()) && cuts.withLock { $0 } == (text.isEmpty ? 0 : 1))
    }

    @Test func nothingOfACutBodyIsStored() async throws {
        let manager = try CentralRequestManager.make {
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
        }
        server.fallback { _ in MockReply.text("0123456789").header("Cache-Control", "max-age=60") }
        for streams in [true, false] {
            var request = HTTPRequest("GET", server.url("/a"))
            request.chaos = Chaos(cut: 1)
            request.streamsBody = streams
            let error = await failure { [request] in
                _ = try await manager.send(request).body.collect(upTo: 100)
            }
            #expect(error?.underlying as? Chaos.Fault == .cut)
        }
        let response = try await manager.startRequest("GET", server.url("/a"))
        #expect(response.source == .network && response.text == "0123456789" && server.requestCount == 3)
    }

    @Test func downloadIsContinuedAfterFaults() async throws {
        let folder = try TemporaryDirectory()
        let bytes = content(3 << 20)
        let files = try RangeServer(bytes, headers: ["ETag": "\"v1\""]) { _, _, honest in honest }
        let chaos = try seed(Chaos(failures: 0.4, cut: 0.7), [.cut, .loss, .cut, .refusal, nil])
        let manager = try CentralRequestManager.make {
            $0.chaos = chaos
            $0.retryPolicy = RetryPolicy(retries: 9, firstWait: .milliseconds(1), longestWait: .milliseconds(1))
        }
        let target = folder.path(of: "big.bin")
        _ = try await manager.download(HTTPRequest("GET", files.url), to: target, segments: 1).value
        #expect(folder.read("big.bin") == bytes)
    }

    // MARK: Levels

    @Test func rowMakesFaultsAndExplainsThem() async throws {
        let table = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())",
                    chaos: { failures: 1, latency: "1ms…2ms", cut: 0.25, seed: 3 } } },
                  servers: { bad: { domain: "main", path: "a", method: "GET" },
                    good: { domain: "main", path: "b", method: "GET", chaos: null } } }
                """, name: "table")
        let manager = try CentralRequestManager.make { $0.domains = table }
        let error = await failure { try await manager.startRequest(Route(server: "bad"), as: String.self) }
        #expect(error?.underlying is Chaos.Fault)
        #expect(try await manager.startRequest(Route(server: "good"), as: String.self).model == "0123456789")
        let lines = try table.explanations(of: "bad").filter { $0.setting == "chaos" }
        #expect(lines.map(\.value) == ["failures 1.0, latency 1ms…2ms, cut 0.25, seed 3"])
        #expect(lines.first?.origin.description == "table:2")
    }

    @Test func observersSeeEachFault() async throws {
        let recorder = FaultRecorder()
        let chaos = try seed(Chaos(failures: 0.5, latency: .milliseconds(1) ... .milliseconds(1)), [.refusal, nil])
        let manager = try CentralRequestManager.make {
            $0.chaos = chaos
            $0.accessories = [recorder]
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .milliseconds(1), longestWait: .milliseconds(1))
        }
        _ = try await manager.startRequest("GET", server.url("/a"))
        #expect(
            recorder.faults.withLock { $0 } == [.delay(.milliseconds(1)), .refusal, .delay(.milliseconds(1))])
    }
}

/// A body of these chunks.
private final class ChunkSource: ResponseBody.Source {
    private let chunks: Mutex<[Data]>

    init(_ chunks: [Data]) { self.chunks = Mutex(chunks) }

    func next() async throws -> Data? { chunks.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
}

private final class FaultRecorder: RequestAccessory {
    let faults = Mutex<[RequestOptions.Chaos.Fault]>([])

    func handle(_ event: CallEvent) {
        if case .chaos(let fault) = event.kind { faults.withLock { $0.append(fault) } }
    }
}

/// Tables and managers for production make no faults.
@Suite struct ChaosInProductionTests {
    private static func text(_ production: String, _ chaos: String = "{ failures: 1 }") -> String {
        """
        { \(production)
          domains: { main: { baseURL: "http://127.0.0.1:1", environments: { live: "http://127.0.0.1:2", test: "http://127.0.0.1:3" },
            chaos: \(chaos) } },
          servers: { item: { domain: "main", path: "a" } } }
        """
    }

    @Test func environmentForbidsFaults() throws {
        let text = Self.text("production: [\"live\"],")
        let error = #expect(throws: NetworkError.self) {
            try DomainTable(json5: text, name: "t", environment: "live")
        }
        #expect(
            error?.message
                == "chaos of the domain \"main\" (t:3) makes faults on purpose, and t says production (t:1); remove chaos, "
                + "or use another environment or table")
        var table = try DomainTable(json5: text, name: "t", environment: "test")
        #expect(!table.isProduction)
        _ = try table.resolve(server: "item")
        table.environment = "live"
        #expect(table.isProduction)
        #expect(throws: NetworkError.self) { try table.resolve(server: "item") }
        #expect(throws: NetworkError.self) { try table.resolve(domain: "main", path: "a") }
        #expect(table.explain("item").contains("remove chaos"))
        // A table is made before its environment is chosen; until it is, it may be that of production.
        table = try DomainTable(json5: text, name: "t", environment: nil)
        #expect(table.isProduction)
        #expect(throws: NetworkError.self) { try table.resolve(server: "item") }
        table.environment = "test"
        _ = try table.resolve(server: "item")
    }

    @Test func newVersionOfATableKeepsProduction() throws {
        let cases: [(String, String, String?, Bool)] = [
            ("production: true,", "", "test", true), ("production: true,", "production: false,", "test", true),
            ("production: [\"live\"],", "", "live", true), ("production: [\"live\"],", "", "test", false),
            ("production: [\"live\"],", "", nil, true),
            ("production: [\"live\"],", "production: [\"test\"],", "live", true),
            ("production: [\"live\"],", "production: [\"test\"],", "test", true),
            ("production: true,", "production: [\"test\"],", "live", true),
            ("production: [\"test\"],", "production: true,", "live", true), ("", "production: true,", "live", true),
            ("production: false,", "", "live", false), ("production: false,", "production: [\"live\"],", "live", true),
        ]
        for (old, new, environment, isProduction) in cases {
            var table = try DomainTable(json5: Self.text(old, "null"), name: "t", environment: environment)
            let quiet = try DomainTable(json5: Self.text(new, "null"), name: "t", environment: nil)
            try table.replaceFile(by: quiet)
            #expect(table.isProduction == isProduction, "\(old) \(new) \(environment ?? "none")")
            // A version with faults is adopted elsewhere only, also after one that says nothing.
            guard new != "production: true," else { continue }
            let faulty = try DomainTable(json5: Self.text(new), name: "t", environment: nil)
            if isProduction {
                #expect(throws: NetworkError.self, "\(old) \(new)") { try table.replaceFile(by: faulty) }
            } else {
                try table.replaceFile(by: faulty)
            }
            #expect(try table.domain("main").settings.chaos?.isOn == !isProduction)
        }
    }

    @Test func reloadBringsNoFaultsToProduction() async throws {
        let folder = try TemporaryDirectory()
        let path = try folder.write(Data(Self.text("production: true,", "null").utf8), to: "domains.json5")
        let (events, report) = AsyncStream.makeStream(of: DomainTable.FileEvent.self)
        let table = try DomainTable(contentsOf: path, environment: nil)
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.domainsObserver = { report.yield($0) }
        }
        try folder.write(Data(Self.text("").utf8), to: "domains.json5")
        var event = events.makeAsyncIterator()
        guard case .rejected(let error)? = await event.next() else { return #expect(Bool(false), "it was adopted") }
        #expect(error.message.contains("production"))
        #expect(try manager.domains?.domain("main").settings.chaos?.isOn == false)
        #expect(manager.domains?.isProduction == true)
    }

    @Test func managerWithoutTableMayBeForProduction() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("whole") }
        let manager = try CentralRequestManager.make { $0.isProduction = true }
        var request = HTTPRequest("GET", server.url("/a"))
        request.chaos = RequestOptions.Chaos(failures: 1)
        #expect(try await manager.startRequest(request).text == "whole")
        let error = #expect(throws: NetworkError.self) {
            try CentralRequestManager.make {
                $0.isProduction = true
                $0.chaos = RequestOptions.Chaos(failures: 1)
            }
        }
        #expect(error?.message.contains("configuration.isProduction") == true)
    }

    @Test func pushedTableAndCodeAreRefusedTogether() throws {
        var table = try DomainTable(json5: Self.text("", "null"), name: "t", environment: nil)
        var row = try table.domain("main")
        row.settings.chaos = RequestOptions.Chaos(cut: 0.5)
        try table.setDomain("main", row)
        // The new version forbids what the program has set, so it is not adopted.
        let pushed = try DomainTable(json5: Self.text("production: true,", "null"), name: "t", environment: nil)
        #expect(throws: NetworkError.self) { try table.replaceFile(by: pushed) }
        #expect(!table.isProduction)
        table.discardChanges()
        try table.replaceFile(by: pushed)
        #expect(table.isProduction)
        #expect(throws: NetworkError.self) { try table.setDomain("main", row) }
        var server = try table.server("item")
        server.settings.chaos = RequestOptions.Chaos(failures: 0.5)
        #expect(throws: NetworkError.self) { try table.setServer("item", server) }
        #expect(try table.explanations(of: "item").contains { $0.setting == "production" && $0.value == "true" })
        table.defaults.chaos = RequestOptions.Chaos(failures: 0.5)
        #expect(throws: NetworkError.self) { try table.resolve(server: "item") }
    }

    @Test func managerWithFaultsNeedsAnotherTable() throws {
        let table = try DomainTable(json5: Self.text("production: true,", "null"), name: "t", environment: nil)
        let error = #expect(throws: NetworkError.self) {
            try CentralRequestManager.make {
                $0.domains = table
                $0.chaos = RequestOptions.Chaos(failures: 1)
            }
        }
        #expect(error?.message.contains("t:1") == true)
    }

    @Test func callsInProductionAreUnharmed() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("whole") }
        let warnings = Mutex<[String]>([])
        let table = try DomainTable(json5: Self.text("production: [\"live\"],", "null"), name: "t", environment: "test")
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.chaos = RequestOptions.Chaos(failures: 1)
            $0.engine.warningHandler = { text in warnings.withLock { $0.append(text) } }
        }
        #expect(await failure { try await manager.startRequest("GET", server.url("/a")) } != nil)
        try manager.updateDomains { $0.environment = "live" }
        for _ in 0..<2 { #expect(try await manager.startRequest("GET", server.url("/a")).text == "whole") }
        #expect(warnings.withLock { $0.filter { $0.contains("chaos") } }.count == 1)
    }
}

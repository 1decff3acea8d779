import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import Testing

/// The descriptors that libdispatch takes for good when it first needs them (epoll, eventfd, timerfd); an engine that
/// left one behind would exceed them many times over.
private let dispatchSlack = 3

/// What is left of an engine. Each test runs in a process of its own, whose threads, descriptors and memory are its alone.
///
/// One after the other: while such a process lives, the one that started it waits on a thread of the common pool, and
/// that has no more of them than the machine has cores.
@Suite(.serialized) struct LifetimeTests {
    @Test func lettingGoOfTheLastReferenceEndsTheThread() async {
        await #expect(processExitsWith: .success) {
            let server = try MockServer()
            server.fallback { _ in .text("x") }
            do {
                let transport = try CurlTransport(configuration: testConfiguration())
                _ = try await transport.get(server.url())
                #expect(ProcessFacts.threads(named: "lat-engine") == 1)
            }
            try await server.waitUntilDisconnected()
            try await eventually("the end of the thread") { ProcessFacts.threads(named: "lat-engine") == 0 }
        }
    }

    /// Streams hold their engine while they are read; when they are over they do no longer, also those that had to wait.
    @Test func streamsThatAreOverDoNotHoldTheirEngine() async {
        await #expect(processExitsWith: .success) {
            let server = try MockServer()
            server.fallback { _ in .text("hello") }
            do {
                let transport = try CurlTransport(configuration: testConfiguration { $0.maxConnectionsPerHost = 1 })
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<5 {
                        group.addTask {
                            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
                            let data = try await transport.send(request).body.collect(upTo: 100)
                            #expect(data.count == 5)
                        }
                    }
                    try await group.waitForAll()
                }
            }
            try await eventually("the end of the thread") { ProcessFacts.threads(named: "lat-engine") == 0 }
        }
    }

    @Test func aStreamKeepsItsEngineUntilItIsRead() async {
        await #expect(processExitsWith: .success) {
            let size: Int64 = 8 << 20
            let server = try MockServer()
            server.fallback { _ in .pattern(byteCount: size) }
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            let read = { @Sendable () async throws -> HTTPResponse in
                try await CurlTransport(configuration: testConfiguration()).send(request)
            }
            #expect(try await read().body.collect(upTo: 1 << 30).count == size)
            do { _ = try await read() }
            try await server.waitUntilDisconnected()
            try await eventually("the end of the threads") { ProcessFacts.threads(named: "lat-engine") == 0 }
        }
    }

    /// Streams, uploads, cancellations, timeouts, refusals, suspended ones: afterwards the process holds what it held before.
    @Test func aBusyLifeLeavesNeitherDescriptorsNorThreads() async {
        await #expect(processExitsWith: .success) {
            @Sendable func live() async throws {
                let server = try MockServer()
                let closed = try ClosedPort()
                let directory = try TemporaryDirectory()
                let path = try directory.writePattern(byteCount: 300_000, to: "file")
                server.fallback { request in
                    switch request.query("k") {
                    case "stall": .text("x").stalling(.afterHead)
                    case "cut": .text("hello").resetting(afterBytes: 30)
                    default: .pattern(byteCount: 100_000)
                    }
                }
                let transport = try CurlTransport(configuration: testConfiguration())
                await withTaskGroup(of: Void.self) { group in
                    for index in 0..<400 {
                        group.addTask {
                            var request = HTTPRequest(
                                "GET", server.url("/?k=\(["stall", "cut", "ok", "ok"][index % 4])"))
                            if index % 4 == 0 { request.idleTimeout = .milliseconds(20) }
                            if index % 5 == 0 { request.streamsBody = true }
                            if index % 7 == 0 { request.url = closed.url() }
                            if index % 6 == 0 {
                                request.method = .put
                                request.body =
                                    index % 12 == 0 ? .file(path) : .multipart([UploadFile(name: "f", path: path)])
                            }
                            let task = Task { [request] in
                                _ = try await transport.send(request).body.collect(upTo: 1 << 20)
                            }
                            if index % 9 == 0 { task.cancel() }
                            _ = await task.result
                        }
                    }
                }
            }
            try await live()
            // The clock of the first sleep takes descriptors for good.
            try await Task.sleep(for: .milliseconds(1))
            try await eventually("the end of the thread") { ProcessFacts.threads(named: "lat-engine") == 0 }
            let (descriptors, memory) = (ProcessFacts.descriptors, ProcessFacts.residentBytes)
            for _ in 0..<4 { try await live() }
            try await eventually("the end of the threads") { ProcessFacts.threads(named: "lat-engine") == 0 }
            try await eventually("the end of the descriptors") {
                ProcessFacts.descriptors.count <= descriptors.count + dispatchSlack
            }
            #expect(
                ProcessFacts.descriptors.count <= descriptors.count + dispatchSlack,
                "\(ProcessFacts.descriptors.subtracting(descriptors))")
            #expect(ProcessFacts.residentBytes - memory < 30 << 20)
        }
    }

    @Test func manyEnginesAreIndependent() async {
        await #expect(processExitsWith: .success) {
            let server = try MockServer()
            server.fallback { _ in .text("x") }
            // The clock of the first sleep takes descriptors for good.
            try await Task.sleep(for: .milliseconds(1))
            let descriptors = ProcessFacts.descriptors
            for _ in 0..<10 {
                let transports = try (0..<10).map { _ in try CurlTransport(configuration: testConfiguration()) }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for transport in transports {
                        group.addTask {
                            let text = try await transport.get(server.url()).text
                            #expect(text == "x")
                        }
                    }
                    try await group.waitForAll()
                }
                await transports[0].shutdown()
            }
            try await eventually("the end of the threads") { ProcessFacts.threads(named: "lat-engine") == 0 }
            try await server.waitUntilDisconnected()
            try await eventually("the end of the descriptors") {
                ProcessFacts.descriptors.count <= descriptors.count + dispatchSlack
            }
            #expect(
                ProcessFacts.descriptors.count <= descriptors.count + dispatchSlack,
                "\(ProcessFacts.descriptors.subtracting(descriptors))")
        }
    }

    @Test func aGigabyteIsSentFromAFileInConstantMemory() async {
        await #expect(processExitsWith: .success) {
            let size: Int64 = 1 << 30
            let directory = try TemporaryDirectory()
            let path = try directory.write(Data(), to: "sparse")
            #expect(truncate(path, Int(size)) == 0)
            let server = try MockServer()
            server.bodyLimit = 0
            server.fallback { .text("\($0.bodyByteCount)") }
            let transport = try CurlTransport(configuration: testConfiguration { $0.timeout = nil })
            _ = try await transport.get(server.url())
            let before = ProcessFacts.residentBytes
            let most = Box(0)
            for body in [HTTPBody.file(path), .multipart([UploadFile(name: "f", path: path)])] {
                let owner = TestOwner { _ in most.change { $0 = max($0, ProcessFacts.residentBytes) } }
                let request = HTTPRequest("PUT", server.url(), body: body)
                let received = Int64(try await transport.send(request, for: owner).text ?? "") ?? 0
                #expect(received >= size)
            }
            #expect(most.value - before < 24 << 20)
            await transport.shutdown()
        }
    }

    /// While nobody reads, the server gets rid of a bounded number of bytes and nothing grows here.
    @Test func aSlowReaderHoldsTheServerBackInConstantMemory() async {
        await #expect(processExitsWith: .success) {
            let size: Int64 = 1 << 30
            let server = try MockServer()
            server.enqueue(.pattern(byteCount: size))
            let transport = try CurlTransport(configuration: testConfiguration())
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            var iterator = try await transport.send(request).body.makeAsyncIterator()
            var offset = Int64(try await iterator.next()?.count ?? 0)
            let before = ProcessFacts.residentBytes
            // Other requests go on meanwhile, and by their number the transfer had every chance to run ahead.
            server.fallback { _ in .text("x") }
            for _ in 0..<200 { _ = try await transport.get(server.url("/other")) }
            #expect(ProcessFacts.residentBytes - before < 24 << 20)
            while let chunk = try await iterator.next() {
                if let wrong = MockPattern.firstMismatch(in: chunk, at: offset) {
                    Issue.record("the byte at \(wrong) is wrong")
                    break
                }
                offset += Int64(chunk.count)
            }
            #expect(offset == size)
            #expect(ProcessFacts.residentBytes - before < 24 << 20)
            await transport.shutdown()
        }
    }

    /// In a network namespace of its own, where no name server can be reached.
    @Test func aNameThatIsNotFoundSaysSo() async {
        await #expect(processExitsWith: .success) {
            typealias Unshare = @convention(c) (CInt) -> CInt
            guard let symbol = dlsym(nil, "unshare"), unsafeBitCast(symbol, to: Unshare.self)(0x4000_0000) == 0 else {
                print("skipped: this system allows no network namespace (unshare: \(String(cString: strerror(errno))))")
                return
            }
            // Threads are in the namespace of the one that starts them, so the engine's and its look-ups are too.
            let transport = try CurlTransport(configuration: testConfiguration())
            let error = try await transport.failure(of: HTTPRequest("GET", "http://no-such-host.invalid/"))
            #expect(error.kind == .dns, "\(error)")
            #expect(error.message.contains("no-such-host.invalid"))
            await transport.shutdown()
        }
    }

    @Test(arguments: 0..<6)
    func exitingInTheMiddleOfTransfersIsClean(round: Int) async {
        await #expect(processExitsWith: .success) { try await exitWhileBusy() }
    }

    @Test(.enabled(if: Servers.nginxTLS != nil, "needs nginx; scripts/test starts it"), arguments: 0..<8)
    func exitingInTheMiddleOfTLSIsClean(round: Int) async {
        await #expect(processExitsWith: .success) { try await exitWhileBusy(with: Servers.nginxTLS) }
    }
}

/// Starts a good many transfers and ends the process while they go on.
private func exitWhileBusy(with base: String? = nil) async throws {
    let server = try MockServer()
    server.fallback { _ in .pattern(byteCount: 1 << 40) }
    let transport = try CurlTransport(
        configuration: testConfiguration {
            if base != nil { $0.tls.caFile = Servers.authority }
            $0.maxConnectionsPerHost = 20
        })
    let hasBytes = Event()
    for index in 0..<60 {
        let url = base.map { $0 + (index % 3 == 0 ? "/1k.bin" : "/1g.bin") } ?? server.url()
        let request = HTTPRequest("GET", url).with { $0.streamsBody = true }
        Task {
            while true {
                for try await _ in try await transport.send(request).body { hasBytes.happen() }
            }
        }
    }
    await hasBytes.wait()
    exit(0)
}

/// Waits for something that nobody announces: looks again and again, and gives up after ten seconds.
func eventually(
    _ what: String, sourceLocation: SourceLocation = #_sourceLocation, _ isSo: @escaping @Sendable () -> Bool
) async throws {
    // Recorded, not thrown: an error that leaves the body of an exit test is a crash without a word.
    do {
        try await within(.seconds(10), what, sourceLocation: sourceLocation) {
            while !isSo() { try await Task.sleep(for: .milliseconds(2)) }
        }
    } catch let error as Overdue {
        Issue.record(error, sourceLocation: sourceLocation)
    }
}

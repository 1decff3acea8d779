import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// The number of descriptors that libdispatch opens at first use and never closes (epoll, eventfd, timerfd). If engines
/// leaked one descriptor each, the tests would find many more.
private let dispatchSlack = 3

/// How many sockets of the process tell of changes of the network.
private func netlinkSockets() throws -> Int {
    let table = try String(contentsOfFile: "/proc/self/net/netlink", encoding: .utf8)
    let inodes = table.split(separator: "\n").compactMap { $0.split(separator: " ").last }
    return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { name in
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
        return inodes.contains { target == "socket:[\($0)]" }
    }
}

/// What an engine leaves behind. Each test runs in a process of its own, so its threads, descriptors and memory can be counted.
///
/// Serialized: for each such process, a thread of the common pool waits, and the pool has only as many threads as the
/// machine has cores.
@Suite(.serialized) struct LifetimeTests {
    @Test func releasedTransportEndsItsThread() async {
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

    /// Whatever was missing while there were too few descriptors, it is there as soon as there are enough.
    @Test func liveConnectionsComeWithTheDescriptors() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("hello") }
        await #expect(processExitsWith: .success) { [url = server.url() as String] in
            let request = HTTPRequest("GET", url).with {
                $0.context.isLive = true
                $0.streamsBody = true
            }
            // libdispatch ends a process in which it gets no descriptor for itself.
            try await Task.sleep(for: .milliseconds(1))
            let first = try CurlTransport(configuration: testConfiguration())
            _ = try await first.send(request).body.collect(upTo: 100)
            var plenty = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &plenty)
            var failureCount = 0
            for free in 1...12 {
                let used = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int($0) }
                // The numbers have gaps.
                var few = plenty
                few.rlim_cur = rlim_t((0...).lazy.filter { !used.contains($0) }.prefix(free).max() ?? 0) + 1
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &few)
                let transport = try? CurlTransport(configuration: testConfiguration())
                if let transport {
                    do { _ = try await transport.send(request).body.collect(upTo: 100) } catch { failureCount += 1 }
                }
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &plenty)
                guard let transport else { continue }
                let data = try await transport.send(request).body.collect(upTo: 100)
                #expect(data.count == 5, "\(free) free descriptors at the start")
                // That of the first, and its own.
                #expect(try netlinkSockets() == 2, "\(free) free descriptors at the start")
                await transport.shutdown()
            }
            #expect(failureCount > 0)
        }
    }

    /// Streams retain their engine until they end, including those whose requests were queued.
    @Test func finishedStreamsReleaseTheEngine() async {
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

    @Test func unreadStreamKeepsTheEngineAlive() async {
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

    /// After streams, uploads, cancellations, timeouts and failures, the process holds no more than before.
    @Test func busyEngineLeaksNothing() async {
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
            // The first sleep opens descriptors that stay open.
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
            // AddressSanitizer keeps released memory, and looks for leaks itself.
            #expect(AddressSanitizer.isOn || ProcessFacts.residentBytes - memory < 30 << 20)
        }
    }

    @Test func manyEnginesLeakNoThreadOrDescriptor() async {
        await #expect(processExitsWith: .success) {
            let server = try MockServer()
            server.fallback { _ in .text("x") }
            // The first sleep opens descriptors that stay open.
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

    @Test(.measuresMemory) func largeFileIsSentInConstantMemory() async {
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

    /// While nobody reads, the server sends a bounded number of bytes and memory does not grow.
    @Test(.measuresMemory) func slowReaderKeepsMemoryConstant() async {
        await #expect(processExitsWith: .success) {
            let size: Int64 = 1 << 30
            let server = try MockServer()
            server.enqueue(.pattern(byteCount: size))
            let transport = try CurlTransport(configuration: testConfiguration { $0.timeout = nil })
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            var iterator = try await transport.send(request).body.makeAsyncIterator()
            var offset = Int64(try await iterator.next()?.count ?? 0)
            let before = ProcessFacts.residentBytes
            // The many other requests give the transfer time to read ahead.
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

    /// Runs in a network namespace, where no DNS server can be reached.
    @Test(.needsNetworkNamespaces)
    func unknownHostFailsWithDNSError() async {
        await #expect(processExitsWith: .success) {
            typealias Unshare = @convention(c) (CInt) -> CInt
            let symbol = try #require(dlsym(nil, "unshare"))
            // CLONE_NEWNET
            try #require(unsafeBitCast(symbol, to: Unshare.self)(0x4000_0000) == 0)
            // A thread inherits the namespace of its creator, so the engine and its name look-ups are in it.
            let transport = try CurlTransport(configuration: testConfiguration())
            let error = try await transport.failure(of: HTTPRequest("GET", "http://no-such-host.invalid/"))
            #expect(error.kind == .dns, "\(error)")
            #expect(error.message.contains("no-such-host.invalid"))
            await transport.shutdown()
        }
    }

    @Test(arguments: 0..<6)
    func exitDuringTransfersSucceeds(round: Int) async {
        await #expect(processExitsWith: .success) { try await exitWhileBusy() }
    }

    @Test(.needsNginx, arguments: 0..<8)
    func exitDuringTLSTransfersSucceeds(round: Int) async {
        await #expect(processExitsWith: .success) { try await exitWhileBusy(with: Servers.nginxTLS) }
    }
}

/// Starts many transfers and exits the process while they run.
private func exitWhileBusy(with base: String? = nil) async throws {
    AddressSanitizer.checkLeaksNow()
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

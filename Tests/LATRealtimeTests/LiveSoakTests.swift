import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// Sockets and streams against a server that cuts, stalls, floods and breaks the protocol. A few seconds as an ordinary
/// test; `scripts/soak --live` runs it for minutes.
@Suite(.timeLimit(.minutes(30))) struct LiveSoakTests {
    private static let seconds = ProcessInfo.processInfo.environment["LAT_SOAK_SECONDS"].flatMap { Int($0) }

    private struct Tally {
        var started = 0
        var ended = 0
        var failed = 0
        var messages = 0
    }

    @Test func everySocketAndStreamEndsOnce() async throws {
        // The first wait of a process opens the descriptors of Dispatch's timers, which stay.
        try await Task.sleep(for: .milliseconds(1))
        let descriptors = ProcessFacts.descriptors
        let server = try MockServer()
        server.recordsRequests = false
        server.fallback { request in request.path == "/socket" ? Self.socket() : Self.stream() }
        let (result, growth) = try await useSocketsAndStreams(of: server)
        #expect(result.started == result.ended && result.failed > 0 && result.failed < result.ended)
        guard Self.seconds != nil else { return }
        #expect(growth < 48 << 20)
        // Releases the server without `stop()`, which would keep its port.
        _ = consume server
        // No other test runs meanwhile.
        try await eventually("the end of the descriptors") { ProcessFacts.descriptors.isSubset(of: descriptors) }
        print(
            "live soak: \(result.started) sockets and streams, \(result.failed) ended with an error, "
                + "\(result.messages) messages and events, memory \(growth >> 20) MiB, descriptors "
                + "\(descriptors.count) before and \(ProcessFacts.descriptors.count) after")
    }

    /// Returns the tally, and by how many bytes the memory grew. The manager is gone then, with its last descriptor.
    private func useSocketsAndStreams(of server: MockServer) async throws -> (Tally, Int) {
        let count = Self.seconds == nil ? 30 : 200
        let manager = try CentralRequestManager.make()
        let tally = Box(Tally())
        let end = ContinuousClock.now + .seconds(Self.seconds ?? 3)
        // Memory is compared from the first third on, when all buffers have their size.
        let settled = ContinuousClock.now + .seconds((Self.seconds ?? 3) / 3)
        let baseline = Box(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<(2 * count) {
                let path = number % 2 == 0 ? "/socket" : "/events"
                group.addTask { [url = server.url(path)] in
                    while ContinuousClock.now < end {
                        tally.change { $0.started += 1 }
                        let isFailed =
                            number % 2 == 0
                            ? await Self.useSocket(manager, url) { tally.change { $0.messages += 1 } }
                            : await Self.useStream(manager, url) { tally.change { $0.messages += 1 } }
                        tally.change {
                            $0.ended += 1
                            if isFailed { $0.failed += 1 }
                        }
                        if ContinuousClock.now > settled {
                            baseline.change { if $0 == 0 { $0 = ProcessFacts.residentBytes } }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        // What was refused with 503 leaves its connection in the pool.
        try await eventually("the end of the sockets and streams") { server.openConnections <= 6 }
        await manager.shutdown()
        try await server.waitUntilDisconnected()
        #expect(await manager.gauges?.sockets == 0)
        return (tally.value, ProcessFacts.residentBytes - baseline.value)
    }

    private static func socket() -> MockReply {
        let text = String(repeating: "x", count: .random(in: 0...2_000))
        switch Int.random(in: 0..<10) {
        case 0: return .webSocket(.text("a"), .cut)
        case 1: return .webSocket(.text("a"), .reset)
        case 2: return .webSocket(.text("a"), .stall)
        case 3: return .webSocket(.repeated([.text(text), .ping("p")], count: 300), .close(1000))
        // The server speaks first, because a client that connects again does not.
        case 4: return .webSocket(.ping("x"), .text("a"), .echo(2), .close(1012))
        case 5: return .status(503)
        case 6: return .webSocket(.text("a"), .frame(opcode: 3, Data()))
        case 7: return .webSocket(.text("a"), .bytes(Data([0x81, 100, 0x61])), .cut)
        case 8: return .webSocket(.fragments([text, text]), .wait(.milliseconds(20)), .close(4000))
        default: return .webSocket(.text("a"), .echo(20), .close(1000))
        }
    }

    private static func stream() -> MockReply {
        switch Int.random(in: 0..<6) {
        case 0: .events(.event("a"), .cut)
        case 1: .events(.event("a"), .reset)
        case 2: .events(.event("a"), .stall)
        case 3: .events(.repeated([.event("flood", id: "1")], count: 2_000))
        case 4: .status(503)
        default: .events(.retry(milliseconds: 1), .event("a"), .wait(.milliseconds(10)), .event("b"))
        }
    }

    /// Returns whether it ended with an error.
    private static func useSocket(
        _ manager: CentralRequestManager, _ url: String, _ note: @Sendable () -> Void
    ) async -> Bool {
        var reconnection = Reconnection.quick
        reconnection.attempts = 2
        let options = WebSocketOptions(
            pingInterval: .milliseconds(300), missedPongs: 1, closeTimeout: .milliseconds(500),
            reconnection: Bool.random() ? reconnection : nil, resend: Bool.random() ? .unsent : .never)
        do {
            let socket = try await manager.webSocket(url, options: options)
            try? await socket.send("first")
            var count = 0
            for try await _ in socket.messages {
                note()
                count += 1
                try? await socket.send("more")
                if count == 500 { break }
            }
            if Bool.random() { try await socket.close() }
            return false
        } catch {
            return true
        }
    }

    private static func useStream(
        _ manager: CentralRequestManager, _ url: String, _ note: @Sendable () -> Void
    ) async -> Bool {
        var reconnection = Reconnection.quick
        reconnection.attempts = 2
        var request = HTTPRequest("GET", url)
        request.idleTimeout = .milliseconds(500)
        do {
            var count = 0
            for try await _ in manager.events(
                request, options: EventOptions(reconnection: Bool.random() ? reconnection : nil))
            {
                note()
                count += 1
                if count == 4_000 { break }
            }
            return false
        } catch {
            return true
        }
    }
}

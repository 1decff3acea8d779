import FoundationEssentials
import Glibc
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Senders that are killed, and a server that fails: each entry has its effect once, in the order of its group.
///
/// `LAT_OUTBOX_ROUNDS=30 LAT_OUTBOX_ENTRIES=200` runs the long form, with ten kills each.
@Suite(.timeLimit(.minutes(30))) struct OutboxChaosTests {
    /// A server that keeps what each key has done.
    private final class Ledger: Sendable {
        struct State {
            /// The bodies in the order in which they had their effect.
            var effects: [String] = []
            var keys: Set<String> = []
            var requests = 0
            var random: SeededGenerator
        }

        let state: Mutex<State>

        init(_ seed: UInt64) { state = Mutex(State(random: SeededGenerator(seed: seed))) }

        /// Waits for a number of effects. On a busy machine a new sender needs seconds to start, and after a failure of the store
        /// it pauses up to half a minute.
        func wait(for count: Int) async throws {
            try await within(.seconds(120), "\(count) effects") { [self] in
                while state.withLock({ $0.effects.count }) < count { try await Task.sleep(for: .milliseconds(5)) }
            }
        }

        func reply(to request: RecordedRequest) -> MockReply {
            state.withLock { state in
                state.requests += 1
                let chance = Int.random(in: 0..<20, using: &state.random)
                if chance == 0 { return .status(503).header("Retry-After", "0") }
                if chance == 1 { return .status(429) }
                if chance == 2 { return .status(500) }
                let key = request.headers["Idempotency-Key"] ?? ""
                if state.keys.insert(key).inserted {
                    state.effects.append(String(decoding: request.body, as: UTF8.self))
                }
                // The effect is there, and the answer is late, or lost.
                if chance == 3 { return .status(200).closing(afterBytes: 5) }
                if chance == 4 { return .status(200).delayed(by: .milliseconds(30)) }
                return .status(200)
            }
        }
    }

    private static func number(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }

    @Test func everyEntryEndsOnceInOrder() async throws {
        let rounds = Self.number("LAT_OUTBOX_ROUNDS") ?? 2
        let count = Self.number("LAT_OUTBOX_ENTRIES") ?? 60
        let kills = rounds > 2 ? 10 : 3
        for round in 0..<rounds {
            let directory = try TemporaryDirectory()
            let folder = directory.path(of: "outbox")
            let ledger = Ledger(UInt64(round))
            let server = try MockServer()
            server.fallback { ledger.reply(to: $0) }
            var random = SeededGenerator(seed: UInt64(100 + round))
            // Two processes: one adds and sends, the other one waits for the seat.
            var children = try (0..<2).map { try sender($0, folder, server, count) }
            var killed = 0
            while killed < kills {
                let goal = ledger.state.withLock { $0.effects.count } + count / (kills + 2)
                try await ledger.wait(for: min(goal, count - 1))
                let index = Int.random(in: 0..<2, using: &random)
                children[index].kill()
                killed += 1
                children[index] = try sender(index, folder, server, count)
            }
            try await ledger.wait(for: count)
            for child in children { child.kill() }
            // What was answered and not yet recorded is sent again, with its key.
            let central = try CentralRequestManager.make()
            let outbox = try Outbox(folder: folder, manager: central, configuration: Self.configuration)
            #expect(outbox.damage == nil)
            try await outbox.waitUntilSent()
            #expect(try await outbox.entries.isEmpty)
            await outbox.close()
            let (effects, requests) = ledger.state.withLock { ($0.effects, $0.requests) }
            #expect(effects.count == count && Set(effects).count == count, "round \(round)")
            for group in 0..<4 {
                let numbers = effects.filter { $0.hasPrefix("\(group)-") }.compactMap { Int($0.dropFirst(2)) }
                #expect(numbers == numbers.sorted(), "round \(round), group \(group)")
            }
            #expect(directory.contents.filter { $0.hasPrefix("outbox/bodies/") }.isEmpty)
            if rounds > 2 { print("round \(round): \(count) entries, \(requests) requests, \(killed) kills") }
        }
    }

    private func sender(_ index: Int, _ folder: String, _ server: MockServer, _ count: Int) throws -> RoleProcess {
        try RoleProcess(
            index == 0 ? "add and send" : "send", [folder, server.url("/entries"), "\(count)"], of: "OutboxRoles")
    }

    static var configuration: Outbox.Configuration {
        var configuration = Outbox.Configuration()
        configuration.firstWait = .milliseconds(5)
        configuration.longestWait = .milliseconds(50)
        return configuration
    }

    @Test func killedSendersPlaceIsTaken() async throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "outbox")
        let server = try MockServer()
        server.fallback { _ in .status(200) }
        let child = try RoleProcess("send", [folder, server.url(), "0"], of: "OutboxRoles")
        #expect(child.read().contains("ready"))
        let outbox = try Outbox(folder: folder, manager: CentralRequestManager.make())
        var changes = outbox.changes.makeAsyncIterator()
        try await outbox.add(HTTPRequest("POST", server.url("/by-child")))
        // The child hears of it without a delay of its own.
        try await outbox.waitUntilSent()
        #expect(try await outbox.load.isSender == false && server.requestCount == 1)
        #expect(try await outbox.load.sender != nil)
        child.kill()
        while let change = await changes.next() { if case .isSender(true) = change { break } }
        try await outbox.add(HTTPRequest("POST", server.url("/by-us")))
        try await outbox.waitUntilSent()
        #expect(server.requestCount == 2)
        await outbox.close()
    }

    @Test func entryWaitsForItsServer() async throws {
        let directory = try TemporaryDirectory()
        let reserved = try MockServer()
        let port = reserved.port
        reserved.stop()
        let central = try CentralRequestManager.make {
            $0.reachability.failureTTL = .milliseconds(20)
            $0.reachability.ttl = .milliseconds(20)
        }
        let outbox = try Outbox(
            folder: directory.path(of: "outbox"), manager: central, configuration: Self.configuration)
        var changes = outbox.changes.makeAsyncIterator()
        for number in 0..<20 {
            try await outbox.add(HTTPRequest("POST", "http://127.0.0.1:\(port)/\(number)"), group: "g")
        }
        while let change = await changes.next() { if case .failed = change { break } }
        let server = try MockServer(port: port)
        server.fallback { _ in .status(200) }
        try await outbox.waitUntilSent()
        #expect(server.requests.map(\.path) == (0..<20).map { "/\($0)" })
        await outbox.close()
    }
}

import FoundationEssentials
import Glibc
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Senders and servers that are killed, answers that are cut or late, full disks and clocks that are set back, entries that are
/// retried and dropped meanwhile: each entry has its effect once, in the order of its group.
///
/// `LAT_OUTBOX_ROUNDS=30 LAT_OUTBOX_ENTRIES=200` runs the long form, with ten kills each.
@Suite(.timeLimit(.minutes(60))) struct OutboxChaosTests {
    /// A server that can be killed and started again, and what each key has done.
    private final class Ledger: Sendable {
        struct State {
            /// The bodies in the order in which they had their effect.
            var effects: [String] = []
            /// The same of entries that are retried by hand, and of those that are dropped.
            var others: [String] = []
            var keys: Set<String> = []
            var requests = 0
            var random: SeededGenerator
        }

        let state: Mutex<State>
        private let server: Mutex<MockServer>
        let url: String

        init(_ seed: UInt64) throws {
            state = Mutex(State(random: SeededGenerator(seed: seed)))
            let first = try MockServer()
            url = first.url("/entries")
            server = Mutex(first)
            first.fallback { [self] in reply(to: $0) }
        }

        var effects: [String] { state.withLock(\.effects) }

        /// Waits for a number of effects. On a busy machine a new sender needs seconds to start, and after a failure of the store
        /// it pauses up to half a minute.
        func wait(for count: Int, _ children: [RoleProcess], _ folder: String) throws {
            let start = ContinuousClock.now
            while effects.count < count {
                guard ContinuousClock.now - start < .seconds(120) else {
                    let state = Self.state(of: folder)
                    for child in children { child.kill() }
                    let said = children.map { $0.read() }
                    throw MountNamespace.Failure(
                        description:
                            "\(effects.count) of \(count) effects after two minutes; processes: \(said); \(state)")
                }
                usleep(5_000)
            }
        }

        /// What is in the folder of an outbox that stands still, and in its database.
        private static func state(of folder: String) -> String {
            let script = """
                cd "$1"; df -k . | tail -n 1; ls -lAR
                python3 -c "import sqlite3; c = sqlite3.connect('outbox.sqlite'); print(*c.execute('SELECT * FROM outbox'), *c.execute('SELECT * FROM entries'), sep='; ')"; true
                """
            return (try? ChildProcess.run("bash", ["-c", script, "bash", folder], in: "/")) ?? "?"
        }

        /// Closes all connections, refuses new ones for a moment, and listens again.
        func restart() throws {
            let old = server.withLock { $0 }
            old.stop()
            usleep(100_000)
            let new = try MockServer(port: old.port)
            new.fallback { [self] in reply(to: $0) }
            server.withLock { $0 = new }
        }

        func stop() { server.withLock { $0 }.stop() }

        private func reply(to request: RecordedRequest) -> MockReply {
            state.withLock { state in
                state.requests += 1
                let chance = Int.random(in: 0..<20, using: &state.random)
                if chance == 0 { return .status(503).header("Retry-After", "0") }
                if chance == 1 { return .status(429) }
                if chance == 2 { return .status(500) }
                let key = request.headers["Idempotency-Key"] ?? ""
                let isOther = key.hasPrefix("again-") || key.hasPrefix("drop-")
                if isOther, chance > 12 { return .status(422) }
                if state.keys.insert(key).inserted {
                    if isOther {
                        state.others.append(key)
                    } else {
                        state.effects.append(String(decoding: request.body, as: UTF8.self))
                    }
                }
                // The effect is there, and the answer is lost, late, or later than anybody waits for it.
                if chance == 3 { return .status(200).closing(afterBytes: 5) }
                if chance == 4 { return .status(200).delayed(by: .milliseconds(30)) }
                if chance == 5 { return .status(200).delayed(by: .seconds(3)) }
                return .status(200)
            }
        }
    }

    private static func number(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }
    private static let rounds = number("LAT_OUTBOX_ROUNDS")
    private static let count = number("LAT_OUTBOX_ENTRIES") ?? 60

    @Test func everyEntryEndsOnceInOrder() async throws {
        for round in 0..<max(1, Self.rounds ?? 2) {
            let directory = try TemporaryDirectory()
            try await aside { try Self.check(round, in: directory) }
        }
    }

    @Test(.needsMountNamespaces, .needsFakeClock)
    func fullDiskAndSetClockLoseNoEntry() async throws {
        for round in 0..<max(1, Self.rounds ?? 1) {
            let directory = try TemporaryDirectory()
            try await aside {
                try MountNamespace.run {
                    let disk = directory.path(of: "disk")
                    try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
                    try MountNamespace.mount(on: disk, size: "3m")
                    defer { try? MountNamespace.unmount(disk) }
                    try Self.check(round, in: directory, clock: FakeClock(directory))
                }
            }
        }
    }

    /// One run. It blocks, because the threads of a mount namespace are those that it starts.
    ///
    /// - Parameter clock: the clock of all processes, which is set while they run. Their disk is full from time to time, too.
    private static func check(_ round: Int, in directory: TemporaryDirectory, clock: FakeClock? = nil) throws {
        let kills = rounds == nil ? 3 : 10
        // Every other round has entries without groups, which are sent in any order and read ahead.
        let hasGroups = round % 2 == 0
        let disk = directory.path(of: "disk")
        let folder = disk + "/outbox"
        let ledger = try Ledger(UInt64(round))
        defer { ledger.stop() }
        var random = SeededGenerator(seed: UInt64(100 + round))
        func process(_ role: String) throws -> RoleProcess {
            try RoleProcess(
                role,
                [folder, ledger.url, "\(count / 2)", directory.path(of: "added"), hasGroups ? "groups" : "none"],
                of: "OutboxRoles", variables: clock?.variables ?? [:])
        }
        // Both add, and one of them sends what both have added.
        var children = try (0..<2).map { try process("add and send \($0)") }
        for kill in 0..<kills {
            try ledger.wait(for: min(ledger.effects.count + count / (kills + 2), count - 1), children, folder)
            switch kill % 3 {
            case 0 where clock != nil:
                // Nothing more can be written for a moment, and then it can.
                let file = disk + "/filler"
                let descriptor = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
                let bytes = [UInt8](repeating: 1, count: 4_096)
                while write(descriptor, bytes, bytes.count) > 0 {}
                usleep(200_000)
                // A process that was started meanwhile may have it open.
                ftruncate(descriptor, 0)
                close(descriptor)
                unlink(file)
            case 1: try ledger.restart()
            default: break
            }
            try clock?.set([-259_200, -3_600, 0, 7_200].randomElement(using: &random) ?? 0)
            let index = Int.random(in: 0..<2, using: &random)
            children[index].kill()
            children[index] = try process("add and send \(index)")
        }
        try ledger.wait(for: count, children, folder)
        for child in children { child.kill() }
        // What was answered and not yet recorded is sent again, with its key.
        let said = try process("finish").finish().text
        #expect(said == "0 entries of 0 bytes, no damage")
        let (effects, others, requests) = ledger.state.withLock { ($0.effects, $0.others, $0.requests) }
        let again = (0..<2).flatMap { index in
            stride(from: 0, to: count / 2, by: 5).map { "again-\(index)-\($0)" }
        }
        #expect(others.filter { $0.hasPrefix("again-") }.sorted() == again.sorted(), "round \(round)")
        #expect(effects.count == count && Set(effects).count == count, "round \(round)")
        for group in hasGroups ? ["00", "01", "10", "11"] : [] {
            let numbers = effects.filter { $0.hasPrefix("\(group)-") }.compactMap { Int($0.dropFirst(3)) }
            #expect(numbers == numbers.sorted() && numbers.count == count / 4, "round \(round), group \(group)")
        }
        let bodies = try FileManager.default.contentsOfDirectory(atPath: folder + "/bodies")
        #expect(bodies.isEmpty)
        if rounds != nil { print("round \(round): \(count) entries, \(requests) requests, \(kills) kills") }
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

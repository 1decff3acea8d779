import Dispatch
import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// The room on the disk that an outbox takes and gives back, and what it does without any.
@Suite(.timeLimit(.minutes(2))) struct OutboxRoomTests {
    private let fixture: OutboxFixture

    init() throws { fixture = try OutboxFixture() }

    private static func row(_ number: Int, _ size: Int) -> OutboxRow {
        var row = OutboxRow()
        (row.key, row.target, row.size) = ("\(number)", "t", Int64(size))
        (row.request, row.body) = (Data("{}".utf8), Data(repeating: 1, count: size))
        return row
    }

    /// Fills the disk of a folder.
    static func fill(_ folder: String) {
        let file = open(folder + "/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        let page = [UInt8](repeating: 1, count: 4_096)
        while write(file, page, page.count) > 0 {}
        close(file)
    }

    /// Calls a closure with a folder that is a small disk. It blocks, because the threads of a namespace are those that it starts.
    private func onDisk<Value: Sendable>(
        _ size: String, _ body: @escaping @Sendable (_ folder: String) throws -> Value
    ) async throws -> Value {
        let folder = fixture.directory.path(of: "disk")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        return try await aside {
            try MountNamespace.run {
                try MountNamespace.mount(on: folder, size: size)
                return try body(folder)
            }
        }
    }

    /// SQLite makes files beside the database when it opens it, for which the reserve has the room.
    @Test(.needsMountNamespaces) func closedOutboxIsOpenedOnAFullDisk() async throws {
        let left = try await onDisk("2m") { folder in
            do {
                let (store, _) = try OutboxStore.opening(folder)
                _ = try store.write { try $0.add(Self.row(1, 1_000), Outbox.Configuration()) }
            }
            Self.fill(folder)
            let (store, _) = try OutboxStore.opening(folder)
            let rows = try store.read { try $0.entries("1") }
            // As the one who sends them records.
            for row in rows { try store.write { try $0.remove(row) } }
            return (rows.count, try store.read { try $0.entries("1") }.count)
        }
        #expect(left == (1, 0))
    }

    @Test(.needsMountNamespaces) func handlerOnAFullDiskIsCalledOnce() async throws {
        let url = fixture.server.url("/x")
        fixture.server.route("POST", "/busy") { _ in .status(500) }
        let said = try await onDisk("3m") { folder in
            try RoleProcess("handle on a full disk", [folder, url], of: "OutboxRoles").finish().text
        }
        #expect(said == "1 call, sent again: true")
    }

    /// The file of a database does not become smaller by itself.
    @Test func roomOfSentEntriesIsGivenBack() throws {
        let (store, _) = try OutboxStore.opening(fixture.folder)
        func size() -> Int64 {
            ["", "-wal"].reduce(0) { sum, name in
                var status = stat()
                return sum + (stat(OutboxStore.path(fixture.folder) + name, &status) == 0 ? Int64(status.st_size) : 0)
            }
        }
        func addAndRemove(_ count: Int) throws {
            let added = try store.write { transaction in
                try (1...count).map { try transaction.add(Self.row($0, 60_000), Outbox.Configuration()).row }
            }
            try store.write { try $0.remove(added.map(OutboxEngine.Flight.init)) }
        }
        _ = try store.write { try $0.add(Self.row(0, 60_000), Outbox.Configuration()) }
        try addAndRemove(120)
        #expect(size() > 5 << 20)
        store.keepReserve()
        #expect(size() < 1 << 20)
        // On a full disk less is worth it, too.
        try addAndRemove(20)
        store.keepReserve()
        #expect(size() > 1 << 20)
        store.makeRoom()
        #expect(size() < 300_000)
        #expect(try store.read { try $0.entries("1") }.map(\.key) == ["0"])
    }

    @Test func keptAnswerCounts() async throws {
        fixture.server.fallback { _ in
            var reply = MockReply.text(String(repeating: "x", count: 50_000))
            reply.status = 422
            return reply
        }
        // This one sends nothing.
        let first = try fixture.open { $0.limit = 0 }
        let id = try await first.add(HTTPRequest("POST", "/x"))
        let size = try await first.entry(id)?.size ?? 0
        await first.close()
        let outbox = try fixture.open { $0.maxSize = 40_000 }
        try await eventually { try await outbox.load.dead == 1 }
        let kept = try await outbox.load.size
        #expect(kept > size + 50_000)
        #expect(try await outbox.entry(id)?.size == kept)
        let error = await failure { try await outbox.add(HTTPRequest("POST", "/y")) }
        #expect(error?.outboxFailure == .tooLarge(limit: 40_000))
        await outbox.close()
        // Whoever retries it gives the answer up.
        let other = try fixture.open { $0.limit = 0 }
        try await other.retry(id)
        #expect(try await other.load.size == size)
        #expect(try await other.entry(id)?.size == size)
        await other.close()
    }

    @Test func limitMayBeAnyNumber() async throws {
        let outbox = try fixture.open { $0.limit = .max }
        fixture.server.fallback { _ in .status(200).delayed(by: .milliseconds(5)) }
        for number in 0..<20 { try await outbox.add(HTTPRequest("POST", "/\(number)"), group: "g\(number % 5)") }
        try await outbox.waitUntilSent()
        #expect(fixture.server.requestCount == 20)
        await outbox.close()
    }
}

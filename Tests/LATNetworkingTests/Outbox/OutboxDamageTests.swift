import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Databases with wrong numbers, cut ones, and files of the folder that cannot be used: nothing crashes, nothing stands still, and
/// what can be read is sent.
@Suite(.timeLimit(.minutes(2))) struct OutboxDamageTests {
    private let fixture: OutboxFixture

    init() throws { fixture = try OutboxFixture() }

    /// SQLite notices no wrong number.
    @Test(arguments: [
        "UPDATE entries SET added = \(Int64.min) WHERE id = 2", "UPDATE entries SET due = \(Int64.max) WHERE id = 2",
        "UPDATE entries SET expires = \(Int64.min) WHERE id = 2",
        "UPDATE entries SET expires = \(Int64.max) WHERE id = 2",
        "UPDATE entries SET attempts = \(Int64.max) WHERE id = 2",
        "UPDATE entries SET size = \(Int64.min) WHERE id = 2",
        "UPDATE outbox SET size = \(Int64.min)", "UPDATE outbox SET count = \(Int64.min)",
        "UPDATE outbox SET dead = \(Int64.min)", "UPDATE outbox SET number = \(Int64.max)",
        "UPDATE outbox SET boot = 'x', uptime = 0, wall = 0, time = \(Int64.max)",
        "UPDATE outbox SET boot = 'x', uptime = 0, wall = \(Int64.min), time = 5", "UPDATE outbox SET flight = 'x'",
        "DELETE FROM outbox",
    ])
    func wrongNumberStopsNothing(_ change: String) async throws {
        do {
            let outbox = try fixture.open { $0.limit = 0 }
            for number in 1...2 { try await outbox.add(HTTPRequest("POST", "/\(number)")) }
            await outbox.close()
        }
        do {
            let (store, _) = try OutboxStore.opening(fixture.folder)
            try store.write { try $0.connection.execute(change) }
        }
        let reader = try fixture.open { $0.limit = 0 }
        #expect(try await reader.entries.map(\.id) == [1, 2])
        _ = try await reader.load
        await reader.close()
        let outbox = try fixture.open()
        try await outbox.sendNow()
        try await eventually { fixture.server.requests.contains { $0.path == "/1" } }
        await outbox.close()
    }

    /// Fills a folder with entries, and changes the bytes of its database.
    private func damage(_ change: (inout Data) -> Void) throws -> String {
        let folder = fixture.folder
        do {
            let (store, _) = try OutboxStore.opening(folder)
            try store.write { transaction in
                for number in 0..<100 {
                    var row = OutboxRow()
                    (row.key, row.target, row.size) = ("\(number)", "t", 3_000)
                    (row.request, row.body) = (Data("{}".utf8), Data(repeating: 0x62, count: 3_000))
                    _ = try transaction.add(row, Outbox.Configuration())
                }
            }
        }
        let file = URL(filePath: OutboxStore.path(folder))
        var bytes = try Data(contentsOf: file)
        change(&bytes)
        try bytes.write(to: file)
        return folder
    }

    @Test func entriesOfACutDatabaseAreKept() throws {
        let folder = try damage { $0 = $0.prefix($0.count * 3 / 4) }
        let (store, report) = try OutboxStore.opening(folder)
        let keys = try store.read { try $0.entries("1") }.map(\.key)
        #expect(report != nil && keys.count > 40 && keys.first == "0")
    }

    @Test func entriesBetweenTwoDamagedPlacesAreKept() throws {
        let folder = try damage { bytes in
            for place in [bytes.count * 2 / 5, bytes.count * 4 / 5] {
                for index in place..<place + 8_192 { bytes[index] = 0xA5 }
            }
        }
        let (store, report) = try OutboxStore.opening(folder)
        let keys = try store.read { try $0.entries("1") }.compactMap { Int($0.key) }
        #expect(report != nil && keys.contains(0) && keys.contains(99), "\(keys)")
        #expect(keys.contains { (50..<70).contains($0) } && keys.count > 60, "\(keys)")
    }

    @Test func unreadableMarkerIsAnError() throws {
        do { _ = try OutboxStore.opening(fixture.folder) }
        try FileManager.default.createDirectory(
            atPath: fixture.folder + "/setting-aside", withIntermediateDirectories: false)
        let error = #expect(throws: NetworkError.self) { try OutboxStore.opening(fixture.folder) }
        #expect(error?.outboxFailure == .file(path: fixture.folder + "/setting-aside"))
    }

    /// As after `sudo lat outbox retry`.
    @Test(.enabled(if: geteuid() == 0, "only root may be another user"))
    func bellOfAnotherUserIsReplaced() async throws {
        let folder = fixture.directory.path(of: "seat")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let sender = try SenderSeat(folder, isWanted: true) { _ in }
        #expect(sender.take(makingRoom: {}))
        let other = try SenderSeat(folder, isWanted: false) { _ in }
        other.ring()
        var (before, after) = (stat(), stat())
        #expect(lstat(folder + "/bell", &before) == 0 && before.st_uid == 0)
        #expect(chmod(folder, 0o777) == 0 && chmod(fixture.directory.path, 0o755) == 0)
        try asUser(12_345) { other.ring() }
        #expect(lstat(folder + "/bell", &after) == 0 && after.st_uid == 12_345)
        sender.leave()
    }
}

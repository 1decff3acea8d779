import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// The store against a list in memory, by random operations.
@Suite struct OutboxStoreTests {
    private struct Model {
        struct Item {
            var id: Int64
            var place: Int
            var group: String?
            var key: String?
            var priority: Int64
            var isDead = false
            var isSending = false
        }

        var items: [Item] = []

        /// The entries to send, in their order.
        var next: [Int64] {
            items.filter { item in
                guard !item.isDead, !item.isSending else { return false }
                let isBesideOlder = items.contains {
                    !$0.isDead && $0.isSending && item.key != nil && $0.key == item.key && $0.group == item.group
                }
                guard !isBesideOlder else { return false }
                guard let group = item.group else { return true }
                return !items.contains { !$0.isDead && $0.group == group && $0.place < item.place }
            }.sorted { ($1.priority, $0.place) < ($0.priority, $1.place) }.map(\.id)
        }
    }

    @Test(arguments: [UInt64(1), 2, 3, 4, 5]) func agreesWithModel(_ seed: UInt64) throws {
        let directory = try TemporaryDirectory()
        let (store, damage) = try OutboxStore.opening(directory.path(of: "box"))
        #expect(damage == nil)
        var random = SeededGenerator(seed: seed)
        var model = Model()
        var places = 0
        var highest: Int64 = 0
        var limits = Outbox.Configuration()
        limits.maxCount = 30
        for step in 0..<600 {
            let chosen = model.items.indices.randomElement(using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                var row = OutboxRow()
                row.group = [nil, nil, "a", "b", "c"].randomElement(using: &random) ?? nil
                row.supersedes = Int.random(in: 0..<4, using: &random) == 0 ? "k" : nil
                row.priority = Int64.random(in: 0...2, using: &random)
                row.key = "\(step)"
                row.target = "t"
                row.size = 10
                let replaced = model.items.filter {
                    !$0.isDead && !$0.isSending && row.supersedes != nil && $0.key == row.supersedes
                        && $0.group == row.group
                }.map(\.id).sorted()
                guard model.items.count - replaced.count < limits.maxCount else {
                    #expect(throws: NetworkError.self) { try store.write { try $0.add(row, limits) } }
                    continue
                }
                let added = try store.write { try $0.add(row, limits) }
                places += 1
                #expect(added.row.id > highest && added.superseded.map(\.id).sorted() == replaced)
                highest = added.row.id
                model.items.removeAll { replaced.contains($0.id) }
                model.items.append(
                    .init(
                        id: highest, place: places, group: row.group, key: row.supersedes, priority: row.priority))
            case 4..<6:
                guard let id = model.next.first, let index = model.items.firstIndex(where: { $0.id == id }) else {
                    continue
                }
                let row = try #require(try store.read { try $0.entry(id) })
                #expect(try store.write(isDurable: false) { try $0.begin(row) })
                model.items[index].isSending = true
            case 6:
                guard let chosen, !model.items[chosen].isDead else { continue }
                let row = try #require(try store.read { try $0.entry(model.items[chosen].id) })
                _ = try store.write { try $0.end(row, .refused, answer: nil, isTold: true) }
                (model.items[chosen].isDead, model.items[chosen].isSending) = (true, false)
            case 7:
                guard let chosen, model.items[chosen].isDead else { continue }
                let row = try #require(try store.read { try $0.entry(model.items[chosen].id) })
                try store.write { try $0.retry(row) }
                places += 1
                highest += 1
                (model.items[chosen].isDead, model.items[chosen].place) = (false, places)
            case 8:
                guard let chosen, !model.items[chosen].isDead else { continue }
                var row = try #require(try store.read { try $0.entry(model.items[chosen].id) })
                row.reason = "later"
                let item = model.items[chosen]
                let isSuperseded = model.items.contains {
                    item.key != nil && $0.key == item.key && $0.group == item.group && !$0.isDead && !$0.isSending
                        && $0.place > item.place
                }
                #expect(try store.write { try $0.postpone(row) } == isSuperseded)
                model.items[chosen].isSending = false
                if isSuperseded { model.items.remove(at: chosen) }
            default:
                guard let chosen else { continue }
                let row = try #require(try store.read { try $0.entry(model.items[chosen].id) })
                try store.write { try $0.remove(row) }
                model.items.remove(at: chosen)
            }
            let next = try store.read { try $0.candidates(at: 0, limit: 1_000, closed: []).map(\.id) }
            #expect(next == model.next, "step \(step)")
            #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: ["t"]).isEmpty })
            let counts = try store.read { connection in
                (
                    try connection.number("SELECT count FROM outbox"), try connection.number("SELECT dead FROM outbox"),
                    try connection.number("SELECT size FROM outbox")
                )
            }
            #expect(counts.0 == Int64(model.items.count) && counts.2 == Int64(10 * model.items.count))
            #expect(counts.1 == Int64(model.items.count { $0.isDead }))
        }
        // More than a statement has parameters for.
        let others = (0..<40_000).map { "other \($0)" }
        #expect(try store.read { try $0.candidates(at: 0, limit: 1_000, closed: others).map(\.id) } == model.next)
    }

    @Test func damagedStoreIsSetAsideAndReadableEntriesStay() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        var limits = Outbox.Configuration()
        limits.maxCount = 10_000
        do {
            let (store, _) = try OutboxStore.opening(folder)
            try store.write { transaction in
                for number in 0..<2_000 {
                    var row = OutboxRow()
                    (row.key, row.target, row.size) = ("\(number)", "t", 100)
                    row.request = Data(String(repeating: "x", count: 400).utf8)
                    _ = try transaction.add(row, limits)
                }
            }
        }
        // Closing has moved everything into the file itself.
        let path = folder + "/outbox.sqlite"
        var bytes = try Data(contentsOf: URL(filePath: path))
        for index in bytes.count / 2..<bytes.count / 2 + 8_192 { bytes[index] = 0xA5 }
        try bytes.write(to: URL(filePath: path))
        let (store, damage) = try OutboxStore.opening(folder)
        let report = try #require(damage)
        #expect(report.kind == .storage && report.message.contains(".damaged-"))
        let kept = try store.read { try $0.entries("1") }
        #expect(kept.count > 1_000 && kept.count <= 2_000 && kept.allSatisfy { $0.request.count == 400 })
        #expect(try store.read { try $0.number("SELECT count FROM outbox") } == Int64(kept.count))
        #expect(try store.read { try $0.candidates(at: 0, limit: 5_000, closed: []).count } == kept.count)
        #expect(directory.contents.contains { $0.hasPrefix("box/outbox.sqlite.damaged-") })
    }

    @Test func damageFoundByAReadIsMended() async throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        var configuration = Outbox.Configuration()
        configuration.limit = 0
        do {
            let (store, _) = try OutboxStore.opening(folder)
            try store.write { transaction in
                for number in 0..<2_000 {
                    var row = OutboxRow()
                    (row.key, row.target) = ("\(number)", "t")
                    row.request = Data(String(repeating: "x", count: 3_000).utf8)
                    _ = try transaction.add(row, configuration)
                }
            }
        }
        // So large a database is not looked through when it is opened.
        let path = folder + "/outbox.sqlite"
        var bytes = try Data(contentsOf: URL(filePath: path))
        for index in bytes.count / 2..<bytes.count / 2 + 8_192 { bytes[index] = 0xA5 }
        try bytes.write(to: URL(filePath: path))
        let outbox = try Outbox(folder: folder, manager: CentralRequestManager.make(), configuration: configuration)
        #expect(outbox.damage == nil)
        var changes = outbox.changes.makeAsyncIterator()
        let kept = try await outbox.entries
        #expect(kept.count > 1_000 && kept.count < 2_000)
        var trouble: NetworkError?
        while trouble == nil, let change = await changes.next() {
            if case .trouble(let error) = change { trouble = error }
        }
        #expect(trouble?.message.contains(".damaged-") == true)
        await outbox.close()
    }

    @Test func countsAreMendedWhenEntriesAreGone() throws {
        let directory = try TemporaryDirectory()
        let (store, _) = try OutboxStore.opening(directory.path(of: "box"))
        let rows = try store.write { transaction in
            try (0..<4).map { number in
                var row = OutboxRow()
                (row.key, row.target, row.size, row.group) = ("\(number)", "t", 10, number < 2 ? "g" : nil)
                return try transaction.add(row, Outbox.Configuration()).row
            }
        }
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: []).map(\.id) } == [1, 3, 4])
        // Another process has dropped one of them.
        try store.write { try $0.remove(rows[2]) }
        try store.write { try $0.remove([0, 2].map { OutboxEngine.Flight(rows[$0]) }) }
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: []).map(\.id) } == [2, 4])
        #expect(try store.read { try $0.number("SELECT count FROM outbox") } == 2)
        #expect(try store.read { try $0.number("SELECT size FROM outbox") } == 20)
    }

    @Test func takeoverKnowsWhatWasInFlight() throws {
        let directory = try TemporaryDirectory()
        let (store, _) = try OutboxStore.opening(directory.path(of: "box"))
        try store.write { transaction in
            for (number, key) in [nil, "k", nil].enumerated() {
                var row = OutboxRow()
                (row.key, row.target, row.supersedes) = ("\(number)", "t", key)
                let added = try transaction.add(row, Outbox.Configuration())
                if key != nil { _ = try transaction.begin(added.row) }
            }
            transaction.keepFlight([1, 2])
        }
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: [], except: { $0 == 1 }).map(\.id) } == [3])
        #expect(try store.write { try $0.takeOver() }.isEmpty)
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: []).map(\.unseen) } == [1, 1, 0])
        // Each takeover concerns only what the process before it was sending.
        try store.write { $0.keepFlight([3]) }
        #expect(try store.write { try $0.takeOver() }.isEmpty)
        #expect(try store.read { try $0.entries("1 ORDER BY id").map(\.unseen) } == [1, 1, 1])
    }

    @Test func markIsTakenBackWithoutAFlight() throws {
        let directory = try TemporaryDirectory()
        let (store, _) = try OutboxStore.opening(directory.path(of: "box"))
        try store.write { transaction in
            var row = OutboxRow()
            (row.key, row.target, row.supersedes) = ("1", "t", "k")
            _ = try transaction.begin(try transaction.add(row, Outbox.Configuration()).row)
        }
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: []).isEmpty })
        #expect(try store.write { try $0.takeOver() }.isEmpty)
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: []).map(\.unseen) } == [1])
    }

    @Test func candidatesAreFewAndNotExpired() throws {
        let directory = try TemporaryDirectory()
        let (store, _) = try OutboxStore.opening(directory.path(of: "box"))
        try store.write { transaction in
            for number in 1...4 {
                var row = OutboxRow()
                (row.key, row.target, row.request) = ("\(number)", "t", Data(repeating: 0x20, count: 60))
                row.expires = number == 1 ? 5 : nil
                _ = try transaction.add(row, Outbox.Configuration())
            }
        }
        #expect(try store.read { try $0.candidates(at: 4, limit: 9, closed: []).map(\.id) } == [1, 2, 3, 4])
        #expect(try store.read { try $0.candidates(at: 5, limit: 9, closed: ["a"]).map(\.id) } == [2, 3, 4])
        // The requests count, too.
        let few = try store.read { try $0.candidates(at: 5, limit: 9, closed: [], enough: (1, 100)) }
        #expect(few.map(\.id) == [2, 3])
    }

    @Test func firstVersionIsChanged() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        do {
            let (store, _) = try OutboxStore.opening(folder)
            try store.write { transaction in
                for key in [nil, "k"] {
                    var row = OutboxRow()
                    (row.key, row.target, row.supersedes) = (key ?? "", "t", key)
                    _ = try transaction.add(row, Outbox.Configuration())
                }
            }
            try store.write {
                try $0.connection.execute(
                    "ALTER TABLE outbox DROP COLUMN flight; DROP INDEX ended; UPDATE entries SET sending = 1; "
                        + "PRAGMA user_version = 1")
            }
        }
        let (store, _) = try OutboxStore.opening(folder)
        #expect(try store.write { try $0.takeOver() }.isEmpty)
        #expect(try store.read { try $0.candidates(at: 0, limit: 9, closed: []).map(\.unseen) } == [1, 1])
        let indexes = "SELECT count(*) FROM sqlite_schema WHERE name = 'ended'"
        #expect(try store.read { try $0.number("PRAGMA user_version") } == 2)
        #expect(try store.read { try $0.number(indexes) } == 1)
    }

    @Test func failedReconnectionIsTriedAgain() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        let (one, _) = try OutboxStore.opening(folder)
        let (other, _) = try OutboxStore.opening(folder)
        _ = try one.replaceDamaged(NetworkError(.storage, message: "a test says so"))
        try one.write { try $0.connection.execute("PRAGMA user_version = 9") }
        for _ in 0..<2 {
            let error = #expect(throws: NetworkError.self) { try other.read { try $0.entries("1") } }
            #expect(error?.message.contains("later version") == true)
        }
        try one.write { try $0.connection.execute("PRAGMA user_version = 2") }
        #expect(try other.read { try $0.entries("1") }.isEmpty)
    }

    @Test func settingAsideIsFinishedAfterACrash() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        let path = folder + "/outbox.sqlite"
        do {
            let (store, _) = try OutboxStore.opening(folder)
            var row = OutboxRow()
            (row.key, row.target, row.request) = ("1", "t", Data("{}".utf8))
            _ = try store.write { try $0.add(row, Outbox.Configuration()) }
        }
        try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
        try Data("damaged".utf8).write(to: URL(filePath: path))
        try Data("\(path).damaged-1".utf8).write(to: URL(filePath: folder + "/setting-aside"))
        let (store, damage) = try OutboxStore.opening(folder)
        #expect(damage == nil)
        #expect(try store.read { try $0.entries("1").map(\.key) } == ["1"])
        #expect(FileManager.default.fileExists(atPath: path + ".damaged-1"))
        #expect(!FileManager.default.fileExists(atPath: folder + "/setting-aside"))
    }

    @Test func damagedStoreKeepsUnmatchedBodies() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        let (store, _) = try OutboxStore.opening(folder)
        try Data("body".utf8).write(to: URL(filePath: folder + "/bodies/unmatched"))
        _ = try store.replaceDamaged(NetworkError(.storage, message: "a test says so"))
        #expect(directory.contents.contains { $0.contains(".damaged-") && $0.hasSuffix(".bodies/unmatched") })
    }

    @Test func otherProcessGoesOnWithTheNewStore() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        let (one, _) = try OutboxStore.opening(folder)
        let (other, _) = try OutboxStore.opening(folder)
        var row = OutboxRow()
        (row.key, row.target, row.request) = ("1", "t", Data("{}".utf8))
        _ = try one.write { try $0.add(row, Outbox.Configuration()) }
        let report = try one.replaceDamaged(NetworkError(.storage, message: "a test says so"))
        #expect(report?.message.contains("a test says so); 1 entries") == true)
        row.key = "2"
        _ = try other.write { try $0.add(row, Outbox.Configuration()) }
        #expect(try one.read { try $0.entries("1 ORDER BY id").map(\.key) } == ["1", "2"])
    }

    @Test func fileThatIsNoDatabaseIsSetAside() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "box")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(String(repeating: "no database ", count: 1_000).utf8).write(
            to: URL(filePath: folder + "/outbox.sqlite"))
        let (store, damage) = try OutboxStore.opening(folder)
        #expect(damage?.message.contains("0 entries") == true)
        #expect(try store.read { try $0.entries("1").isEmpty })
    }
}

import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Testing

/// One type in two versions of a program.
private enum One {
    struct Item: Codable, Identifiable, Sendable, Hashable { var id: Int; var name: String; var old: String }
}
private enum Two {
    struct Item: Codable, Identifiable, Sendable, Hashable {
        var id: Int
        var name: String
        var old: String
        var note: String?
        var when: Date?
    }
}
private enum Three {
    struct Item: Codable, Identifiable, Sendable, Hashable, StoredType {
        static var storedPrototype: Item? { Item(id: 0, name: "", old: "", level: 5, tags: ["new"]) }
        var id: Int
        var name: String
        var old: String
        var level: Int
        var tags: [String]
    }
    struct Strict: Codable, Identifiable, Sendable, StoredType {
        static var storedName: String { "Item" }
        var id: Int
        var name: String
        var old: String
        var level: Int
    }
}
private enum Renamed {
    struct Item: Codable, Identifiable, Sendable, Hashable { var id: Int; var name: String; var title: String }
}
private enum Four {
    struct Item: Codable, Identifiable, Sendable, Hashable { var id: Int; var name: Int; var title: String? }
}
private enum Five {
    struct Item: Codable, Identifiable, Sendable, Hashable { var id: Int; var name: Decimal?; var old: String }
}

@Suite struct MigrationTests {
    let directory: TemporaryDirectory
    var path: String { directory.path(of: "objects.sqlite") }

    init() throws {
        directory = try TemporaryDirectory()
        try ObjectStore(path: path).insert(contentsOf: (1...3).map { One.Item(id: $0, name: "\($0)", old: "o") })
    }

    @Test func newOptionalFieldIsNilAndCanBeQueried() throws {
        let store = try ObjectStore(path: path)
        #expect(try store.fetch(Two.Item.self, where: \.note == nil).count == 3)
        #expect(try store.fetch(Two.Item.self, where: \.note == "n").isEmpty)
        #expect(try store.fetch(Two.Item.self, id: 1) == Two.Item(id: 1, name: "1", old: "o"))
        let date = Date()
        try store.upsert(Two.Item(id: 1, name: "1", old: "o", note: "n", when: date))
        #expect(try store.fetch(Two.Item.self, where: \.when == date).map(\.note) == ["n"])
    }

    @Test func newFieldReadsAsThePrototypeInOldRows() throws {
        let store = try ObjectStore(path: path)
        #expect(try store.count(Three.Item.self, where: \.level == 5) == 3)
        #expect(try store.fetch(Three.Item.self, id: 2)?.tags == ["new"])
    }

    @Test func missingValueErrorNamesFieldAndPrototype() throws {
        let store = try ObjectStore(path: path)
        let error = #expect(throws: NetworkError.self) { try store.fetch(Three.Strict.self) }
        #expect(error?.storageFailure?.reason == .value)
        #expect(error?.message.contains("level") == true && error?.message.contains("storedPrototype") == true)
    }

    @Test func retypedFieldErrorNamesTheField() throws {
        let store = try ObjectStore(path: path)
        for use in [{ _ = try store.fetch(Four.Item.self) }, { try store.insert(Four.Item(id: 9, name: 1)) }]
            as [() throws -> Void]
        {
            let error = #expect(throws: NetworkError.self) { try use() }
            #expect(error?.message.contains("name") == true && error?.message.contains("Migration") == true)
        }
        #expect(try ObjectStore(path: path).fetch(Two.Item.self).count == 3)
    }

    @Test func renamedFieldErrorAsksForAMigration() throws {
        let store = try ObjectStore(path: path)
        let uses: [() throws -> Void] = [
            { _ = try store.fetch(Renamed.Item.self) }, { _ = try store.fetch(Renamed.Item.self, id: 1) },
            { try store.insert(Renamed.Item(id: 9, name: "n", title: "t")) },
        ]
        for use in uses {
            let error = #expect(throws: NetworkError.self) { try use() }
            #expect(error?.storageFailure?.reason == .schema)
            #expect(error?.message.contains("\"title\"") == true && error?.message.contains("\"old\"") == true)
            #expect(error?.message.contains("Migration") == true)
        }
        #expect(try ObjectStore(path: path).fetch(One.Item.self).count == 3)
        let migrated = try ObjectStore(
            path: path, migrations: [Migration("m") { try $0.renameField("old", of: "Item", to: "title") }])
        try migrated.insert(Renamed.Item(id: 9, name: "n", title: "t"))
        #expect(
            try migrated.fetch(Renamed.Item.self, sortedBy: [.ascending(\.id)]).map(\.title) == ["o", "o", "o", "t"])
    }

    @Test func failedMigrationLeavesTheFileUnchanged() throws {
        struct Stop: Error {}
        let failing = Migration("m") { migrator in
            try migrator.renameField("old", of: "Item", to: "title")
            try migrator.changeField("name", of: "Item", to: Int.self) { _ in .integer(1) }
            try migrator.renameType("Item", to: "Thing")
            throw Stop()
        }
        let running = try ObjectStore(path: path)
        #expect(try running.count(One.Item.self) == 3)
        #expect(throws: Stop.self) { try ObjectStore(path: path, migrations: [failing]) }
        for store in [running, try ObjectStore(path: path)] {
            #expect(try store.fetch(One.Item.self, where: \.old == "o").count == 3)
            try store.upsert(One.Item(id: 1, name: "new", old: "o"))
            #expect(try store.fetch(One.Item.self, id: 1)?.name == "new")
        }
    }

    @Test func migrationsRunOnceInOneTransaction() throws {
        let rename = Migration("1") { try $0.renameField("old", of: "Item", to: "title") }
        let retype = Migration("2") { migrator in
            #expect(try migrator.types() == ["Item"])
            #expect(try migrator.fields(of: "Item") == ["id", "name", "title"])
            try migrator.changeField("name", of: "Item", to: Int.self) { old in
                guard case .text(let text) = old, let number = Int64(text) else { return .null }
                return .integer(number * 10)
            }
        }
        struct Stop: Error {}
        #expect(throws: Stop.self) {
            try ObjectStore(path: path, migrations: [rename, retype, Migration("3") { _ in throw Stop() }])
        }
        #expect(try ObjectStore(path: path).fetch(One.Item.self).count == 3)
        for _ in 0..<2 {
            let store = try ObjectStore(path: path, migrations: [rename, retype])
            #expect(try store.fetch(Four.Item.self, where: \.name == 20) == [Four.Item(id: 2, name: 20, title: "o")])
            try store.upsert(Four.Item(id: 1, name: 10, title: "o"))
        }
        let last = Migration("4") { migrator in
            try migrator.removeField("title", of: "Item")
            try migrator.renameType("Item", to: "Thing")
            try migrator.removeType("Absent")
            try migrator.removeType("Thing")
        }
        #expect(try ObjectStore(path: path, migrations: [rename, retype, last]).count(Four.Item.self) == 0)
    }

    /// A program that knows the table from before a migration.
    @Test func runningProgramWritesNoOldType() throws {
        let running = try ObjectStore(path: path)
        try running.upsert(One.Item(id: 1, name: "1", old: "o"))
        let retype = Migration("m") { migrator in
            try migrator.changeField("name", of: "Item", to: Int.self) { _ in .integer(5) }
        }
        let migrated = try ObjectStore(path: path, migrations: [retype])
        let error = #expect(throws: NetworkError.self) { try running.upsert(One.Item(id: 1, name: "one", old: "o")) }
        #expect(error?.storageFailure?.reason == .schema && error?.message.contains("\"name\"") == true)
        #expect(try migrated.fetch(Four.Item.self).map(\.name) == [5, 5, 5])
    }

    @Test func unreadableNewValueEndsTheMigration() throws {
        func migration(_ value: StoredValue) -> Migration {
            Migration("m") { try $0.changeField("name", of: "Item", to: Int.self) { _ in value } }
        }
        for value in [.text("one"), .real(0.5), .blob(Data())] as [StoredValue] {
            let error = #expect(throws: NetworkError.self) {
                try ObjectStore(path: path, migrations: [migration(value)])
            }
            #expect(error?.storageFailure?.reason == .value && error?.message.contains("\"name\"") == true)
        }
        #expect(try ObjectStore(path: path).fetch(One.Item.self, where: \.name == "2").map(\.id) == [2])
        // SQLite makes a number of it.
        let store = try ObjectStore(path: path, migrations: [migration(.text("12"))])
        #expect(try store.fetch(Four.Item.self).map(\.name) == [12, 12, 12])
    }

    @Test func optionalDecimalsCompareByNumber() throws {
        let retype = Migration("m") { migrator in
            try migrator.changeField("name", of: "Item", to: Decimal?.self) { old in
                switch old {
                case .text("1"): .text("10")
                case .text("2"): .text("9.5")
                default: .null
                }
            }
        }
        let store = try ObjectStore(path: path, migrations: [retype])
        #expect(try store.fetch(Five.Item.self, where: \.name < 10).map(\.id) == [2])
        #expect(try store.fetch(Five.Item.self, sortedBy: [.descending(\.name)]).map(\.id) == [1, 2, 3])
    }

    @Test func retypedFieldIsRefusedOnWrite() throws {
        let store = try ObjectStore(path: path, migrations: [Migration("m") { try $0.removeField("old", of: "Item") }])
        let error = #expect(throws: NetworkError.self) { try store.insert(Four.Item(id: 9, name: 1)) }
        #expect(error?.storageFailure?.reason == .schema)
        #expect(error?.message.contains("\"name\"") == true)
    }
}

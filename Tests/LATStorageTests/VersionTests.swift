import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Synchronization
import TestSupport
import Testing

/// One type in two versions of a program.
enum Old {
    struct Note: Codable, Identifiable, Sendable, Hashable { var id: Int; var text: String }
}
enum New {
    struct Note: Codable, Identifiable, Sendable, Hashable {
        var id: Int
        var text: String
        var stars: Int?
        var home: Home?
        struct Home: Codable, Sendable, Hashable { var city: String }
    }
    /// A version with a field that every note has.
    struct Ranked: Codable, Identifiable, Sendable, Hashable, StoredType {
        static var storedName: String { "Note" }
        static var storedPrototype: Ranked? { Ranked(id: 0, text: "", rank: Decimal(5), color: "red") }
        var id: Int
        var text: String
        var rank: Decimal
        var color: String?
    }
}

/// Two versions of a program that take turns with one file.
@Suite struct VersionTests {
    let directory: TemporaryDirectory
    var path: String { directory.path(of: "notes.sqlite") }

    init() throws { directory = try TemporaryDirectory() }

    private func columns() throws -> [String] {
        let names = Mutex<[String]>([])
        let inspection = Migration("look \(UUID())") { migrator in
            let fields = try migrator.fields(of: "Note")
            names.withLock { $0 = fields }
        }
        try ObjectStore(path: path, migrations: [inspection]).close()
        return names.withLock(\.self)
    }

    @Test func readingDoesNotChangeTheSchema() throws {
        try ObjectStore(path: path).insert(Old.Note(id: 1, text: "a"))
        let new = try ObjectStore(path: path)
        #expect(try new.count(New.Note.self) == 1)
        #expect(try new.count(New.Note.self, where: \.stars == nil) == 1)
        #expect(try new.count(New.Note.self, where: \.stars > 3 || \.home?.city == "x") == 0)
        #expect(try new.count(New.Note.self, where: .isNil(Field("home", "city"))) == 1)
        #expect(try new.count(New.Note.self, where: .in(\.stars, [1, nil])) == 1)
        #expect(try new.fetch(New.Note.self, sortedBy: [.descending(\.stars), .ascending(\.home?.city)]).count == 1)
        #expect(try new.maximum(of: \New.Note.stars) == nil)
        #expect(try new.sum(of: \New.Note.stars) == 0)
        #expect(throws: NetworkError.self) { try new.count(New.Note.self, where: Field("nope") == 1) }
        let ranked = try ObjectStore(path: path)
        #expect(try ranked.count(New.Ranked.self, where: \.rank == 5 && \.color == "red") == 1)
        #expect(try columns() == ["id", "text"])
    }

    @Test func oldVersionReadsAndWritesAfterTheNewOne() throws {
        let old = try ObjectStore(path: path)
        try old.insert(Old.Note(id: 1, text: "a"))
        #expect(try ObjectStore(path: path).count(New.Note.self) == 1)
        let again = try ObjectStore(path: path)
        #expect(try again.fetch(Old.Note.self).count == 1)
        try again.insert(Old.Note(id: 2, text: "b"))
        try old.insert(Old.Note(id: 3, text: "c"))
        #expect(try again.count(Old.Note.self) == 3)
    }

    @Test func firstValueOfAFieldAddsItsColumn() throws {
        try ObjectStore(path: path).insert(Old.Note(id: 1, text: "a"))
        let new = try ObjectStore(path: path)
        try new.insert(New.Note(id: 2, text: "b"))
        try new.upsert(New.Note(id: 1, text: "c"))
        #expect(try columns() == ["id", "text"])
        try new.update(New.Note(id: 1, text: "c", stars: 3))
        #expect(try columns() == ["id", "text", "stars"])
        #expect(try new.fetch(New.Note.self, where: \.stars == 3).map(\.id) == [1])
    }

    @Test func versionsInTurnLoseNoField() throws {
        let (old, new) = (try ObjectStore(path: path), try ObjectStore(path: path))
        try old.insert(Old.Note(id: 1, text: "a"))
        #expect(try new.fetch(New.Note.self, id: 1)?.stars == nil)
        try new.upsert(New.Note(id: 1, text: "b", stars: 4, home: .init(city: "Turku")))
        try old.update(Old.Note(id: 1, text: "c"))
        #expect(try new.fetch(New.Note.self, id: 1) == New.Note(id: 1, text: "c", stars: 4, home: .init(city: "Turku")))
        try old.upsert(contentsOf: [Old.Note(id: 1, text: "d"), Old.Note(id: 2, text: "e")])
        try old.insert(Old.Note(id: 3, text: "f"))
        #expect(try new.fetch(New.Note.self, where: \.home?.city == "Turku").map(\.text) == ["d"])
        #expect(try new.fetch(New.Note.self, where: \.stars == nil).map(\.id) == [2, 3])
        try new.update(New.Note(id: 1, text: "g"))
        #expect(try old.fetch(Old.Note.self, id: 1)?.text == "g")
        #expect(try new.fetch(New.Note.self, id: 1) == New.Note(id: 1, text: "g"))
        try old.delete(Old.Note.self, where: \.text == "g")
        #expect(try new.fetch(New.Note.self).map(\.id) == [2, 3])
    }

    /// In any order of turns, each version changes only its own fields.
    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func versionsInRandomOrderLoseNoField(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var (old, new) = (try ObjectStore(path: path), try ObjectStore(path: path))
        var model: [Int: New.Note] = [:]
        for step in 0..<300 {
            let id = Int.random(in: 0..<8, using: &random)
            let text = "\(step)"
            var note = New.Note(id: id, text: text)
            // The fields are first set at different steps, so that their columns are added one after the other.
            if step > 60, Bool.random(using: &random) { note.stars = step }
            if step > 120, Bool.random(using: &random) { note.home = .init(city: text) }
            var edited = model[id] ?? New.Note(id: id, text: "")
            edited.text = text
            switch Int.random(in: 0..<8, using: &random) {
            case 0 where model[id] == nil:
                try old.insert(Old.Note(id: id, text: text))
                model[id] = edited
            case 0, 1:
                try old.upsert(Old.Note(id: id, text: text))
                model[id] = edited
            case 2 where model[id] != nil:
                try old.update(Old.Note(id: id, text: text))
                model[id] = edited
            case 3 where model[id] != nil:
                try new.update(note)
                model[id] = note
            case 4, 5:
                try new.upsert(note)
                model[id] = note
            case 6:
                _ =
                    try Bool.random(using: &random)
                    ? old.delete(Old.Note.self, id: id) : new.delete(New.Note.self, id: id)
                model[id] = nil
            default:
                if Bool.random(using: &random) {
                    new = try ObjectStore(path: path)
                } else {
                    old = try ObjectStore(path: path)
                }
            }
            #expect(Set(try new.fetch(New.Note.self)) == Set(model.values))
            #expect(try new.fetch(New.Note.self, id: id) == model[id])
            #expect(try old.fetch(Old.Note.self, id: id)?.text == model[id]?.text)
            #expect(
                try new.count(New.Note.self, where: \.stars == nil) == model.values.count { $0.stars == nil })
        }
    }

    /// An open store sees the columns that another store adds.
    @Test func openStoreSeesNewColumns() throws {
        let (first, second) = (try ObjectStore(path: path), try ObjectStore(path: path))
        try first.insert(New.Note(id: 1, text: "a"))
        #expect(try first.fetch(New.Note.self, id: 1)?.stars == nil)
        #expect(try second.count(New.Note.self, where: \.stars == 2) == 0)
        try first.snapshot { snapshot in
            #expect(try snapshot.count(New.Note.self, where: \.stars == 2) == 0)
            try second.update(New.Note(id: 1, text: "a", stars: 2))
            #expect(try snapshot.count(New.Note.self, where: \.stars == 2) == 0)
            #expect(try first.fetch(New.Note.self, id: 1)?.stars == 2)
            #expect(try snapshot.fetch(New.Note.self, id: 1)?.stars == nil)
        }
        #expect(try first.count(New.Note.self, where: \.stars == 2) == 1)
        try first.update(New.Note(id: 1, text: "b"))
        #expect(try second.fetch(New.Note.self, id: 1) == New.Note(id: 1, text: "b"))
    }

    @Test func prototypeFillsRowsOfTheOldVersion() throws {
        let (old, new) = (try ObjectStore(path: path), try ObjectStore(path: path))
        try old.insert(Old.Note(id: 1, text: "a"))
        #expect(try new.fetch(New.Ranked.self, id: 1) == New.Ranked(id: 1, text: "a", rank: 5, color: "red"))
        #expect(try new.sum(of: \New.Ranked.rank) == 5)
        try new.insert(New.Ranked(id: 2, text: "b", rank: 10))
        try old.insert(Old.Note(id: 3, text: "c"))
        try old.update(Old.Note(id: 2, text: "d"))
        let all = try new.fetch(New.Ranked.self, sortedBy: [.ascending(\.rank), .ascending(\.id)])
        #expect(all.map(\.id) == [1, 3, 2])
        #expect(
            all.map(\.rank) == [5, 5, 10] && all.map(\.color) == ["red", nil, nil]
                && all.map(\.text) == ["a", "c", "d"])
        #expect(try new.fetch(New.Ranked.self, where: \.rank == 5).map(\.id) == [1, 3])
        #expect(try new.fetch(New.Ranked.self, where: \.rank > 9.5).map(\.id) == [2])
        #expect(try new.fetch(New.Ranked.self, where: .in(\.rank, [5])).count == 2)
        #expect(try new.count(New.Ranked.self, where: \.color == nil) == 2)
        #expect(try new.sum(of: \New.Ranked.rank) == 20)
    }

    @Test func rolledBackColumnIsForgotten() throws {
        struct Undo: Error {}
        let store = try ObjectStore(path: path)
        try store.insert(Old.Note(id: 1, text: "a"))
        let new = try ObjectStore(path: path)
        #expect(throws: Undo.self) {
            try new.transaction { transaction in
                try transaction.upsert(New.Note(id: 1, text: "b", stars: 1))
                throw Undo()
            }
        }
        try new.transaction { transaction in
            try? transaction.transaction { inner in
                try inner.upsert(New.Note(id: 1, text: "b", stars: 1))
                throw Undo()
            }
            try transaction.upsert(New.Note(id: 2, text: "b"))
        }
        #expect(try columns() == ["id", "text"])
        try new.upsert(New.Note(id: 1, text: "c", stars: 1))
        #expect(try new.fetch(New.Note.self, where: \.stars == 1).map(\.text) == ["c"])
    }

    /// A type that refuses made-up values, so that only existing rows can be decoded.
    struct Sheet: Codable, Identifiable, Sendable, Equatable {
        var id: Int
        var rows: ClosedRange<Int>
        var title: String?

        init(id: Int, rows: ClosedRange<Int>, title: String? = nil) {
            (self.id, self.rows, self.title) = (id, rows, title)
        }
        private enum CodingKeys: CodingKey { case id, first, last, title }
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            id = try container.decode(Int.self, forKey: .id)
            rows = try container.decode(Int.self, forKey: .first)...container.decode(Int.self, forKey: .last)
            title = try container.decodeIfPresent(String.self, forKey: .title)
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            try container.encode(rows.lowerBound, forKey: .first)
            try container.encode(rows.upperBound, forKey: .last)
            try container.encodeIfPresent(title, forKey: .title)
        }
    }

    @Test func typeThatRefusesSamplesIsDecodedFromRows() throws {
        let first = try ObjectStore(path: path)
        try first.insert(Sheet(id: 1, rows: 1...2))
        let store = try ObjectStore(path: path)
        try store.upsert(Sheet(id: 2, rows: 3...9, title: "x"))
        #expect(try first.fetch(Sheet.self, where: Field("first") > 1 && Field("title") == "x").map(\.id) == [2])
        try store.delete(Sheet.self, where: .all)
        #expect(try first.count(Sheet.self, where: Field("last") == 9) == 0)
        try first.upsert(Sheet(id: 1, rows: 3...4))
        #expect(try store.fetch(Sheet.self) == [Sheet(id: 1, rows: 3...4)])
    }

    @Test func fieldsOfAnEmptyTableAreKnown() throws {
        let store = try ObjectStore(path: path)
        try store.insert(Old.Note(id: 1, text: "a"))
        try store.delete(Old.Note.self, id: 1)
        let new = try ObjectStore(path: path)
        #expect(try new.count(New.Note.self, where: Field("stars") == 1) == 0)
        #expect(throws: NetworkError.self) { try new.count(New.Note.self, where: Field("nope") == 1) }
        try new.transaction { transaction in
            try transaction.upsert(New.Note(id: 1, text: "a", stars: 1))
            try transaction.upsert(New.Note(id: 1, text: "a"))
            #expect(try transaction.fetch(New.Note.self, id: 1)?.stars == nil)
        }
    }

    @Test func processesOfBothVersionsLoseNoWrite() throws {
        let store = try ObjectStore(path: path)
        try store.insert(contentsOf: (0..<20).map { Old.Note(id: $0, text: "0") })
        let children = try ["old notes", "new notes", "old notes", "new notes"].map {
            try RoleProcess($0, [path], of: "StorageRoles")
        }
        for child in children {
            let (text, code) = child.finish()
            #expect(code == 0, "\(text)")
        }
        let notes = try ObjectStore(path: path).fetch(New.Note.self, where: \.id < 20, sortedBy: [.ascending(\.id)])
        // Each child process raised every number by ten: the old version in the texts, the new one in both fields.
        #expect(notes.map(\.text) == Array(repeating: "40", count: 20))
        #expect(notes.map(\.stars) == Array(repeating: 20, count: 20))
        #expect(try store.count(Old.Note.self) == 60)
    }

    /// The task of a child process: raises the numbers of twenty notes ten times, and inserts notes of its own.
    static func raiseNotes(_ path: String, areNew: Bool) throws {
        let store = try ObjectStore(path: path, busyTimeout: .seconds(60))
        for round in 0..<10 {
            for id in 0..<20 {
                try store.transaction { transaction in
                    if areNew {
                        guard var note = try transaction.fetch(New.Note.self, id: id) else { return }
                        note.text = String((Int(note.text) ?? 0) + 1)
                        note.stars = (note.stars ?? 0) + 1
                        try transaction.upsert(note)
                    } else {
                        guard var note = try transaction.fetch(Old.Note.self, id: id) else { return }
                        note.text = String((Int(note.text) ?? 0) + 1)
                        if id.isMultiple(of: 2) { try transaction.update(note) } else { try transaction.upsert(note) }
                    }
                }
            }
            let id = Int(getpid()) * 100 + round
            if areNew {
                try store.insert(New.Note(id: id, text: ""))
            } else {
                try store.insert(Old.Note(id: id, text: ""))
            }
        }
    }
}

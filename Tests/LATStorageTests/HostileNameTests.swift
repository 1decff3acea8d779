import Foundation
import HTTPCore
import LATStorage
import LATTesting
import TestSupport
import Testing

@Suite struct HostileNameTests {
    /// Names of types and fields, and values, are data whatever they contain.
    @Test func hostileNamesAndValuesRoundTrip() throws {
        for table in hostileTexts where !table.isEmpty {
            try Bag.$name.withValue(table) {
                let store = try ObjectStore.inMemory()
                // Column names are case-insensitive in A to Z.
                var fields: [String: String] = [:]
                for (index, name) in hostileTexts.enumerated() where name != "id" {
                    fields[name] = hostileTexts[(index + 3) % hostileTexts.count]
                }
                let bag = Bag(id: "1", fields: fields)
                try store.insert(bag)
                #expect(try store.fetch(Bag.self, id: "1") == bag)
                try store.upsert(Bag(id: "2", fields: fields))
                for (name, value) in fields {
                    #expect(try store.count(Bag.self, where: Field(name) == value) == 2)
                    #expect(try store.count(Bag.self, where: Field(name) != value) == 0)
                    #expect(try store.count(Bag.self, where: .in(Field(name), [value, "other"])) == 2)
                    let sorted = try store.fetch(
                        Bag.self, sortedBy: [.descending(Field(name)), .descending(Field("id"))])
                    #expect(sorted.map(\.id) == ["2", "1"])
                }
            }
        }
    }

    struct Nested: Codable, Identifiable, Sendable { var id: Int; var map: [String: String] }

    @Test func hostileMemberNamesAreFound() throws {
        let store = try ObjectStore.inMemory()
        let map = Dictionary(uniqueKeysWithValues: hostileTexts.map { ($0, $0 + "!") })
        try store.insert(contentsOf: [Nested(id: 1, map: map), Nested(id: 2, map: [:])])
        for name in hostileTexts {
            let place = Field("map", .name(name))
            #expect(try store.fetch(Nested.self, where: place == name + "!").map(\.id) == [1])
            #expect(try store.fetch(Nested.self, where: .isNil(place)).map(\.id) == [2])
        }
    }

    @Test func impossibleColumnNamesAreRefused() throws {
        let store = try ObjectStore.inMemory()
        for name in ["a\0b", "lat_id"] {
            let error = #expect(throws: NetworkError.self) { try store.insert(Bag(id: "1", fields: [name: ""])) }
            #expect(error?.storageFailure?.reason == .schema)
        }
        for name in ["", "a\0", "sqlite_master", "lat_store_responses"] {
            Bag.$name.withValue(name) {
                let error = #expect(throws: NetworkError.self) { try store.insert(Bag(id: "1", fields: [:])) }
                #expect(error?.storageFailure?.reason == .schema)
            }
        }
    }

    /// A store behaves like a dictionary, whatever the order of calls.
    @Test(arguments: [1, 2, 3] as [UInt64]) func storeBehavesLikeADictionary(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let directory = try TemporaryDirectory()
        var store = try ObjectStore(path: directory.path(of: "s"))
        var model: [String: Bag] = [:]
        for step in 0..<400 {
            let id = hostileTexts.randomElement(using: &random) ?? ""
            let bag = Bag(
                id: id, fields: ["f": "\(step)", hostileTexts.randomElement(using: &random) ?? "": "v'\(step)"])
            switch Int.random(in: 0..<7, using: &random) {
            case 0:
                if model[id] == nil {
                    model[id] = bag; try store.insert(bag)
                } else {
                    #expect(throws: NetworkError.self) { try store.insert(bag) }
                }
            case 1, 2:
                model[id] = bag
                try store.upsert(bag)
            case 3:
                if model[id] != nil {
                    model[id] = bag; try store.update(bag)
                } else {
                    #expect(throws: NetworkError.self) { try store.update(bag) }
                }
            case 4: #expect(try store.delete(Bag.self, id: id) == (model.removeValue(forKey: id) != nil))
            case 5:
                struct Undo: Error {}
                try? store.transaction { transaction in
                    try transaction.upsert(bag)
                    try transaction.delete(Bag.self, where: .all)
                    throw Undo()
                }
            default: store = try ObjectStore(path: store.path)
            }
            #expect(try store.fetch(Bag.self, id: id) == model[id])
        }
        #expect(Set(try store.fetch(Bag.self)) == Set(model.values))
    }
}

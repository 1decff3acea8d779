import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Testing

private struct Draft: Codable, Identifiable, Sendable, Equatable { var id: Int?; var text: String }

/// A type whose field with the encoded name `id` is not its id.
private struct Line: Codable, Identifiable, Sendable, Equatable {
    enum CodingKeys: String, CodingKey { case number, order = "id" }

    var number: Int
    var order: Int
    var id: Int { number }
}

private struct Team: Codable, Identifiable, Sendable {
    var id: Int
    var names: Set<String> = []
    var dates: [Date: Int]?
    var sizes: [String: Int] = [:]
}

private struct Pair: Codable, Identifiable, Sendable { var id: Set<String>; var text: String }

private struct Account: Codable, Identifiable, Sendable {
    struct Holder: Codable, Sendable, Equatable { var token: String; var balance: Decimal }

    var id: Int
    var holder: Holder
}

/// What keeps the row of one value apart from that of another.
@Suite struct IdentityTests {
    let store: ObjectStore

    init() throws { store = try ObjectStore.inMemory() }

    @Test func nilIsNoID() throws {
        try store.insert(Draft(id: 5, text: "a"))
        let draft = Draft(id: nil, text: "b")
        for write in [
            { try store.insert(draft) }, { try store.upsert(draft) }, { try store.update(draft) },
            { try ObjectStore.inMemory().insert(draft) },
        ] as [() throws -> Void] {
            let error = #expect(throws: NetworkError.self) { try write() }
            #expect(error?.storageFailure?.reason == .value && error?.message.contains("nil") == true)
        }
        #expect(try store.fetch(Draft.self) == [Draft(id: 5, text: "a")])
        #expect(try store.fetch(Draft.self, id: nil) == nil)
        #expect(try store.delete(Draft.self, id: nil) == false)
    }

    /// The first value makes the table, and its field `id` equals its id by chance.
    @Test func fieldThatIsNotTheIDReplacesNoRow() throws {
        try store.insert(Line(number: 1, order: 1))
        for write in [store.upsert, store.insert, store.update] as [(Line) throws -> Void] {
            let error = #expect(throws: NetworkError.self) { try write(Line(number: 2, order: 1)) }
            #expect(error?.storageFailure?.reason == .value && error?.message.contains("\"id\"") == true)
        }
        #expect(try store.fetch(Line.self) == [Line(number: 1, order: 1)])
    }

    /// The elements of a set are stored in an order that differs from process to process.
    @Test func valuesWithoutOrderAreNotCompared() throws {
        let names: Set = ["a", "b", "c"]
        let dates = [Date(): 1, Date() + 1: 2]
        try store.insert(Team(id: 1, names: names, dates: dates, sizes: ["a": 1, "b": 2]))
        #expect(try store.fetch(Team.self, id: 1)?.names == names)
        let conditions: [Condition<Team>] = [
            \.names == names, \.names != names, .in(\.names, [names]), \.dates == dates,
        ]
        for condition in conditions {
            let error = #expect(throws: NetworkError.self) { try store.count(Team.self, where: condition) }
            #expect(error?.storageFailure?.reason == .query && error?.message.contains("no order") == true)
        }
        #expect(try store.count(Team.self, where: \.sizes == ["b": 2, "a": 1] && \.dates != nil) == 1)
        let error = #expect(throws: NetworkError.self) { try store.insert(Pair(id: names, text: "")) }
        #expect(error?.storageFailure?.reason == .value)
    }

    @Test func errorsHaveNoValues() throws {
        let holder = Account.Holder(token: "SECRET", balance: .nan)
        for use in [
            { try store.insert(Account(id: 1, holder: holder)) },
            { _ = try store.count(Account.self, where: \.holder == holder) },
        ] as [() throws -> Void] {
            try store.upsert(Account(id: 2, holder: .init(token: "", balance: 1)))
            let error = #expect(throws: NetworkError.self) { try use() }
            #expect(error?.message.contains("NaN") == true && error?.message.contains("SECRET") == false)
        }
    }
}

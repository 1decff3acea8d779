import Foundation
import HTTPCore
import LATStorage
import LATTesting
import TestSupport
import Testing

/// Random operations on a store and on a dictionary, which must have the same rows after each of them.
@Suite struct ModelTests {
    struct Sample: Codable, Identifiable, Sendable, Hashable {
        enum Level: String, Codable, Sendable, CaseIterable { case low, high }

        let id: Int
        var text: String
        var note: String?
        var number: Int?
        var unsigned: UInt64?
        var real: Double?
        var isOpen: Bool?
        var date: Date?
        var data: Data?
        var level: Level?
        /// A row with one that does not encode is refused after the fields above were bound.
        var part: Part?
        var last: String?

        var isRefused: Bool { part.map { !$0.isEncodable } ?? false }
    }

    struct Part: Codable, Sendable, Hashable {
        var numbers: [Int]

        var isEncodable: Bool { !numbers.contains(13) }

        enum CodingKeys: CodingKey { case numbers }

        func encode(to encoder: any Encoder) throws {
            guard isEncodable else {
                throw EncodingError.invalidValue(
                    numbers, .init(codingPath: encoder.codingPath, debugDescription: "13 is refused"))
            }
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(numbers, forKey: .numbers)
        }
    }

    private struct Undo: Error {}

    private typealias Check = (Transaction, Model) throws -> Void

    /// The rows that the store must have, and the source of the operations.
    private struct Model {
        var rows: [Int: Sample] = [:]
        var random: SeededGenerator

        private mutating func maybe<Value>(_ value: @autoclosure () -> Value) -> Value? {
            Bool.random(using: &random) ? value() : nil
        }

        mutating func id() -> Int { .random(in: 0..<16, using: &random) }

        mutating func sample() -> Sample {
            let number = Int.random(in: -1_000...1_000, using: &random)
            var sample = Sample(id: id(), text: "text \(number)")
            sample.note = maybe("note \(number)")
            sample.number = maybe(number)
            sample.unsigned = maybe(.max - UInt64(number.magnitude))
            sample.real = maybe(Double(number) / 3)
            sample.isOpen = maybe(number > 0)
            sample.date = maybe(Date(timeIntervalSinceReferenceDate: Double(number) * 0.1))
            sample.data = maybe(Data("\(number)".utf8))
            sample.level = maybe(number > 0 ? .high : .low)
            sample.part = maybe(Part(numbers: number.isMultiple(of: 5) ? [1, 13] : [number]))
            sample.last = maybe("last \(number)")
            return sample
        }

        /// Writes values one after the other, and returns whether one of them is refused. A transaction keeps those before it.
        mutating func write(
            _ values: [Sample], keepsPart: Bool, ifPresent mayBePresent: Bool? = nil
        ) -> Bool {
            let before = rows
            for value in values {
                let isPresent = rows[value.id] != nil
                if value.isRefused || mayBePresent.map({ $0 != isPresent }) ?? false {
                    if !keepsPart { rows = before }
                    return true
                }
                rows[value.id] = value
            }
            return false
        }

        /// Applies one random operation to both.
        mutating func change(_ place: some ObjectAccess, isTransaction: Bool) throws {
            let values = (0..<Int.random(in: 1...4, using: &random)).map { _ in sample() }
            switch Int.random(in: 0..<8, using: &random) {
            case 0, 1:
                let isRefused = write([values[0]], keepsPart: isTransaction, ifPresent: false)
                try expect(isRefused) { try place.insert(values[0]) }
            case 2, 3:
                let isRefused = write(values, keepsPart: isTransaction, ifPresent: false)
                try expect(isRefused) { try place.insert(contentsOf: values) }
            case 4:
                let isRefused = write(values, keepsPart: isTransaction)
                try expect(isRefused) { try place.upsert(contentsOf: values) }
            case 5:
                let isRefused = write([values[0]], keepsPart: isTransaction, ifPresent: true)
                try expect(isRefused) { try place.update(values[0]) }
            case 6:
                let id = id()
                #expect(try place.delete(Sample.self, id: id) == (rows.removeValue(forKey: id) != nil))
            default:
                let id = id()
                #expect(try place.fetch(Sample.self, id: id) == rows[id])
                let limit = Int.random(in: -1_000...0, using: &random)
                let kept = rows.filter { !($0.value.number.map { $0 < limit } ?? false) }
                #expect(try place.delete(Sample.self, where: \.number < limit) == rows.count - kept.count)
                rows = kept
            }
        }

        private func expect(_ isRefused: Bool, _ body: () throws -> Void) throws {
            do {
                try body()
                #expect(!isRefused)
            } catch let error as NetworkError where isRefused {
                #expect([.duplicate, .missing, .value].contains(error.storageFailure?.reason))
            }
        }

        /// Applies operations in a transaction that is committed or rolled back, and in inner ones.
        mutating func change(inside transaction: Transaction, depth: Int, _ check: @escaping Check) throws {
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                try change(transaction, isTransaction: true)
                try check(transaction, self)
            }
            guard depth < 2, Bool.random(using: &random) else { return }
            try run(depth: depth, check) { try transaction.transaction($0) }
            try check(transaction, self)
        }

        mutating func run(
            depth: Int, _ check: @escaping Check,
            in transaction: ((Transaction) throws -> Void) throws -> Void
        ) throws {
            let before = rows
            let isUndone = Bool.random(using: &random)
            do {
                try transaction { transaction in
                    try change(inside: transaction, depth: depth + 1, check)
                    if isUndone { throw Undo() }
                }
            } catch is Undo {
                rows = before
            }
        }
    }

    /// One seed is always the same; the other one is new in each run, and a failure prints it.
    @Test(arguments: [43, UInt64.random(in: 1_000..<1_000_000)])
    func rowsEqualTheModelAfterEveryOperation(seed: UInt64) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "objects.sqlite")
        var store = try ObjectStore(path: path)
        var model = Model(random: SeededGenerator(seed: seed))
        for step in 0..<2_000 {
            func check(_ place: some ObjectAccess, _ model: Model) throws {
                let rows = try Dictionary(place.fetch(Sample.self).map { ($0.id, $0) }) { one, _ in one }
                try #require(rows == model.rows, "seed \(seed), operation \(step)")
            }
            switch Int.random(in: 0..<40, using: &model.random) {
            case 0:
                store.close()
                store = try ObjectStore(path: path)
            case 1..<8: try model.run(depth: 0, check) { try store.transaction($0) }
            default: try model.change(store, isTransaction: false)
            }
            try check(store, model)
        }
        try store.verify()
    }

    @Test func nilStaysNilAfterARefusedBatch() throws {
        let store = try ObjectStore.inMemory()
        try store.insert(Sample(id: 1, text: "one"))
        #expect(throws: NetworkError.self) {
            try store.insert(contentsOf: [
                Sample(id: 2, text: "two"),
                Sample(id: 1, text: "again", note: "of another row", last: "of another row"),
            ])
        }
        try store.insert(Sample(id: 3, text: "three"))
        #expect(try store.fetch(Sample.self, id: 3) == Sample(id: 3, text: "three"))
    }

    /// A value whose encoding stores another one of the same type.
    @Test func writeInsideAWriteKeepsBothRows() throws {
        let store = try ObjectStore.inMemory()
        try store.insert(Nested(id: 0, note: "zero"))
        try store.transaction { transaction in
            nonisolated(unsafe) let transaction = transaction
            try Nested.$inner.withValue(Nested.Inner { try transaction.insert(Nested(id: 2)) }) {
                try transaction.insert(contentsOf: [Nested(id: 1, note: "one"), Nested(id: 3, note: "three")])
            }
        }
        let rows = try store.fetch(Nested.self, sortedBy: [.ascending(\.id)])
        #expect(rows.map(\.note) == ["zero", "one", nil, "three"])
    }

    private struct Nested: Codable, Identifiable, Sendable {
        // Swift 6.3 finds no metadata of a bare closure in an optimized build.
        struct Inner { let write: @Sendable () throws -> Void }
        @TaskLocal static var inner: Inner?

        var id: Int
        var note: String?

        enum CodingKeys: CodingKey { case id, note }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            try container.encodeIfPresent(note, forKey: .note)
            // After the parameters were bound, and before the row is written.
            if id == 1 { try Self.inner?.write() }
        }
    }
}

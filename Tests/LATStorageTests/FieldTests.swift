import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Testing

/// The field that each key path leads to.
@Suite struct FieldTests {
    /// A condition on the property selects the same values as in Swift, whatever the number of rows.
    private func finds<Object: Storable, Value: Codable & Equatable & Sendable>(
        _ path: KeyPath<Object, Value> & Sendable, in objects: [Object],
        _ location: SourceLocation = #_sourceLocation
    ) where Object.ID: Codable & Sendable {
        for count in 0...objects.count {
            do {
                let store = try ObjectStore.inMemory()
                let stored = objects.prefix(count)
                try store.insert(contentsOf: stored)
                for object in objects {
                    let value = object[keyPath: path]
                    let found = try store.fetch(Object.self, where: path == value).map(\.id)
                    let expected = stored.filter { $0[keyPath: path] == value }.map(\.id)
                    #expect(Set(found) == Set(expected), sourceLocation: location)
                }
            } catch {
                Issue.record(error, sourceLocation: location)
            }
        }
    }

    private func refuses<Object: Storable, Value: Codable & Equatable & Sendable>(
        _ path: KeyPath<Object, Value> & Sendable, in objects: [Object],
        _ location: SourceLocation = #_sourceLocation
    ) throws where Object.ID: Codable & Sendable {
        let store = try ObjectStore.inMemory()
        try store.insert(contentsOf: objects)
        let error = #expect(throws: NetworkError.self, sourceLocation: location) {
            try store.fetch(Object.self, where: path == objects[0][keyPath: path])
        }
        #expect(error?.storageFailure?.reason == .query, sourceLocation: location)
        #expect(error?.message.contains("Field(\"name\")") == true, sourceLocation: location)
    }

    struct Numbers: Codable, Identifiable, Sendable {
        var id = 1
        var a = false, b = true, c = false, d: Bool? = true, e: Bool?
        var int8: Int8 = 1, int16: Int16 = 1, int32: Int32 = 1, int64: Int64 = 1, int = 1
        var uint8: UInt8 = 1, uint16: UInt16 = 1, uint32: UInt32 = 1, uint64: UInt64 = 1, uint: UInt = 1
        let float: Float
        let double: Double
        var maybe: Int8?
        var perhaps: UInt64?
    }

    @Test func numberFieldsOfEveryWidthAreFound() {
        let all = [
            Numbers(float: 0.5, double: 1),
            Numbers(
                id: 2, a: true, b: true, c: false, d: nil, e: false, int8: .min, int16: 2, int32: .max, int64: .min,
                int: 7, uint8: .max, uint16: 3, uint32: 4, uint64: .max, uint: .max, float: 2, double: 3, maybe: 1,
                perhaps: .max),
            Numbers(id: 3, a: true, b: false, c: true, d: false, e: true, float: 1, double: 1, maybe: 0, perhaps: 0),
        ]
        finds(\.id, in: all)
        finds(\.a, in: all)
        finds(\.b, in: all)
        finds(\.c, in: all)
        finds(\.d, in: all)
        finds(\.e, in: all)
        finds(\.int8, in: all)
        finds(\.int16, in: all)
        finds(\.int32, in: all)
        finds(\.int64, in: all)
        finds(\.int, in: all)
        finds(\.uint8, in: all)
        finds(\.uint16, in: all)
        finds(\.uint32, in: all)
        finds(\.uint64, in: all)
        finds(\.uint, in: all)
        finds(\.float, in: all)
        finds(\.double, in: all)
        finds(\.maybe, in: all)
        finds(\.perhaps, in: all)
    }

    @Test func foundationFieldsAreFound() throws {
        var (first, second, third) = (Everything(), Everything(), Everything())
        second.text = "text"
        second.decimal = 2
        second.date = .distantPast
        second.data = Data()
        second.url = try #require(URL(string: "https://example.org/"))
        second.other = first.id
        second.number = .one
        second.list = []
        second.map = [:]
        second.optionalText = ""
        second.optionalDate = first.date
        third.optionalNumber = .max
        third.optionalShape = .circle(radius: 1)
        third.shape = .none
        first.byte = 0
        let all = [first, second, third]
        finds(\.id, in: all)
        finds(\.text, in: all)
        finds(\.byte, in: all)
        finds(\.decimal, in: all)
        finds(\.date, in: all)
        finds(\.data, in: all)
        finds(\.url, in: all)
        finds(\.other, in: all)
        finds(\.number, in: all)
        finds(\.shape, in: all)
        finds(\.list, in: all)
        finds(\.map, in: all)
        finds(\.optionalText, in: all)
        finds(\.optionalNumber, in: all)
        finds(\.optionalDate, in: all)
        finds(\.optionalShape, in: all)
    }

    enum Level: String, Codable, Sendable { case low, high }
    enum Size: String, Codable, Sendable, CaseIterable { case small, large }
    enum Rank: Int, Codable, Sendable { case first = 1, last = 20 }
    enum Kind: Codable, Sendable { case good, bad }
    struct Enums: Codable, Identifiable, Sendable {
        var id = 1
        var level = Level.low, other = Level.low, size = Size.small, another = Size.small, rank = Rank.first
        var kind = Kind.good, maybe: Level?, perhaps: Size?
        var inner = Inner()
        struct Inner: Codable, Sendable, Hashable { var flag = true, level = Level.low, other = Level.low }
    }

    /// Enums with only one known case are found too.
    @Test func enumFieldsAreFound() throws {
        let all = [
            Enums(), Enums(id: 2),
            Enums(
                id: 3, level: .high, size: .large, rank: .last, kind: .bad, maybe: .low, perhaps: .large,
                inner: .init(flag: false, level: .high)),
            Enums(id: 4, other: .high, another: .large, maybe: .high, inner: .init(other: .high)),
        ]
        finds(\.level, in: all)
        finds(\.other, in: all)
        finds(\.size, in: all)
        finds(\.another, in: all)
        finds(\.rank, in: all)
        finds(\.kind, in: all)
        finds(\.maybe, in: all)
        finds(\.perhaps, in: all)
        finds(\.inner, in: all)
        finds(\.inner.flag, in: all)
        finds(\.inner.level, in: all)
        finds(\.inner.other, in: all)
        finds(\.size.rawValue, in: all)
    }

    struct Place: Codable, Identifiable, Sendable {
        struct Address: Codable, Sendable, Hashable {
            struct Point: Codable, Sendable, Hashable { var x: Double, y: Double, isExact: Bool }
            var city: String, isMain: Bool
            var point: Point?
            var tags: [String]
        }
        var id: Int, isMain: Bool, home: Address
        var work: Address?
        var tags: [String]
    }

    @Test func nestedMembersAreFound() {
        let point = Place.Address.Point(x: 1, y: 2, isExact: true)
        let all = [
            Place(id: 1, isMain: true, home: .init(city: "a", isMain: false, tags: []), tags: ["a"]),
            Place(
                id: 2, isMain: false, home: .init(city: "b", isMain: true, point: point, tags: ["a"]),
                work: .init(city: "a", isMain: false, point: point, tags: ["b"]), tags: []),
        ]
        finds(\.isMain, in: all)
        finds(\.home, in: all)
        finds(\.home.city, in: all)
        finds(\.home.isMain, in: all)
        finds(\.home.point, in: all)
        finds(\.home.point?.x, in: all)
        finds(\.home.point?.isExact, in: all)
        finds(\.home.tags, in: all)
        finds(\.work, in: all)
        finds(\.work?.city, in: all)
        finds(\.work?.isMain, in: all)
        finds(\.work?.point?.y, in: all)
        finds(\.tags, in: all)
    }

    struct Swapped: Codable, Identifiable, Sendable {
        enum CodingKeys: String, CodingKey { case id = "_id", a = "b", b = "a", level = "other", name = "full name" }
        var id: Int, a: Bool, b: Bool, level: Size, name: String
    }

    @Test func renamedFieldsAreFound() {
        let all = [
            Swapped(id: 1, a: true, b: false, level: .small, name: "x"),
            Swapped(id: 2, a: false, b: true, level: .large, name: "y"),
        ]
        finds(\.id, in: all)
        finds(\.a, in: all)
        finds(\.b, in: all)
        finds(\.level, in: all)
        finds(\.name, in: all)
    }

    class Animal: Codable, Identifiable, @unchecked Sendable {
        let id: Int
        var isTame = false
        let name: String
        init(_ id: Int, _ name: String) { (self.id, self.name) = (id, name) }
    }
    final class Dog: Animal, @unchecked Sendable {
        enum Keys: CodingKey { case tricks, isGood }
        let tricks: [String]
        let isGood: Bool
        init(_ id: Int, _ name: String, _ tricks: [String]) {
            (self.tricks, isGood) = (tricks, tricks.isEmpty)
            super.init(id, name)
        }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Keys.self)
            tricks = try container.decode([String].self, forKey: .tricks)
            isGood = try container.decode(Bool.self, forKey: .isGood)
            try super.init(from: decoder)
        }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Keys.self)
            try container.encode(tricks, forKey: .tricks)
            try container.encode(isGood, forKey: .isGood)
            try super.encode(to: encoder)
        }
    }

    @Test func classPropertiesAreFound() {
        let animals = [Animal(1, "a"), Animal(2, "b")]
        animals[1].isTame = true
        finds(\.id, in: animals)
        finds(\.isTame, in: animals)
        finds(\.name, in: animals)
        let dogs = [Dog(1, "a", []), Dog(2, "b", ["sit"])]
        finds(\.id, in: dogs)
        finds(\.name, in: dogs)
        finds(\.isTame, in: dogs)
        finds(\.isGood, in: dogs)
        finds(\.tricks, in: dogs)
    }

    @propertyWrapper struct Clamped: Codable, Sendable {
        var wrappedValue: Int
        init(wrappedValue: Int) { self.wrappedValue = wrappedValue }
        init(from decoder: any Decoder) throws {
            wrappedValue = try decoder.singleValueContainer().decode(Int.self)
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(wrappedValue)
        }
    }
    struct Watched: Codable, Identifiable, Sendable {
        var id: Int
        var text: String { didSet { id += 0 } }
        @Clamped var size: Int
        var range: Range<Int>
        var duration: Duration
        var any: JSONValue
    }

    @Test func wrappedAndObservedPropertiesAreFound() {
        let all = [
            Watched(id: 1, text: "a", size: 3, range: 0..<1, duration: .seconds(1), any: ["a": 1]),
            Watched(id: 2, text: "b", size: 4, range: 3..<9, duration: .zero, any: .null),
        ]
        finds(\.text, in: all)
        finds(\.size, in: all)
        finds(\.range, in: all)
        finds(\.duration, in: all)
        finds(\.any, in: all)
    }

    struct Strict: Codable, Identifiable, Sendable {
        struct Mail: Codable, Sendable, Hashable {
            var text: String
            init(_ text: String) { self.text = text }
            init(from decoder: any Decoder) throws {
                text = try decoder.singleValueContainer().decode(String.self)
                struct NoMail: Error {}
                if !text.contains("@") { throw NoMail() }
            }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(text)
            }
        }
        var id: Int, mail: Mail, first: Int, last: Int, isOpen: Bool, sum: Int

        init(_ id: Int, _ mail: String, _ first: Int, _ last: Int, _ isOpen: Bool) {
            (self.id, self.mail, self.first, self.last, self.isOpen) = (id, Mail(mail), first, last, isOpen)
            sum = 41
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            id = try container.decode(Int.self, forKey: .id)
            mail = try container.decode(Mail.self, forKey: .mail)
            first = try container.decode(Int.self, forKey: .first)
            last = try container.decode(Int.self, forKey: .last)
            isOpen = try container.decode(Bool.self, forKey: .isOpen)
            sum = try container.decode(Int.self, forKey: .sum)
            struct Wrong: Error {}
            if first > last || sum != 41 { throw Wrong() }
        }
    }

    @Test func fieldsOfValidatingTypesAreFound() {
        let all = [Strict(1, "a@b", 1, 9, true), Strict(2, "b@b", 2, 9, false), Strict(3, "a@b", 0, 100, true)]
        finds(\.id, in: all)
        finds(\.mail, in: all)
        finds(\.first, in: all)
        finds(\.last, in: all)
        finds(\.isOpen, in: all)
        finds(\.sum, in: all)
    }

    /// A part of a whole, or NaN.
    struct Share: Codable, Sendable, Hashable {
        var value: Double
        init(_ value: Double) { self.value = value }
        init(from decoder: any Decoder) throws {
            value = try decoder.singleValueContainer().decode(Double.self)
            struct NoShare: Error {}
            if !value.isNaN, !(0...1).contains(value) { throw NoShare() }
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(value)
        }
    }
    struct Sharing: Codable, Identifiable, Sendable {
        struct Part: Codable, Sendable, Hashable {
            enum CodingKeys: String, CodingKey { case label = "l", share = "s" }
            var label: String, share: Share
        }
        var id: Int, part: Part
    }
    struct Shares: Codable, Identifiable, Sendable { var id: Int, first: Share, second: Share }

    @Test func fieldsBesideNaNAreFound() {
        finds(
            \.part.label,
            in: [
                Sharing(id: 1, part: .init(label: "a", share: Share(.nan))),
                Sharing(id: 2, part: .init(label: "b", share: Share(0.5))),
            ])
        let all = [
            Shares(id: 1, first: Share(.nan), second: Share(.nan)),
            Shares(id: 2, first: Share(0.5), second: Share(.nan)),
        ]
        finds(\.first, in: all)
        finds(\.second, in: all)
    }

    struct Tree: Codable, Identifiable, Sendable, Equatable { var id: Int, name: String, children: [Tree] }
    struct Box<Content: Codable & Sendable & Equatable>: Codable, Identifiable, Sendable {
        var id: String
        var content: Content
    }

    @Test func fieldsOfRecursiveAndGenericTypesAreFound() {
        let tree = Tree(id: 1, name: "a", children: [])
        finds(\.name, in: [tree, Tree(id: 2, name: "b", children: [tree, tree])])
        finds(\.children, in: [tree, Tree(id: 2, name: "b", children: [tree, tree])])
        finds(\.content, in: [Box(id: "a", content: tree), Box(id: "b", content: Tree(id: 1, name: "", children: []))])
        finds(\.content.name, in: [Box(id: "a", content: tree)])
        finds(\.content, in: [Box(id: "a", content: Set([1])), Box(id: "b", content: [])])
        finds(\.content, in: [Box(id: "a", content: [1: "x"]), Box(id: "b", content: [:])])
    }

    struct Book: Codable, Identifiable, Sendable {
        var isbn: String, title: String
        var id: String { "isbn:" + isbn }
    }

    @Test func computedIDIsFound() {
        let books = [Book(isbn: "1", title: "a"), Book(isbn: "2", title: "a")]
        finds(\.id, in: books)
        finds(\.isbn, in: books)
        finds(\.title, in: books)
    }

    struct Computing: Codable, Identifiable, Sendable {
        enum CodingKeys: CodingKey { case id, name, nick, age, score, isOn, isPaid, tags, level }
        var id = 1, name = "Ada", nick: String?, age = 3, score = 2.0, isOn = true, isPaid = true, tags = ["a", "b"]
        var level = Level.low
        var cached = Level.low, kept = "Ada"
        var alias: String { name }
        var shout: String { name.uppercased() }
        var trimmed: String { name.trimmingCharacters(in: .whitespaces) }
        var shown: String { nick ?? name }
        var filled: String { name.isEmpty ? "none" : name }
        var count: Int { name.count }
        var twice: Int { age * 2 }
        var size: Int { abs(age) }
        var rounded: Double { score.rounded() }
        var isOff: Bool { !isOn }
        var isGood: Bool { isOn && isPaid }
        var isFree: Bool { isOn && !isPaid }
        var isUsed: Bool { isOn || nick != nil }
        var last: String? { tags.last }
        var levelOfAge: Level { age > 9 ? .high : .low }
    }

    @Test func unstoredPropertiesAreRefused() throws {
        let all = [Computing(), Computing(id: 2)]
        finds(\.alias, in: all)
        try refuses(\.shout, in: all)
        try refuses(\.trimmed, in: all)
        try refuses(\.shown, in: all)
        try refuses(\.filled, in: all)
        try refuses(\.count, in: all)
        try refuses(\.twice, in: all)
        try refuses(\.size, in: all)
        try refuses(\.rounded, in: all)
        try refuses(\.isOff, in: all)
        try refuses(\.isGood, in: all)
        try refuses(\.isFree, in: all)
        try refuses(\.isUsed, in: all)
        try refuses(\.last, in: all)
        try refuses(\.tags.count, in: all)
        try refuses(\.tags[0], in: all)
        try refuses(\.levelOfAge, in: all)
        try refuses(\.cached, in: all)
        try refuses(\.kept, in: all)
    }

    struct Shouting: Codable, Identifiable, Sendable {
        enum CodingKeys: CodingKey { case id, name, shout }
        var id: Int, name: String
        var shout: String { name.uppercased() }
        init(id: Int, name: String) { (self.id, self.name) = (id, name) }
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            (id, name) = (try container.decode(Int.self, forKey: .id), try container.decode(String.self, forKey: .name))
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            try container.encode(name, forKey: .name)
            try container.encode(shout, forKey: .shout)
        }
    }

    @Test func storedComputedPropertyIsFound() {
        finds(\.shout, in: [Shouting(id: 1, name: "a"), Shouting(id: 2, name: "b")])
    }
}

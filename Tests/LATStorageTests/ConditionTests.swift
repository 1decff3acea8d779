import Foundation
import HTTPCore
import LATStorage
import LATTesting
import TestSupport
import Testing

@Suite struct ConditionTests {
    let store: ObjectStore
    let users: [User]

    init() throws {
        store = try ObjectStore.inMemory()
        var random = SeededGenerator(seed: 4)
        let names = ["Ada", "ada", "Bo", "Ö", "", "a%b", "a_b", "ab"]
        users = (0..<60).map { id in
            User(
                id, names.randomElement(using: &random) ?? "", age: .random(in: 30...50, using: &random),
                nick: Bool.random(using: &random) ? nil : names.randomElement(using: &random),
                city: ["Turku", "Oulu", "a\"b.c"].randomElement(using: &random) ?? "",
                tags: ["x", "y"].shuffled(using: &random))
        }
        try store.insert(contentsOf: users)
    }

    private func check(
        _ condition: Condition<User>, _ model: (User) -> Bool, _ location: SourceLocation = #_sourceLocation
    ) throws {
        let found = try store.fetch(User.self, where: condition, sortedBy: [.ascending(\.id)])
        #expect(found == users.filter(model), sourceLocation: location)
        #expect(try store.count(User.self, where: condition) == found.count, sourceLocation: location)
    }

    @Test func longListsFindSingleValuesOfAJSONField() throws {
        struct Item: Codable, Identifiable, Sendable {
            var id: Int
            var any: JSONValue
        }
        try store.insert(contentsOf: [Item(id: 1, any: ["a": 1]), Item(id: 2, any: "n7"), Item(id: 3, any: 8)])
        let names = (0..<600).map { JSONValue.string("n\($0)") }
        #expect(try store.fetch(Item.self, where: \.any == "n7").map(\.id) == [2])
        #expect(try store.fetch(Item.self, where: .in(\.any, ["n7"])).map(\.id) == [2])
        #expect(try store.fetch(Item.self, where: .in(\.any, names)).map(\.id) == [2])
        #expect(try store.fetch(Item.self, where: .in(\.any, names + [8])).map(\.id) == [2, 3])
    }

    @Test func conditionThatIsTooDeepIsRefused() throws {
        func any(of count: Int) -> Condition<User> {
            (1..<count).reduce(\.id == 0) { condition, id in condition || \.id == id }
        }
        try check(any(of: 900)) { _ in true }
        let error = #expect(throws: NetworkError.self) { try store.count(User.self, where: any(of: 100_000)) }
        #expect(error?.storageFailure?.reason == .query && error?.message.contains(".in") == true)
    }

    @Test func comparisonsWithNaNMatchSwift() throws {
        struct Inner: Codable, Sendable { var value: Double }
        struct Sample: Codable, Identifiable, Sendable {
            var id: Int
            var value: Double
            var maybe: Float?
            var inner: Inner
        }
        let values: [Double] = [.nan, 1, 7, -.infinity, .infinity]
        let samples = values.enumerated().map { id, value in
            Sample(id: id, value: value, maybe: id == 1 ? nil : Float(value), inner: Inner(value: value))
        }
        try store.insert(contentsOf: samples)
        func check(_ condition: Condition<Sample>, _ model: (Sample) -> Bool, _ line: Int = #line) throws {
            let found = try store.fetch(Sample.self, where: condition, sortedBy: [.ascending(\.id)])
            #expect(found.map(\.id) == samples.filter(model).map(\.id), "line \(line)")
        }
        for limit in [5, .nan, -.infinity, .infinity] as [Double] {
            try check(\.value > limit) { $0.value > limit }
            try check(\.value >= limit) { $0.value >= limit }
            try check(\.value < limit) { $0.value < limit }
            try check(\.value <= limit) { $0.value <= limit }
            try check(\.value == limit) { $0.value == limit }
            try check(\.value != limit) { $0.value != limit }
            try check(!(\.value > limit)) { !($0.value > limit) }
            try check(.in(\.value, [limit])) { [limit].contains($0.value) }
            try check(\.maybe >= Float(limit)) { $0.maybe.map { $0 >= Float(limit) } ?? false }
            try check(\.maybe != Float(limit)) { $0.maybe != Float(limit) }
            try check(\.inner.value > limit) { $0.inner.value > limit }
            try check(\.inner.value >= limit) { $0.inner.value >= limit }
            try check(\.inner.value < limit) { $0.inner.value < limit }
            try check(\.inner.value <= limit) { $0.inner.value <= limit }
            try check(\.inner.value == limit) { $0.inner.value == limit }
            try check(\.inner.value != limit) { $0.inner.value != limit }
            try check(!(\.inner.value < limit)) { !($0.inner.value < limit) }
            try check(.in(\.inner.value, [limit])) { [limit].contains($0.inner.value) }
        }
        // With a whole number.
        try check(Field("value") > 5) { $0.value > 5 }
        try check(Field("inner", "value") > 5) { $0.inner.value > 5 }
        try check(Field("inner", "value") <= 7) { $0.inner.value <= 7 }
        try check(\.maybe == nil) { $0.maybe == nil }
        #expect(try store.maximum(of: \Sample.value, where: \.value < .infinity) == 7)
        #expect(try store.maximum(of: \Sample.value) == .infinity)
        #expect(try store.maximum(of: \Sample.value, where: \.id == 0) == nil)
        #expect(try store.average(of: \Sample.value, where: .in(\.id, [0, 1, 2])) == 4)
        #expect(try store.sum(of: \Sample.value, where: .in(\.id, [0, 1, 2])) == 8)
        #expect(try store.maximum(of: \Sample.inner.value) == .infinity)
        #expect(try store.minimum(of: \Sample.inner.value) == -.infinity)
        #expect(try store.maximum(of: \Sample.inner.value, where: \.id == 0) == nil)
        #expect(try store.average(of: \Sample.inner.value, where: .in(\.id, [0, 1, 2])) == 4)
    }

    @Test func comparisonsMatchSwift() throws {
        try check(\.age == 40) { $0.age == 40 }
        try check(\.age != 40) { $0.age != 40 }
        try check(\.age < 40) { $0.age < 40 }
        try check(\.age <= 40) { $0.age <= 40 }
        try check(\.age > 40) { $0.age > 40 }
        try check(\.age >= 40) { $0.age >= 40 }
        try check(\.name == "ada") { $0.name == "ada" }
        try check(\.isActive == true) { $0.isActive }
        try check(\.score >= 9.75) { $0.score >= 9.75 }
        try check(\.level == .high) { $0.level == .high }
        try check(\.born < Date(timeIntervalSinceReferenceDate: 2)) {
            $0.born < Date(timeIntervalSinceReferenceDate: 2)
        }
        try check(\.nick == nil) { $0.nick == nil }
        try check(\.nick != nil) { $0.nick != nil }
        try check(\.nick == "ab") { $0.nick == "ab" }
        try check(\.nick != "ab") { $0.nick != "ab" }
        try check(\.nick < "B") { $0.nick.map { $0 < "B" } ?? false }
        try check(!(\.nick < "B")) { !($0.nick.map { $0 < "B" } ?? false) }
        try check(.isNil(\.nick)) { $0.nick == nil }
        try check(.in(\.age, [31, 40, 40])) { [31, 40].contains($0.age) }
        try check(.in(\.age, [])) { _ in false }
        try check(.in(\.nick, ["ab", nil])) { ["ab", nil].contains($0.nick) }
        try check(.in(\.age, Array(35...45) + Array(1_000...2_000))) { (35...45).contains($0.age) }
        try check(.in(\.name, (0..<600).map { "n\($0)" } + ["Ö"])) { $0.name == "Ö" }
        try check(.like(\.name, "a%")) { $0.name.lowercased().hasPrefix("a") }
        try check(.like(\.name, #"a\%b"#)) { $0.name == "a%b" }
        try check(.like(\.nick, "a_b")) { ["a%b", "a_b"].contains($0.nick) }
        try check(.all) { _ in true }
    }

    @Test func conditionsReachIntoNestedValues() throws {
        try check(\.address.city == "Turku") { $0.address.city == "Turku" }
        try check(\.address.city == "a\"b.c") { $0.address.city == "a\"b.c" }
        try check(\.address.zip == nil) { $0.address.zip == nil }
        try check(\.address.zip > 20) { $0.address.zip.map { $0 > 20 } ?? false }
        try check(.in(\.address.zip, [nil, 4])) { [nil, 4].contains($0.address.zip) }
        try check(Field("address", "city") == "Oulu") { $0.address.city == "Oulu" }
        try check(Field("tags", 0) == "x") { $0.tags.first == "x" }
        try check(\.address == User.Address(city: "Turku", zip: 4)) { $0.address == .init(city: "Turku", zip: 4) }
        try check(.like(Field("address", "city"), "%u%")) { $0.address.city.contains("u") }
        #expect(throws: NetworkError.self) { try store.fetch(User.self, where: Field("name", "x") == 1) }
        #expect(throws: NetworkError.self) { try store.fetch(User.self, where: Field("nope") == 1) }
    }

    /// Random combinations of conditions select the same values as the same combinations of closures.
    @Test func randomCombinationsMatchSwift() throws {
        typealias Pair = (condition: Condition<User>, model: (User) -> Bool)
        var random = SeededGenerator(seed: 11)
        func leaf() -> Pair {
            let age = Int.random(in: 29...51, using: &random)
            let text = ["Ada", "ab", "a%b", "zz", "'", "x\"); --"].randomElement(using: &random) ?? ""
            switch Int.random(in: 0..<9, using: &random) {
            case 0: return (\.age < age, { $0.age < age })
            case 1: return (\.age >= age, { $0.age >= age })
            case 2: return (\.name == text, { $0.name == text })
            case 3: return (\.nick != text, { $0.nick != text })
            case 4:
                return (
                    \.nick > text,
                    {
                        $0.nick.map {
                            Array($0.utf8).lexicographicallyPrecedes(Array(text.utf8)) == false && $0 != text
                        } ?? false
                    }
                )
            case 5: return (.isNil(\.nick), { $0.nick == nil })
            case 6: return (.in(\.nick, [text, nil]), { $0.nick == nil || $0.nick == text })
            case 7: return (\.address.zip <= age, { $0.address.zip.map { $0 <= age } ?? false })
            default: return (\.level == .low, { $0.level == .low })
            }
        }
        func tree(_ depth: Int) -> Pair {
            if depth == 0 || Int.random(in: 0..<4, using: &random) == 0 { return leaf() }
            let (left, right) = (tree(depth - 1), tree(depth - 1))
            switch Int.random(in: 0..<3, using: &random) {
            case 0: return (left.condition && right.condition, { left.model($0) && right.model($0) })
            case 1: return (left.condition || right.condition, { left.model($0) || right.model($0) })
            default: return (!left.condition, { !left.model($0) })
            }
        }
        for _ in 0..<300 {
            let pair = tree(4)
            try check(pair.condition, pair.model)
        }
    }

    @Test func orderLimitAndOffsetMatchSwift() throws {
        let sorted = users.sorted { ($1.age, $0.id) < ($0.age, $1.id) }
        let query = Query<User>().sorted(by: .descending(\.age), .ascending(\.id))
        #expect(try store.fetch(query) == sorted)
        #expect(try store.fetch(query.limited(to: 7, offset: 5)) == Array(sorted[5..<12]))
        #expect(try store.fetch(User.self, sortedBy: query.order, offset: 55) == Array(sorted[55...]))
        #expect(try store.fetch(query.limited(to: 0)).isEmpty)
        #expect(try store.count(query.limited(to: 7, offset: 58)) == 2)
        var seen: [Int] = []
        try store.forEach(query) { seen.append($0.id) }
        #expect(seen == sorted.map(\.id))
    }

    @Test func aggregatesMatchSwift() throws {
        #expect(try store.minimum(of: \User.age) == users.map(\.age).min())
        #expect(
            try store.maximum(of: \User.nick)
                == users.compactMap(\.nick).max { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) })
        #expect(try store.maximum(of: \User.born) == users.map(\.born).max())
        #expect(try store.sum(of: \User.age, where: \.age > 40) == users.map(\.age).filter { $0 > 40 }.reduce(0, +))
        #expect(try store.sum(of: \User.address.zip) == users.compactMap(\.address.zip).reduce(0, +))
        let average = try #require(try store.average(of: \User.score))
        #expect(abs(average - users.map(\.score).reduce(0, +) / 60) < 1e-9)
        #expect(try store.minimum(of: \User.age, where: \.age > 99) == nil)
        #expect(try store.sum(of: \User.age, where: \.age > 99) == 0)
        #expect(try store.average(of: \User.age, where: \.age > 99) == nil)
    }

    struct Price: Codable, Identifiable, Sendable { var id: Int; var price: Decimal; var n: UInt64; var m: Int64 }

    @Test func decimalAndUnsignedArithmeticIsExact() throws {
        let prices = ["10", "9.5", "100000000000000000000.01", "-3", "0.1", "0.2", "2"].enumerated().map {
            Price(id: $0, price: Decimal(string: $1) ?? 0, n: $0 == 0 ? UInt64.max - 10 : 1, m: $0 < 2 ? .max : 0)
        }
        try store.insert(contentsOf: prices)
        let sorted = try store.fetch(Price.self, sortedBy: [.ascending(\.price)])
        #expect(sorted.map(\.price) == prices.map(\.price).sorted())
        #expect(try store.count(Price.self, where: \.price > 9) == 3)
        #expect(try store.maximum(of: \Price.price) == Decimal(string: "100000000000000000000.01"))
        #expect(try store.sum(of: \Price.price, where: \.price < 1) == Decimal(string: "-2.7"))
        #expect(try store.sum(of: \Price.n) == UInt64.max - 4)
        #expect(throws: NetworkError.self) { try store.sum(of: \Price.m) }
    }

    @Test func emptyStoreAnswersEveryQuery() throws {
        let store = try ObjectStore.inMemory()
        #expect(try store.fetch(User.self, where: \.age > 1 && \.address.city == "x").isEmpty)
        #expect(try store.count(User.self) == 0)
        #expect(try store.minimum(of: \User.age) == nil)
        #expect(try store.delete(User.self, where: \.age > 1) == 0)
    }
}

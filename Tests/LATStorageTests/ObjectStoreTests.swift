import Foundation
import HTTPCore
import LATStorage
import LATTesting
import SQLite
import Testing

@Suite struct ObjectStoreTests {
    let directory: TemporaryDirectory
    let store: ObjectStore

    init() throws {
        directory = try TemporaryDirectory()
        store = try ObjectStore(path: directory.path(of: "deep/er/objects.sqlite"))
    }

    @Test func insertedValueIsFetched() throws {
        let user = User(7, "Ada", nick: "a", tags: ["x", "y"])
        #expect(try store.fetch(User.self, id: 7) == nil)
        try store.insert(user)
        #expect(try store.fetch(User.self, id: 7) == user)
        #expect(try store.fetch(User.self, id: 8) == nil)
        #expect(try store.fetch(User.self) == [user])
        let again = try ObjectStore(path: store.path)
        #expect(try again.fetch(User.self, id: 7) == user)
    }

    @Test func filesAreReadableByTheOwnerOnly() throws {
        try store.insert(User(1, "a"))
        for name in ["", "-wal", "-shm"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: store.path + name)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600, "\(name)")
        }
    }

    @Test func duplicateIDIsRefused() throws {
        try store.insert(User(1, "first"))
        let error = #expect(throws: NetworkError.self) { try store.insert(contentsOf: [User(2), User(1, "second")]) }
        #expect(error?.kind == .storage)
        #expect(error?.storageFailure?.reason == .duplicate)
        #expect(error?.storageFailure?.sql?.hasPrefix("INSERT INTO \"User\"") == true)
        #expect(error?.message.contains("id \"1\"") == true)
        #expect(try store.fetch(User.self).map(\.name) == ["first"])
    }

    @Test func upsertUpdateAndDeleteAreApplied() throws {
        try store.upsert(User(1, "a"))
        try store.upsert(contentsOf: [User(1, "b", nick: "n"), User(2, "c")])
        #expect(try store.fetch(User.self, id: 1) == User(1, "b", nick: "n"))
        try store.update(User(1, "d"))
        #expect(try store.fetch(User.self, id: 1) == User(1, "d"))
        #expect(throws: NetworkError.self) { try store.update(User(9)) }
        #expect(try store.delete(User.self, id: 9) == false)
        #expect(try store.delete(User(1)))
        #expect(try store.delete(User.self, where: .all) == 1)
        #expect(try store.count(User.self) == 0)
    }

    @Test func everyKindOfFieldRoundTrips() throws {
        var value = Everything()
        try store.insert(value)
        #expect(try store.fetch(Everything.self, id: value.id) == value)
        value.text = "a\0b\0"
        value.small = .max
        value.large = .min
        value.unsigned = UInt64(Int64.max) + 1
        value.double = -.infinity
        value.float = .greatestFiniteMagnitude
        value.decimal = Decimal(string: "-0.00000000000000000001") ?? 0
        value.date = .distantPast
        value.data = Data()
        value.other = UUID()
        value.shape = .none
        value.optionalText = ""
        value.optionalNumber = .max
        value.optionalDate = .distantFuture
        value.optionalShape = .circle(radius: 2)
        try store.update(value)
        #expect(try store.fetch(Everything.self, id: value.id) == value)
        value.double = .nan
        try store.update(value)
        #expect(try store.fetch(Everything.self, id: value.id)?.double.isNaN == true)
    }

    @Test func numbersThatJSONLacksRoundTripInsideJSON() throws {
        struct Part: Codable, Sendable { var double: Double, float: Float, date: Date, list: [Double] }
        struct Outer: Codable, Identifiable, Sendable { var id: Int, part: Part }
        for (id, number) in [Double.nan, .infinity, -.infinity].enumerated() {
            let part = Part(
                double: number, float: Float(number), date: Date(timeIntervalSinceReferenceDate: number),
                list: [1, number])
            try store.insert(Outer(id: id, part: part))
            let found = try #require(try store.fetch(Outer.self, id: id)?.part)
            let numbers = [found.double, Double(found.float), found.date.timeIntervalSinceReferenceDate, found.list[1]]
            #expect(numbers.allSatisfy { number.isNaN ? $0.isNaN : $0 == number }, "\(numbers)")
        }
    }

    @Test func decimalThatIsNaNIsRefused() throws {
        struct Part: Codable, Sendable, Hashable { var amounts: [Decimal], text: String }
        struct Price: Codable, Identifiable, Sendable, Hashable { var id: Int, price: Decimal, part: Part? }
        for (name, value) in [
            ("price", Price(id: 1, price: .nan, part: nil)),
            ("part", Price(id: 1, price: 1, part: Part(amounts: [1, .nan], text: ""))),
        ] {
            let error = #expect(throws: NetworkError.self) { try store.insert(value) }
            #expect(error?.storageFailure?.reason == .value, "\(name)")
            #expect(error?.message.contains("field \"\(name)\"") == true && error?.message.contains("NaN") == true)
        }
        let value = Price(id: 1, price: 1, part: Part(amounts: [1], text: ":NaN"))
        try store.insert(value)
        #expect(try store.fetch(Price.self) == [value])
    }

    /// If such numbers were stored, they would be read back as texts.
    @Test func numbersThatJSONLacksAreRefusedInJSON() throws {
        struct Part: Codable, Sendable, Hashable { var list: [JSONValue] }
        struct Note: Codable, Identifiable, Sendable, Hashable { var id: Int, any: JSONValue = nil, part: Part? = nil }
        let (nan, infinite) = (JSONValue.double(.nan), JSONValue.double(.infinity))
        let values: [JSONValue] = [nan, [1, nan], ["a": ["b": nan]], ["a": infinite]]
        for value in values.map({ Note(id: 1, any: $0) }) + [Note(id: 1, part: Part(list: [nan]))] {
            let error = #expect(throws: NetworkError.self) { try store.insert(value) }
            #expect(error?.storageFailure?.reason == .value, "\(value)")
            let field = value.part == nil ? "any" : "part"
            #expect(error?.message.contains("field \"\(field)\"") == true && error?.message.contains("JSON") == true)
        }
        try store.insert(Note(id: 1, any: infinite))
        #expect(try store.fetch(Note.self).map(\.any) == [infinite])
    }

    @Test func anyJSONRoundTrips() throws {
        struct Note: Codable, Identifiable, Sendable, Hashable { var id: Int, any: JSONValue }
        let values: [JSONValue] = [["a": 1, "b": [nil, "x", 1.5]], ["x"], [:], "{\"a\":1}", "NaN", 7, true, nil]
        for (id, value) in values.enumerated() {
            try store.insert(Note(id: id, any: value))
            #expect(try store.fetch(Note.self, id: id)?.any == value)
        }
    }

    @Test func hugeAndEmptyValuesRoundTrip() throws {
        var value = Everything()
        value.data = Data(repeating: 7, count: 20_000_000)
        value.text = String(repeating: "ä", count: 1_000_000)
        try store.insert(value)
        #expect(try store.fetch(Everything.self, id: value.id) == value)
    }

    struct ByText: Codable, Identifiable, Sendable, Hashable { var id: String }
    struct ByUnsigned: Codable, Identifiable, Sendable, Hashable { var id: UInt64; var n = 0 }
    struct Key: RawRepresentable, Codable, Hashable, Sendable { var rawValue: String }
    struct ByRaw: Codable, Identifiable, Sendable, Hashable { var id: Key; var n: Int }
    struct Computed: Codable, Identifiable, Sendable, Hashable {
        var isbn: String
        var id: String { "isbn:" + isbn }
    }
    struct Renamed: Codable, Identifiable, Sendable, Hashable {
        enum CodingKeys: String, CodingKey { case id = "_id", title = "full_title", name = "title" }
        var id: Int
        var title: String
        var name: String
    }

    @Test func valuesAreFoundByIDsOfAnyType() throws {
        for text in hostileTexts + ["a\0b"] {
            try store.insert(ByText(id: text))
            #expect(try store.fetch(ByText.self, id: text) == ByText(id: text))
        }
        #expect(try store.count(ByText.self) == hostileTexts.count + 1)
        for number in [0, 1, UInt64(Int64.max), UInt64(Int64.max) + 1, .max] {
            try store.insert(ByUnsigned(id: number))
            try store.update(ByUnsigned(id: number, n: 1))
            #expect(try store.fetch(ByUnsigned.self, id: number)?.n == 1)
        }
        #expect(try store.fetch(ByUnsigned.self, sortedBy: [.descending(\.id)]).first?.id == .max)
        #expect(try store.count(ByUnsigned.self, where: \.id > UInt64(Int64.max)) == 2)
        try store.insert(ByRaw(id: Key(rawValue: "k"), n: 3))
        #expect(try store.fetch(ByRaw.self, id: Key(rawValue: "k"))?.n == 3)
        try store.upsert(Computed(isbn: "1"))
        try store.upsert(Computed(isbn: "1"))
        #expect(try store.fetch(Computed.self, id: "isbn:1") == Computed(isbn: "1"))
        #expect(try store.count(Computed.self) == 1)
        try store.insert(Renamed(id: 4, title: "t", name: "n"))
        #expect(try store.fetch(Renamed.self, where: \.id == 4).count == 1)
    }

    @Test func renamedFieldsAreFoundByTheirProperties() throws {
        try store.insert(contentsOf: [Renamed(id: 1, title: "a", name: "b"), Renamed(id: 2, title: "b", name: "a")])
        #expect(try store.fetch(Renamed.self, where: \.title == "a").map(\.id) == [1])
        #expect(try store.fetch(Renamed.self, where: \.name == "a").map(\.id) == [2])
        #expect(try store.fetch(Renamed.self, where: Field("full_title") == "b").map(\.id) == [2])
    }

    struct Derived: Codable, Identifiable, Sendable {
        var id: Int
        var name: String
        var shout: String { name.uppercased() }
        var alias: String { name }
    }

    @Test func onlyStoredPropertiesCanBeQueried() throws {
        try store.insert(Derived(id: 1, name: "ADA"))
        let error = #expect(throws: NetworkError.self) { try store.fetch(Derived.self, where: \.shout == "ADA") }
        #expect(error?.storageFailure?.reason == .query)
        #expect(error?.message.contains("Field(\"name\")") == true)
        #expect(try store.fetch(Derived.self, where: \.alias == "ADA").count == 1)
    }

    final class Node: Codable, Identifiable, Sendable {
        let id: Int
        let name: String
        init(id: Int, name: String) { (self.id, self.name) = (id, name) }
    }

    @Test func classInstancesAreStoredAndQueried() throws {
        try store.insert(Node(id: 1, name: "n"))
        #expect(try store.fetch(Node.self, id: 1)?.name == "n")
        #expect(try store.fetch(Node.self, where: \.name == "n").count == 1)
        #expect(try store.fetch(Node.self, where: Field("name") == "m").isEmpty)
    }

    struct Wrapped: Codable, Identifiable, Sendable {
        var id: Int
        init(id: Int) { self.id = id }
        init(from decoder: any Decoder) throws { id = try decoder.singleValueContainer().decode(Int.self) }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(id)
        }
    }

    @Test func typesWithoutFieldsAreRefused() throws {
        let error = #expect(throws: NetworkError.self) { try store.insert(Wrapped(id: 1)) }
        #expect(error?.storageFailure?.reason == .value)
    }

    enum Other { struct User: Codable, Identifiable, Sendable { var id: String } }

    @Test func typesOfTheSameNameConflict() throws {
        try store.insert(User(1))
        let error = #expect(throws: NetworkError.self) { try store.insert(Other.User(id: "x")) }
        #expect(error?.storageFailure?.reason == .schema)
        #expect(error?.message.contains("storedName") == true)
    }

    @Test func responsesAreStoredByKeyWithTheirTime() throws {
        let time = Date(timeIntervalSinceReferenceDate: 700_000_000.25)
        #expect(try store.response(forKey: "k") == nil)
        var headers = HTTPHeaders()
        headers.append("Set-Cookie", "a=1")
        headers.append("Set-Cookie", "b=2")
        let body = Data(#"{"n": [1]}"#.utf8)
        let response = HTTPResponse(status: 201, headers: headers, body: ResponseBody(body), url: "http://h/x")
        try store.keep(response, forKey: "k", at: time)
        let kept = try #require(try store.response(forKey: "k"))
        #expect(kept.time == time && kept.status == 201 && kept.url == "http://h/x" && kept.data == body)
        #expect(kept.headers.map(\.value) == ["a=1", "b=2"])
        #expect(try kept.json()["n"][0].int == 1)
        for text in hostileTexts { try store.keep(Data(text.utf8), forKey: "key:" + text, at: time + 10) }
        for text in hostileTexts { #expect(try store.response(forKey: "key:" + text)?.data == Data(text.utf8)) }
        #expect(try store.responseKeys(withPrefix: "key:").count == hostileTexts.count)
        try store.removeResponses(before: time + 5)
        #expect(try store.response(forKey: "k") == nil)
        try store.removeResponse(forKey: "key:'")
        #expect(try store.responseKeys().count == hostileTexts.count - 1)
        try store.removeResponses()
        #expect(try store.responseKeys().isEmpty)
    }

    @Test func damagedHeaderFieldsAreAnErrorOfTheStore() throws {
        try store.keep(Data("x".utf8), forKey: "k")
        let connection = try SQLiteConnection(path: store.path, mode: .creating, busyTimeout: .seconds(5))
        try connection.execute("UPDATE lat_store_responses SET headers = '[1'")
        let error = #expect(throws: NetworkError.self) { try store.response(forKey: "k") }
        #expect(error?.storageFailure?.reason == .value && error?.message.contains("\"k\"") == true)
    }
}

import Foundation
import HTTPCore
import LATStorage

struct User: Codable, Identifiable, Sendable, Hashable {
    struct Address: Codable, Sendable, Hashable {
        var city: String
        var zip: Int?
    }

    enum Level: String, Codable, Sendable { case low, high }

    let id: Int
    var name: String
    var age: Int
    var nick: String?
    var score: Double
    var isActive: Bool
    var level: Level
    var born: Date
    var address: Address
    var tags: [String]

    init(
        _ id: Int, _ name: String = "Ada", age: Int = 36, nick: String? = nil, city: String = "Turku",
        tags: [String] = []
    ) {
        self.id = id
        self.name = name
        self.age = age
        self.nick = nick
        score = Double(age) / 4
        isActive = age.isMultiple(of: 2)
        level = age > 40 ? .high : .low
        born = Date(timeIntervalSinceReferenceDate: Double(id) * 0.1)
        address = Address(city: city, zip: id.isMultiple(of: 3) ? nil : id)
        self.tags = tags
    }
}

/// A type with every kind of field.
struct Everything: Codable, Identifiable, Sendable, Hashable {
    enum Number: Int, Codable, Sendable { case one = 1, two }
    enum Shape: Codable, Sendable, Hashable {
        case circle(radius: Double)
        case none
    }

    var id: UUID
    var text: String
    var small: Int8
    var large: Int64
    var unsigned: UInt64
    var byte: UInt8
    var float: Float
    var double: Double
    var decimal: Decimal
    var date: Date
    var data: Data
    var url: URL
    var other: UUID?
    var number: Number
    var shape: Shape
    var list: [Date]
    var map: [String: [Int]]
    var optionalText: String?
    var optionalNumber: UInt64?
    var optionalDate: Date?
    var optionalShape: Shape?

    init(_ id: UUID = UUID()) {
        self.id = id
        text = ""
        small = .min
        large = .max
        unsigned = .max
        byte = .max
        float = 0.1
        double = 0.1 + 0.2
        decimal = Decimal(string: "12345678901234567890.123456789") ?? 0
        date = Date(timeIntervalSinceReferenceDate: 726_000_000.123456789)
        data = Data([0, 255, 10])
        url = URL(string: "https://example.org/a?b=c%20d#e") ?? URL(filePath: "/")
        other = nil
        number = .two
        shape = .circle(radius: 1.5)
        list = [Date(timeIntervalSinceReferenceDate: 0.3)]
        map = ["a\"b": [1, 2], "": []]
    }
}

/// Fields with any names, from a type with dynamic keys.
struct Bag: Codable, Identifiable, Sendable, Hashable, StoredType {
    @TaskLocal static var name = "Bag"
    static var storedName: String { name }

    struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    var id: String
    var fields: [String: String]

    init(id: String, fields: [String: String]) {
        self.id = id
        self.fields = fields
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        id = try container.decode(String.self, forKey: Key(stringValue: "id"))
        fields = [:]
        for key in container.allKeys where key.stringValue != "id" && key.stringValue != "lat_id" {
            fields[key.stringValue] = try container.decode(String.self, forKey: key)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(id, forKey: Key(stringValue: "id"))
        for (name, value) in fields { try container.encode(value, forKey: Key(stringValue: name)) }
    }
}

/// Texts that break careless string concatenation.
let hostileTexts = [
    "", " ", "'", "\"", "a\"b", "''", "\"\"", "x\"); DROP TABLE \"User\";--", "; --", "/*", "[a]", "`a`", "?1", ":a",
    "$x",
    "%", "_", "\\", "NULL", "rowid", "SELECT", "👩‍👩‍👧‍👦", "e\u{301}", "\u{FEFF}", "a\nb\tc", "\u{1}", "日本語",
    String(repeating: "q", count: 10_000), String(repeating: "\"👾", count: 2_500),
]

// Made by lat openapi import from Library API (library.yaml). Change the document or the overrides, and import again.
import LATNetworking

/// `POST /loans`.
struct Lend: RequestEntity, Encodable {
    typealias Model = [Event]
    static let route = Route(server: "library.lend")
    /// The body.
    var content: [Loan]

    var body: HTTPBody? { .json(content) }

    private enum CodingKeys: CodingKey {}
}

/// `GET /shelves`.
struct Shelves: RequestEntity {
    typealias Model = Shelf
    static let route = Route(server: "library.shelves")
}

/// `GET /rooms`.
struct Rooms: RequestEntity {
    typealias Model = Room
    static let route = Route(server: "library.rooms")
}

enum Event: Codable, Hashable, Sendable {
    case lent(Lent)
    case returned(Returned)
    /// What the document does not describe.
    case unknown(JSONValue)

    init(from decoder: any Decoder) throws {
        let members = try? decoder.container(keyedBy: JSONKey.self)
        switch try? members?.decode(String.self, forKey: .name("type")) {
        case "lent": self = .lent(try .init(from: decoder))
        case "returned": self = .returned(try .init(from: decoder))
        default: self = .unknown(try JSONValue(from: decoder))
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .lent(let value): try value.encode(to: encoder)
        case .returned(let value): try value.encode(to: encoder)
        case .unknown(let value): try value.encode(to: encoder)
        }
    }
}

struct Lent: Codable, Hashable, Sendable {
    var type = "lent"
    var book: String
    var due: Timestamp.Day
}

struct Loan: Codable, Hashable, Sendable {
    var book: String
    /// Default 14.
    var days: Int?
}

struct Returned: Codable, Hashable, Sendable {
    var type = "returned"
    var book: String
    var fine: Double?
}

struct Room: Codable, Hashable, Sendable {
    var place: RoomPlace?
    @Coding.Boxed var inner: Settable<Room> = .leftOut
    var rooms: [Room]?
    var visits: UInt64?
    var floor: RoomFloor?
    var `open`: RoomOpen?
    var keepers: [RoomKeeper]?
}

struct RoomFloor: KnownValues {
    var rawValue: String

    static let value1 = Self(rawValue: "1")
    static let value110 = Self(rawValue: "1.10")

    static let knownValues: [Self] = [value1, value110]
}

enum RoomKeeper: Codable, Hashable, Sendable {
    case person(RoomKeeperPerson)
    case branch(RoomKeeperBranch)
    /// What the document does not describe.
    case unknown(JSONValue)

    init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        switch value {
        case .object(let members) where members["phone"] != nil:
            self = .person(try .init(from: decoder))
        case .object(let members) where members["city"] != nil:
            self = .branch(try .init(from: decoder))
        default: self = .unknown(value)
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .person(let value): try value.encode(to: encoder)
        case .branch(let value): try value.encode(to: encoder)
        case .unknown(let value): try value.encode(to: encoder)
        }
    }
}

struct RoomKeeperBranch: Codable, Hashable, Sendable {
    var name: String?
    var city: String?
}

struct RoomKeeperPerson: Codable, Hashable, Sendable {
    var name: String?
    var phone: String?
}

struct RoomOpen: KnownValues {
    var rawValue: String

    static let `true` = Self(rawValue: "true")
    static let `false` = Self(rawValue: "false")

    static let knownValues: [Self] = [`true`, `false`]
}

struct RoomPlace: Codable, Hashable, Sendable {
    var row: Int?
    var shelf: String?
}

struct Shelf: Codable, Hashable, Sendable {
    var name: String
    @Coding.Boxed var parent: Shelf?
    var children: [Shelf]?
    var size: ShelfSize?
    var label: ShelfLabel?
    /// The members that the document does not name.
    var additional: [String: ShelfValue] = [:]

    private enum CodingKeys: String, CodingKey { case name, parent, children, size, label }

    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(self.name, forKey: .name)
        try members.encodeIfPresent(self.parent, forKey: .parent)
        try members.encodeIfPresent(self.children, forKey: .children)
        try members.encodeIfPresent(self.size, forKey: .size)
        try members.encodeIfPresent(self.label, forKey: .label)
        var others = encoder.container(keyedBy: JSONKey.self)
        for (name, value) in additional { try others.encode(value, forKey: .name(name)) }
    }
}

extension Shelf {
    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        self.name = try members.decode(String.self, forKey: .name)
        _parent = Coding.Boxed(wrappedValue: try members.decodeIfPresent(Shelf.self, forKey: .parent))
        self.children = try members.decodeIfPresent([Shelf].self, forKey: .children)
        self.size = try members.decodeIfPresent(ShelfSize.self, forKey: .size)
        self.label = try members.decodeIfPresent(ShelfLabel.self, forKey: .label)
        let others = try decoder.container(keyedBy: JSONKey.self)
        for name in others.allKeys where CodingKeys(stringValue: name.stringValue) == nil {
            additional[name.stringValue] = try others.decode(ShelfValue.self, forKey: name)
        }
    }
}

enum ShelfLabel: Codable, Hashable, Sendable {
    case text(String)
    case number(Int)
    /// What the document does not describe.
    case unknown(JSONValue)

    init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        switch value {
        case .string:
            self = .text(try .init(from: decoder))
        case .int:
            self = .number(try .init(from: decoder))
        default: self = .unknown(value)
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .text(let value): try value.encode(to: encoder)
        case .number(let value): try value.encode(to: encoder)
        case .unknown(let value): try value.encode(to: encoder)
        }
    }
}

enum ShelfSize: Codable, Hashable, Sendable {
    case round(ShelfSizeRound)
    case square(ShelfSizeSquare)
    /// What the document does not describe.
    case unknown(JSONValue)

    init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        switch value {
        case .object(let members) where members["radius"] != nil:
            self = .round(try .init(from: decoder))
        case .object(let members) where members["width"] != nil:
            self = .square(try .init(from: decoder))
        default: self = .unknown(value)
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .round(let value): try value.encode(to: encoder)
        case .square(let value): try value.encode(to: encoder)
        case .unknown(let value): try value.encode(to: encoder)
        }
    }
}

struct ShelfSizeRound: Codable, Hashable, Sendable {
    var radius: Double
}

struct ShelfSizeSquare: Codable, Hashable, Sendable {
    var width: Double
}

enum ShelfValue: Codable, Hashable, Sendable {
    case text(String)
    case number(Double)
    /// What the document does not describe.
    case unknown(JSONValue)

    init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        switch value {
        case .string:
            self = .text(try .init(from: decoder))
        case .int, .double, .decimal:
            self = .number(try .init(from: decoder))
        default: self = .unknown(value)
        }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .text(let value): try value.encode(to: encoder)
        case .number(let value): try value.encode(to: encoder)
        case .unknown(let value): try value.encode(to: encoder)
        }
    }
}

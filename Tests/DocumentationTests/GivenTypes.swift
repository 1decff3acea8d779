import FoundationEssentials
import LATNetworking
import ResponseCache

// Types that samples use without declaring them.

struct User: Codable, Identifiable, Sendable {
    struct Address: Codable, Sendable {
        var city = "Turku"
    }

    var id: Int
    var name: String
    var age: Int
    var nick: String?
    var address = Address()
}

struct Order: Codable, Identifiable, Sendable {
    var id: Int { number }
    var number: Int
}

struct Invoice: Codable, Sendable {
    var number: Int
}

struct Page: Codable, Sendable {
    var next: String?
}

actor Tokens {
    var current: String { "secret" }
}

struct FetchUser: RequestEntity, Encodable {
    typealias Model = User
    static let route = Route("GET", server: "user.detail")
    var id: Int
}

struct FetchPrice: RequestEntity, Encodable {
    typealias Model = Price
    static let route = Route("GET", url: "https://api.example.org/prices/{id}")
    var id: Int
}

struct Price: Codable, Sendable {
    var cents: Int
}

struct FetchLog: RequestEntity, Encodable {
    static let route = Route("GET", server: "log")
    var day: Int
}

struct FetchReport: RequestEntity, Encodable {
    static let route = Route("GET", server: "report")
    var year: Int
}

struct SavePhotos: RequestEntity {
    static let route = Route("POST", server: "photo.save")
    var files: [UploadFile]
}

actor Session {
    init(token: String) {}
    func renew() async throws {}
}

/// Any client of a server that a test starts.
struct Client: Sendable {
    func get(_ url: String) async throws -> HTTPResponse { try await manager.startRequest("GET", url) }
}

typealias MyStore = MemoryStore

struct Profile: Codable, Sendable {}

struct Draft: Codable, Identifiable, Sendable {
    var id: Int
}

struct SignIn: RequestEntity {
    struct Model: Decodable, Sendable {
        var userID: Int
    }
    static let route = Route("POST", server: "sign.in")
}

struct FetchAvatar: RequestEntity {
    typealias Model = Data
    static let route = Route("GET", server: "avatar")
    init(of user: User) {}
}

struct FetchPage: RequestEntity {
    struct Model: Decodable, Sendable {
        var number: Int
        var hasNext: Bool
    }
    static let route = Route("GET", server: "page")
    init(_ number: Int) {}
}

struct RenewToken: RequestEntity {
    struct Model: Decodable, Sendable {
        var token: String
    }
    static let route = Route("POST", server: "token")
}

/// The price of something, as one of several sources says.
struct Quote: Sendable { var isCurrent = true }

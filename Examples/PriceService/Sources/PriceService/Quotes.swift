import LATNetworking

// Distributed calls: one type for each call to an upstream. It says what is sent and what comes back; where it goes
// is a row of Config/domains.json5, whose names the build plugin checks.

struct NorthQuote: RequestEntity, Encodable {
    struct Model: Decodable, Sendable {
        var euros: Double
    }
    static let route = Route("GET", server: .northQuote)
    var symbol: String
}

struct SouthQuote: RequestEntity, Encodable {
    struct Model: Decodable, Sendable {
        var last: Double
    }
    static let route = Route("GET", server: .southQuote)
    var symbol: String
}

struct EuroRate: RequestEntity {
    struct Model: Decodable, Sendable {
        var dollars: Double
    }
    static let route = Route("GET", server: .ratesEuro)
}

import FoundationEssentials
import LATNetworking
import Testing

/// One case of how a private cache has to behave: exchanges in order, each with what the server answers and what is
/// expected. The cases are those that the public suite of HTTP caching asks of browsers, retold.
struct ConformanceCase: Sendable, CustomTestStringConvertible {
    enum Kind: String, Sendable {
        /// RFC 9111 requires it.
        case required
        /// A good cache does it.
        case optimal
    }

    let id: String
    let kind: Kind
    let exchanges: [Exchange]

    var testDescription: String { id }

    static func required(_ id: String, _ exchanges: Exchange...) -> ConformanceCase {
        ConformanceCase(id: id, kind: .required, exchanges: exchanges)
    }

    static func optimal(_ id: String, _ exchanges: Exchange...) -> ConformanceCase {
        ConformanceCase(id: id, kind: .optimal, exchanges: exchanges)
    }
}

/// A field of a request or an answer; a date is given as seconds from now.
struct CaseField: Sendable {
    let name: String
    let text: String?
    let seconds: Int?
    /// Whether the date is written in the form of RFC 850.
    var isRFC850 = false

    init(_ name: String, _ text: String) {
        self.name = name
        self.text = text
        seconds = nil
    }

    init(_ name: String, _ seconds: Int) {
        self.name = name
        self.seconds = seconds
        text = nil
    }

    static func rfc850(_ name: String, _ seconds: Int) -> CaseField {
        var field = CaseField(name, seconds)
        field.isRFC850 = true
        return field
    }
}

/// One exchange.
struct Exchange: Sendable {
    enum Expectation: Sendable {
        /// The answer comes from the cache.
        case cached
        /// It comes from the server.
        case notCached
        /// The server is asked with `If-None-Match`, and its 304 accepted.
        case etagValidated
        /// The same with `If-Modified-Since`.
        case lastModifiedValidated
        /// No answer of the cache, and none of the server: an error.
        case fails
    }

    var method = "GET"
    var requestFields: [CaseField] = []
    var path = ""
    var status = 200
    var fields: [CaseField] = []
    var body: String?
    var isDisconnected = false
    var interimStatus: Int?
    var seconds = 0.0
    var expectation: Expectation?
    var expectedStatus: Int?
    var expectedText: String?
    var expectedFields: [(String, String)] = []
    var missingFields: [String] = []
    var expectedRequestFields: [(String, String)] = []
    /// The least that `Age` may be.
    var minimumAge: Int?
    /// Whether `Location` and `Content-Location` are paths below the case's own.
    var hasOwnLocations = false

    // MARK: Building

    /// An exchange that the server answers with these fields.
    static func get(_ fields: CaseField..., status: Int = 200, body: String? = nil) -> Exchange {
        Exchange(status: status, fields: fields, body: body)
    }

    /// A fresh answer.
    static func fresh(_ fields: CaseField..., status: Int = 200, body: String? = nil) -> Exchange {
        let standard = [CaseField("Expires", 100_000), .init("Cache-Control", "max-age=100000")]
        let dates = [CaseField("Last-Modified", 0), .init("Date", 0)]
        return Exchange(status: status, fields: fields + standard + dates, body: body, seconds: 3)
    }

    /// An answer that is stale from the start.
    static func stale(status: Int = 200, body: String? = nil) -> Exchange {
        let fields = [CaseField("Expires", -5_000), .init("Last-Modified", -100_000), .init("Date", 0)]
        return Exchange(status: status, fields: fields, body: body)
    }

    /// An answer that is stale by the time of the next exchange.
    static func becomesStale(_ fields: CaseField...) -> Exchange {
        Exchange(
            fields: fields + [CaseField("Cache-Control", "max-age=2"), .init("Template-A", "1")], seconds: 3)
    }

    /// The same, asked with these fields.
    func asked(_ fields: CaseField...) -> Exchange { with { $0.requestFields += fields } }
    /// The same, answered with these fields too.
    func with(_ fields: CaseField...) -> Exchange { with { $0.fields += fields } }
    /// The same, after interim answers of this status.
    func after(interim status: Int) -> Exchange { with { $0.interimStatus = status } }
    func method(_ method: String) -> Exchange { with { $0.method = method } }
    func at(_ path: String) -> Exchange { with { $0.path = path } }
    /// The same, and then some time passes.
    func then(wait seconds: Double = 3) -> Exchange { with { $0.seconds = seconds } }
    func expect(_ expectation: Expectation) -> Exchange { with { $0.expectation = expectation } }
    func expect(status: Int) -> Exchange { with { $0.expectedStatus = status } }
    func expect(text: String) -> Exchange { with { $0.expectedText = text } }
    func expect(_ name: String, _ value: String) -> Exchange { with { $0.expectedFields.append((name, value)) } }
    func expect(missing name: String) -> Exchange { with { $0.missingFields.append(name) } }
    func expect(asked name: String, _ value: String) -> Exchange {
        with { $0.expectedRequestFields.append((name, value)) }
    }
    func expect(ageAtLeast seconds: Int) -> Exchange { with { $0.minimumAge = seconds } }
    func disconnecting() -> Exchange { with { $0.isDisconnected = true } }
    func withOwnLocations() -> Exchange { with { $0.hasOwnLocations = true } }

    private func with(_ change: (inout Exchange) -> Void) -> Exchange {
        var copy = self
        change(&copy)
        return copy
    }
}

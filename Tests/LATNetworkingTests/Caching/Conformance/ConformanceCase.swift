import FoundationEssentials
import LATNetworking
import Testing

/// One conformance case: a sequence of exchanges, each with the server's response and what is expected of the cache.
/// The cases are adapted from the public HTTP caching tests for browsers.
struct ConformanceCase: Sendable, CustomTestStringConvertible {
    enum Kind: String, Sendable {
        /// Required by RFC 9111.
        case required
        /// Expected of a good cache, but not required.
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

/// A header field of a request or response. A date is given in seconds from now.
struct CaseField: Sendable {
    let name: String
    let text: String?
    let seconds: Int?
    /// Whether the date is in the RFC 850 format.
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

/// One request with its response.
struct Exchange: Sendable {
    enum Expectation: Sendable {
        /// The response comes from the cache.
        case cached
        /// The response comes from the server.
        case notCached
        /// The request is sent with `If-None-Match`, and the 304 is accepted.
        case etagValidated
        /// The request is sent with `If-Modified-Since`, and the 304 is accepted.
        case lastModifiedValidated
        /// Neither the cache nor the server responds, so the call fails.
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
    /// The lowest expected `Age`, in seconds.
    var minimumAge: Int?
    /// Whether the values of `Location` and `Content-Location` are below the case's own path.
    var hasOwnLocations = false

    // MARK: Building

    /// Returns an exchange whose response has these fields.
    static func get(_ fields: CaseField..., status: Int = 200, body: String? = nil) -> Exchange {
        Exchange(status: status, fields: fields, body: body)
    }

    /// Returns an exchange with a fresh response.
    static func fresh(_ fields: CaseField..., status: Int = 200, body: String? = nil) -> Exchange {
        let standard = [CaseField("Expires", 100_000), .init("Cache-Control", "max-age=100000")]
        let dates = [CaseField("Last-Modified", 0), .init("Date", 0)]
        return Exchange(status: status, fields: fields + standard + dates, body: body, seconds: 3)
    }

    /// Returns an exchange whose response is stale from the start.
    static func stale(status: Int = 200, body: String? = nil) -> Exchange {
        let fields = [CaseField("Expires", -5_000), .init("Last-Modified", -100_000), .init("Date", 0)]
        return Exchange(status: status, fields: fields, body: body)
    }

    /// Returns an exchange whose response is stale by the next exchange.
    static func becomesStale(_ fields: CaseField...) -> Exchange {
        Exchange(
            fields: fields + [CaseField("Cache-Control", "max-age=2"), .init("Template-A", "1")], seconds: 3)
    }

    /// Adds fields to the request.
    func asked(_ fields: CaseField...) -> Exchange { with { $0.requestFields += fields } }
    /// Adds fields to the response.
    func with(_ fields: CaseField...) -> Exchange { with { $0.fields += fields } }
    /// Adds an interim response with this status.
    func after(interim status: Int) -> Exchange { with { $0.interimStatus = status } }
    func method(_ method: String) -> Exchange { with { $0.method = method } }
    func at(_ path: String) -> Exchange { with { $0.path = path } }
    /// Adds a wait after the exchange.
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

import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

extension DomainTable {
    /// Returns a table with one domain, `d`, and the given JSON5 in its rows.
    static func make(
        _ baseURL: String, domain: String = "", servers: String = "", defaults: String = ""
    ) throws -> DomainTable {
        try DomainTable(json5: text(baseURL, domain: domain, servers: servers, defaults: defaults), environment: nil)
    }

    static func text(
        _ baseURL: String, domain: String = "", servers: String = "", defaults: String = ""
    ) -> String {
        """
        {
          defaults: { \(defaults) },
          domains: { d: { baseURL: "\(baseURL)", \(domain) } },
          servers: { \(servers) },
        }
        """
    }
}

extension CentralRequestManager {
    /// Returns a manager with a table and changed settings.
    static func make(
        _ table: DomainTable, _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try make {
            $0.domains = table
            change(&$0)
        }
    }
}

/// An entity for `GET` of the path `x` of the domain `d`, with any model.
struct Get<Model: Decodable & Sendable>: RequestEntity {
    static var route: Route { Route("GET", domain: "d", path: "x") }
}

/// An entity of the server row `s`, with the row's method and path.
struct Row: RequestEntity {
    static let route = Route(server: "s")
    var parameters: Parameters?
    var files: [UploadFile] = []
    var options = RequestOptions()

    init(_ parameters: Parameters? = nil) { self.parameters = parameters }
}

extension MockServer {
    /// Returns a server that responds to every request with this JSON text.
    static func answering(_ text: String = "{}", port: Int = 0) throws -> MockServer {
        try MockServer(port: port) { _ in .json(text) }
    }
}

extension RecordedRequest {
    var json: JSONValue? { try? JSONValue(parsing: body) }
}

/// A thread-safe counter that starts at 1.
final class Counter: Sendable {
    private let numbers = Log<Int>()

    var value: Int { numbers.count }

    @discardableResult
    func next() -> Int {
        numbers.append(0)
        return numbers.count
    }
}

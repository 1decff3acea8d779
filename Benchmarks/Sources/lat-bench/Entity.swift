import BenchmarkSupport
import LATNetworking

/// Makes the manager for modes `entity` and `entity-text`. The URL without its last component is the domain's base URL.
func entityManager(_ arguments: Arguments) throws -> CentralRequestManager {
    guard let slash = arguments.url.lastIndex(of: "/") else { throw Failure("\(arguments.url): no path") }
    var configuration = CentralRequestManager.Configuration()
    configuration.maxConnectionsPerHost = arguments.inFlight
    configuration.domains = try DomainTable(
        json5: """
            {
              defaults: { timeout: "60s", connectTimeout: "10s", maxConnectionsPerHost: \(arguments.inFlight) },
              domains: { files: { baseURL: "\(arguments.url[..<slash])", headers: { "X-App": "bench" } } },
              servers: { "document.read": { domain: "files", path: "{name}", method: "GET" } },
            }
            """)
    configuration.headerProvider = { _ in ["User-Agent": "lat-bench/1", "Authorization": "Bearer 0123456789abcdef"] }
    return try CentralRequestManager(configuration: configuration)
}

/// Mode `entity`: the last component of the URL is the parameter of the row's path.
func entity(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let name = arguments.url.split(separator: "/").last.map(String.init) ?? ""
    try await measure(arguments) { _ in
        let document = try await ReadDocument(name: name).startRequest(on: manager)
        guard document.id == 42, document.comments.count == 3 else {
            throw Failure("\(arguments.url): this is not the expected document")
        }
    }
}

/// Mode `entity-text`: like `entity`, with a document of few members that is mostly one text.
func entityText(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let name = arguments.url.split(separator: "/").last.map(String.init) ?? ""
    try await measure(arguments) { _ in
        let text = try await ReadText(name: name).startRequest(on: manager)
        guard text.id == 42, text.text.utf8.count > 900 else {
            throw Failure("\(arguments.url): this is not the expected document")
        }
    }
}

private struct ReadText: RequestEntity, Encodable {
    typealias Model = Text
    static let route = Route(server: "document.read")
    var name: String
}

/// All of `1k-text.json`.
struct Text: Decodable, Sendable {
    var id: Int
    var title: String
    var text: String
}

private struct ReadDocument: RequestEntity, Encodable {
    typealias Model = Document
    static let route = Route(server: "document.read")
    var name: String
}

/// All of `1k.json`.
private struct Document: Decodable, Sendable {
    struct Author: Decodable {
        var id: Int
        var name: String
        var city: String
    }

    struct Comment: Decodable {
        var id: Int
        var name: String
        var text: String
    }

    var id: Int
    var title: String
    var published: Bool
    var rating: Double
    var views: Int
    var author: Author
    var tags: [String]
    var comments: [Comment]
    var text: String
}

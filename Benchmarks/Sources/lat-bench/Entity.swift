import BenchmarkSupport
import LATNetworking

/// Mode `entity`: the URL's last component is the parameter of a row's path, the rest its domain.
func entity(_ arguments: Arguments) async throws {
    guard let slash = arguments.url.lastIndex(of: "/") else { throw Failure("\(arguments.url): no path") }
    let name = String(arguments.url[arguments.url.index(after: slash)...])
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
    let manager = try CentralRequestManager(configuration: configuration)
    let read: @Sendable () async throws -> Void = {
        let document = try await ReadDocument(name: name).startRequest(on: manager)
        guard document.id == 42, document.comments.count == 3 else {
            throw Failure("\(arguments.url): another document")
        }
    }
    if arguments.warmup > 0 { _ = try await repeating(arguments.warmup, tasks: arguments.inFlight, read) }
    let measurement = Measurement("lat", arguments)
    let latencies = try await repeating(arguments.requests, tasks: arguments.inFlight, read)
    measurement.finish(latencies: latencies)
    await manager.shutdown()
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

import Foundation
import LATNetworking
import LATStorage
import LATTesting

struct Book: Codable, Identifiable, Sendable {
    var id: Int
    var title: String
    var year: Int
    var tags: [String]
}

struct FetchBooks: RequestEntity, Encodable {
    typealias Model = [Book]
    static let route = Route("GET", domain: "library", path: "books")
    var page: Int
}

/// Fetches a list, stores it, and uses the stored one when the server is gone. Run it in this folder with
/// `swift run OfflineList`. It starts its own server, so it needs no network.
@main
struct OfflineList {
    static func main() async throws {
        let folder = try TemporaryDirectory()
        let store = try ObjectStore(path: folder.path(of: "books.sqlite"))
        let manager: CentralRequestManager
        do {
            let server = try MockServer()
            server.enqueue(
                .json(
                    """
                    [{"id": 1, "title": "Kalevala", "year": 1835, "tags": ["epic", "finnish"]},
                     {"id": 2, "title": "Seitsemän veljestä", "year": 1870, "tags": ["novel"]},
                     {"id": 3, "title": "Tuntematon sotilas", "year": 1954, "tags": ["novel", "war"]}]
                    """))
            var configuration = CentralRequestManager.Configuration()
            configuration.domains = try DomainTable(
                json5: "{ domains: { library: { baseURL: \"\(server.url("/"))\" } } }")
            manager = try CentralRequestManager(configuration: configuration)
            let books = try await list(on: manager, store)
            print("online:  \(books.map(\.title).joined(separator: ", "))")
        }

        // The server is gone. The stored list remains, and any query works.
        let books = try await list(on: manager, store)
        print("offline: \(books.map(\.title).joined(separator: ", "))")
        let novels = try store.fetch(
            Book.self, where: \.year > 1850 && Field("tags", 0) == "novel", sortedBy: [.descending(\.year)])
        print("novels after 1850: \(novels.map { "\($0.title) (\($0.year))" }.joined(separator: ", "))")
        print("oldest: \(try store.minimum(of: \Book.year) ?? 0)")
        await manager.shutdown()
    }

    /// The list from the network, else the one stored last.
    static func list(on manager: CentralRequestManager, _ store: ObjectStore) async throws -> [Book] {
        do {
            let books = try await FetchBooks(page: 1).startRequest(on: manager)
            try await store.run { try $0.upsert(contentsOf: books) }
        } catch let error as NetworkError where error.kind == .connect {
            print("no connection: showing the stored list")
        }
        return try await store.run { try $0.fetch(Book.self, sortedBy: [.ascending(\.year)]) }
    }
}

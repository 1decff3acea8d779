import LATNetworking
import LATTesting

/// Calls an API by what `lat openapi import library.yaml --all --examples Fixtures` has made: rows, types and example replies.
@main struct BookClient {
    static func main() async throws {
        // The examples of the document are the server. Its routes could also be written by hand, or be the real server.
        let server = try MockServer()
        try server.route(fixtures: "Fixtures", under: "/v1")
        server.route("GET", "/v1/books/99") { _ in
            .json(#"{"title": "There is no book 99."}"#, status: 404)
        }

        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(contentsOf: "Config/domains.json5")
        configuration.simulation = .server(server.baseURL + "/v1")
        let central = try CentralRequestManager(configuration: configuration)

        let list = try await ListBooks(genre: .novel).startRequest(on: central)
        for book in list.books { print("\(book.id)  \(book.title), \(book.genre.rawValue), \(book.price ?? "?")") }

        // A genre that the document does not know is kept, not an error.
        let unknown = list.books.filter { ![.novel, .history].contains($0.genre) }
        print("not in the document: \(unknown.map(\.genre.rawValue))")

        let book = try await GetBook(id: 1).startRequest(on: central)
        let day = Timestamp.Day(year: 2026, month: 12, day: 24)
        let loan = try await LendBook(book: book.id, until: day).startRequest(on: central)
        print("loan \(loan.loan) of \(book.title), due \(loan.due.rawValue)")

        do {
            _ = try await GetBook(id: 99).startRequest(on: central)
        } catch let error as NetworkError {
            print(error.model(of: Problem.self)?.title ?? "\(error)")
        }
        await central.shutdown()
    }
}

import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// An address that has the parameter of the paging already. Many servers use the first of two.
@Suite(.timeLimit(.minutes(1))) struct PagingParameterTests {
    private static func server() throws -> MockServer {
        try MockServer { request in
            let number = Int(request.query("page") ?? request.query("after") ?? "") ?? 1
            let rest = number < 3 ? #","next":"\#(number + 1)""# : ""
            return .json(#"{"data":[\#(number < 4 ? "\(number)" : "")]\#(rest)}"#)
        }
    }

    @Test(arguments: [
        (Paging.number(items: "data"), "page=1"), (.cursor(at: "next", parameter: "after"), "after=1"),
    ])
    func addressOfThePagesHasItOnce(_ paging: Paging, _ query: String) async throws {
        let server = try Self.server()
        let table = try DomainTable.make(
            server.url(), servers: "s: { domain: 'd', path: 'x?q=1&\(query)', method: 'GET' }")
        let manager = try CentralRequestManager.make(table) { $0.baseURL = server.url() }
        var numbers: [Int] = []
        for try await page in manager.pages("GET", "/x?q=1&\(query)", paging) {
            numbers += try page.json()["data"].array?.compactMap(\.int) ?? []
        }
        for try await page in manager.pages(server: "s", paging) {
            numbers += page.model["data"].array?.compactMap(\.int) ?? []
        }
        #expect(numbers == [1, 2, 3, 1, 2, 3])
        #expect(server.requests.allSatisfy { $0.query?.hasPrefix("q=1&") == true })
    }
}

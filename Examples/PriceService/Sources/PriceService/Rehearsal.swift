import Foundation
import LATNetworking
import LATTesting

/// Runs the service as its users would, against servers of its own: edits the table, moves an exchange, ends it.
enum Rehearsal {
    static func run() async throws {
        let (south, rates, reports) = (try MockServer(), try MockServer(), try MockServer())
        let (north, movedNorth) = (try exchange(euros: 182), try exchange(euros: 178))
        south.enqueue(.status(503))  // Its first answer; the service asks again.
        south.route("GET", "/ticker") { _ in .json(#"{"last": 200}"#) }
        rates.route("GET", "/euro") { _ in .json(#"{"dollars": 1.08}"#) }
        reports.route("POST", "/prices") { request in
            // SIGTERM arrives while the service waits for this response.
            if request.text.contains("178") { kill(getpid(), SIGTERM) }
            return .status(201).delayed(by: .milliseconds(100))
        }

        let folder = try TemporaryDirectory()
        let path = folder.path(of: "domains.json5")
        let table = try String(contentsOfFile: "Config/domains.json5", encoding: .utf8)
            .replacing("https://north.example.org", with: north.baseURL)
            .replacing("https://south.example.org", with: south.baseURL)
            .replacing("https://rates.example.org", with: rates.baseURL)
        try table.write(toFile: path, atomically: true, encoding: .utf8)

        let (news, sender) = AsyncStream<PriceService.News>.makeStream()
        let service = Task {
            defer { sender.finish() }
            return try await PriceService.serve(
                ["AAPL"], table: path, reports: reports.baseURL, interval: .milliseconds(100)
            ) { sender.yield($0) }
        }

        var (isRejected, prices) = (false, [Double]())
        for await item in news {
            PriceService.log(item)
            switch item {
            case .problem: break
            case .prices(let values):
                prices.append(values["AAPL"] ?? 0)
                // Edits the table after the first price: first with a mistake, and after its rejection with the new address.
                if prices.count == 1 { try (table + "}").write(toFile: path, atomically: true, encoding: .utf8) }
                if prices.count == 200 { kill(getpid(), SIGTERM) }  // The edits were not seen; the checks below say so.
            case .table(.rejected):
                isRejected = true
                try table.replacing(north.baseURL, with: movedNorth.baseURL)
                    .write(toFile: path, atomically: true, encoding: .utf8)
            case .table(.reloaded): north.stop()
            }
        }

        let counters = try await service.value
        PriceService.log(counters)
        try check(isRejected, "the bad edit was reported")
        try check(prices.first == 182 && prices.last == 178, "prices came from the first, then from the moved exchange")
        try check(rates.requestCount == 1, "the rate was asked for once and then came from the cache")
        try check(counters[#"calls_total{call="rates",from="memoryCache"}"#] == prices.count - 1, "hits were counted")
        try check(counters[#"retries_total{call="south"}"#] == 1, "the 503 was repeated once")
        try check(reports.requestCount == prices.count, "the round that ran when the end came was finished")
    }

    private static func exchange(euros: Double) throws -> MockServer {
        let server = try MockServer()
        server.route("GET", "/v1/quotes/{symbol}") { _ in .json(#"{"euros": \#(euros)}"#) }
        return server
    }

    private static func check(_ condition: Bool, _ expectation: String) throws {
        struct Failure: Error, CustomStringConvertible { let description: String }
        guard condition else { throw Failure(description: "did not happen: \(expectation)") }
    }
}

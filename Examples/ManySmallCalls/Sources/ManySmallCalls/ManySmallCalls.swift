import LATNetworking
import LATTesting

struct Price: Decodable, Sendable {
    var cents: Int
}

struct FetchPrice: RequestEntity, Encodable {
    typealias Model = Price
    static let route = Route("GET", domain: "shop", path: "prices/{item}")
    var item: Int
}

/// Sums the responses of many small calls: first in ordinary tasks, then on the engine's thread, where neither a call
/// nor its response changes threads. Run it in this folder with `swift run -c release ManySmallCalls`. It starts its
/// own server, so it needs no network.
@main
struct ManySmallCalls {
    static func main() async throws {
        let server = try MockServer()
        server.route("GET", "/prices/{item}") { request in
            .json(#"{"cents": \#(request.pathParameters["item"] ?? "0")}"#)
        }
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = ProxyPolicy.direct
        configuration.domains = try DomainTable(
            json5: "{ domains: { shop: { baseURL: \"\(server.url("/"))\" } } }")
        let manager = try CentralRequestManager(configuration: configuration)
        try await compare(Array(1...1_000), on: manager)
        await manager.shutdown()
    }

    /// Times the calls in ordinary tasks and on the engine's thread. `main` does not do this itself, because it belongs
    /// to the main actor, which stays on its thread whatever a task prefers.
    static func compare(_ items: [Int], on manager: CentralRequestManager) async throws {
        let usual = try await timed { try await total(of: items, on: manager) }
        print("one after the other:      \(usual)")

        // The preference covers everything that the closure calls, including the decoding.
        let onEngine = try await withTaskExecutorPreference(manager.executor) {
            try await timed { try await total(of: items, on: manager) }
        }
        print("  on the engine's thread: \(onEngine)")

        // Child tasks inherit the preference. Work that takes more than a few milliseconds belongs elsewhere: while a
        // task computes on this thread, all requests of the manager wait.
        let summary = try await withTaskExecutorPreference(manager.executor) {
            let prices = try await pricesAtOnce(of: items, on: manager)
            return await withTaskExecutorPreference(globalConcurrentExecutor) { summarize(prices) }
        }
        print("64 at a time:             \(summary)")
    }

    static func total(of items: [Int], on manager: CentralRequestManager) async throws -> Int {
        var total = 0
        for item in items { total += try await FetchPrice(item: item).startRequest(on: manager).cents }
        return total
    }

    static func pricesAtOnce(of items: [Int], on manager: CentralRequestManager) async throws -> [Int] {
        let steps = items.map { item in
            RequestBatch.Step { try await FetchPrice(item: item).startRequest(on: manager).cents }
        }
        return try await RequestBatch(steps, maxConcurrentSteps: 64).values()
    }

    /// Stands for work that takes a while.
    static func summarize(_ prices: [Int]) -> String {
        "\(prices.reduce(0, +)) cents, the median is \(prices.sorted()[prices.count / 2])"
    }

    static func timed(_ work: () async throws -> Int) async rethrows -> String {
        let start = ContinuousClock.now
        let cents = try await work()
        let milliseconds = (ContinuousClock.now - start) / .milliseconds(1)
        return "\(cents) cents in \(Int(milliseconds)) ms"
    }
}

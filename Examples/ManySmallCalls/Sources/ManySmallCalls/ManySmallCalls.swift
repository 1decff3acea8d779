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

/// Adds up the answers of many small calls: first where Swift runs the task, then on the engine's own thread, where
/// neither a call nor its answer changes threads. Run it in this folder: `swift run -c release ManySmallCalls`. The server
/// is one of its own, so no network is needed.
@main
struct ManySmallCalls {
    static func main() async throws {
        let server = try MockServer()
        server.route("GET", "/prices/{item}") { request in
            .json(#"{"cents": \#(request.pathParameters["item"] ?? "0")}"#)
        }
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = ProxyPolicy.none
        configuration.domains = try DomainTable(
            json5: "{ domains: { shop: { baseURL: \"\(server.url("/"))\" } } }")
        let manager = try CentralRequestManager(configuration: configuration)
        try await compare(Array(1...1_000), on: manager)
        await manager.shutdown()
    }

    /// `main` belongs to the main actor, which keeps its own thread whatever a task prefers. This belongs to no actor.
    static func compare(_ items: [Int], on manager: CentralRequestManager) async throws {
        let usual = try await timed { try await total(of: items, on: manager) }
        print("one after the other:      \(usual)")

        // The preference holds for all that is called in the closure, decoding among it.
        let onEngine = try await withTaskExecutorPreference(manager.executor) {
            try await timed { try await total(of: items, on: manager) }
        }
        print("  on the engine's thread: \(onEngine)")

        // Child tasks inherit it. What takes more than a few milliseconds goes elsewhere: all of the manager's requests
        // stand still while a task computes there.
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

    /// Stands for work that takes its time.
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

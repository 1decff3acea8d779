import Foundation
import LATNetworking

/// A service that asks two exchanges for prices every few seconds, takes the best and reports it. It shows
/// centralized and distributed calls, a table that is edited while it runs, the cache, counters of its calls, and a
/// shutdown that lets running calls finish.
/// `swift run PriceService Config/domains.json5 https://reports.example.org AAPL MSFT` runs until Ctrl-C or SIGTERM.
/// Without arguments it rehearses against servers of its own, as `scripts/examples` does.
@main
struct PriceService {
    /// What the service logs.
    enum News: Sendable, CustomStringConvertible {
        case prices([String: Double])
        case problem(String)
        case table(DomainTable.FileEvent)

        var description: String {
            switch self {
            case .prices(let prices): prices.map { "\($0) \($1) €" }.sorted().joined(separator: ", ")
            case .problem(let text): text
            case .table(.reloaded): "the table was edited"
            case .table(.rejected(let error)): "the table was edited and is wrong, so the old one stays: \(error)"
            }
        }
    }

    let central: CentralRequestManager
    let symbols: [String]
    let interval: Duration
    let report: @Sendable (News) -> Void

    static func main() async {
        do {
            let arguments = Array(CommandLine.arguments.dropFirst())
            if arguments.isEmpty { return try await Rehearsal.run() }
            guard arguments.count >= 3 else {
                log("usage: PriceService TABLE REPORTS-URL SYMBOL...")
                exit(2)
            }
            let (table, reports) = (arguments[0], arguments[1])
            log(try await serve(Array(arguments[2...]), table: table, reports: reports) { log($0) })
        } catch {
            log("\(error)")
            exit(1)
        }
    }

    /// Writes a line at once. `print` would keep it back when standard output is a pipe or a file.
    static func log(_ line: some CustomStringConvertible) {
        FileHandle.standardError.write(Data("\(line)\n".utf8))
    }

    /// Runs until SIGTERM or Ctrl-C, lets a running round finish, and returns the counters.
    static func serve(
        _ symbols: [String], table: String, reports: String, interval: Duration = .seconds(5),
        report: @escaping @Sendable (News) -> Void
    ) async throws -> CallCounters {
        let counters = CallCounters()
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(contentsOf: table)
        configuration.domainsObserver = { report(.table($0)) }
        configuration.baseURL = reports
        configuration.cacheStorage = .memory
        configuration.accessories = [counters]
        let central = try CentralRequestManager(configuration: configuration)
        let service = PriceService(central: central, symbols: symbols, interval: interval, report: report)

        let polling = Task { await service.poll() }
        await signal(SIGTERM, SIGINT)
        polling.cancel()
        await polling.value
        await central.shutdown()
        return counters
    }

    private func poll() async {
        while !Task.isCancelled {
            // In a task of its own, which the end of the polling does not cancel. The timeouts of the table bound it.
            await Task { await round() }.value
            try? await Task.sleep(for: interval)
        }
    }

    private func round() async {
        do {
            var prices: [String: Double] = [:]
            for symbol in symbols { prices[symbol] = try await price(of: symbol) }
            // A centralized call, by method and address. With a key the server can tell a repetition from a
            // second report, so the POST may be sent again.
            _ = try await central.startRequest(
                "POST", "prices", body: .json(prices),
                headers: ["Idempotency-Key": HTTPRequest.randomIdempotencyKey()], tag: "report")
            report(.prices(prices))
        } catch {
            report(.problem("\(error)"))
        }
    }

    /// The best price in euros of the exchanges that answer.
    private func price(of symbol: String) async throws -> Double? {
        let rate = try await EuroRate().tag("rates").startRequest(on: central)
        let quotes = try await RequestBatch<Double>([
            .init { try await NorthQuote(symbol: symbol).tag("north").startRequest(on: central).euros },
            .init { try await SouthQuote(symbol: symbol).tag("south").startRequest(on: central).last / rate.dollars },
        ]).results()
        for case .failure(let error) in quotes { report(.problem("\(symbol): \(error)")) }
        return quotes.compactMap { try? $0.get() }.min()
    }

    /// Waits for the first of these signals, whose default actions are disabled.
    private static func signal(_ numbers: Int32...) async {
        let (arrivals, arrival) = AsyncStream<Void>.makeStream()
        let sources = numbers.map { number in
            Foundation.signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { arrival.yield() }
            source.resume()
            return source
        }
        for await _ in arrivals { break }
        for source in sources { source.cancel() }
    }
}

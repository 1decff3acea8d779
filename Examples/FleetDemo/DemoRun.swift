import Cryptography
import FoundationEssentials
import Glibc
import LATFleet
import LATNetworking
import Synchronization

/// Starts the processes, runs the phases, and prints their results.
final class DemoRun: Sendable {
    private let origin: Origin
    private let output = DemoOutput()
    private let folder: String
    private let redis = Mutex<Program?>(nil)

    init() throws {
        origin = try Origin()
        var template = Array("/tmp/lat-fleet.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw FleetDemo.Failure("no temporary folder can be made in /tmp") }
        folder = template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }

    private var socket: String { folder + "/redis.sock" }

    func run() async throws -> Bool {
        defer {
            redis.withLock { $0?.kill() }
            try? FileManager.default.removeItem(atPath: folder)
        }
        let begin = ContinuousClock.now
        try startRedis()
        let fleet = try Fleet(url: "unix://\(socket)")
        try await fleet.connect(within: .seconds(20))
        try await DemoTables.push("one", origin.url, on: fleet)
        let key = Data(try randomBytes(32)).base64EncodedString()
        let workers = try (1...FleetDemo.processCount).map { number in
            try Program(Program.own, ["worker", "\(number)", origin.url, socket, key])
        }
        defer { for worker in workers { worker.kill() } }
        output.open(workers.map(\.identifier), "Redis \(fleet.status.serverVersion ?? "")")

        try await pages()
        try await token()
        try await rate()
        try await table(fleet)
        try await outage(fleet)
        origin.begin(.end)
        await fleet.shutdown()
        return output.close(after: ContinuousClock.now - begin)
    }

    private func startRedis() throws {
        guard let path = Program.path(of: "redis-server") else {
            throw FleetDemo.Failure("redis-server is not installed; run scripts/demo-fleet, which installs it")
        }
        let options = ["--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no"]
        let program = try Program(path, options)
        redis.withLock { $0 = program }
    }

    // MARK: Phases

    /// The reports of all processes about a phase, combined into one.
    private func done(_ phase: Phase) async throws -> PhaseReport {
        try await origin.reports(of: phase).reduce(into: PhaseReport()) { whole, report in
            whole.requests += report.requests
            whole.failures += report.failures
            whole.failure = whole.failure ?? report.failure
            whole.seconds = max(whole.seconds, report.seconds)
            whole.seenAt = max(whole.seenAt, report.seenAt)
            whole.counters.merge(report.counters, uniquingKeysWith: +)
        }
    }

    private func pages() async throws {
        output.step(
            "One fetch for all",
            "Each process asks \(DemoOutput.grouped(Worker.requestsForPages)) times for \(Worker.pageCount) pages that "
                + "may be cached, all at the same moment.")
        origin.begin(.pages)
        let whole = try await done(.pages)
        let fetches = origin.fetches
        let most = fetches.max() ?? 0
        output.show(
            whole.failures == 0 && fetches.count == Worker.pageCount && most == 1,
            "\(DemoOutput.grouped(whole.requests)) requests of \(FleetDemo.processCount) processes made "
                + "\(fetches.reduce(0, +)) fetches: \(most == 1 ? "one for each URL" : "up to \(most) for a URL")",
            [
                ("answered by memory", whole.counters["memory"] ?? 0), ("by Redis", whole.counters["redis"] ?? 0),
                ("leases won", whole.counters["cache.leases.won"] ?? 0),
            ], whole)
    }

    private func token() async throws {
        output.step(
            "One token for all",
            "No process has a valid token. Each makes \(Worker.requestsForToken) requests that need one, "
                + "all at the same moment."
        )
        origin.begin(.token)
        let whole = try await done(.token)
        let renewals = origin.renewals
        output.show(
            whole.failures == 0 && renewals == 1,
            "\(whole.requests) requests: the token was renewed \(renewals == 1 ? "once" : "\(renewals) times"), "
                + "encrypted in Redis, and adopted by the other processes",
            [
                ("renewed", whole.counters["tokens.renewed"] ?? 0), ("adopted", whole.counters["tokens.adopted"] ?? 0),
                ("rejections seen", origin.rejections),
            ], whole)
    }

    private func rate() async throws {
        let limit = DemoTables.ratePerSecond
        output.step(
            "One limit for all",
            "A row of the table allows \(limit) requests a second. Each process wants to send "
                + "\(Worker.requestsForRate) at once."
        )
        origin.begin(.rate)
        let whole = try await done(.rate)
        let least = Double(whole.requests - DemoTables.burst) / Double(limit)
        // A process may begin a few milliseconds after the first, so that none measures the whole time.
        let isKept = whole.seconds >= least - 0.1
        output.show(
            whole.failures == 0 && isKept,
            "\(whole.requests) requests took \(DemoOutput.seconds(whole.seconds)): "
                + "\(Int(Double(whole.requests) / max(whole.seconds, 0.001))) a second for all processes together",
            [
                ("granted by Redis", whole.counters["limits.granted"] ?? 0),
                ("without Redis", whole.counters["limits.alone"] ?? 0),
            ], whole)
    }

    private func table(_ fleet: Fleet) async throws {
        output.step(
            "One table for all", "The processes call a row of the table while somebody pushes a new version of it.")
        origin.begin(.table)
        try await Task.sleep(for: .milliseconds(500))
        let pushed = Date().timeIntervalSince1970
        try await DemoTables.push("two", origin.url, on: fleet)
        let whole = try await done(.table)
        let latency = max(0, whole.seenAt - pushed)
        output.show(
            whole.failures == 0 && latency < 1,
            "the edit reached all \(FleetDemo.processCount) processes within \(DemoOutput.seconds(latency)); "
                + "none was started again",
            [("requests", whole.requests)], whole)
    }

    private func outage(_ fleet: Fleet) async throws {
        output.step(
            "Redis is killed",
            "While all processes send requests with cache, token and limits, Redis is killed with SIGKILL. "
                + "After two seconds it comes back, empty.")
        origin.begin(.outage)
        try await Task.sleep(for: .seconds(1))
        redis.withLock { $0?.kill() }
        try await Task.sleep(for: .seconds(2))
        unlink(socket)
        try startRedis()
        try await fleet.connect(within: .seconds(20))
        try await awaitConnections(on: fleet)
        try await Task.sleep(for: .seconds(1))
        origin.begin(.end)
        let whole = try await done(.outage)
        let areBack = whole.counters["connections"] ?? 0 >= 2 * FleetDemo.processCount
        output.show(
            whole.failures == 0 && areBack,
            "\(DemoOutput.grouped(whole.requests)) requests, "
                + (whole.failures == 0 ? "none failed; " : "\(whole.failures) failed; ")
                + (areBack ? "all processes are connected again" : "not all processes are connected again"),
            [
                ("without Redis", whole.counters["limits.alone"] ?? 0),
                ("connections made", whole.counters["connections"] ?? 0),
            ], whole)
    }

    /// Waits at most ten seconds until every process has its two connections: one for commands and one for messages.
    private func awaitConnections(on fleet: Fleet) async throws {
        for _ in 0..<100 {
            let list = try await fleet.redis.call(RedisCommand("CLIENT", ["LIST"]), .time(.seconds(5))).text ?? ""
            if list.split(separator: "name=lat-fleet").count > 2 * FleetDemo.processCount + 1 { return }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}

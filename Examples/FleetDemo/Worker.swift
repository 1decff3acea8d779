import FoundationEssentials
import LATFleet
import LATNetworking
import Synchronization

/// One of the four processes. It knows only the origin, the Redis and the key of the token.
struct Worker: Sendable {
    static let pageCount = 100
    static let requestsForPages = 2_500
    static let requestsForToken = 100
    static let requestsForRate = 60

    /// The session of an app: its token is not valid when the process starts.
    private actor Session: SharedTokenAuthenticator {
        private let origin: String
        private var token = "token-0"

        init(origin: String) { self.origin = origin }

        func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "Bearer \(token)" }

        func refresh(using manager: CentralRequestManager) async throws {
            token = try await manager.startRequest("POST", "\(origin)/token").text ?? ""
        }

        func exportToken() -> String? { token }

        func adopt(_ token: String) { self.token = token }
    }

    let number: Int
    let origin: String
    private let fleet: Fleet
    private let manager: CentralRequestManager
    /// Asks the origin what to do next.
    private let control: CentralRequestManager

    init(number: Int, origin: String, socket: String, key: Data) async throws {
        self.number = number
        self.origin = origin
        var settings = try FleetConfiguration(url: "unix://\(socket)")
        // On a small machine, four processes of a debug build need more time than the defaults allow.
        settings.lookUpBudget = .milliseconds(500)
        settings.writeBudget = .milliseconds(500)
        settings.maxReconnectPause = .seconds(1)
        // The loss of the Redis is a part of the demo, so its warnings are not printed.
        settings.warningHandler = { _ in }
        fleet = try Fleet(settings)
        try await fleet.connect(within: .seconds(20))
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = .direct
        configuration.retries = 0
        control = try CentralRequestManager(configuration: configuration)

        configuration.fleet = fleet
        configuration.domains = try await DomainTable(from: .redis(fleet, key: DemoTables.name, copy: .none))
        configuration.domainsObserver = { _ in }
        configuration.cacheStorage = .memory
        configuration.cacheLookUpTimeout = .seconds(1)
        configuration.authenticators = [
            "session": try fleet.authenticator("demo", sharing: Session(origin: origin), key: key)
        ]
        manager = try CentralRequestManager(configuration: configuration)
    }

    func run() async throws {
        var done = Phase.start
        while true {
            let asked = try await control.startRequest("GET", "\(origin)/control").text.flatMap { Int($0) }
            guard let phase = asked.flatMap(Phase.init(rawValue:)) else { return }
            guard phase.rawValue > done.rawValue else {
                try await Task.sleep(for: .milliseconds(5))
                continue
            }
            if phase == .end { return }
            done = phase
            let start = ContinuousClock.now
            var report = try await report(phase)
            report.seconds = (ContinuousClock.now - start) / .seconds(1)
            report.counters = fleet.status.counters
            let hits = manager.fleet?.hits
            report.counters["memory"] = hits?.memory
            report.counters["redis"] = hits?.redis
            report.counters["connections"] = fleet.status.connectionCount
            _ = try await control.startRequest("POST", "\(origin)/done/\(phase.rawValue)", body: .json(report))
        }
    }

    private func report(_ phase: Phase) async throws -> PhaseReport {
        switch phase {
        case .start, .end: PhaseReport()
        case .pages: await many(Self.requestsForPages) { try await page($0) }
        case .token: await many(Self.requestsForToken) { _ in try await account() }
        case .rate:
            await many(Self.requestsForRate) { _ in
                _ = try await manager.startRequest(Route(server: "limited"), as: Data.self)
            }
        case .table: await untilEdited()
        case .outage: await untilNextPhase()
        }
    }

    private func page(_ number: Int) async throws {
        _ = try await manager.startRequest("GET", "\(origin)/pages/\(number % Self.pageCount)", cache: .http)
    }

    private func account() async throws {
        var request = HTTPRequest("GET", "\(origin)/account")
        request.authenticator = .named("session")
        _ = try await manager.startRequest(request)
    }

    /// Makes requests, 25 at a time.
    private func many(_ count: Int, _ send: @escaping @Sendable (Int) async throws -> Void) async -> PhaseReport {
        let next = Atomic(0)
        return await all(25) { tally in
            while true {
                let number = next.add(1, ordering: .relaxed).oldValue
                guard number < count else { return }
                await tally.run { try await send(number * 7 + self.number) }
            }
        }
    }

    /// Calls a row of the table until the edited table applies.
    private func untilEdited() async -> PhaseReport {
        var report = await all(1) { tally in
            while true {
                let answer = await tally.run {
                    try await manager.startRequest(Route(server: "price"), as: String.self).model
                }
                if answer == "two" { return }
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
        report.seenAt = Date().timeIntervalSince1970
        return report
    }

    /// Uses cache, token and limits until the next phase begins.
    private func untilNextPhase() async -> PhaseReport {
        await all(8) { tally in
            var number = 0
            while true {
                number += 1
                let page = number
                await tally.run { try await self.page(page) }
                await tally.run { try await account() }
                await tally.run { _ = try await manager.startRequest(Route(server: "steady"), as: String.self) }
                guard number.isMultiple(of: 20) else { continue }
                let phase = try? await control.startRequest("GET", "\(origin)/control").text
                if phase != "\(Phase.outage.rawValue)" { return }
            }
        }
    }

    /// Counts requests and failures.
    private final class Tally: Sendable {
        private let state = Mutex(PhaseReport())

        var report: PhaseReport { state.withLock { $0 } }

        @discardableResult
        func run<Value>(_ send: () async throws -> Value) async -> Value? {
            do {
                let value = try await send()
                state.withLock { $0.requests += 1 }
                return value
            } catch {
                state.withLock { report in
                    report.requests += 1
                    report.failures += 1
                    report.failure = report.failure ?? "\(error)"
                }
                return nil
            }
        }
    }

    private func all(_ width: Int, _ body: @escaping @Sendable (Tally) async -> Void) async -> PhaseReport {
        let tally = Tally()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<width { group.addTask { await body(tally) } }
        }
        return tally.report
    }
}

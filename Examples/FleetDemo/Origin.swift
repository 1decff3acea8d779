import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// The server that all processes call. It counts requests, and tells the processes the phase of the demo.
final class Origin: Sendable {
    private struct State {
        var phase = Phase.start
        var reports: [Phase: [PhaseReport]] = [:]
        /// How often each page was fetched.
        var fetches: [String: Int] = [:]
        var token = 1
        var renewals = 0
        var rejections = 0
    }

    let server: MockServer
    private let state = Mutex(State())

    /// The server's routes keep this object until the process ends.
    init() throws {
        server = try MockServer()
        server.recordsRequests = false
        server.route("GET", "/control") { [self] _ in .text("\(state.withLock { $0.phase.rawValue })") }
        server.route("POST", "/done/{phase}") { [self] request in
            let report = try JSONDecoder().decode(PhaseReport.self, from: request.body)
            if let phase = request.pathParameters["phase"].flatMap({ Int($0) }).flatMap(Phase.init(rawValue:)) {
                state.withLock { $0.reports[phase, default: []].append(report) }
            }
            return .status(204)
        }
        server.route("GET", "/pages/{number}") { [self] request in
            state.withLock { $0.fetches[request.path, default: 0] += 1 }
            // The response is slow enough that all processes ask while the first fetch runs.
            return .text(String(repeating: "page ", count: 200)).header("Cache-Control", "public, max-age=3600")
                .delayed(by: .milliseconds(20))
        }
        server.route("POST", "/token") { [self] _ in
            let token = state.withLock { state in
                state.renewals += 1
                state.token += 1
                return state.token
            }
            return .text("token-\(token)").delayed(by: .milliseconds(50))
        }
        server.route("GET", "/account") { [self] request in
            let isKnown = state.withLock { state in
                let isKnown = request.headers["Authorization"] == "Bearer token-\(state.token)"
                if !isKnown { state.rejections += 1 }
                return isKnown
            }
            return isKnown ? .text("account") : .status(401)
        }
        server.route("GET", "/limited") { _ in .text("ok") }
        server.route("GET", "/{version}/price") { request in .text(request.pathParameters["version"] ?? "") }
    }

    var url: String { server.baseURL }
    var fetches: [Int] { state.withLock { Array($0.fetches.values) } }
    var renewals: Int { state.withLock(\.renewals) }
    var rejections: Int { state.withLock(\.rejections) }

    func begin(_ phase: Phase) { state.withLock { $0.phase = phase } }

    /// Waits until all processes have done a phase.
    func reports(of phase: Phase) async throws -> [PhaseReport] {
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            let reports = state.withLock { $0.reports[phase] ?? [] }
            if reports.count == FleetDemo.processCount { return reports }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw FleetDemo.Failure("not all processes finished \(phase) within a minute")
    }
}

import Dispatch
import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// A manager and servers that make a call wait at one place, and the means to release it.
final class WaitingFixture: Sendable {
    static let path = "/wait/1"
    static let tag = "waiting"

    /// The settings that differ between fixtures.
    struct Options: Sendable {
        /// Whether waits for clocks and servers end soon by themselves.
        var isBrief = false
        var deadline: Duration?
    }

    let place: WaitingPlace
    let manager: CentralRequestManager
    private let server: MockServer
    /// Reserves its port while the fixture lives, as `closed` does.
    private let full: FullBacklogListener?
    private let closed: ClosedPort?
    private let hasArrived: Event
    private let mayGo: Event
    private let held: HeldExecutor
    private let blocker: Task<Void, Never>?

    init(_ place: WaitingPlace, _ options: Options = Options()) async throws {
        self.place = place
        let server = try MockServer()
        let (hasArrived, mayGo) = (Event(), Event())
        let held = HeldExecutor()
        let isBrief = options.isBrief
        let full = place == .connect ? try FullBacklogListener() : nil
        let closed = place == .network ? try ClosedPort() : nil
        Self.prepare(server, for: place, isBrief)
        let providerCalls = Atomic(0)
        let manager = try CentralRequestManager.make { configuration in
            configuration.baseURL = full?.url() ?? closed?.url() ?? server.url()
            configuration.timeout = .seconds(600)
            configuration.connectTimeout = isBrief && place == .connect ? .milliseconds(10) : .seconds(600)
            configuration.idleTimeout = .seconds(600)
            configuration.deadline = options.deadline
            configuration.cacheStorage = .memory
            if Self.isSeenByWatchers(place) {
                configuration.accessories = [ArrivalWatch(place: place, hasArrived: hasArrived)]
            }
            switch place {
            case .connectionQueue: configuration.maxConnectionsPerHost = 1
            case .redirectHandler:
                configuration.redirectHandler = { hop in
                    hasArrived.happen()
                    await mayGo.wait()
                    return .follow(hop.next)
                }
            case .retryPause: configuration.retries = 1
            case .network:
                configuration.reachability.waitsForConnectivity = true
                configuration.reachability.connectivityTimeout = isBrief ? .milliseconds(5) : .seconds(600)
            case .tokenRenewal, .tokenFields, .tokenVerdict:
                configuration.authenticator = HangingSession(place: place, hasArrived: hasArrived, mayGo: mayGo)
            case .cachePolicy, .cacheHTTP:
                configuration.cachePolicy = place == .cacheHTTP ? .http : .cacheElseNetwork(.forever)
                configuration.headerProvider = { _ in
                    if providerCalls.add(1, ordering: .relaxed).newValue == 2 { hasArrived.happen() }
                    return [:]
                }
            case .sharedRequest: configuration.duplicates = .coalesce
            case .limits: configuration.limits.maxConcurrentRequests = 1
            case .headerProvider:
                configuration.headerProvider = { _ in
                    hasArrived.happen()
                    await mayGo.wait()
                    return [:]
                }
            case .parameterProvider:
                configuration.parameterProvider = { _ in
                    hasArrived.happen()
                    await mayGo.wait()
                    return [:]
                }
            case .resolver: configuration.resolver = HangingResolver(hasArrived: hasArrived, mayGo: mayGo)
            case .callbacks:
                configuration.callbackExecutor = held.executor
                configuration.outcomeObservers = [{ _, _ in hasArrived.happen() }]
            case .connect, .head, .body, .redirectBody, .barrier: break
            }
        }
        self.server = server
        self.full = full
        self.closed = closed
        self.manager = manager
        self.hasArrived = hasArrived
        self.mayGo = mayGo
        self.held = held
        blocker = try await Self.block(manager, server, place)
    }

    private static func prepare(_ server: MockServer, for place: WaitingPlace, _ isBrief: Bool) {
        @Sendable func held(_ reply: MockReply, _ point: MockReply.Point) -> MockReply {
            isBrief ? reply.delayed(by: .milliseconds(3), at: point) : reply.stalling(point)
        }
        server.route("GET", "/blocker") { _ in MockReply.text("never").stalling(.start) }
        let answers = Atomic(0)
        server.fallback { _ in
            let isFirst = answers.add(1, ordering: .relaxed).newValue == 1
            return switch place {
            case .head: held(.json("{}"), .start)
            case .body: held(.json("[" + String(repeating: "1,", count: 20_000) + "1]"), .afterBodyBytes(20_000))
            case .redirectBody where isFirst:
                held(.pattern(byteCount: 1_000).changed(status: 302, location: "/next"), .afterBodyBytes(10))
            // A redirect's body is waited for only briefly, so the next hop is held, too.
            case .redirectBody: held(.json("{}"), .start)
            case .redirectHandler where isFirst: .redirect(to: "/next")
            case .retryPause where isFirst: .status(503).header("Retry-After", isBrief ? "0" : "50")
            case .tokenRenewal where isFirst: .status(401)
            // The leading call never ends by itself.
            case .cachePolicy, .cacheHTTP, .sharedRequest: held(.json("{}"), .start)
            case .resolver where isFirst: .status(500)
            default: .json("{}")
            }
        }
    }

    /// Starts the call that makes others wait, and returns once it does.
    private static func block(
        _ manager: CentralRequestManager, _ server: MockServer, _ place: WaitingPlace
    ) async throws -> Task<Void, Never>? {
        var request: HTTPRequest
        switch place {
        case .connectionQueue, .limits, .barrier: request = HTTPRequest("GET", "/blocker")
        case .cachePolicy, .cacheHTTP, .sharedRequest: request = HTTPRequest("GET", path)
        default: return nil
        }
        request.isBarrier = place == .barrier
        request.deadline = .seconds(600)
        let task = Task { [request] in _ = try? await manager.send(request) }
        try await server.waitForRequests(1)
        return task
    }

    private static func isSeenByWatchers(_ place: WaitingPlace) -> Bool {
        switch place {
        case .connectionQueue, .retryPause, .network, .tokenRenewal, .sharedRequest, .limits, .barrier: true
        default: false
        }
    }

    /// Signals the call's arrival at the places that send an event.
    private struct ArrivalWatch: RequestAccessory {
        let place: WaitingPlace
        let hasArrived: Event

        func handle(_ event: CallEvent) {
            guard event.call.tag == WaitingFixture.tag else { return }
            switch (place, event.kind) {
            case (.connectionQueue, .sending), (.retryPause, .retrying), (.network, .waiting(.connectivity)),
                (.tokenRenewal, .waiting(.token)), (.sharedRequest, .waiting(.sharedRequest)),
                (.limits, .waiting(.limits)), (.barrier, .waiting(.barrier)):
                hasArrived.happen()
            default: break
            }
        }
    }

    // MARK: Calls

    /// Starts a call that will wait.
    func start(_ form: CallForm, beforehand: Bool = false) -> WaitingCall {
        let beganBody: @Sendable () -> Void = { [hasArrived, place] in if place == .body { hasArrived.happen() } }
        // With a progress closure, an asynchronous call waits for its callbacks, too.
        let hasProgress = place == .body || place == .callbacks
        let progress: ProgressHandler = { if $0.completed > 0 { beganBody() } }
        return WaitingCall(form, manager, hasProgress ? progress : nil, beganBody, isCancelled: beforehand)
    }

    /// Returns when the call waits at its place.
    func waitForArrival() async throws {
        switch place {
        case .connect:
            try await eventually { await manager.gauges?.sockets != 0 }
        case .head, .redirectBody: try await server.waitForRequests(1)
        default: await hasArrived.wait()
        }
        // The last step may send no event, so give the engine and the tasks a few turns.
        for _ in 0..<5 {
            _ = await manager.gauges
            await Task.yield()
        }
    }

    /// Releases everything that makes calls wait.
    func release() {
        mayGo.happen()
        held.release()
        blocker?.cancel()
    }

    /// Returns when client and server are both idle.
    func expectNothingLeft(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        release()
        await blocker?.value
        await held.drain()
        #expect(manager.runningRequests() == 0, sourceLocation: sourceLocation)
        // A transfer in flight keeps its connection. The server closes the idle ones.
        try await server.waitUntilIdle()
        server.closeIdleConnections()
        try await server.waitUntilDisconnected()
        if place == .connect {
            try await eventually { await manager.gauges?.sockets == 0 }
        }
    }
}

/// An executor that runs closures when the test allows it.
final class HeldExecutor: Sendable {
    private struct State {
        var closures: [@Sendable () -> Void] = []
        var isReleased = false
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "held")

    var executor: CallbackExecutor {
        CallbackExecutor { [self] closure in
            state.withLock { state in
                if state.isReleased { queue.async(execute: closure) } else { state.closures.append(closure) }
            }
        }
    }

    func release() {
        state.withLock { state in
            state.isReleased = true
            for closure in state.closures { queue.async(execute: closure) }
            state.closures = []
        }
    }

    func drain() async { await queue.drain() }
}

/// An authenticator that hangs at the given place and ignores cancellation.
private struct HangingSession: Authenticator {
    let place: WaitingPlace
    let hasArrived: Event
    let mayGo: Event

    func apply(to request: inout HTTPRequest) async throws {
        request.headers["Authorization"] = "t"
        guard place == .tokenFields else { return }
        hasArrived.happen()
        await mayGo.wait()
    }

    func isRejected(_ response: HTTPResponse, to request: HTTPRequest) async -> Bool {
        if place == .tokenVerdict {
            hasArrived.happen()
            await mayGo.wait()
        }
        return response.status == 401
    }

    func refresh() async throws { await mayGo.wait() }
}

private struct HangingResolver: FailureResolver {
    let hasArrived: Event
    let mayGo: Event

    func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
        hasArrived.happen()
        await mayGo.wait()
        return .replay
    }
}

extension MockReply {
    /// Returns the reply as a redirect that keeps its body.
    func changed(status: Int, location: String) -> MockReply {
        var reply = header("Location", location)
        reply.status = status
        return reply
    }
}

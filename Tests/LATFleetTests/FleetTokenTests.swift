import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATFleet

/// A token that processes renew once for all.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct FleetTokenTests {
    static let key = Data(repeating: 7, count: 32)

    /// A server whose tokens are `secret-1`, `secret-2` and so on; only the newest is accepted.
    final class TokenServer: Sendable {
        let server: MockServer
        private let state = Box<(newest: Int, renewals: Int, rejections: Int)>((1, 0, 0))

        init(delay: Duration = .milliseconds(20)) throws {
            server = try MockServer()
            server.route("POST", "/token") { [state] _ in
                state.change { $0 = ($0.newest + 1, $0.renewals + 1, $0.rejections) }
                return .text("secret-\(state.value.newest)").delayed(by: delay)
            }
            server.route("GET", "/data") { [state] request in
                if request.headers["Authorization"] == "Bearer secret-\(state.value.newest)" { return .text("data") }
                state.change { $0.rejections += 1 }
                return .status(401)
            }
        }

        var renewals: Int { state.value.renewals }
        var rejections: Int { state.value.rejections }
        func expire() { state.change { $0.newest += 1 } }
        var url: String { server.url("/data") }
    }

    actor Session: SharedTokenAuthenticator {
        private let tokens: TokenServer
        private let willRenew: @Sendable () async throws -> Void
        private let willExport: @Sendable () throws -> Void
        private var token = "none"

        init(
            _ tokens: TokenServer, willRenew: @escaping @Sendable () async throws -> Void = {},
            willExport: @escaping @Sendable () throws -> Void = {}
        ) {
            self.tokens = tokens
            self.willRenew = willRenew
            self.willExport = willExport
        }

        func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "Bearer \(token)" }

        func refresh(using manager: CentralRequestManager) async throws {
            try await willRenew()
            token = try await manager.startRequest("POST", tokens.server.url("/token")).text ?? ""
        }

        func exportToken() throws -> String? {
            try willExport()
            return token
        }

        func adopt(_ token: String) { self.token = token }

        nonisolated var refreshPause: Duration { .zero }
    }

    /// A session whose renewals wait at a gate.
    private static func held(_ tokens: TokenServer) -> (session: Session, isRenewing: Event, gate: Event) {
        let (isRenewing, gate) = (Event(), Event())
        let session = Session(tokens) {
            isRenewing.happen()
            await gate.wait()
        }
        return (session, isRenewing, gate)
    }

    @Test func eightManagersRenewOnce() async throws {
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        try await withManagers(8, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator("t", sharing: Session(tokens), key: Self.key)
        } _: { fleet in
            try await fleet.callAll(tokens.url, times: 50)
            #expect(tokens.renewals == 1)
            #expect(fleet.counter("tokens.renewed") == 1 && fleet.counter("tokens.alone") == 0)
            // When it expires, the same again.
            tokens.expire()
            try await fleet.callAll(tokens.url, times: 50)
            #expect(tokens.renewals == 2)
            #expect(fleet.counter("tokens.renewed") == 2)
            #expect(fleet.counter("tokens.adopted") == 14)
        }
        let stored = try redis.cli("HGETALL", "lat:token:t")
        #expect(stored.contains("generation") && !stored.contains("secret"), "sealed")
        #expect(try redis.cli("PTTL", "lat:token:t") != "-1")
    }

    @Test func tokenOfOAuth2IsGotOnceForAll() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        let count = Box(0)
        server.route("POST", "/token") { _ in
            count.change { $0 += 1 }
            return .json(#"{"access_token":"secret-\#(count.value)","expires_in":3600}"#)
        }
        server.route("GET", "/data") { request in
            request.headers["Authorization"] == "Bearer secret-1" ? .text("data") : .status(401)
        }
        let settings = OAuth2.Settings(tokenURL: server.url("/token"), clientID: "c", secret: .value("s"))
        try await withManagers(4, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator("o", sharing: OAuth2(settings), key: Self.key)
        } _: { fleet in
            try await fleet.callAll(server.url("/data"), times: 10)
        }
        #expect(count.value == 1)
        #expect(!(try redis.cli("HGETALL", "lat:token:o")).contains("secret"))
    }

    /// A Redis that takes no writes for a while: after the renewal, or already before it.
    @Test(arguments: [false, true]) func replacedRefreshTokenIsPresentedOnce(isAlone: Bool) async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        let presented = Box<[Int]>([])
        server.route("POST", "/token") { request in
            let number = request.text.split(separator: "refresh_token=r").last.flatMap { Int($0.prefix(1)) } ?? -1
            presented.change { $0.append(number) }
            if number == 0 { _ = try? redis.cli("CONFIG", "SET", "min-replicas-to-write", "1") }
            return .json(#"{"access_token":"a\#(number + 1)","refresh_token":"r\#(number + 1)","expires_in":3600}"#)
        }
        server.route("GET", "/data") { request in
            request.headers["Authorization"] == "Bearer a1" ? .text("data") : .status(401)
        }
        var settings = OAuth2.Settings(tokenURL: server.url("/token"), clientID: "c")
        (settings.grant, settings.deviceURL) = (.deviceCode, server.url("/device"))
        let sessions = try [OAuth2(settings), OAuth2(settings)]
        for session in sessions { try await session.adopt(OAuth2.Token(access: "a0", refresh: "r0")) }
        let rest = Box(sessions)
        try await withManagers(2, redis) { configuration, fleet in
            var session = sessions[0]
            rest.change { session = $0.removeLast() }
            configuration.authenticator = try fleet.authenticator("o", sharing: session, key: Self.key)
        } _: { fleet in
            if isAlone { try redis.cli("CONFIG", "SET", "min-replicas-to-write", "1") }
            #expect(try await fleet[0].startRequest("GET", server.url("/data")).status == 200)
            #expect(try redis.cli("EXISTS", "lat:token:o") == "0")
            try redis.cli("CONFIG", "SET", "min-replicas-to-write", "0")
            if isAlone {
                try await eventually("a stored token") { try redis.cli("EXISTS", "lat:token:o") == "1" }
            }
            #expect(try await fleet[1].startRequest("GET", server.url("/data")).status == 200)
            #expect(presented.value == [0])
            #expect(fleet.counter(isAlone ? "tokens.alone" : "tokens.renewed") == 1)
        }
    }

    /// A token that comes while the request gets the one before.
    @Test func requestHasTheNumberOfItsToken() async throws {
        actor Slow: SharedTokenAuthenticator {
            let (isApplying, gate) = (Event(), Event())
            private var token = "old"

            func apply(to request: inout HTTPRequest) async {
                isApplying.happen()
                await gate.wait()
                request.headers["Authorization"] = token
            }
            func refresh() async throws {}
            func exportToken() -> String? { token }
            func adopt(_ token: String) { self.token = token }
        }
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let session = Slow()
            let shared = SharedToken(fleet, name: "t", key: Self.key)
            let authenticator = FleetAuthenticator(session, shared)
            let applied = Task {
                var request = HTTPRequest("GET", "http://h/")
                try await authenticator.apply(to: &request)
                return request
            }
            await session.isApplying.wait()
            let renewal = Task { try await authenticator.refresh() }
            try await renewal.value
            session.gate.happen()
            let request = try await within { try await applied.value }
            #expect(request.userInfo["fleet token t"]?.int == 1)
        }
    }

    @Test func newProcessBeginsWithTheToken() async throws {
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        for _ in 0..<2 {
            try await withManagers(1, redis) { configuration, fleet in
                configuration.authenticator = try fleet.authenticator("t", sharing: Session(tokens), key: Self.key)
            } _: { fleet in
                try await fleet.callAll(tokens.url, times: 3)
            }
        }
        #expect(tokens.renewals == 1)
        #expect(tokens.rejections <= 3, "the second process was never rejected")
    }

    @Test func tokenWithoutKeyIsRefused() async throws {
        let fleet = try Fleet(url: "redis://127.0.0.1:1")
        let session = Session(try TokenServer())
        let missing = try await fleetError { _ = try fleet.authenticator("t", sharing: session) }
        #expect(missing.kind == .configuration && missing.message.contains("in the clear"))
        let short = try await fleetError { _ = try fleet.authenticator("t", sharing: session, key: Data("pw".utf8)) }
        #expect(short.message.contains("2 bytes instead of 32"))
        #expect(throws: FleetError.self) { try fleet.authenticator("", sharing: session, key: Self.key) }
        await fleet.shutdown()
    }

    @Test func tokenOfAnotherKeyCountsAsAbsent() async throws {
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        let warnings = Box<[String]>([])
        let number = Box<UInt8>(0)
        try await withManagers(
            2, redis,
            settings: redis.configuration {
                $0.warningHandler = { error in warnings.change { $0.append(error.message) } }
            }
        ) { configuration, fleet in
            number.change { $0 += 1 }
            configuration.authenticator = try fleet.authenticator(
                "t", sharing: Session(tokens), key: Data(repeating: number.value, count: 32))
        } _: { fleet in
            #expect(try await fleet[0].startRequest("GET", tokens.url).status == 200)
            #expect(try await fleet[1].startRequest("GET", tokens.url).status == 200)
            #expect(tokens.renewals == 2)
            try await eventually("a warning") { !warnings.value.isEmpty }
            #expect(warnings.value.allSatisfy { $0.contains("another key") } && warnings.value.count <= 2)
            #expect(fleet.counter("tokens.adopted") == 0)
        }
    }

    @Test func lostRedisDuringARenewalFailsNothing() async throws {
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        let (session, isRenewing, gate) = Self.held(tokens)
        try await withManagers(1, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator("t", sharing: session, key: Self.key)
        } _: { fleet in
            let call = Task { try await fleet[0].startRequest("GET", tokens.url).status }
            await isRenewing.wait()
            redis.kill()
            try await eventually("a noticed loss") { fleet[0].fleet?.status.state != .ready }
            gate.happen()
            #expect(try await within { try await call.value } == 200)
            tokens.expire()
            #expect(try await fleet[0].startRequest("GET", tokens.url).status == 200)
            #expect(tokens.renewals == 2 && fleet.counter("tokens.alone") == 1)
        }
    }

    @Test func failedRenewalIsNotSharedAsSuccess() async throws {
        struct Refused: Error {}
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        let (isRenewing, gate) = (Event(), Event())
        let number = Atomic(0)
        try await withManagers(2, redis) { configuration, fleet in
            let isFirst = number.add(1, ordering: .relaxed).oldValue == 0
            let session = Session(tokens) {
                guard isFirst else { return }
                isRenewing.happen()
                await gate.wait()
                throw Refused()
            }
            configuration.authenticator = try fleet.authenticator("t", sharing: session, key: Self.key)
        } _: { fleet in
            let first = Task { try await fleet[0].startRequest("GET", tokens.url).status }
            await isRenewing.wait()
            let second = Task { try await fleet[1].startRequest("GET", tokens.url).status }
            try await eventually("a rejected call that waits") { tokens.rejections == 2 }
            gate.happen()
            #expect(try await callError { try await first.value }.kind == .authentication)
            #expect(try await within { try await second.value } == 200)
            #expect(tokens.renewals == 1 && fleet.counter("tokens.failed") == 1)
        }
    }

    @Test func leaseOfACrashedProcessEnds() async throws {
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        try await withManagers(2, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator("t", sharing: Session(tokens), key: Self.key)
        } _: { fleet in
            let crashed = SharedToken(fleet.fleets[0], name: "t", key: Self.key)
            guard case .lead = await crashed.begin(after: 0, lease: .seconds(2), as: "crashed") else {
                Issue.record("no lease")
                return
            }
            let status = try await fleet[1].startRequest("GET", tokens.url).status
            #expect(status == 200 && tokens.renewals == 1)
            // The process was only slow: what it renewed is not stored over the newer token.
            let generation = try await crashed.store("stale", after: 0, as: "crashed")
            #expect(generation == nil)
        }
    }

    @Test func cancelledCallLeavesTheRenewalAlone() async throws {
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        let (session, isRenewing, gate) = Self.held(tokens)
        try await withManagers(1, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator("t", sharing: session, key: Self.key)
        } _: { fleet in
            let call = Task { try await fleet[0].startRequest("GET", tokens.url, tag: "t").status }
            await isRenewing.wait()
            fleet[0].cancelRequests(.tag("t"))
            #expect(try await callError { try await call.value }.kind == .cancelled)
            gate.happen()
            try await eventually("a stored token") { try redis.cli("EXISTS", "lat:token:t") == "1" }
            #expect(try await fleet[0].startRequest("GET", tokens.url).status == 200)
            #expect(tokens.renewals == 1)
        }
    }

    @Test func tokenThatCannotBeExportedIsRenewed() async throws {
        struct Unexportable: Error { var token = "secret-2" }
        let redis = try await RedisServer()
        let tokens = try TokenServer()
        let warnings = Box<[String]>([])
        let settings = redis.configuration {
            $0.warningHandler = { error in warnings.change { $0.append(error.message) } }
        }
        try await withManagers(1, redis, settings: settings) { configuration, fleet in
            let session = Session(tokens, willExport: { throw Unexportable() })
            configuration.authenticator = try fleet.authenticator("t", sharing: session, key: Self.key)
        } _: { fleet in
            #expect(try await fleet[0].startRequest("GET", tokens.url).status == 200)
            try await eventually("a free lease") { try redis.cli("EXISTS", "lat:token:t:lease") == "0" }
            tokens.expire()
            #expect(try await fleet[0].startRequest("GET", tokens.url).status == 200)
            #expect(tokens.renewals == 2 && fleet.counter("tokens.failed") == 0)
            try await eventually("a warning") { !warnings.value.isEmpty }
        }
        #expect(warnings.value.count == 1 && warnings.value[0].contains("exportToken() or the encoding"))
        #expect(warnings.value[0].contains("Unexportable") && !warnings.value[0].contains("secret"))
    }
}

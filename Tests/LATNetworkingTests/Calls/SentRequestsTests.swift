import TestSupport
import Testing

@testable import LATClient

/// The repetitions that are allowed after the requests sent so far, as a pure value.
@Suite struct SentRequestsTests {
    /// A request that was sent, and its result.
    struct Step: Sendable {
        var method = "GET"
        var hop = 0
        var key: String?
        /// Whether the request carried the token.
        var hasToken = true
        var status: Int?
        var failure: NetworkError.Kind?

        static func get(_ status: Int, hop: Int = 0, token: Bool = true) -> Step {
            Step(hop: hop, hasToken: token, status: status)
        }

        static func get(_ failure: NetworkError.Kind, hop: Int = 0) -> Step { Step(hop: hop, failure: failure) }

        static func post(_ status: Int, hop: Int = 0, token: Bool = true) -> Step {
            Step(method: "POST", hop: hop, hasToken: token, status: status)
        }

        static func post(_ failure: NetworkError.Kind, hop: Int = 0) -> Step {
            Step(method: "POST", hop: hop, failure: failure)
        }

        static func keyed(_ status: Int, hop: Int = 0) -> Step {
            Step(method: "POST", hop: hop, key: "k", status: status)
        }

        static func keyed(_ failure: NetworkError.Kind, hop: Int = 0) -> Step {
            Step(method: "POST", hop: hop, key: "k", failure: failure)
        }

        static func put(_ status: Int) -> Step { Step(method: "PUT", status: status) }

        static func put(_ failure: NetworkError.Kind) -> Step { Step(method: "PUT", failure: failure) }

        var request: HTTPRequest {
            var request = HTTPRequest(method, "http://h\(hop)/")
            if let key { request.idempotencyKey = key }
            if hasToken { request.headers["Authorization"] = "t" }
            return request
        }

        var answer: Result<HTTPResponse, NetworkError> {
            if let failure { return .failure(NetworkError(failure, message: "")) }
            return .success(HTTPResponse(status: status ?? 200, url: request.url))
        }
    }

    struct Repetitions: OptionSet, Sendable {
        let rawValue: Int
        static let mirror = Repetitions(rawValue: 1)
        static let connectivity = Repetitions(rawValue: 2)
        static let token = Repetitions(rawValue: 4)
        static let retry = Repetitions(rawValue: 8)
    }

    private func sent(_ steps: [Step]) -> SentRequests {
        var sent = SentRequests()
        for step in steps {
            sent.begins(step.request, hop: step.hop)
            sent.ended(step.request, step.answer.mapError { $0 })
        }
        return sent
    }

    private func allowed(_ sent: SentRequests, after answer: Result<HTTPResponse, NetworkError>) -> Repetitions {
        var allowed: Repetitions = []
        if sent.allows(.mirror, after: answer) { allowed.insert(.mirror) }
        if sent.allows(.connectivity, after: answer) { allowed.insert(.connectivity) }
        if sent.allows(.token(Credential(fields: ["Authorization": "t"])), after: answer) { allowed.insert(.token) }
        if sent.allows(.retry(onlyIdempotent: true), after: answer) { allowed.insert(.retry) }
        return allowed
    }

    private func expect(
        _ steps: [Step], _ expected: Repetitions, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let sent = sent(steps)
        let last = try #require(steps.last)
        #expect(allowed(sent, after: last.answer) == expected, "\(steps)", sourceLocation: sourceLocation)
        #expect(sent.allows(.retry(onlyIdempotent: false), after: last.answer), sourceLocation: sourceLocation)
        #expect(sent.count == steps.count && sent.hop == last.hop, sourceLocation: sourceLocation)
        #expect(sent.last?.url == last.request.url, sourceLocation: sourceLocation)
    }

    private static let idempotent: [(Step, Repetitions)] = [
        (.get(200), [.token, .retry]), (.get(401), [.token, .retry]), (.get(503), [.token, .retry]),
        (.get(401, token: false), .retry), (.get(.connect), [.mirror, .connectivity, .retry]),
        (.get(.dns), [.mirror, .connectivity, .retry]), (.get(.timeout(.connect)), [.mirror, .connectivity, .retry]),
        (.get(.circuitOpen), [.mirror, .retry]), (.get(.connectionLost), .retry), (.get(.timeout(.total)), .retry),
        (.get(.tls(.expired)), .retry), (.put(401), [.token, .retry]), (.put(200), [.token, .retry]),
        (.put(.connectionLost), .retry), (.put(.connect), [.mirror, .connectivity, .retry]),
    ]

    @Test(arguments: Self.idempotent) func idempotentRequestIsRepeatable(_ step: Step, _ expected: Repetitions) throws {
        try expect([step], expected)
    }

    @Test(
        arguments: [
            ([.keyed(303), .get(.connect, hop: 1)], true), ([.keyed(302), .get(.tls(.expired), hop: 1)], true),
            ([.put(301), .put(.connect)], true), ([.post(.connectionLost), .post(.connect)], true),
            ([.keyed(307), .keyed(.connect, hop: 1)], false), ([.post(401), .post(.connect)], false),
            ([.keyed(.connect), .keyed(.connect)], false), ([.keyed(503)], false), ([.post(.connectionLost)], false),
        ] as [([SentRequestsTests.Step], Bool)])
    func earlierRequestMayHaveArrived(_ steps: [Step], _ hasArrived: Bool) {
        #expect(sent(steps).hasArrivedBefore == hasArrived)
        var absorbing = sent([.get(.cancelled)])
        absorbing.absorb(sent(steps), isAnswer: true)
        #expect(absorbing.hasArrivedBefore)
        absorbing = SentRequests()
        absorbing.absorb(sent(steps), isAnswer: true)
        #expect(absorbing.hasArrivedBefore == hasArrived)
    }

    private static let unsentPosts: [(Step, Repetitions)] = [
        (.post(.connect), [.mirror, .connectivity, .retry]),
        (.post(.dns), [.mirror, .connectivity, .retry]), (.post(.circuitOpen), [.mirror, .retry]),
        (.post(.timeout(.connect)), [.mirror, .connectivity, .retry]), (.post(.tls(.untrusted)), .retry),
        (.post(.addressBlocked(.loopback)), .retry), (.post(.invalidRequest), .retry),
    ]

    @Test(arguments: Self.unsentPosts) func unsentPostIsRepeatable(_ step: Step, _ expected: Repetitions) throws {
        try expect([step], expected)
    }

    @Test(arguments: [
        NetworkError.Kind.connectionLost, .timeout(.total), .timeout(.idle), .protocolViolation, .bodyTooLarge,
        .cancelled, .proxy, .other,
    ])
    func postWithUnknownEffectIsNotRepeated(_ kind: NetworkError.Kind) throws {
        try expect([.post(kind)], [])
        try expect([.keyed(kind)], .retry)
    }

    @Test(arguments: [200, 201, 204, 303, 302, 301, 400, 409, 500, 502, 503])
    func postWithResponseIsNotRepeated(_ status: Int) throws {
        try expect([.post(status)], [])
        try expect([.keyed(status)], [.token, .retry])
    }

    @Test(arguments: [307, 308, 401, 407, 421, 425])
    func refusedPostIsRepeatable(_ status: Int) throws {
        try expect([.post(status)], [.token, .retry])
        try expect([.post(status, token: false)], .retry)
    }

    private static let redirected: [([Step], Repetitions)] = [
        // A POST that had its effect, then a GET to the redirect target.
        ([.post(303), .get(.connect, hop: 1)], []), ([.post(302), .get(.connect, hop: 1)], []),
        ([.post(301), .get(.dns, hop: 1)], []), ([.post(303), .get(.connectionLost, hop: 1)], []),
        ([.post(303), .get(401, hop: 1)], []), ([.post(303), .get(401, hop: 1, token: false)], []),
        ([.post(303), .get(503, hop: 1)], []),
        // A POST that was only redirected.
        ([.post(307), .post(.connect, hop: 1)], [.connectivity, .retry]),
        ([.post(308), .post(.dns, hop: 1)], [.connectivity, .retry]),
        ([.post(307), .post(401, hop: 1)], [.token, .retry]),
        ([.post(307), .post(401, hop: 1, token: false)], .retry), ([.post(307), .post(.connectionLost, hop: 1)], []),
        ([.post(307), .post(200, hop: 1)], []), ([.post(307), .post(303, hop: 1), .get(.connect, hop: 2)], []),
        // An idempotency key allows every repetition, except by a mirror: the first address did not fail.
        ([.keyed(303), .get(.connect, hop: 1)], [.connectivity, .retry]),
        ([.keyed(303), .get(401, hop: 1)], [.token, .retry]),
        ([.keyed(307), .keyed(.connectionLost, hop: 1)], .retry),
        ([.put(303), .get(.connect, hop: 1)], [.connectivity, .retry]),
        ([.get(302), .get(.connect, hop: 1)], [.connectivity, .retry]),
        ([.get(302), .get(401, hop: 1)], [.token, .retry]), ([.get(302), .get(401, hop: 1, token: false)], .retry),
    ]

    @Test(arguments: Self.redirected)
    func failedLaterHopAllowsNoMirror(_ steps: [Step], _ expected: Repetitions) throws {
        try expect(steps, expected)
    }

    @Test func earlierAttemptsEffectIsRemembered() throws {
        try expect([.post(.connectionLost), .post(.connect)], [])
        try expect([.post(.connectionLost), .post(401)], [])
        try expect([.post(401), .post(200)], [])
        try expect([.post(.connect), .post(.connect)], [.mirror, .connectivity, .retry])
        try expect([.post(401), .post(401)], [.token, .retry])
        // The next attempt starts at hop 0.
        try expect([.get(302), .get(.connect, hop: 1), .get(.connect)], [.mirror, .connectivity, .retry])
    }

    @Test func tokenIsRefusedOnlyIfAllFieldsWereSent() {
        let sent = sent([.get(401)])
        let answer = Step.get(401).answer
        #expect(sent.allows(.token(Credential(fields: ["Authorization": "t"])), after: answer))
        #expect(!sent.allows(.token(Credential(fields: ["Authorization": "t", "X-Key": "k"])), after: answer))
        #expect(!sent.allows(.token(Credential(fields: ["Authorization": "older"])), after: answer))
        #expect(sent.allows(.token(Credential()), after: answer))
    }

    @Test func unsentCredentialsAreNotRenewed() {
        var (sent, bare) = (SentRequests(), SentRequests())
        var request = HTTPRequest("GET", "http://h/")
        bare.begins(request, hop: 1)
        request.authentication = .bearer(token: "t")
        sent.begins(request, hop: 1)
        let answer = Step.get(401).answer
        #expect(sent.allows(.token(Credential(authentication: .bearer(token: "t"))), after: answer))
        #expect(!bare.allows(.token(Credential(authentication: .bearer(token: "t"))), after: answer))
        #expect(!bare.allows(.token(Credential()), after: answer))
    }

    @Test func nothingSentAllowsEveryRepetition() {
        let sent = SentRequests()
        #expect(allowed(sent, after: Step.get(.connect).answer) == [.mirror, .connectivity, .retry])
        #expect(allowed(sent, after: Step.get(401).answer) == [.token, .retry])
    }

    @Test func sharedCallsRequestsCountAsOwn() {
        var own = sent([.get(302)])
        own.absorb(sent([.post(303), .get(.connect, hop: 1)]), isAnswer: true)
        #expect(own.mayHaveHadEffects && own.hop == 1 && own.count == 3)
        #expect(own.last?.url == "http://h1/")
        own.absorb(SentRequests(), isAnswer: true)
        #expect(own.mayHaveHadEffects && own.last != nil && own.count == 3)
    }

    @Test func unknownErrorMayHaveHadEffects() {
        struct Strange: Error {}
        var sent = SentRequests()
        let request = HTTPRequest("POST", "http://h/")
        sent.begins(request, hop: 0)
        #expect(!sent.mayHaveHadEffects)
        sent.ended(request, .failure(Strange()))
        #expect(sent.mayHaveHadEffects)
    }
}

import FoundationEssentials
import Platform
import TestSupport
import Testing

@testable import HTTPCore
@testable import LATClient
@testable import LATTransfers

/// The decisions of the outbox, as values.
@Suite struct OutboxRuleTests {
    private let rule = OutboxRule(backoff: Backoff(first: .seconds(1), longest: .seconds(60)), maxAttempts: 8)

    private func verdict(_ kind: NetworkError.Kind, _ status: Int? = nil, _ count: Int = 1) -> OutboxVerdict {
        let response = status.map { HTTPResponse(status: $0, url: "http://a.test") }
        return rule.verdict(after: NetworkError(kind, message: "", response: response), .init(count: count))
    }

    @Test func statusDecides() {
        #expect(rule.verdict(after: nil, .init(count: 1)) == .succeeded)
        for status in [400, 403, 404, 409, 410, 413, 422, 501, 505] {
            #expect(verdict(.httpStatus, status) == .refused, "\(status)")
        }
        for status in [408, 425, 500] {
            #expect(verdict(.httpStatus, status) == .wait(.seconds(1), pausesTarget: false), "\(status)")
        }
        for status in [401, 407, 429, 502, 503, 504, 511] {
            #expect(verdict(.httpStatus, status) == .wait(.seconds(1), pausesTarget: true), "\(status)")
        }
        // A failure that the envelope reports is final, unless the status says otherwise.
        #expect(verdict(.business(code: "7"), 200) == .refused)
        #expect(verdict(.business(code: "7"), 503) == .wait(.seconds(1), pausesTarget: true))
    }

    @Test func networkFailureIsNoEnd() {
        for kind in [NetworkError.Kind.dns, .connect, .timeout(.connect)] {
            #expect(verdict(kind, nil, 99) == .unreachable)
        }
        for kind in [NetworkError.Kind.connectionLost, .timeout(.total), .protocolViolation, .decoding(path: "")] {
            #expect(verdict(kind) == .wait(.seconds(1), pausesTarget: false), "\(kind)")
        }
        for kind in [NetworkError.Kind.tls(.expired), .circuitOpen, .provider, .proxy] {
            #expect(verdict(kind) == .wait(.seconds(1), pausesTarget: true), "\(kind)")
        }
        #expect(verdict(.unknownName) == .rowMissing)
        #expect(verdict(.cancelled) == .interrupted && verdict(.shutDown) == .interrupted)
        #expect(verdict(.requestBody) == .refused && verdict(.invalidRequest) == .refused)
    }

    @Test func waitGrowsToItsLongestAndThenEnds() {
        #expect(
            (1...8).map { verdict(.connectionLost, nil, $0) } == [1, 2, 4, 8, 16, 32, 60].map {
                .wait(.seconds($0), pausesTarget: false)
            } + [.givenUp])
        let failure = NetworkError(.connectionLost, message: "")
        #expect(
            rule.verdict(after: failure, .init(count: 3, chance: 0)) == .wait(.seconds(2), pausesTarget: false))
    }

    @Test func retryAfterIsObeyedUpToADay() {
        let failure = NetworkError(
            .httpStatus, message: "", response: HTTPResponse(status: 503, url: "http://a.test"))
        #expect(
            rule.verdict(after: failure, .init(count: 1, retryAfter: .seconds(7_200)))
                == .wait(.seconds(7_200), pausesTarget: true))
        #expect(
            rule.verdict(after: failure, .init(count: 1, retryAfter: .seconds(1 << 40)))
                == .wait(.seconds(86_400), pausesTarget: true))
    }

    @Test func conflictWithOwnAttemptIsRepeated() {
        let failure = NetworkError(
            .httpStatus, message: "", response: HTTPResponse(status: 409, url: "http://a.test"))
        #expect(
            rule.verdict(after: failure, .init(count: 2, unseen: 1)) == .wait(.seconds(2), pausesTarget: false))
        #expect(rule.verdict(after: failure, .init(count: 2)) == .refused)
        // Ten of them are repeated, however many other attempts there were.
        #expect(
            OutboxRule().verdict(after: failure, .init(count: 99, unseen: 10))
                == .wait(.seconds(300), pausesTarget: false))
        #expect(OutboxRule().verdict(after: failure, .init(count: 11, unseen: 11)) == .refused)
    }

    @Test func attemptThatNeverLeftIsNotUnseen() {
        func mayHaveArrived(_ kind: NetworkError.Kind, _ status: Int? = nil) -> Bool {
            let response = status.map { HTTPResponse(status: $0, url: "http://a.test") }
            return OutboxRule.mayHaveArrived(NetworkError(kind, message: "", response: response))
        }
        for kind in [NetworkError.Kind.tls(.expired), .proxy, .circuitOpen, .authentication, .provider, .connect] {
            #expect(!mayHaveArrived(kind), "\(kind)")
        }
        for kind in [NetworkError.Kind.connectionLost, .timeout(.total), .cancelled, .protocolViolation] {
            #expect(mayHaveArrived(kind), "\(kind)")
        }
        #expect(
            mayHaveArrived(.httpStatus, 502) && mayHaveArrived(.httpStatus, 504) && !mayHaveArrived(.httpStatus, 503))
    }

    @Test func requestThatWasRedirectedMayHaveArrived() {
        for kind in [NetworkError.Kind.dns, .connect, .timeout(.connect), .tls(.expired), .proxy, .circuitOpen] {
            let failure = NetworkError(kind, message: "").afterArrival()
            let pauses = [.tls(.expired), .proxy, .circuitOpen].contains(kind)
            #expect(OutboxRule.mayHaveArrived(failure), "\(kind)")
            #expect(
                rule.verdict(after: failure, .init(count: 1)) == .wait(.seconds(1), pausesTarget: pauses), "\(kind)")
            #expect(rule.verdict(after: failure, .init(count: 8)) == .givenUp, "\(kind)")
        }
        for (status, mayHaveArrived) in [(301, true), (302, true), (303, true), (307, false), (308, false)] {
            var response = HTTPResponse(status: 404, url: "http://b.test")
            response.redirects = [.init(url: "http://a.test/x", status: status)]
            let failure = NetworkError(.httpStatus, message: "", response: response)
            #expect(OutboxRule.mayHaveArrived(failure) == mayHaveArrived, "\(status)")
        }
    }

    @Test func redirectToAnotherPlaceIsNoSuccess() {
        func failure(_ status: Int, from: String, to: String) -> NetworkError? {
            var response = HTTPResponse(status: 200, url: to)
            response.redirects = [.init(url: from, status: status)]
            response.requestMethod = .post
            return OutboxRule.redirectFailure(response)
        }
        #expect(OutboxRule.redirectFailure(HTTPResponse(status: 200, url: "http://a.test/x")) == nil)
        #expect(failure(302, from: "http://a.test/x", to: "http://portal.test/login")?.kind == .redirect)
        #expect(failure(307, from: "http://a.test/x", to: "http://b.test/x")?.kind == .redirect)
        #expect(failure(302, from: "http://a.test/x", to: "http://a.test/login")?.kind == .redirect)
        #expect(failure(303, from: "http://a.test/x", to: "http://a.test/x/1") == nil)
        #expect(failure(308, from: "http://a.test/x", to: "http://a.test/y") == nil)
    }

    @Test func pausedTargetIsTriedByOneRequest() {
        var targets = OutboxTargets()
        for _ in 0..<3 { targets.begins("a") }
        #expect(targets.isOpen("a", at: 0))
        // The three that were sent together fail together, which counts as one failure.
        for _ in 0..<3 {
            targets.ends("a")
            #expect(targets.failed("a", at: 10) { 10 + Int64($0) * 100 } == 1)
        }
        #expect(!targets.isOpen("a", at: 109) && targets.isOpen("a", at: 110) && targets.isOpen("b", at: 10))
        #expect(targets.nextOpening(after: 10) == 110 && targets.closed(at: 50) == ["a"])
        targets.begins("a")
        #expect(!targets.isOpen("a", at: 120))
        targets.ends("a")
        #expect(targets.failed("a", at: 120) { 120 + Int64($0) * 100 } == 2 && targets.nextOpening(after: 120) == 320)
        targets.begins("a")
        targets.ends("a")
        targets.succeeded("a")
        #expect(targets.isOpen("a", at: 130) && targets.nextOpening(after: 0) == nil)
    }

    @Test func targetWithAWaitingRequestIsClosed() {
        var targets = OutboxTargets()
        targets.waits("a", true)
        targets.waits("a", true)
        #expect(!targets.isOpen("a", at: 0) && targets.isOpen("b", at: 0) && targets.closed(at: 0) == ["a"])
        targets.waits("a", false)
        #expect(!targets.isOpen("a", at: 0) && targets.nextOpening(after: 0) == nil)
        targets.waits("a", false)
        #expect(targets.isOpen("a", at: 0) && targets.closed(at: 0).isEmpty)
    }

    @Test func unreachableTargetWaitsToBeOpened() {
        var targets = OutboxTargets()
        targets.begins("a")
        targets.ends("a")
        targets.failed("a", at: 0) { _ in nil }
        #expect(!targets.isOpen("a", at: .max))
        targets.open("a", at: 5)
        #expect(targets.isOpen("a", at: 5))
    }

    // MARK: Time

    private func reading(_ boot: String, up: Int64, wall: Int64) -> OutboxClock.Reading {
        .init(boot: boot, uptime: up, wall: wall)
    }

    @Test func changedSystemClockMovesNoTime() {
        var clock = OutboxClock(after: nil, reading("1", up: 100, wall: 1_000_000))
        #expect(clock.mark.time == 1_000_000)
        // Set back by years, and forward, while the machine runs.
        #expect(clock.time(at: reading("1", up: 600, wall: 5)) == 1_000_500)
        #expect(clock.time(at: reading("1", up: 700, wall: 9_000_000)) == 1_000_600)
        clock.advance(to: reading("1", up: 800, wall: 5))
        // Another process on the same day.
        let next = OutboxClock(after: clock.mark, reading("1", up: 900, wall: 3))
        #expect(next.mark.time == 1_000_800)
    }

    @Test func restartCountsTimeWithoutGoingBack() {
        let mark = OutboxClock.Mark(reading: reading("1", up: 100, wall: 1_000), time: 1_000)
        #expect(OutboxClock(after: mark, reading("2", up: 5, wall: 61_000)).mark.time == 61_000)
        #expect(OutboxClock(after: mark, reading("2", up: 5, wall: 10)).mark.time == 1_000)
        // The same start by name with less uptime is another machine.
        #expect(OutboxClock(after: mark, reading("1", up: 5, wall: 2_000)).mark.time == 2_000)
    }

    // MARK: What is kept

    @Test func keptSettingsComeBack() throws {
        var options = RequestOptions(timeout: .milliseconds(1_500), parameterEncoding: .form, priority: .high)
        options.acceptedStatuses = [201, 409]
        options.tag = "t"
        options.authenticator = .named("own")
        options.signer = .off
        options.sealing = .sealed(by: "s")
        options.contentCoding = .gzip
        options.maxBodySize = 7
        options.digests = .init(checks: false, sends: .sha256, wants: .sha512)
        options.userInfo = ["a": [1, nil]]
        let kept = try JSONValue(parsing: #require(try options.kept()).data())
        #expect(RequestOptions(kept: kept) == options)
        #expect(try RequestOptions().kept() == nil)
    }

    @Test func everySettingIsKeptRefusedOrLeftOut() throws {
        // A setting that is added later has to be decided on.
        var credentials = RequestOptions()
        credentials.authentication = .basic(user: "u", password: "p")
        #expect(throws: NetworkError.self) { try credentials.kept() }
        var proxied = RequestOptions()
        proxied.proxy = .direct
        do {
            _ = try proxied.kept()
            Issue.record("a proxy is not kept")
        } catch {
            #expect(error.kind == .unsupported && error.message.contains("setting proxy"))
        }
        var repeated = RequestOptions(retries: 3)
        repeated.waitsForConnectivity = true
        repeated.staleAfter = .seconds(5)
        #expect(try repeated.kept() == nil)
    }

    @Test func parametersKeepNamesAndForm() throws {
        struct Value: Encodable {
            var userName = "a"
            var inner = ["innerName": 1]
            var date = Date(timeIntervalSince1970: 0)
        }
        let rules = CodingRules.of(Coding(dates: .unixSeconds, keys: .snakeCase))
        let members = try #require(try EncodedMembers(deferring: Value()))
        let direct = try members.coded(by: rules).named(by: rules)
        let kept = try JSONValue(parsing: #require(members.settled(by: rules).kept()).data())
        #expect(try EncodedMembers(kept: kept).named(by: rules).jsonData() == direct.jsonData())
        let parameters = try EncodedMembers(deferring: ["userName": 2.5, "list": [1, 2]])
        let again = try EncodedMembers(kept: JSONValue(parsing: #require(parameters.settled(by: rules).kept()).data()))
        #expect(try again.named(by: rules).jsonData() == parameters.coded(by: rules).named(by: rules).jsonData())
    }
}

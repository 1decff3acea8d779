import FoundationEssentials
import Testing

@testable import LATClient

/// The decisions about a job, without a server.
@Suite struct PollWalkTests {
    private static func answer(
        _ status: Int = 200, _ json: String? = nil, _ headers: HTTPHeaders = [:], url: String = "https://h/jobs",
        redirects: [HTTPResponse.Redirect] = []
    ) -> HTTPResponse {
        var response = HTTPResponse(status: status, headers: headers, url: url)
        if let json { response.body = ResponseBody(Data(json.utf8)) }
        response.redirects = redirects
        return response
    }

    private func walk(_ polling: Polling = .location, _ method: HTTPMethod = .post) -> PollWalk {
        PollWalk(polling, method, at: .zero)
    }

    private func error(_ body: () throws(NetworkError) -> PollWalk.Action) -> NetworkError? {
        do throws(NetworkError) {
            _ = try body()
            return nil
        } catch {
            return error
        }
    }

    @Test func acceptedJobIsAskedAtItsLocation() throws {
        var walk = walk()
        let first = Self.answer(202, nil, ["Location": "/jobs/7", "Retry-After": "5"])
        #expect(try walk.next(after: first, at: .zero) == .ask(after: .seconds(5)))
        #expect(walk.step.address == "https://h/jobs/7" && walk.step.asks && !walk.step.isCacheable)
        let second = Self.answer(202, nil, ["Location": "/jobs/8"], url: "https://h/jobs/7")
        #expect(try walk.next(after: second, at: .seconds(5)) == .ask(after: .seconds(2)))
        #expect(walk.step.address == "https://h/jobs/8")
        // Without a Location the address stays.
        #expect(try walk.next(after: Self.answer(202), at: .seconds(8)) == .ask(after: .seconds(4)))
        #expect(walk.step.address == "https://h/jobs/8")
        #expect(try walk.next(after: Self.answer(200, "{}"), at: .seconds(12)) == .done)
    }

    @Test func questionHasNoConditionOfTheJob() {
        var request = HTTPRequest("PUT", "https://h/jobs", headers: ["If-None-Match": "*", "X-Own": "x"])
        FollowUp(address: "https://h/jobs/7", asks: true).ask(&request)
        #expect(request.method == .get && request.headers.map(\.name) == ["X-Own"])
    }

    @Test func waitsDoubleUpToTheLongest() throws {
        var walk = walk(.location.every(.seconds(2), upTo: .seconds(5)), .get)
        let waits = try (0..<4).map { _ in try walk.next(after: Self.answer(202), at: .zero) }
        #expect(waits == [2, 4, 5, 5].map { .ask(after: .seconds($0)) })
        #expect(walk.step.address == nil && !walk.step.asks)
        // Zero does not say when.
        #expect(
            try walk.next(after: Self.answer(202, nil, ["Retry-After": "0"]), at: .zero) == .ask(after: .seconds(5)))
        let date = Self.answer(202, nil, ["Retry-After": "Thu, 01 Jan 1970 00:01:00 GMT"])
        #expect(try walk.next(after: date, at: .zero, date: 20) == .ask(after: .seconds(40)))
    }

    @Test func stateDecidesWhatIsDone() throws {
        for word in ["done", "SUCCEEDED", "Completed", "finished"] {
            var walk = walk(.status(at: "job.state"), .get)
            #expect(try walk.next(after: Self.answer(200, #"{"job": {"state": "\#(word)"}}"#), at: .zero) == .done)
        }
        for (state, polling) in [
            ("true", Polling.status(at: "s")), ("100", .status(at: "s", done: [100])),
            (#""Done""#, .status(at: "s", done: ["Done"])),
        ] {
            var walk = walk(polling, .get)
            #expect(try walk.next(after: Self.answer(200, #"{"s": \#(state)}"#), at: .zero) == .done)
        }
        for (state, polling) in [
            ("null", Polling.status(at: "s")), ("false", .status(at: "s")), (#""running""#, .status(at: "s")),
            (#""done""#, .status(at: "s", done: ["Done"])), ("99.5", .status(at: "s", done: [100])),
        ] {
            var walk = walk(polling, .get)
            #expect(try walk.next(after: Self.answer(200, #"{"s": \#(state)}"#), at: .zero) == .ask(after: .seconds(1)))
        }
    }

    @Test func acceptedJobMayHaveNoState() throws {
        for (status, body) in [(202, nil), (202, "Accepted"), (201, "{}")] {
            var walk = walk(.status(at: "s"))
            let answer = Self.answer(status, body, ["Location": "/7"])
            #expect(try walk.next(after: answer, at: .zero) == .ask(after: .seconds(1)))
        }
        // After 303 the response is the result.
        var walk = walk(.status(at: "s"), .get)
        let result = Self.answer(200, #"{"x": 1}"#, redirects: [.init(url: "https://h/jobs/7", status: 303)])
        #expect(try walk.next(after: result, at: .zero) == .done)
    }

    @Test func postThatIsRedirectedHasItsStateThere() throws {
        var walk = walk(.status(at: "s"))
        let answer = Self.answer(
            200, #"{"s": "queued"}"#, url: "https://h/jobs/7", redirects: [.init(url: "https://h/jobs", status: 303)])
        #expect(try walk.next(after: answer, at: .zero) == .ask(after: .seconds(1)))
        #expect(walk.step.address == "https://h/jobs/7")
    }

    @Test func failedJobIsAnErrorWithItsReason() throws {
        var walk = walk(.status(at: "s", message: "error.message"), .get)
        let error = error { () throws(NetworkError) in
            try walk.next(after: Self.answer(200, #"{"s": "Failed", "error": {"message": "no paper"}}"#), at: .zero)
        }
        #expect(error?.kind == .business(code: "Failed") && error?.businessFailure?.message == "no paper")
        #expect(error?.message == #"the job has failed with "Failed": no paper; its last answer may say why"#)
    }

    @Test func resultIsFetchedFromItsAddress() throws {
        var walk = walk(.status(at: "s").result(at: "r"), .get)
        #expect(try walk.next(after: Self.answer(200, #"{"s": "done", "r": "x?y"}"#), at: .zero) == .fetch)
        #expect(walk.step.address == "https://h/x?y" && walk.step.asks && walk.step.isCacheable)
        var other = self.walk(.status(at: "s").result(at: "r"), .get)
        let error = error { () throws(NetworkError) in
            try other.next(after: Self.answer(200, #"{"s": "done"}"#), at: .zero)
        }
        #expect(error?.kind == .decoding(path: "r") && error?.message.contains("no URL of its result at r") == true)
    }

    @Test func addressIsInAFieldOrInTheJSON() throws {
        var walk = walk(.status(at: "s").address(in: "Operation-Location"))
        let answer = Self.answer(200, #"{"s": "run"}"#, ["Operation-Location": "/op/1", "Location": "/no"])
        #expect(try walk.next(after: answer, at: .zero) == .ask(after: .seconds(1)))
        #expect(walk.step.address == "https://h/op/1")
        var other = self.walk(.status(at: "s").address(at: "links.self"))
        #expect(
            try other.next(after: Self.answer(200, #"{"s": "run", "links": {"self": "7"}}"#), at: .zero)
                == .ask(after: .seconds(1)))
        #expect(other.step.address == "https://h/7")
    }

    @Test func answerThatLeadsNowhereIsAnError() {
        for (answer, polling, kind, words) in [
            (Self.answer(202), Polling.location, NetworkError.Kind.protocolViolation, "no field Location"),
            (Self.answer(202, nil, ["Location": "http:///2"]), .location, .protocolViolation, "\"http:///2\""),
            (Self.answer(200, "{}"), .status(at: "s"), .decoding(path: "s"), "no state at s"),
            (Self.answer(200, #"{"s": [1]}"#), .status(at: "s"), .decoding(path: "s"), "an array, not a state"),
            (Self.answer(200, "x"), .status(at: "s"), .decoding(path: ""), "JSON"),
            (
                Self.answer(200, #"{"s": "run", "a": "http://[x"}"#), .status(at: "s").address(at: "a"),
                .decoding(path: "a"), "not a URL"
            ),
        ] {
            var walk = walk(polling)
            let error = error { () throws(NetworkError) in try walk.next(after: answer, at: .zero) }
            #expect(error?.kind == kind && error?.message.contains(words) == true, "\(error?.message ?? "none")")
        }
    }

    @Test func endlessJobIsOneSentenceWithTheNextStep() {
        var polling = Polling.status(at: "s")
        polling.attempts = 2
        var walk = walk(polling, .get)
        let running = Self.answer(200, #"{"s": "running"}"#)
        #expect(error { () throws(NetworkError) in try walk.next(after: running, at: .zero) } == nil)
        let tooMany = error { () throws(NetworkError) in try walk.next(after: running, at: .seconds(3)) }
        #expect(tooMany?.kind == .timeout(.deadline))
        #expect(
            tooMany?.message == #"the job is not done after 2 answers in 3.0 seconds (it is "running"); raise the "#
                + "deadline or the attempts of the polling, or look at https://h/jobs")
        var slow = self.walk(.location.deadline(.seconds(10)), .get)
        let late = error { () throws(NetworkError) in
            try slow.next(after: Self.answer(202, nil, ["Retry-After": "60"]), at: .seconds(1))
        }
        #expect(late?.kind == .timeout(.deadline) && late?.message.contains("asks for a wait of 60.0 seconds") == true)
    }

    @Test func questionsThatComeTooSoonAreAskedAgain() throws {
        var walk = walk(.location, .get)
        let busy = NetworkError(.httpStatus, message: "", response: Self.answer(429, nil, ["Retry-After": "3"]))
        #expect(try walk.next(after: busy, at: .zero, date: 0) == nil)
        _ = try walk.next(after: Self.answer(202), at: .zero)
        #expect(try walk.next(after: busy, at: .zero, date: 0) == .ask(after: .seconds(3)))
        let broken = NetworkError(.httpStatus, message: "", response: Self.answer(503))
        #expect(try walk.next(after: broken, at: .zero, date: 0) == nil)
    }

    @Test func otherOriginsGetNoCredentials() throws {
        var walk = walk()
        _ = try walk.next(after: Self.answer(202, nil, ["Location": "https://other/1"]), at: .zero)
        #expect(walk.step.hasLeftOrigin)
        _ = try walk.next(after: Self.answer(202, nil, ["Location": "https://h/1"], url: "https://other/1"), at: .zero)
        #expect(walk.step.hasLeftOrigin)
        var clear = self.walk()
        let error = error { () throws(NetworkError) in
            try clear.next(after: Self.answer(202, nil, ["Location": "http://h/1"]), at: .zero)
        }
        #expect(error?.kind == .redirect && error?.message.contains("answer 1 is encrypted") == true)
    }

    @Test func appDecidesInPlaceOfTheStatus() throws {
        var walk = walk(.location, .get)
        #expect(try walk.next(after: Self.answer(200), isDone: false, at: .zero) == .ask(after: .seconds(1)))
        #expect(try walk.next(after: Self.answer(202), isDone: true, at: .zero) == .done)
    }

    @Test func timesAboveZeroAreRequired() {
        for polling in [Polling.location.every(.zero), .location.deadline(.zero), .location.every(.seconds(-1))] {
            #expect(throws: NetworkError.self) { try polling.check() }
        }
        var polling = Polling.location
        polling.attempts = 0
        #expect(throws: NetworkError.self) { try polling.check() }
    }
}

import CurlTransport
import HTTPCore
import Platform

/// Decides from each answer about a job whether it is done, and when and where to ask again. A pure value.
struct PollWalk: Sendable {
    /// What to do after an answer.
    enum Action: Hashable, Sendable {
        /// Send the request of ``step`` after a wait.
        case ask(after: Duration)
        /// Send the request of ``step``, whose response is the result.
        case fetch
        /// The answer is the result.
        case done
    }

    private let polling: Polling
    private let isSafe: Bool
    private let allowsInsecure: Bool
    private let start: Duration
    private(set) var step = FollowUp(isCacheable: false)
    /// The number of the answer that is expected next, from 1.
    private(set) var number = 1
    private var answers = 0
    /// The last state and answer, for messages.
    private var state = ""
    private var last: HTTPResponse?

    /// - Parameters:
    ///   - method: the method of the first request. One that is not safe is not sent again.
    ///   - now: the time on the caller's clock.
    init(_ polling: Polling, _ method: HTTPMethod, at now: Duration, allowsInsecure: Bool = false) {
        self.polling = polling
        isSafe = method.isSafe
        start = now
        self.allowsInsecure = allowsInsecure
    }

    /// The time that is left; `nil` for no limit.
    func timeLeft(at now: Duration) -> Duration? { polling.deadline.map { start + $0 - now } }

    /// Decides what to do after an answer.
    ///
    /// - Parameters:
    ///   - request: the request of the answer, whose secrets the words of the server may repeat.
    ///   - isDone: the decision of the app; `nil` for that of the polling.
    ///   - date: the seconds since 1970, for a `Retry-After` that is a date.
    /// - Throws: ``NetworkError/Kind/business(code:)`` for a job that has failed, `timeout(deadline)` for one that takes too
    ///   long, `decoding` and `protocolViolation` for an answer that does not say how to go on.
    mutating func next(
        after answer: HTTPResponse, to request: HTTPRequest? = nil, isDone: Bool? = nil, at now: Duration,
        date: Int64 = 0
    ) throws(NetworkError) -> Action {
        last = answer
        answers += 1
        let marks = marks(of: answer)
        let isAtEnd = if let isDone { isDone } else { try hasSucceeded(marks, request) }
        if isAtEnd {
            guard let path = polling.result else { return .done }
            guard let address = try marks.address(at: path) else {
                throw marks.shape("the job is done, but there is no URL of its result at \(path)", path)
            }
            try go(to: FollowUp(address: address, asks: true), after: answer)
            return .fetch
        }
        try find(marks)
        return try wait(answer, at: now, date)
    }

    /// Whether the polling finds an answer to be the result, so that it can be decoded as part of its call.
    func ends(with answer: HTTPResponse, to request: HTTPRequest) -> Bool {
        var walk = self
        return polling.result == nil && (try? walk.hasSucceeded(marks(of: answer), request)) == true
    }

    private func marks(of answer: HTTPResponse) -> WayMarks {
        WayMarks(response: answer, what: "answer \(number)", setting: "the polling, or in poll of the row")
    }

    /// Goes on after the server has refused a question because it came too soon.
    ///
    /// - Returns: `nil` when the server does not say when to ask again, so that the error ends the polling.
    mutating func next(after error: NetworkError, at now: Duration, date: Int64) throws(NetworkError) -> Action? {
        guard number > 1, error.kind == .httpStatus, let answer = error.response,
            answer.status == 429 || answer.status == 503, answer.retryAfter(at: date) != nil
        else { return nil }
        last = answer
        answers += 1
        return try wait(answer, at: now, date)
    }

    /// Whether a job is at its end.
    private mutating func hasSucceeded(_ marks: WayMarks, _ request: HTTPRequest?) throws(NetworkError) -> Bool {
        let answer = marks.response
        guard let path = polling.status else { return answer.status != 202 }
        let isAccepted = answer.status == 201 || answer.status == 202
        // A text such as "Accepted" says no more than the status.
        let value = isAccepted ? try? marks.value(at: path) : answer.hasNoContent ? nil : try marks.value(at: path)
        guard let value, !value.isNull else {
            if isAccepted || value != nil { return false }
            // After 303 the response is the result itself (RFC 9110 §15.4.4).
            if answer.status == 204 || answer.redirects.last?.status == 303 { return true }
            throw marks.shape("there is no state at \(path)", path)
        }
        switch value.value {
        case .array, .object: throw marks.shape("\(path) is \(value.kindName), not a state", path)
        case let found:
            state = Envelope.Rule.text(found) ?? ""
            guard let succeeded = polling.hasSucceeded(found) else { return false }
            guard succeeded else { throw try failure(marks, request) }
            return true
        }
    }

    /// Finds the address to ask, which stays the same where the answer names none.
    private mutating func find(_ marks: WayMarks) throws(NetworkError) {
        let answer = marks.response
        if let path = polling.address, let address = try marks.address(at: path) {
            return try go(to: FollowUp(address: address, asks: true, isCacheable: false), after: answer)
        }
        let hasAddress = polling.field != "Location" || answer.status == 201 || answer.status == 202
        if hasAddress, let text = answer.headers[polling.field], !text.isEmpty {
            guard let address = URLReference.link(text, at: answer.url) else {
                throw marks.unusable(polling.field, text)
            }
            return try go(to: FollowUp(address: address, asks: true, isCacheable: false), after: answer)
        }
        guard number == 1, !isSafe else { return }
        // A 303 has led to the address of the state.
        if answer.redirects.contains(where: { $0.status == 303 }) {
            return try go(to: FollowUp(address: answer.url, asks: true, isCacheable: false), after: answer)
        }
        throw NetworkError(
            .protocolViolation,
            message:
                "the job is not done, but the answer has no field \(polling.field) with the address to ask; name the "
                + "field or the place in the JSON with address, in the polling or in poll of the row", response: answer)
    }

    private mutating func go(to next: FollowUp, after answer: HTTPResponse) throws(NetworkError) {
        var next = next
        try next.leave(answer, "answer \(number)", after: step, allowsInsecure: allowsInsecure)
        step = next
    }

    private mutating func wait(
        _ answer: HTTPResponse, at now: Duration, _ date: Int64
    ) throws(NetworkError) -> Action {
        let asked = answer.retryAfter(at: date).flatMap { $0 > .zero ? $0 : nil }
        let pauses = Backoff(first: polling.interval, longest: max(polling.interval, polling.longestInterval))
        let wait = asked ?? pauses.pause(afterFailures: number)
        if let attempts = polling.attempts, number >= attempts { throw late(at: now) }
        if let left = timeLeft(at: now), wait >= left { throw late(at: now, asked) }
        number += 1
        return .ask(after: wait)
    }

    private func failure(_ marks: WayMarks, _ request: HTTPRequest?) throws(NetworkError) -> NetworkError {
        let answer = marks.response
        let document = try? answer.document()
        var words = answer.problem.map { "\($0)" }
        if let path = polling.message {
            words = try marks.value(at: path).flatMap { Envelope.Rule.text($0.value) } ?? words
        }
        let failure = BusinessFailure(
            code: state, message: words,
            envelope: Envelope(code: .string(state), message: words, data: document?.value))
        let said = (["with \"\(state)\""] + [words].compactMap { $0 }).joined(separator: ": ")
        let shown = Redactor.scrubbed(URLText.visible(String(said.prefix(1_024))), of: request)
        return NetworkError(
            .business(code: state), message: "the job has failed \(shown); its last answer may say why",
            response: answer,
            underlying: failure)
    }

    /// The error for a job that takes too long.
    ///
    /// - Parameter asked: the wait for which the server asks, if that is too long.
    func late(at now: Duration, _ asked: Duration? = nil) -> NetworkError {
        let state = state.isEmpty ? "" : " (it is \"\(URLText.visible(String(state.prefix(64))))\")"
        let time = Duration.milliseconds((now - start).roundedUpMilliseconds)
        let reason = asked.map { ", and the server asks for a wait of \($0)" } ?? ""
        let place = last.map { ", or look at \(URLText.visible(URLParts.redacted($0.url)))" } ?? ""
        return NetworkError(
            .timeout(.deadline),
            message:
                "the job is not done after \(answers) \(answers == 1 ? "answer" : "answers") in \(time)\(state)\(reason); "
                + "raise the deadline or the attempts of the polling\(place)", response: last)
    }
}

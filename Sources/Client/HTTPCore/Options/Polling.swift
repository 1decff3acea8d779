/// How a job that takes longer than a request is followed to its end.
///
/// ```swift
/// let report = try await central.poll("POST", "/reports", body: .json(order))             // 202, Location, Retry-After
/// let video = try await central.poll("POST", "/videos", .status(at: "state").result(at: "links.result"))
/// ```
///
/// A row of the table says the same with `poll`.
public struct Polling: Sendable, Hashable {
    /// The place of the state in the JSON of an answer; `nil` when the status 202 alone says that the job is not done.
    package var status: String?
    /// The values of the state at the end; `nil` for ``words``.
    package var done: [JSONValue]?
    package var failed: [JSONValue]?
    /// The place of the reason of a failure.
    package var message: String?
    /// The place of the URL of the state, and that of the result.
    package var address: String?
    package var result: String?
    /// The field with the URL of the state.
    package var field = "Location"
    /// The wait before the first question. It doubles with each, up to ``longestInterval``. A server that sends `Retry-After`
    /// decides itself (RFC 9110 §10.2.3), except that 0 counts as absent. Default 1 s.
    public var interval: Duration = .seconds(1)
    /// The longest wait that ``interval`` grows to. Default 30 s.
    public var longestInterval: Duration = .seconds(30)
    /// The longest time until the job is done, from the first request on; `nil` for no limit. Default 10 minutes.
    public var deadline: Duration? = .seconds(600)
    /// The largest number of requests, the first one included. Default `nil`: no limit.
    public var attempts: Int?

    package init() {}

    /// The job is done with the first status other than 202. Its address is in the field `Location` of an answer with 201 or
    /// 202; without one, a request that is safe (RFC 9110 §9.2.1) is sent again.
    public static var location: Polling { Polling() }

    /// The JSON of each answer has the state of the job.
    ///
    /// - Parameters:
    ///   - path: its place; dots separate nested names: `job.state`. In an answer with 201 or 202 it may be missing.
    ///   - done: the values of a job that has succeeded. Default `nil`: `true`, and words such as `done`, `succeeded` and
    ///     `completed`, in any case.
    ///   - failed: the values of a job that has failed. Default `nil`: words such as `failed`, `error` and `cancelled`. Any
    ///     other value means that it is not done yet.
    ///   - message: the place of the reason of a failure. Default `nil`.
    public static func status(
        at path: String, done: [JSONValue]? = nil, failed: [JSONValue]? = nil, message: String? = nil
    ) -> Polling {
        var polling = Polling()
        (polling.status, polling.done, polling.failed, polling.message) = (path, done, failed, message)
        return polling
    }

    /// The same, with the URL of the state in the JSON of an answer.
    public func address(at path: String) -> Polling { with { $0.address = path } }

    /// The same, with the URL of the state in another field than `Location`, such as `Operation-Location`.
    public func address(in field: String) -> Polling { with { $0.field = field } }

    /// The same, but the result is at a URL that the last answer has in its JSON. Default: the last answer is the result.
    public func result(at path: String) -> Polling { with { $0.result = path } }

    /// The same with other waits. Without a longest one, they do not grow.
    public func every(_ interval: Duration, upTo longest: Duration? = nil) -> Polling {
        with { ($0.interval, $0.longestInterval) = (interval, longest ?? interval) }
    }

    /// The same with another ``deadline``.
    public func deadline(_ deadline: Duration?) -> Polling { with { $0.deadline = deadline } }

    private func with(_ change: (inout Polling) -> Void) -> Polling {
        var polling = self
        change(&polling)
        return polling
    }

    /// What a value of the state means; `nil` for a job that is not at its end.
    package func hasSucceeded(_ value: JSONValue) -> Bool? {
        let isIn = { (values: [JSONValue]?, words: Set<String>) in
            if let values { return values.contains(value) }
            guard case .string(let text) = value else { return false }
            return words.contains(text.lowercased().filter(\.isLetter))
        }
        if isIn(failed, Self.words.failed) { return false }
        return isIn(done, Self.words.done) || (done == nil && value == true) ? true : nil
    }

    /// The usual words for the end of a job, without case and signs.
    private static let words: (done: Set<String>, failed: Set<String>) = (
        ["succeeded", "success", "successful", "completed", "complete", "done", "finished", "ready"],
        [
            "failed", "failure", "error", "errored", "cancelled", "canceled", "aborted", "expired", "rejected",
            "timedout",
        ]
    )

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a time or a number that is not above zero.
    package func check() throws(NetworkError) {
        for (name, time) in [("interval", interval), ("longestInterval", longestInterval), ("deadline", deadline)] {
            if let time, time <= .zero {
                throw .invalidRequest("the polling has a \(name) of \(time); give more than 0")
            }
        }
        if let attempts, attempts < 1 { throw .invalidRequest("the polling has \(attempts) attempts; give 1 or more") }
    }
}

public import DomainTables
import FoundationEssentials
public import HTTPCore

extension Polling {
    /// Receives each answer about a job that is not done yet, before the next wait. It is called between the requests, so the
    /// polling waits until it returns.
    public typealias Handler = @Sendable (_ answer: HTTPResponse) async -> Void
}

extension EntityRequest {
    /// Starts a job and follows it until it is done.
    ///
    /// ```swift
    /// let user = try await FetchUser(id: 42).poll(on: central).model
    /// ```
    ///
    /// The first request is this one. The questions are GETs without its content, to the address that the server names; they
    /// have its headers and settings, and their responses never come from the cache. Each is a call of its own, with retries
    /// and timeouts. A question that is answered with 429 or 503 and `Retry-After` is asked again. Credentials are sent to the
    /// origin of the first request only.
    ///
    /// - Parameters:
    ///   - polling: how the job is followed. Default `nil`: `poll` of the row, else ``Polling/location``.
    ///   - manager: sends the requests. Default ``CentralRequestManager/shared``.
    ///   - progress: receives the answers before the last one. Default `nil`.
    /// - Returns: the reply that is the result. No other is decoded.
    /// - Throws: as ``startRequest(on:isolation:)``; `business`, with the state as code, for a job that has failed;
    ///   `timeout(deadline)` when it is not done in time; `protocolViolation` for an answer that names no address.
    public func poll(
        _ polling: Polling? = nil, on manager: CentralRequestManager = .shared, progress: Polling.Handler? = nil
    ) async throws -> Reply<Model> {
        try await manager.poll(call, polling, progress, nil)
    }

    /// Starts a job and follows it until a reply says that it is done.
    ///
    /// ```swift
    /// let user = try await FetchUser(id: 42).poll(on: central) { $0.model.name != "" }.model
    /// ```
    ///
    /// - Parameter isDone: receives each reply, the first one included; an error that it throws ends the polling. A reply with
    ///   201, 202 or 204 that has no content is not shown to it.
    /// - Throws: as ``poll(_:on:progress:)``.
    public func poll(
        _ polling: Polling? = nil, on manager: CentralRequestManager = .shared,
        until isDone: @escaping @Sendable (_ reply: Reply<Model>) throws -> Bool, progress: Polling.Handler? = nil
    ) async throws -> Reply<Model> {
        try await manager.poll(call, polling, progress, isDone)
    }
}

extension CentralRequestManager {
    /// Starts a job and follows it until it is done, as ``EntityRequest/poll(_:on:progress:)``.
    ///
    /// ```swift
    /// let result = try await central.poll("POST", "/reports", parameters: ["year": 2026])
    /// let done = try await central.poll("GET", "/jobs/7") { try $0.json()["state"].string == "done" }
    /// ```
    ///
    /// - Parameters:
    ///   - method: the method of the first request.
    ///   - url: its URL, absolute or relative to the base URL.
    ///   - polling: how the job is followed. Default ``Polling/location``.
    ///   - parameters: as in a call, of the first request. Default none.
    ///   - body: the body of the first request. Default `nil`.
    ///   - headers: override the manager's. Default none.
    ///   - isDone: receives each answer and decides in place of the status and the state; an error that it throws ends the
    ///     polling. Default `nil`.
    ///   - progress: receives the answers before the last one. Default `nil`.
    /// - Returns: the response that is the result.
    public func poll(
        _ method: String, _ url: some URLConvertible, _ polling: Polling = .location, parameters: Parameters? = nil,
        body: HTTPBody? = nil, headers: HTTPHeaders = HTTPHeaders(),
        until isDone: (@Sendable (_ answer: HTTPResponse) throws -> Bool)? = nil, progress: Polling.Handler? = nil
    ) async throws -> HTTPResponse {
        let first = HTTPRequest(method, RequestBuilder.absoluteURL(url.urlText, base: baseURL), headers: headers)
        return try await poll(polling, first.method, progress) { [self] step, left, _ in
            var (request, parts) = (first, CallArguments(parameters: parameters, body: body))
            step.apply(to: &request, &parts)
            if step.hasLeftOrigin { pipeline.redirect.rule.strip(&request, defaults: configuration.headers) }
            request.deadline = [configuration.deadline, left].compactMap { $0 }.min()
            let call = try await made { () throws(NetworkError) in try self.call(request, parts) }
            let response = try await run(call) { _ = try checked($0, of: $1) }
            return Answer(response: response, call: call, isDone: try isDone?(response)) { response }
        }
    }

    /// Starts a job by a row of the table and follows it until it is done, as `poll` of the row says.
    ///
    /// ```swift
    /// let report = try await central.poll(server: "report.create", parameters: ["year": 2026], as: User.self).model
    /// ```
    public func poll<Model: Decodable & Sendable>(
        server: ServerName, _ polling: Polling? = nil, parameters: Parameters? = nil,
        as model: Model.Type = JSONValue.self, progress: Polling.Handler? = nil
    ) async throws -> Reply<Model> {
        try await poll(EntityCall(Route(server: server), parameters: parameters, as: model), polling, progress, nil)
    }

    /// An answer about a job.
    private struct Answer<Value> {
        let response: HTTPResponse
        let call: Call
        /// The decision of the app; `nil` for that of the polling.
        let isDone: Bool?
        let value: () throws -> Value
    }

    fileprivate func poll<Model: Decodable & Sendable>(
        _ entity: EntityCall<Model>, _ polling: Polling?, _ progress: Polling.Handler?,
        _ isDone: (@Sendable (Reply<Model>) throws -> Bool)?
    ) async throws -> Reply<Model> {
        let first = routePlan(of: entity.route)
        let own = entity.options.deadline ?? first?.prototype.deadline ?? configuration.deadline
        return try await poll(
            polling ?? first?.polling ?? .location, entity.route?.method ?? first?.prototype.method ?? .get, progress
        ) { [self] step, left, isResult in
            var plan = try entity.plan()
            try plan.go(to: step)
            plan.followUp?.plan = first
            plan.options.deadline = [own, left].compactMap { $0 }.min()
            let call = try await made { () throws(NetworkError) in try self.call(plan) }
            // The envelope decides about each answer; only the result has to be the model.
            let (response, shown) = try await run(call) { answer, call -> (HTTPResponse, Reply<Model>?) in
                let response = try call.reply(Empty.self, from: answer).response
                let isEmpty = [201, 202, 204].contains(response.status) && response.hasNoContent
                let isShown = isDone == nil ? isResult(response, call.request) : !isEmpty
                return (response, isShown ? try call.reply(Model.self, from: response) : nil)
            }
            let decision = try isDone.map { isDone in try shown.map(isDone) ?? false }
            return Answer(response: response, call: call, isDone: decision) {
                try shown ?? Self.attaching(call) { try call.reply(Model.self, from: response) }
            }
        }
    }

    private static func attaching<Value>(_ call: Call, _ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch {
            throw call.failure(error)
        }
    }

    private func poll<Value>(
        _ polling: Polling, _ method: HTTPMethod, _ progress: Polling.Handler?,
        _ fetch: (
            _ step: FollowUp, _ left: Duration?,
            _ isResult: @escaping @Sendable (_ answer: HTTPResponse, _ request: HTTPRequest) -> Bool
        ) async throws -> Answer<Value>
    ) async throws -> Value {
        try polling.check()
        let clock = pipeline.limits.clock
        var walk = PollWalk(
            polling, method, at: clock.now(), allowsInsecure: pipeline.redirect.rule.allowsInsecure)
        var isResult = false
        while true {
            let answer: Answer<Value>
            do {
                answer = try await fetch(walk.step, walk.timeLeft(at: clock.now())) { [walk, isResult] in
                    isResult || walk.ends(with: $0, to: $1)
                }
            } catch let error as NetworkError {
                let now = clock.now()
                if error.kind == .timeout(.deadline), let left = walk.timeLeft(at: now), left <= .zero {
                    throw error.request.map(walk.late(at: now).attaching) ?? error
                }
                guard !isResult, case .ask(let wait)? = try walk.next(after: error, at: now, date: Self.date) else {
                    throw error
                }
                try await clock.sleep(wait)
                continue
            }
            if isResult { return try answer.value() }
            let action = try Self.attaching(answer.call) {
                try walk.next(
                    after: answer.response, to: answer.call.request, isDone: answer.isDone, at: clock.now(),
                    date: Self.date)
            }
            switch action {
            case .done: return try answer.value()
            case .fetch: isResult = true
            case .ask(let wait):
                await progress?(answer.response)
                try await clock.sleep(wait)
            }
        }
    }

    private static var date: Int64 { Int64(Date.now.timeIntervalSince1970) }
}

import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform

// Runs calls, in whatever form they were started.
extension CentralRequestManager {
    /// Runs a call to its end: registers it, notifies its observers, and sends it again if the resolver wants it.
    ///
    /// - Parameters:
    ///   - gate: reports the call's progress; closed before this returns.
    ///   - observed: whether the outcome observers are notified and the resolver is asked.
    ///   - judge: throws when the response is a failure.
    /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
    func run(
        _ call: Call, _ gate: ProgressGate? = nil, observed: Bool = true,
        judge: (HTTPResponse, Call) throws -> Void
    ) async throws -> HTTPResponse {
        let timer = enter(call)
        defer { leave(call, timer) }
        do {
            let response = try await outcome(of: call, observed, judge)
            if let gate { try await gate.close(for: call) }
            succeed(call, response)
            return response
        } catch {
            fail(call, gate, error)
            throw error
        }
    }

    /// Runs a call to its end, as ``run(_:_:observed:judge:)``, and returns what `conclude` makes from its response.
    func run<Value>(
        _ call: Call, _ gate: ProgressGate? = nil, _ conclude: (HTTPResponse, Call) throws -> Value
    ) async throws -> Value {
        var value: Value?
        _ = try await run(call, gate, judge: { value = try conclude($0, $1) })
        return value.unsafelyUnwrapped
    }

    /// Runs a call that ends with its body: it stays in the registry until the body was read or released.
    ///
    /// - Parameters:
    ///   - observed: as in ``run(_:_:observed:judge:)``, and whether the status has to be a success. Observers get the outcome
    ///     when the head has arrived. The error for another status has the beginning of the body.
    func runStream(_ call: Call, observed: Bool) async throws -> HTTPResponse {
        let timer = enter(call)
        let end = { @Sendable [self] (result: Result<HTTPResponse, NetworkError>) in
            leave(call, timer)
            finish(call, result)
        }
        do {
            var response = try await outcome(of: call, observed) { response, call in
                if observed { _ = try StatusRule.check(response, to: call.request) }
            }
            guard response.body.isStream else {
                end(.success(response))
                return response
            }
            let head = response.withoutStream
            response.body = ResponseBody(
                CallBody(response.body, call, reportsBytes: true) { failure in
                    end(failure.map { .failure($0) } ?? .success(head))
                })
            return response
        } catch {
            end(.failure(call.failure(error)))
            throw error
        }
    }

    /// Starts a call in closure form. Its one terminal event is delivered later, on the callback executor.
    ///
    /// - Parameters:
    ///   - gate: reports the call's progress; shut before the terminal event.
    ///   - executor: where the terminal event is delivered; `nil` for the manager's callback executor.
    ///   - make: makes the call; an error is delivered as the terminal event.
    ///   - conclude: makes the delivered value from the response, or throws.
    package func start<Value: Sendable>(
        _ gate: ProgressGate? = nil, on executor: CallbackExecutor? = nil, _ make: () throws(NetworkError) -> Call,
        conclude: @escaping @Sendable (HTTPResponse, Call) throws -> Value,
        deliver: @escaping @Sendable (RequestTask, Result<Value, NetworkError>) -> Void
    ) -> RequestTask {
        let executor = executor ?? callbacks
        let call: Call
        let refusal: NetworkError?
        do throws(NetworkError) {
            call = try make()
            refusal = nil
        } catch {
            // No accessories, because nothing is sent. The outcome observers are notified below.
            call = Call(error.request ?? HTTPRequest("GET", ""))
            refusal = error
        }
        // Registered before it starts, so that a cancellation right after this finds it.
        let timer = enter(call)
        call.run { [self] in
            let result: Result<(Value, HTTPResponse), NetworkError>
            if let refusal {
                await notifyOutcomeObservers(.failure(refusal), call.request)
                result = .failure(refusal)
            } else {
                do {
                    try Task.checkCancellation()
                    var value: Value?
                    let response = try await outcome(of: call, true) { value = try conclude($0, $1) }
                    result = .success((value.unsafelyUnwrapped, response))
                } catch {
                    result = .failure(call.failure(error))
                }
            }
            timer.map(pipeline.limits.cancel)
            executor.run { [self] in
                // A call that waits for the executor can still be cancelled.
                let ending = call.finish() ? .failure(call.cancellation) : result
                gate?.shut()
                calls.leave(call)
                // Closures: a key path of a generic tuple would be made anew each time.
                let response = ending.map { $0.1 }
                call.settle(response)
                call.watch?.willFinish(response)
                deliver(RequestTask(call), ending.map { $0.0 })
                call.watch?.didFinish(response)
            }
        }
        return RequestTask(call)
    }

    /// Sends one of several requests that belong to one call, such as a segment of a download, and returns its response
    /// as a stream. Cancelling the call cancels it.
    ///
    /// - Parameters:
    ///   - check: throws when the response is not what the call asked for. With a check, the outcome observers are notified,
    ///     and the resolver is asked about failures. Default `nil`: neither happens.
    package func sendPart(
        _ request: HTTPRequest, of whole: Call, check: ((HTTPResponse) throws -> Void)? = nil
    ) async throws -> HTTPResponse {
        // A refreshed link is another address, to which the details of the route, such as its mirrors, do not apply.
        let isSame = request.context.isLive || request.url == whole.request.url
        var request = located(request)
        if !isSame {
            pipeline.redirect.rule.strip(&request, from: whole.request.url, defaults: configuration.headers)
        }
        return try await send(
            makeCall(request, isSame ? whole.details : CallDetails(), partOf: whole.watch), of: whole, check)
    }

    /// Sends one of the requests of an upload that can go on, and returns its response, whatever the status. The rows of the
    /// whole call apply to all its requests to the same origin.
    ///
    /// - Parameters:
    ///   - body: receives the bytes that are read from the part of the file.
    ///   - interim: receives the interim responses.
    package func sendPiece(
        _ request: HTTPRequest, of whole: Call, body: BodyHandler?, interim: InterimHandler?
    ) async throws -> HTTPResponse {
        try await send(piece(request, of: whole, body, interim), of: whole, nil)
    }

    /// Sends a request that cleans up after an upload, also when the whole call was cancelled.
    package func sendAfter(_ whole: Call, _ request: HTTPRequest) async throws -> HTTPResponse {
        try await run(piece(request, of: whole, nil, nil), observed: false) { _, _ in }
    }

    private func piece(
        _ request: HTTPRequest, of whole: Call, _ body: BodyHandler?, _ interim: InterimHandler?
    ) -> Call {
        var request = located(request)
        let isSame = URLReference.origin(of: request.url) == URLReference.origin(of: whole.request.url)
        pipeline.redirect.rule.strip(&request, from: whole.request.url, defaults: configuration.headers)
        let row = isSame ? whole.details.row : nil
        let details = CallDetails(row: row, bodyHandler: body, interimHandler: interim)
        return makeCall(request, details, partOf: whole.watch)
    }

    private func send(
        _ part: Call, of whole: Call, _ check: ((HTTPResponse) throws -> Void)?
    ) async throws -> HTTPResponse {
        let request = part.request
        let wait = CallWait(whole) { _ in part.follow(whole) }
        // The whole may have been paused before, and only changes are notified.
        part.follow(whole)
        do {
            var response = try await outcome(of: part, check != nil) { response, part in
                if let check { try check(StatusRule.check(response, to: part.request)) }
            }
            guard response.body.isStream else {
                wait.end()
                return response
            }
            // Observers see the events of a stream, but not the frames of a WebSocket or the parts of a download.
            let isRead = request.context.isLive && !request.context.upgrades
            response.body = ResponseBody(CallBody(response.body, part, reportsBytes: isRead) { _ in wait.end() })
            return response
        } catch {
            wait.end()
            throw error
        }
    }

    /// What repetitions are paid from, for who repeats requests without the pipeline.
    package var retryBudget: RetryBudget { pipeline.retryBudget }

    /// Whether the reply is one sealed message, which is opened when all of it has arrived.
    package func seals(_ request: HTTPRequest) -> Bool { pipeline.seals(request) }

    package func enter(_ call: Call) -> TimeLimits.Ticket? {
        let isTaken = calls.enter(call, isInside: CallScope.isInsideCall)
        call.watch?.start()
        if !isTaken { call.refuse() }
        return call.deadline.map { deadline in pipeline.limits.schedule(at: deadline) { call.endAtDeadline() } }
    }

    package func leave(_ call: Call, _ timer: TimeLimits.Ticket?) {
        calls.leave(call)
        timer.map(pipeline.limits.cancel)
    }

    /// Ends a call that is not in closure form, and notifies its observers.
    @inline(never)
    package func finish(_ call: Call, _ result: consuming Result<HTTPResponse, NetworkError>) {
        _ = call.finish()
        guard let watch = call.watch else { return }
        watch.willFinish(result)
        watch.didFinish(result)
    }

    @inline(never)
    private func succeed(_ call: Call, _ response: HTTPResponse) { finish(call, .success(response)) }

    @inline(never)
    private func fail(_ call: Call, _ gate: ProgressGate?, _ error: any Error) {
        gate?.shut()
        finish(call, .failure(call.failure(error)))
    }

    // A call in flight holds the frames of its `async` functions. What is rare, and what comes after the wait, is in functions
    // that are not inlined, so that the frames have no room for it.

    /// Sends a call's request until its outcome is final, notifies the observers, and returns the response or throws.
    private func outcome(
        of call: Call, _ isObserved: Bool, _ judge: (HTTPResponse, Call) throws -> Void
    ) async throws -> HTTPResponse {
        var replays = 0
        while true {
            do {
                var response = try await pipeline.send(call)
                if complete(&response, of: call, isObserved) { response.body = try await beginning(of: response, call) }
                try judge(response, call)
                if isObserved, !configuration.outcomeObservers.isEmpty { await notifyOfSuccess(response, call) }
                return response
            } catch {
                try await endOrReplay(call, error, isObserved, replays)
                replays += 1
            }
        }
    }

    /// Returns whether the beginning of a stream is collected for the error.
    @inline(never)
    private func complete(_ response: inout HTTPResponse, of call: Call, _ isObserved: Bool) -> Bool {
        if let coding = call.details.coding { response.coding = coding }
        response.requestMethod = call.request.method
        return isObserved && response.body.isStream && !StatusRule.isSuccess(response, to: call.request)
    }

    /// Returns when the resolver has a failed call sent again. Otherwise notifies the observers and throws the final error.
    @inline(never)
    private func endOrReplay(_ call: Call, _ error: any Error, _ isObserved: Bool, _ replays: Int) async throws {
        var failure = call.failure(error)
        var isTaskCancellation = error is CancellationError && !call.isCancelled
        if isObserved {
            do throws(NetworkError) {
                if try await isReplayed(failure, call, replays) { return }
            } catch {
                failure = call.failure(error)
                isTaskCancellation = failure.underlying is CancellationError && !call.isCancelled
            }
            await notifyOutcomeObservers(.failure(failure), call.request)
        }
        // The cancellation of the current task is thrown as such.
        if isTaskCancellation { throw CancellationError() }
        throw failure
    }

    @inline(never)
    private func beginning(of response: HTTPResponse, _ call: Call) async throws -> ResponseBody {
        let body = ResponseBody(try await StatusRule.beginning(of: response.body))
        guard !call.isCancelled else { throw call.cancellation }
        return body
    }

    @inline(never)
    private func notifyOfSuccess(_ response: HTTPResponse, _ call: Call) async {
        await notifyOutcomeObservers(.success(response.withoutStream), call.request)
    }

    package func notifyOutcomeObservers(_ result: Result<HTTPResponse, NetworkError>, _ request: HTTPRequest) async {
        guard !configuration.outcomeObservers.isEmpty else { return }
        let outcome = CallOutcome(result)
        for observer in configuration.outcomeObservers { await observer(outcome, request) }
    }

    /// Whether the resolver has a call sent again after a failure.
    package func isReplayed(_ error: NetworkError, _ call: Call, _ replays: Int) async throws(NetworkError) -> Bool {
        guard let resolver = configuration.resolver, replays < configuration.maxReplays, error.kind != .cancelled,
            call.isReplayable
        else { return false }
        // The resolver is not asked about a call that was cancelled in the meantime.
        guard !call.isCancelled else { throw call.cancellation }
        do {
            return try await pipeline.limits.run(for: call) {
                try await CallScope.providing("resolver") { try await resolver.resolve(error, of: call.request) }
            }
                == .replay
        } catch let error as NetworkError {
            throw error
        } catch {
            if error is CancellationError { throw call.failure(error) }
            throw NetworkError(
                .provider, message: "the resolver threw: \(error)", request: call.request, underlying: error)
        }
    }

    // MARK: Delivery

    /// Delivers a cached response on the callback executor, before the terminal event.
    func deliver(cached call: Call, _ event: @escaping @Sendable () -> Void) {
        callbacks.run { if call.noteCachedReply() { event() } }
    }
}

extension Result where Failure == NetworkError {
    /// Calls the closure that receives this result of a call in closure form.
    func deliver(
        to success: (RequestTask, Success) -> Void, _ failure: (RequestTask, NetworkError) -> Void, of task: RequestTask
    ) {
        switch self {
        case .success(let value): success(task, value)
        case .failure(let error): failure(task, error)
        }
    }
}

extension HTTPResponse {
    /// The response without a body that can be read only once.
    fileprivate var withoutStream: HTTPResponse {
        guard body.isStream else { return self }
        var head = self
        head.body = .empty
        return head
    }
}

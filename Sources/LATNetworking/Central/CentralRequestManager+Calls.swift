import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform

/// The arguments of a call of the central API, besides method, URL and headers.
struct CallArguments {
    var parameters: Parameters?
    var files: [UploadFile] = []
    var body: HTTPBody?
    var cache: CachePolicy?
    var timeout: Duration?
    var tag: String?
    var streams = false
    var bodyHandler: BodyHandler?
}

// Making calls is synchronous, so that a call is complete, and can be cancelled, before anything waits.
extension CentralRequestManager {
    /// Makes a call of the central API.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for arguments that cannot be combined.
    func call(
        _ method: String, _ url: String, _ headers: HTTPHeaders, _ parts: CallArguments,
        progress: ProgressHandler? = nil, cached: (@Sendable (HTTPResponse, Call) -> Void)? = nil
    ) throws(NetworkError) -> Call {
        do throws(NetworkError) {
            return try uncheckedCall(method, url, headers, parts, progress, cached)
        } catch {
            throw error.attaching(HTTPRequest(method, url))
        }
    }

    private func uncheckedCall(
        _ method: String, _ url: String, _ headers: HTTPHeaders, _ parts: CallArguments, _ progress: ProgressHandler?,
        _ cached: (@Sendable (HTTPResponse, Call) -> Void)?
    ) throws(NetworkError) -> Call {
        var request = HTTPRequest(method, RequestBuilder.absoluteURL(url, base: baseURL), headers: headers)
        if let timeout = parts.timeout { request.timeout = timeout }
        if let cache = parts.cache { request.cachePolicy = cache }
        if let tag = parts.tag { request.tag = tag }
        if parts.streams { request.streamsBody = true }
        var details = CallDetails(
            judge: parts.streams ? nil : configuration.successJudge, bodyHandler: parts.bodyHandler)
        if (request.cachePolicy ?? configuration.cachePolicy) == .cacheThenNetwork { details.deliversCached = cached }
        if parts.parameters != nil || parts.body != nil || !parts.files.isEmpty
            || configuration.parameterProvider != nil
        {
            var content = RequestContent(
                files: parts.files, body: parts.body, encoding: configuration.parameterEncoding)
            if let parameters = parts.parameters {
                content.members = try RequestBuilder.encoded(parameters, by: coding)
            }
            if configuration.parameterProvider != nil {
                // The provider's parameters are fresh for each attempt; see `CompositionRoom`.
                details.addresses = [simulatedAddress(of: request.url) ?? request.url]
                details.content = content
            }
            try RequestBuilder.put(content, into: &request)
        }
        return makeCall(request, details, progress: progress)
    }

    /// Makes the call of a request. Its deadline counts from now; the current accessories and subscribers observe it.
    ///
    /// - Parameter watch: reports to the observers of the call that this one is a part of; `nil` for none.
    func makeCall(
        _ request: HTTPRequest, _ details: CallDetails = CallDetails(), progress: ProgressHandler? = nil,
        partOf watch: CallReporter? = nil
    ) -> Call {
        var request = request
        var details = details
        if details.row == nil, details.simulation == nil, let simulation = configuration.simulation, simulation.isOn {
            details.simulation = simulation
            if let address = simulatedAddress(of: request.url) { request.url = address }
        }
        if details.row == nil {
            details.coding = request.hasNoSettings ? coding : request.coding.map { CodingRules.of($0) } ?? coding
        }
        if let coding = details.coding, let body = request.body { request.body = body.coded(by: coding) }
        details.partition = request.cachePartition ?? storage.partition
        let limit = request.deadline ?? configuration.deadline
        return Call(
            request, details: details, deadline: limit.map { corridor.limits.clock.now() + $0 },
            watchers: configuration.accessories.isEmpty && !hub.isActive
                ? nil : CallReporters(accessories: configuration.accessories, hub: hub),
            watch: watch, progress: progress)
    }

    /// Decides about the response to a call without a route.
    ///
    /// - Throws: ``NetworkError`` of kind `httpStatus`, or `business` when the manager's judge rejects the response.
    func checked(_ response: HTTPResponse, of call: Call) throws -> HTTPResponse {
        _ = try Verdict.check(response, to: call.request)
        if let judge = call.details.judge {
            try ReplyDecoder.ask(judge, about: response, to: call.request)
        }
        return response
    }

    /// Returns the request with an absolute URL.
    func located(_ request: HTTPRequest) -> HTTPRequest {
        var request = request
        request.url = RequestBuilder.absoluteURL(request.url, base: baseURL)
        return request
    }

    private func simulatedAddress(of url: String) -> String? { configuration.simulation?.address(path: nil, of: url) }

    /// Makes a call, and notifies the outcome observers when that fails.
    func made(_ make: () throws(NetworkError) -> Call) async throws(NetworkError) -> Call {
        do throws(NetworkError) {
            return try make()
        } catch {
            await tell(error, error.request ?? HTTPRequest("GET", ""))
            throw error
        }
    }
}

// Runs calls: every form of a call takes this one path.
extension CentralRequestManager {
    /// Runs a call to its end: registers it, notifies its observers, and sends it again when the resolver says so.
    ///
    /// - Parameters:
    ///   - gate: reports the call's progress; closed before this returns.
    ///   - observed: whether the outcome observers are notified and the resolver is asked.
    ///   - conclude: makes the delivered value from the response, or throws.
    /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
    func run<Value>(
        _ call: Call, _ gate: ProgressGate? = nil, observed: Bool = true,
        _ conclude: (HTTPResponse, Call) throws -> Value
    ) async throws -> Value {
        let alarm = enter(call)
        defer { leave(call, alarm) }
        do {
            let (value, response) = try await outcome(of: call, observed, conclude)
            if let gate { try await gate.close(for: call) }
            finish(call, .success(response))
            return value
        } catch {
            gate?.shut()
            finish(call, .failure(call.failure(error)))
            throw error
        }
    }

    /// Runs a call that ends with its body: it stays in the registry until the body was read or released.
    func runStream(_ call: Call) async throws -> HTTPResponse {
        let alarm = enter(call)
        let end = { @Sendable [self] (result: Result<HTTPResponse, NetworkError>) in
            leave(call, alarm)
            finish(call, result)
        }
        do {
            var (response, _) = try await outcome(of: call, false) { response, _ in response }
            guard response.body.isStream else {
                end(.success(response))
                return response
            }
            var head = response
            head.body = .empty
            response.body = ResponseBody(
                CallBody(response.body, call) { [head] failure in end(failure.map { .failure($0) } ?? .success(head)) })
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
    ///   - make: makes the call; what it throws is delivered.
    ///   - conclude: as in ``run(_:_:observed:_:)``.
    func start<Value: Sendable>(
        _ gate: ProgressGate? = nil, on executor: CallbackExecutor? = nil, _ make: () throws(NetworkError) -> Call,
        conclude: @escaping @Sendable (HTTPResponse, Call) throws -> Value,
        deliver: @escaping @Sendable (RequestTask, Result<Value, NetworkError>) -> Void
    ) -> RequestTask {
        let executor = executor ?? callbacks
        do throws(NetworkError) {
            let call = try make()
            start(call, gate, executor, conclude: conclude) { deliver(RequestTask(call), $0) }
            return RequestTask(call)
        } catch {
            let request = error.request ?? HTTPRequest("GET", "")
            // No observers, because nothing is sent.
            let call = Call(request)
            calls.enter(call)
            call.run { [self] in
                await tell(error, request)
                executor.run { [self] in
                    let ending = call.finish() ? call.cancellation : error
                    calls.leave(call)
                    deliver(RequestTask(call), .failure(ending))
                }
            }
            return RequestTask(call)
        }
    }

    /// Runs a call in a task of its own and delivers its terminal event on the executor.
    private func start<Value: Sendable>(
        _ call: Call, _ gate: ProgressGate?, _ executor: CallbackExecutor,
        conclude: @escaping @Sendable (HTTPResponse, Call) throws -> Value,
        deliver: @escaping @Sendable (Result<Value, NetworkError>) -> Void
    ) {
        // Registered before it starts, so that a cancellation right after this finds it.
        let alarm = enter(call)
        call.run { [self] in
            let result: Result<(Value, HTTPResponse), NetworkError>
            do {
                try Task.checkCancellation()
                result = .success(try await outcome(of: call, true, conclude))
            } catch {
                result = .failure(call.failure(error))
            }
            alarm.map(corridor.limits.cancel)
            executor.run { [self] in
                // A call that waits for the executor can still be cancelled.
                let ending = call.finish() ? .failure(call.cancellation) : result
                gate?.shut()
                calls.leave(call)
                call.watch?.willFinish(ending.map(\.1))
                deliver(ending.map(\.0))
                call.watch?.didFinish(ending.map(\.1))
            }
        }
    }

    /// Sends one of several requests that belong to one call, such as a segment of a download, and returns its response
    /// as a stream. Cancelling the call cancels it.
    func sendPart(_ request: HTTPRequest, of whole: Call) async throws -> HTTPResponse {
        let part = makeCall(located(request), partOf: whole.watch)
        let wait = CallWait(whole) { standing in
            if standing.isCancelled { part.cancel() }
            part.setSuspended(standing.isSuspended)
            part.raisePriority(to: standing.priority)
        }
        do {
            var (response, _) = try await outcome(of: part, false) { response, _ in response }
            guard response.body.isStream else {
                wait.end()
                return response
            }
            response.body = ResponseBody(CallBody(response.body, part) { _ in wait.end() })
            return response
        } catch {
            wait.end()
            throw error
        }
    }

    func enter(_ call: Call) -> TimeLimits.Ticket? {
        calls.enter(call)
        call.watch?.start()
        return call.deadline.map { deadline in corridor.limits.schedule(at: deadline) { call.endAtDeadline() } }
    }

    func leave(_ call: Call, _ alarm: TimeLimits.Ticket?) {
        calls.leave(call)
        alarm.map(corridor.limits.cancel)
    }

    /// Ends a call whose caller receives the result as the return value of the running method.
    func finish(_ call: Call, _ result: @autoclosure () -> Result<HTTPResponse, NetworkError>) {
        _ = call.finish()
        guard let watch = call.watch else { return }
        let result = result()
        watch.willFinish(result)
        watch.didFinish(result)
    }

    /// Sends a call's request until its outcome is final, notifies the observers, and returns the value or throws.
    private func outcome<Value>(
        of call: Call, _ isObserved: Bool, _ conclude: (HTTPResponse, Call) throws -> Value
    ) async throws -> (Value, HTTPResponse) {
        var replays = 0
        while true {
            do {
                var response = try await corridor.send(call)
                if let coding = call.details.coding { response.coding = coding }
                let value = try conclude(response, call)
                if isObserved {
                    for observer in configuration.outcomeObservers { await observer(.success(response), call.request) }
                }
                return (value, response)
            } catch {
                if error is CancellationError, !call.isCancelled {
                    if isObserved { await tell(call.failure(error), call.request) }
                    throw error
                }
                var failure = call.failure(error)
                guard isObserved else { throw failure }
                do throws(NetworkError) {
                    if try await isReplayed(failure, call, replays) {
                        replays += 1
                        continue
                    }
                } catch {
                    failure = call.failure(error)
                    if failure.underlying is CancellationError, !call.isCancelled {
                        await tell(failure, call.request)
                        throw CancellationError()
                    }
                }
                await tell(failure, call.request)
                throw failure
            }
        }
    }

    /// Notifies the outcome observers of a failure.
    func tell(_ error: NetworkError, _ request: HTTPRequest) async {
        for observer in configuration.outcomeObservers { await observer(CallOutcome(error), request) }
    }

    private func isReplayed(
        _ error: NetworkError, _ call: Call, _ replays: Int
    ) async throws(NetworkError) -> Bool {
        guard let resolver = configuration.resolver, replays < configuration.maxReplays, error.kind != .cancelled,
            call.isReplayable
        else { return false }
        // The resolver is not asked about a call that was cancelled in the meantime.
        guard !call.isCancelled else { throw call.cancellation }
        do {
            return try await corridor.limits.run(for: call) { try await resolver.resolve(error, of: call.request) }
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
        callbacks.run {
            if call.noteCachedReply() { event() }
        }
    }
}

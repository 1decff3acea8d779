import FoundationEssentials
import CurlTransport
import HTTPCore
import Platform
import Synchronization

/// A call whose connection stays open, such as an event stream. It may connect several times, and is one call for
/// observers, ``CentralRequestManager/cancelRequests(_:)`` and its handle. It also runs while it waits to connect
/// again.
package final class LiveCall: Sendable {
    private let manager: CentralRequestManager
    private let call: Call
    private let timer: TimeLimits.Ticket?
    private let isOver = Atomic(false)

    fileprivate init(_ manager: CentralRequestManager, _ call: Call) {
        self.manager = manager
        self.call = call
        timer = manager.enter(call)
    }

    /// The request before any stage changes it.
    package var request: HTTPRequest { call.request }
    /// What the rows of the call's route say about event streams.
    package var events: DomainTable.EventSettings { call.details.row?.events ?? DomainTable.EventSettings() }
    /// Where the rows of the call's route say that a failure is reported.
    package var errors: Envelope.ErrorRule? { call.details.row?.decoder.errors }
    /// The name of the call in selections.
    package var key: String { call.key }
    package var isCancelled: Bool { call.isCancelled }
    /// How the values of messages are written and read.
    package var coding: CodingRules? { call.details.coding }
    /// Whether everything that is sent can be sent again.
    package var isReplayable: Bool { call.isReplayable }

    /// Ends the call, whatever it waits for.
    package func cancel() { call.cancel() }

    /// Sends the request and returns the response as soon as its head has arrived.
    ///
    /// - Parameters:
    ///   - headers: the fields of this connection alone.
    ///   - limit: the longest time until the head of the response; `nil` for none.
    ///   - check: throws when the response is not what was asked for.
    /// - Throws: ``NetworkError``, of kind ``NetworkError/Kind/httpStatus`` for a status that is not a success;
    ///   `CancellationError` when the current task was cancelled.
    package func open(
        _ headers: HTTPHeaders, within limit: Duration? = nil,
        check: @escaping @Sendable (HTTPResponse) throws -> Void
    ) async throws -> HTTPResponse {
        guard !call.isCancelled else { throw call.cancellation }
        var request = call.request
        request.headers.merge(headers)
        // The deadline is that of the whole call.
        if request.deadline != nil { request.deadline = nil }
        do {
            guard let limit else { return try await manager.sendPart(request, of: call, check: check) }
            if request.timeout != nil { request.timeout = nil }
            return try await run(within: limit, late: "the connection was not open after \(limit)") {
                [manager, call, request] in
                try await manager.sendPart(request, of: call, check: check)
            }
        } catch let error as NetworkError {
            throw call.failure(error)
        }
    }

    /// Runs an operation that may take too long, such as the app's code. When the time is over or the call is cancelled,
    /// it stops waiting, even if the operation ignores its cancellation.
    ///
    /// - Parameter late: the message of the error of kind `timeout(.total)`.
    package func run<Value: Sendable>(
        within limit: Duration, late message: String, _ operation: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await manager.pipeline.limits.run(
            within: limit, for: call,
            late: { [call] in NetworkError(.timeout(.total), message: message, request: call.request) }, operation)
    }

    /// Waits.
    ///
    /// - Throws: `CancellationError` when the current task is cancelled, ``NetworkError`` when the call is.
    package func wait(_ duration: Duration) async throws {
        try await manager.pipeline.limits.clock.wait(duration, for: call)
    }

    /// Waits for a value.
    ///
    /// - Throws: the error of the result; `CancellationError` when the current task was cancelled, ``NetworkError`` when
    ///   the call was.
    package func value<Value>(of waiter: Waiter<Value>) async throws -> Value { try await waiter.value(for: call) }

    /// Runs a closure after a time, unless it is cancelled before.
    package func schedule(
        after duration: Duration, _ action: @escaping @Sendable () -> Void
    ) -> TimeLimits.Ticket {
        let limits = manager.pipeline.limits
        return limits.schedule(at: limits.clock.now() + duration, action)
    }

    /// Cancels a closure of ``schedule(after:_:)``.
    package func cancel(_ ticket: TimeLimits.Ticket) { manager.pipeline.limits.cancel(ticket) }

    /// The error for the caller: with the call's request, and naming the deadline if that ended the call.
    package func failure(_ error: any Error) -> NetworkError { call.failure(error) }

    /// Ends the call, once: it leaves the registry, and its observers are notified.
    package func finish(_ result: Result<HTTPResponse, NetworkError>) {
        guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
        manager.leave(call, timer)
        manager.finish(call, result)
    }

    deinit { finish(.failure(call.cancellation)) }
}

extension CentralRequestManager {
    /// Makes a live call of the central API, and registers it.
    ///
    /// - Parameters:
    ///   - standard: header fields that are added unless the request sets them.
    ///   - upgrades: whether it asks for another protocol.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for arguments that cannot be combined.
    package func liveCall(
        _ request: HTTPRequest, parameters: Parameters? = nil, body: HTTPBody? = nil, timeout: Duration? = nil,
        tag: String? = nil, standard: HTTPHeaders, upgrades: Bool = false
    ) throws(NetworkError) -> LiveCall {
        var request = request
        request.headers = standard.merging(request.headers)
        request.prepareForLive()
        if upgrades {
            request = located(request)
            request.prepareForUpgrade()
        }
        let parts = CallArguments(parameters: parameters, body: body, timeout: timeout, tag: tag, streams: true)
        return try live(call(request, parts))
    }

    /// Makes a live call of an entity, and registers it.
    ///
    /// - Parameters:
    ///   - standard: header fields that are added unless the entity sets them. They win over those of the rows.
    ///   - upgrades: whether it asks for another protocol.
    /// - Throws: as a call of the entity.
    package func liveCall<Model>(
        _ entity: EntityCall<Model>, standard: HTTPHeaders, upgrades: Bool = false
    ) throws(NetworkError) -> LiveCall {
        var plan = try entity.plan()
        plan.options.headers = standard.merging(plan.options.headers)
        plan.isLive = true
        plan.upgrades = upgrades
        return try live(call(plan))
    }

    /// Registers a live call. It cannot be sealed: a sealed response is opened when all of it has arrived.
    private func live(_ call: Call) throws(NetworkError) -> LiveCall {
        guard !pipeline.seals(call.request) else {
            throw NetworkError(
                .invalidRequest,
                message: "a sealed response is opened only when all of it has arrived, so an open connection cannot be "
                    + "sealed; set sealing = .unsealed if its content may be sent as it is",
                request: call.request)
        }
        return LiveCall(self, call)
    }

    /// Notifies the outcome observers that a live call could not be made.
    package func noteUnmade(_ error: NetworkError) async {
        await notifyOutcomeObservers(.failure(error), error.request ?? HTTPRequest("GET", ""))
    }
}

extension HTTPRequest {
    /// Sets what all live calls have in common. Neither the cache nor a running equal call answers them.
    mutating func prepareForLive() {
        context.isLive = true
        options.streamsBody = true
        options.cachePolicy = .networkOnly
        if options.duplicates == nil { options.duplicates = .allow }
    }

    /// Sets what all requests for another protocol have in common. Only HTTP/1.1 has such upgrades.
    mutating func prepareForUpgrade() {
        context.upgrades = true
        url = URLReference.httpForm(of: url)
        options.version = .http1
        options.decompresses = false
        options.acceptedStatuses = [101]
    }
}

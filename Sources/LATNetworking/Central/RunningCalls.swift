import FoundationEssentials
import HTTPCore
import Synchronization

extension CentralRequestManager {
    /// Cancels the calls that are under way now and meant by a selection, in whatever form they were started.
    ///
    /// ```swift
    /// manager.cancelRequests(.tag("feed"))
    /// ```
    ///
    /// Calls in closure form get their failure of kind ``NetworkError/Kind/cancelled``, asynchronous ones throw it;
    /// `CancellationError` is thrown only where the Swift task was cancelled. A streamed body ends with it. A call that
    /// stands in code of the app, a header provider for one, ends when that returns. Calls that begin later are not
    /// touched. Returns at once.
    ///
    /// - Returns: how many calls were told. One that is ending at this moment may still end as it was going to.
    @discardableResult
    public func cancelRequests(_ selection: RequestSelection) -> Int { calls.cancel(kind(of: selection)) }

    /// How many calls are under way that are meant by a selection.
    public func runningRequests(_ selection: RequestSelection = .all) -> Int { calls.count(kind(of: selection)) }

    /// What happens to this manager's calls, as it happens.
    public var events: CallEvents { CallEvents(hub) }

    private func kind(of selection: RequestSelection) -> RequestSelection.Kind {
        guard case .url(let url) = selection.kind else { return selection.kind }
        return .url(RequestBuilder.absoluteURL(url, base: baseURL))
    }

    /// Runs a call: in the list of running ones, its watchers told of its beginning and its end.
    func tracked<Value>(
        _ request: HTTPRequest, entity: EntityIdentity? = nil,
        _ work: (HTTPRequest) async throws -> (Value, HTTPResponse)
    ) async throws -> Value {
        var request = request
        let place = list(&request, entity)
        defer { unlist(place, request) }
        guard let timeline = timeline(of: &request) else { return try await work(request).0 }
        timeline.start()
        do {
            let (value, response) = try await work(request)
            end(timeline, request, .success(response))
            return value
        } catch {
            end(timeline, request, .failure(NetworkError(ending: error, request)))
            throw error
        }
    }

    /// The same for a call that ends with its body.
    func trackedStream(
        _ request: HTTPRequest, _ work: (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        let place = list(&request, nil)
        let timeline = timeline(of: &request)
        timeline?.start()
        let end = { @Sendable [self, request] (result: Result<HTTPResponse, NetworkError>) in
            unlist(place, request)
            if let timeline { self.end(timeline, request, result) }
        }
        do {
            var response = try await work(request)
            guard response.body.isStream else {
                end(.success(response))
                return response
            }
            var head = response
            head.body = .empty
            response.body = ResponseBody(
                TrackedBody(response.body) { [head] failure in end(failure.map { .failure($0) } ?? .success(head)) })
            return response
        } catch {
            end(.failure(NetworkError(ending: error, request)))
            throw error
        }
    }

    private func list(_ request: inout HTTPRequest, _ entity: EntityIdentity?) -> CallRegistry.Place? {
        let control = request.control ?? TransferControl()
        request.control = control
        request = corridor.flow.beginning(request)
        guard control.list() else { return nil }
        var address = request.url
        if let base = baseURL, request.attachment == nil { address = RequestBuilder.absoluteURL(address, base: base) }
        let tag = (request.flowOptions as? FlowOptions)?.tag
        return calls.enter(CallIdentity(tag: tag, address: .known(address), entity: entity), .control(control))
    }

    private func unlist(_ place: CallRegistry.Place?, _ request: HTTPRequest) {
        guard let place else { return }
        calls.leave(place)
        request.control?.unlist()
    }

    /// `nil` while nobody watches.
    private func timeline(of request: inout HTTPRequest) -> CallTimeline? {
        guard !configuration.accessories.isEmpty || hub.isActive else { return nil }
        let timeline = CallTimeline(request, tag: request.tag, configuration.accessories, hub)
        request.flow.timeline = timeline
        return timeline
    }

    private func end(
        _ timeline: CallTimeline, _ request: HTTPRequest, _ result: Result<HTTPResponse, NetworkError>
    ) {
        let ending = timeline.finish(result)
        if let control = request.control, control.deliversLater { control.setEnding(ending) } else { ending?() }
    }
}

/// A body that tells once when it is over: read to its end, broken off, or let go of.
private final class TrackedBody: ResponseBodySource {
    private let body: ResponseBody
    private let end: Mutex<(@Sendable (NetworkError?) -> Void)?>

    init(_ body: ResponseBody, _ end: @escaping @Sendable (NetworkError?) -> Void) {
        self.body = body
        self.end = Mutex(end)
    }

    func next() async throws -> Data? {
        // A stream's iterators all read on at the same place.
        var chunks = body.makeAsyncIterator()
        do {
            guard let chunk = try await chunks.next() else {
                tell(nil)
                return nil
            }
            return chunk
        } catch {
            tell(NetworkError(ending: error, nil))
            throw error
        }
    }

    private func tell(_ failure: NetworkError?) {
        let end = end.withLock { end in
            defer { end = nil }
            return end
        }
        end?(failure)
    }

    deinit { tell(Cancellation.error(nil)) }
}

/// Lets a call be cancelled by its handle whatever sends it: a transport of the app runs in a task of its own, which is
/// cancelled.
struct InterruptibleTransport: Transport {
    private let transport: any Transport

    init(_ transport: any Transport) { self.transport = transport }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await FlowClock.continuous.run(within: nil, for: request, late: { Cancellation.error(request) }) {
            try await transport.send(request)
        }
    }
}

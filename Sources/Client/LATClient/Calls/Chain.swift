import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform

/// The position of a call in the pipeline: the stages that are left.
///
/// A stage may change the request, respond itself, read the response, or proceed more than once. Through `call` it sees
/// what has been sent.
struct Chain: Sendable {
    let call: Call
    /// The number of redirects followed so far.
    private(set) var hop = 0
    /// Which of the call's addresses the request goes to.
    private(set) var addressIndex = 0

    private let table: StageTable
    private var stages: StageSet

    init(_ call: Call, _ table: StageTable, _ stages: StageSet) {
        self.call = call
        self.table = table
        self.stages = stages
    }

    /// Passes a request to the next stage, or to the network after the last one.
    func proceed(_ request: HTTPRequest) async throws -> HTTPResponse {
        guard let place = stages.first else { return try await table.transmit(request, self) }
        var rest = self
        rest.stages.remove(place)
        return try await table[place].handle(request, rest)
    }

    /// The chain for the next hop of a redirect.
    func following(hop: Int) -> Chain {
        var chain = self
        chain.hop = hop
        return chain
    }

    /// The chain for another of the call's addresses.
    func at(address index: Int) -> Chain {
        var chain = self
        chain.addressIndex = index
        return chain
    }

    /// The chain with a stage in addition, for a request that has passed it already.
    func including(_ place: StagePlace) -> Chain {
        var chain = self
        chain.stages.insert(place)
        return chain
    }

    /// The chain without a stage.
    func excluding(_ place: StagePlace) -> Chain {
        var chain = self
        chain.stages.remove(place)
        return chain
    }

    /// The same remaining stages for another call: one that several callers share, or one that refreshes the cache.
    func on(_ call: Call) -> Chain {
        var chain = Chain(call, table, stages)
        chain.addressIndex = addressIndex
        return chain
    }
}

/// One step of the pipeline: an interceptor of the SDK.
protocol Stage: Sendable {
    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse
}

/// The stages of a manager, and the sender at their end.
final class StageTable: Sendable {
    /// What sends the requests.
    enum Sender: Sendable {
        case engine(CurlTransport)
        case custom(any Transport)

        /// The engine; `nil` with a transport of the app.
        var curlTransport: CurlTransport? { if case .engine(let engine) = self { engine } else { nil } }
    }

    private let stages: [any Stage]
    private let sender: Sender
    private let secrets: Secrets?
    let limits: TimeLimits

    /// - Parameter secrets: the manager's. A transport of the app, such as a cassette, gets them with each request.
    init(
        _ stages: [StagePlace: any Stage], _ sender: Sender, _ limits: TimeLimits = TimeLimits(),
        secrets: Secrets = .standard
    ) {
        self.secrets = secrets == .standard ? nil : secrets
        self.stages = StagePlace.allCases.map { stages[$0] ?? PassingStage() }
        self.sender = sender
        self.limits = limits
    }

    fileprivate subscript(place: StagePlace) -> any Stage { stages[Int(place.rawValue)] }

    /// Sends the request at the end of a chain, and records it in the call.
    fileprivate func transmit(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        call.note { $0.begins(request, hop: chain.hop) }
        do {
            let response = try await send(request, for: call)
            call.note { $0.ended(request, .success(response)) }
            return response
        } catch {
            call.note { $0.ended(request, .failure(error)) }
            throw error
        }
    }

    /// Sends a request without recording it, for a call that no stage sends again.
    func send(_ request: HTTPRequest, for call: Call) async throws -> HTTPResponse {
        var response =
            switch sender {
            case .engine(let engine): try await engine.send(request, for: call)
            case .custom(let transport): try await send(request, for: call, by: transport)
            }
        PartialContentRule.check(&response, to: request)
        return response
    }

    @inline(never)
    private func send(_ request: HTTPRequest, for call: Call, by transport: any Transport) async throws -> HTTPResponse
    {
        // The transport does not know calls, so it runs in a task of its own that is cancelled with the call.
        call.transferDidStart()
        var sent = request
        if let secrets { sent.context.rowSecrets = secrets.union(sent.context.rowSecrets) }
        return try await limits.run(for: call) { [sent] in try await transport.send(sent) }
    }

    /// Takes the place of a stage that the manager does not have.
    private struct PassingStage: Stage {
        func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
            try await chain.proceed(request)
        }
    }
}

/// The places of the stages in the pipeline, in their order. The order defines the behaviour, and only this type states it.
enum StagePlace: UInt32, CaseIterable {
    /// Rejects a call while an equal one is running.
    case rejection
    /// Holds calls while a barrier is running.
    case barrier
    /// The app's interceptors: they see one request, before header providers are asked, and its final response.
    case interceptors
    /// Retries as the policy and the budget allow.
    case retry
    /// Waits for the network when no connection could be made.
    case connectivity
    /// Adds the token to each attempt, and has it renewed when the server rejects it.
    case authentication
    /// Moves to the domain's next address when one cannot be connected to.
    case mirrors
    /// Merges headers by precedence and adds common parameters. Providers are asked once for each attempt.
    case composition
    /// Lets equal requests share one response. It is inside `barrier` and `authentication`, so that no call waits for
    /// one that waits for it, and inside `composition`, because credentials are part of what makes requests equal.
    case sharing
    /// Responds instead of the server, for simulated calls.
    case simulation
    /// The app's cache policies. The response to the call is stored, whichever redirects led to it.
    case cache
    /// The RFC 9111 cache outside of `seal`: it stores opened responses.
    case httpCacheOfOpened
    /// Seals request content and opens response content.
    case seal
    /// The app's cache policies inside of `seal`: they store sealed responses.
    case cacheOfSealed
    /// Follows redirects. Every hop is a request of its own to the stages inside.
    case redirect
    /// Signs the request in its final form, for each hop.
    case sign
    /// The RFC 9111 cache: every hop is stored under its own URL.
    case httpCache
    /// Sends a request that takes long once more. Inside the caches, so that the response that counts is stored, and outside
    /// `limits` and all that measures, to which each of the two is a request of its own.
    case hedge
    /// Concurrency limit, rate limit and circuit breaker. Inside the caches, so that a response from the cache takes no
    /// slot. Inside `composition`, so that a provider that sends requests holds no slot.
    case limits
    /// Reports each attempt and hop to the observers, and adds its span of the trace.
    case attempt
    /// The app's network interceptors: they see each attempt and hop as it is sent.
    case networkInterceptors
    /// Faults that are made on purpose. Innermost, so that all other stages take them for those of the network.
    case chaos
}

/// The stages that a request passes, by their places.
struct StageSet: OptionSet, Sendable {
    var rawValue: UInt32

    init(rawValue: UInt32) { self.rawValue = rawValue }

    init(_ places: StagePlace...) { rawValue = places.reduce(0) { $0 | 1 << $1.rawValue } }

    var first: StagePlace? { rawValue == 0 ? nil : StagePlace(rawValue: UInt32(rawValue.trailingZeroBitCount)) }

    func contains(_ place: StagePlace) -> Bool { rawValue & 1 << place.rawValue != 0 }

    mutating func insert(_ place: StagePlace) { rawValue |= 1 << place.rawValue }

    mutating func remove(_ place: StagePlace) { rawValue &= ~(1 << place.rawValue) }

    /// Inserts or removes a stage.
    mutating func set(_ place: StagePlace, _ isIn: Bool) { if isIn { insert(place) } else { remove(place) } }
}

/// The renewals and barriers that the current task runs. Its requests must not wait for their end.
enum CallScope {
    /// The authentication stages whose token this task is renewing.
    @TaskLocal static var renewing: Set<ObjectIdentifier> = []
    /// The barrier stages whose barrier this task runs.
    @TaskLocal static var closing: Set<ObjectIdentifier> = []
    /// How many providers, authenticators and resolvers of the app this task asks, one within the other.
    @TaskLocal static var depth = 0
    /// A provider that makes a call and is asked again for it would go on until the stack is full.
    private static let deepest = 16

    /// Why a provider is not asked again.
    struct TooDeep: Error {}

    /// Asks a provider, an authenticator or the resolver of the app, whose calls are part of the call.
    ///
    /// - Throws: What the work throws, or ``NetworkError/Kind/provider`` when it is asked within itself again and again.
    static func providing<Answer: Sendable>(
        _ name: @autoclosure () -> String, _ work: @Sendable () async throws -> Answer
    ) async throws -> Answer {
        guard depth < deepest else {
            throw NetworkError(
                .provider,
                message:
                    "the \(name()) makes calls with its own manager, for which it is asked again, \(deepest) times now; make "
                    + "them with another manager, or in refresh of an authenticator", underlying: TooDeep())
        }
        return try await $depth.withValue(depth + 1) { try await work() }
    }

    /// Whether an error says that, so that those around it pass it on as it is.
    static func isTooDeep(_ error: any Error) -> Bool { (error as? NetworkError)?.underlying is TooDeep }

    /// The values of a task, for another one that sends requests in its place.
    struct Values: Sendable {
        private let renewing = CallScope.renewing
        private let closing = CallScope.closing
        private let depth = CallScope.depth
        private let trace = TraceParent.current

        func run(_ work: () async -> Void) async {
            await CallScope.$renewing.withValue(renewing) {
                await CallScope.$closing.withValue(closing) {
                    await CallScope.$depth.withValue(depth) {
                        await TraceParent.$current.withValue(trace) { await work() }
                    }
                }
            }
        }
    }

    /// Whether a call of this task is made for one that runs already.
    static var isInsideCall: Bool { depth > 0 || !renewing.isEmpty || !closing.isEmpty }
}

/// A body that reports its end once: when it was read completely, failed or was released.
final class CallBody: ResponseBody.Source {
    private let body: ResponseBody
    private let call: Call
    private let reportsBytes: Bool
    private let end: HeldClosure<@Sendable (NetworkError?) -> Void>

    /// - Parameter reportsBytes: whether the call's observers see the bytes.
    init(
        _ body: ResponseBody, _ call: Call, reportsBytes: Bool = false,
        _ end: @escaping @Sendable (NetworkError?) -> Void
    ) {
        self.body = body
        self.call = call
        self.reportsBytes = reportsBytes
        self.end = HeldClosure(end)
    }

    func next() async throws -> Data? {
        // All iterators of a stream share one position.
        var chunks = body.makeAsyncIterator()
        do {
            // A body from the disk or from a transport of the app does not end with the call.
            guard !call.isCancelled else { throw call.cancellation }
            guard let chunk = try await chunks.next() else {
                reportEnd(nil)
                return nil
            }
            if reportsBytes { call.watch?.didRead(chunk) }
            return chunk
        } catch {
            let failure = call.failure(error)
            reportEnd(failure)
            if error is CancellationError, !call.isCancelled { throw error }
            throw failure
        }
    }

    private func reportEnd(_ failure: NetworkError?) { end.take()?(failure) }

    deinit {
        reportEnd(NetworkError(.cancelled, message: "the body was released before its end", request: call.request))
    }
}

extension Call {
    /// Reads the beginning of a streamed body that its caller never gets, because the request is sent again, so that the
    /// observers of the call have it.
    func reportBody(ofRepeated response: HTTPResponse) async {
        guard watch?.call != nil, response.body.isStream else { return }
        let body = ResponseBody(CallBody(response.body, self, reportsBytes: true) { _ in })
        _ = try? await StatusRule.beginning(of: body)
    }
}

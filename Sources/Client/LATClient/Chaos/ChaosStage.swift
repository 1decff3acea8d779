import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// Makes faults on purpose, as the request's or the manager's ``RequestOptions/Chaos`` says. It is the last stage before the
/// network, so to all others they are faults of the server.
final class ChaosStage: Stage {
    private let standard: RequestOptions.Chaos?
    private let timeout: Duration?
    private let clock: CallClock
    private let isProduction: @Sendable () -> Bool
    private let warn: @Sendable (String) -> Void
    private let hasWarned = Atomic(false)
    /// The sequences of settings with a seed. Settings of calls may have any number of seeds, so it is emptied when it is
    /// full.
    private let sequences = Mutex<[RequestOptions.Chaos: SeededGenerator]>([:])

    private static let mostSequences = 1_024

    /// - Parameters:
    ///   - timeout: the manager's.
    ///   - isProduction: whether the manager or its table forbids faults now.
    ///   - warn: gets the warning that nothing is done because of that, once.
    init(
        _ standard: RequestOptions.Chaos?, timeout: Duration?, clock: CallClock,
        isProduction: @escaping @Sendable () -> Bool, warn: @escaping @Sendable (String) -> Void
    ) {
        self.standard = standard
        self.timeout = timeout
        self.clock = clock
        self.isProduction = isProduction
        self.warn = warn
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard let chaos = request.chaos ?? standard, chaos.isOn else { return try await chain.proceed(request) }
        try chaos.check("chaos")
        guard !isProduction() else {
            if !hasWarned.exchange(true, ordering: .relaxed) {
                warn("no faults are made on purpose (chaos), because the table or the manager is for production")
            }
            return try await chain.proceed(request)
        }
        let decision = decide(chaos)
        let request = try await delayed(request, decision.delay, chain)
        switch decision.fault {
        case .refusal:
            record(.refusal, chain)
            let error = Self.error(.refusal, "refused", .connect, request)
            chain.call.note {
                $0.begins(request, hop: chain.hop)
                $0.ended(request, .failure(error))
            }
            throw error
        case .loss:
            let response = try await chain.proceed(request)
            response.body.abandon()
            record(.loss, chain)
            throw Self.error(.loss, "lost before the response was complete", .connectionLost, request)
        case .cut:
            return try cut(try await chain.proceed(request), to: decision.rest, request, chain)
        case .delay, nil:
            return try await chain.proceed(request)
        }
    }

    private func decide(_ chaos: RequestOptions.Chaos) -> RequestOptions.Chaos.Decision {
        guard let seed = chaos.seed else {
            var chance = SystemRandomNumberGenerator()
            return chaos.decision(using: &chance)
        }
        return sequences.withLock { sequences in
            var sequence = sequences[chaos] ?? SeededGenerator(seed: seed)
            let decision = chaos.decision(using: &sequence)
            if sequences.count >= Self.mostSequences, sequences[chaos] == nil { sequences.removeAll() }
            sequences[chaos] = sequence
            return decision
        }
    }

    private func record(_ fault: RequestOptions.Chaos.Fault, _ chain: Chain) {
        chain.call.watch?.record(.chaos(fault), hop: chain.hop)
    }

    static func error(
        _ fault: RequestOptions.Chaos.Fault, _ event: String, _ kind: NetworkError.Kind, _ request: HTTPRequest
    ) -> NetworkError {
        NetworkError(
            kind, message: "the connection was \(event), on purpose: see the setting \"chaos\"", request: request,
            underlying: fault)
    }

    /// Waits, and returns the request with the time that is left for it.
    private func delayed(_ request: HTTPRequest, _ delay: Duration?, _ chain: Chain) async throws -> HTTPRequest {
        guard let delay, delay > .zero else { return request }
        record(.delay(delay), chain)
        let limit = request.timeout ?? (request.streamsBody == true ? nil : timeout)
        guard let limit else {
            try await clock.wait(delay, for: chain.call)
            return request
        }
        try await clock.wait(min(limit, delay), for: chain.call)
        guard delay < limit else {
            throw NetworkError(
                .timeout(.total),
                message:
                    "nothing was sent within the timeout of \(limit), because of a delay of \(delay) that was made "
                    + "on purpose: see the setting \"chaos\"", request: request,
                underlying: RequestOptions.Chaos.Fault.delay(delay))
        }
        var request = request
        request.timeout = limit - delay
        return request
    }

    // MARK: Cutting

    private func cut(
        _ response: HTTPResponse, to rest: Double, _ request: HTTPRequest, _ chain: Chain
    ) throws -> HTTPResponse {
        if let data = response.body.data {
            guard !data.isEmpty else { return response }
            record(.cut, chain)
            throw CutBody.error(after: Int64(Double(data.count) * rest), of: Int64(data.count), request)
        }
        var response = response
        let length = response.headers["Content-Length"].flatMap { Int64($0) }
        response.body = ResponseBody(
            CutBody(response.body, length: length, rest: rest, request) { [self] in record(.cut, chain) })
        return response
    }
}

/// A streamed body that ends in its middle with an error.
final class CutBody: AbandonableBodySource {
    private struct State {
        /// The number of bytes that are still delivered.
        var left: Int64
        var delivered: Int64 = 0
        /// The last byte is held back until another one follows, so that a body whose length is not known is never whole.
        var held: Data?
        var isCut = false
        /// Whether the body had no byte, so that there is nothing to cut.
        var isEmpty = false
    }

    private let body: ResponseBody
    private let length: Int64?
    private let request: HTTPRequest
    private let report: @Sendable () -> Void
    private let state: Mutex<State>

    /// The largest place of a cut in a body of unknown length.
    private static let reach = 65_536.0

    /// - Parameters:
    ///   - length: the length that the response announces.
    ///   - rest: how much of it is left, from 0 to less than 1.
    ///   - report: called when the body is cut.
    init(
        _ body: ResponseBody, length: Int64?, rest: Double, _ request: HTTPRequest,
        report: @escaping @Sendable () -> Void
    ) {
        self.body = body
        self.length = length
        self.request = request
        self.report = report
        // A compressed body is longer than announced; then the cut is near its beginning.
        state = Mutex(State(left: Int64((length.map(Double.init) ?? Self.reach) * rest)))
    }

    static func error(after count: Int64, of length: Int64?, _ request: HTTPRequest) -> NetworkError {
        let whole = length.map { " of \($0)" } ?? ""
        return ChaosStage.error(.cut, "closed after \(count)\(whole) bytes of the body", .connectionLost, request)
    }

    func next() async throws -> Data? {
        while true {
            let state = state.withLock { $0 }
            if state.isEmpty { return nil }
            if state.isCut { throw Self.error(after: state.delivered, of: length, request) }
            // All iterators of a stream share one position.
            var chunks = body.makeAsyncIterator()
            let chunk = try await chunks.next()
            let (part, isCut) = self.state.withLock { (Self.part(chunk, &$0), $0.isCut) }
            if isCut {
                body.abandon()
                report()
            }
            if let part { return part }
        }
    }

    /// Returns what is delivered of a chunk; `nil` for nothing.
    private static func part(_ chunk: Data?, _ state: inout State) -> Data? {
        guard let chunk else {
            if state.held == nil, state.delivered == 0 { state.isEmpty = true } else { state.isCut = true }
            return nil
        }
        guard !chunk.isEmpty else { return nil }
        guard state.left > 0 else {
            state.isCut = true
            return nil
        }
        var part = (state.held ?? Data()) + chunk
        state.held = Data(part.suffix(1))
        part.removeLast()
        part = Data(part.prefix(Int(clamping: state.left)))
        state.left -= Int64(part.count)
        state.delivered += Int64(part.count)
        if state.left == 0 { state.isCut = true }
        return part.isEmpty ? nil : part
    }

    func abandon() { body.abandon() }
}

internal import CurlTransport
internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import ResponseCache

/// Makes the record of one call from its events. A pure value: it keeps the events unchanged, and redacts when it makes the
/// record.
struct CallCollector: Sendable {
    /// A request and its answer, not redacted.
    private struct Exchange: Sendable {
        let attempt: Int
        let hop: Int
        let start: Duration
        let request: HTTPRequest
        let sources: [String: CallEvent.FieldSource]
        /// The secrets of the call and those that the request adds; `nil` when it adds none.
        let secrets: Secrets?
        /// The request with what the engine adds to it.
        let completed: HTTPRequest
        /// The head as it was sent; `nil` for a transport other than the engine.
        var sent: SentHead?
        var answer: Result<HTTPResponse, NetworkError>?
        var isAnswered: Bool { if case .success? = answer { true } else { false } }
        var end: Duration?
        /// What was read of the streamed body of a refusal, after which the request was sent again.
        var read: Streamed?
    }

    /// The beginning of a streamed body, and how many bytes were read of it.
    private struct Streamed: Sendable {
        var beginning = Data()
        var size: Int64 = 0
    }

    /// The number of exchanges, waits and decisions that are always kept.
    private static let limit = 128
    let call: ObservedCall
    private let capture: BodyCapture
    private let trace: CallRecord.Trace?
    private var secrets: Secrets
    private var exchanges: [Exchange] = []
    private var sources: [String: CallEvent.FieldSource] = [:]
    private var waits: [CallRecord.Wait] = []
    private var cache: [CallRecord.CacheDecision] = []
    private var notStored: CacheRefusal?
    private var faults: [CallRecord.Fault] = []
    private var ending: (Result<HTTPResponse, NetworkError>, Duration)?
    private var streamed = Streamed()
    private var live = LiveMessages()
    /// The number of bytes that are kept of streamed bodies.
    private var streamedByteCount = 0
    /// The number of bytes that are kept of streamed bodies and messages.
    var keptByteCount: Int { streamedByteCount + live.byteCount }
    /// The bytes of the bodies that the events hold: of the last request, and of all answers.
    var bodyByteCount: Int {
        var answers = exchanges.compactMap(\.answer)
        // What came from the network is the answer of the last exchange, too.
        if let result = ending?.0, exchanges.isEmpty || (try? result.get()).map({ $0.source != .network }) == true {
            answers.append(result)
        }
        return answers.reduce(Self.byteCount(of: (exchanges.last?.request ?? call.request).body)) { sum, answer in
            switch answer {
            case .success(let response): sum + (response.body.data?.count ?? 0)
            case .failure(let error): sum + (error.response?.body.data?.count ?? 0)
            }
        }
    }
    private var lastEvent = Duration.zero

    init(_ call: ObservedCall, _ capture: BodyCapture) {
        self.call = call
        self.capture = capture
        secrets = call.secrets
        trace = call.trace.map { trace in
            CallRecord.Trace(
                traceID: trace.traceID, spanID: call.startsTrace ? trace.spanID : trace.child().spanID,
                parentID: call.startsTrace ? nil : trace.spanID, isSampled: trace.isSampled)
        }
    }

    // MARK: Events

    mutating func note(_ event: CallEvent) {
        lastEvent = event.offset
        forgetOldest()
        switch event.kind {
        case .started, .replaying, .undocumentedStatus, .unknownValue: break
        case .composed(let sources): self.sources = sources
        case .sending(let attempt, let request):
            keepBodyOfRefusal()
            let secrets = event.call.secrets
            exchanges.append(
                Exchange(
                    attempt: attempt, hop: event.hop, start: event.offset, request: request, sources: sources,
                    secrets: secrets == call.secrets ? nil : secrets, completed: call.completed(request)))
        case .answered(let attempt, let response):
            conclude(attempt, event, .success(response))
            live.begin(response)
        case .failed(let attempt, let error): conclude(attempt, event, .failure(error))
        case .abandoned(let attempt): conclude(attempt, event, .failure(Self.abandoned))
        case .hedging(let delay):
            // In the time before, the call has waited for the first attempt.
            waits.append(CallRecord.Wait(reason: "hedge", start: event.offset - delay, duration: delay))
        case .waiting(let reason):
            waits.append(CallRecord.Wait(reason: reason.rawValue, start: event.offset))
        case .waited(let reason):
            guard let index = waits.lastIndex(where: { $0.reason == reason.rawValue && $0.duration == nil }) else {
                break
            }
            waits[index].duration = event.offset - waits[index].start
        case .retrying(let pause):
            waits.append(CallRecord.Wait(reason: "retry", start: event.offset, duration: pause))
        case .cache(let verdict):
            cache.append(CallRecord.CacheDecision(verdict, at: event.offset, hop: event.hop))
        case .notStored(let refusal): notStored = refusal
        case .chaos(let fault):
            faults.append(CallRecord.Fault(fault, at: event.offset, hop: event.hop))
        case .finished(let result):
            ending = (result, event.offset)
            if case .success = result { live.end(at: event.offset) }
            // The end of an attempt that was outrun may be reported later.
            let hasWinner = waits.contains { $0.reason == "hedge" } && exchanges.contains { $0.isAnswered }
            for index in exchanges.indices where hasWinner && exchanges[index].answer == nil {
                exchanges[index].answer = .failure(Self.abandoned)
                exchanges[index].end = event.offset
            }
            keepBody(ofFailure: result)
            for index in waits.indices where waits[index].duration == nil {
                waits[index].duration = event.offset - waits[index].start
            }
        }
    }

    private static func byteCount(of body: HTTPBody?) -> Int {
        switch body?.content {
        case .data(let data): data.count
        case .multipart(let parts):
            parts.reduce(0) { sum, part in if case .data(let data) = part.source { sum + data.count } else { sum } }
        case .parameters, .encoded, .file, .stream, nil: 0
        }
    }

    private static let abandoned = NetworkError(
        .cancelled, message: "another attempt was answered first, so this one was cancelled")

    /// A stream whose status is no success is read by the call itself, and its error has the body.
    private mutating func keepBody(ofFailure result: Result<HTTPResponse, NetworkError>) {
        guard case .failure(let error) = result, let response = error.response, let body = response.body.data,
            let last = exchanges.indices.last, case .success(let head)? = exchanges[last].answer,
            head.body.isStream, head.status == response.status, body.count >= streamed.size
        else { return }
        exchanges[last].answer = .success(response)
    }

    /// The bytes that were read belong to the last response, unless that is a stream whose parts belong together.
    private mutating func keepBodyOfRefusal() {
        guard streamed.size > 0, let last = exchanges.indices.last, case .success(let head)? = exchanges[last].answer,
            head.body.isStream, !head.isSuccess
        else { return }
        exchanges[last].read = streamed
        streamed = Streamed()
    }

    /// A stream of events may reconnect for days, so only the newest exchanges, waits and decisions are kept.
    private mutating func forgetOldest() {
        let limit = Self.limit
        if exchanges.count >= 2 * limit {
            secrets = exchanges.prefix(limit).compactMap(\.secrets).reduce(secrets) { $0.union($1) }
            streamedByteCount -= exchanges.prefix(limit).reduce(0) { $0 + ($1.read?.beginning.count ?? 0) }
            exchanges.removeFirst(limit)
        }
        if waits.count >= 2 * limit { waits.removeFirst(limit) }
        if cache.count >= 2 * limit { cache.removeFirst(limit) }
        if faults.count >= 2 * limit { faults.removeFirst(limit) }
    }

    /// - Parameter time: the time since the start of the call.
    mutating func note(read chunk: Data, at time: Duration) {
        live.read(chunk, at: time)
        streamed.size += Int64(chunk.count)
        let kept = chunk.prefix(max(0, capture.maxSize - streamed.beginning.count))
        streamed.beginning.append(kept)
        streamedByteCount += kept.count
    }

    /// Notes the head of a request: the one with its span, when several run; without a span the newest. The last of several
    /// heads counts.
    mutating func note(sent head: SentHead) {
        guard !head.opensTunnel, let last = exchanges.indices.last else { return }
        let others = exchanges.count > 1 ? head.fields : []
        let span = others.first { $0.name.lowercased() == "traceparent" }?.value
        let own = span.flatMap { span in exchanges.lastIndex { $0.request.headers["traceparent"] == span } }
        exchanges[own ?? last].sent = head
    }

    mutating func note(_ kind: CallRecord.Message.Kind, _ bytes: Data, isSent: Bool, at time: Duration) {
        live.add(kind, bytes, isSent: isSent, at: time)
    }

    private mutating func conclude(_ attempt: Int, _ event: CallEvent, _ answer: Result<HTTPResponse, NetworkError>) {
        guard
            let index = exchanges.lastIndex(where: {
                $0.attempt == attempt && $0.hop == event.hop && $0.answer == nil
            })
        else { return }
        exchanges[index].answer = answer
        exchanges[index].end = event.offset
    }

    // MARK: The record

    /// The record so far, redacted.
    func record() -> CallRecord {
        var redactor = Redactor(exchanges.compactMap(\.secrets).reduce(secrets) { $0.union($1) })
        var record = CallRecord(
            id: call.id, startTime: call.startTime, request: request(call.request, [:], isFinal: false, &redactor))
        record.row = call.row.map { CallRecord.Row(domain: $0.domain, server: $0.server, path: $0.path) }
        record.tag = call.tag
        record.trace = trace
        record.waits = waits
        record.cache = cache
        record.notStored = notStored?.description
        record.notStoredSection = notStored?.section
        record.faults = faults.isEmpty ? nil : faults
        record.messages = live.redacted(&redactor)
        record.messageCount = live.count
        for exchange in exchanges {
            let recorded = self.exchange(exchange, &redactor)
            if record.attempts.last?.number == exchange.attempt {
                record.attempts[record.attempts.count - 1].hops.append(recorded)
            } else {
                record.attempts.append(CallRecord.Attempt(number: exchange.attempt, hops: [recorded]))
            }
        }
        if let (result, time) = ending {
            record.duration = time
            switch result {
            case .success(let response):
                record.outcome = .response(
                    recordedAnswer(response, record)
                        ?? self.response(response, streamed.size > 0 ? streamed : nil, &redactor))
            case .failure(let error): record.outcome = .failure(failure(error, &redactor))
            }
        }
        if redactor.hasValues { record.scrub(redactor) }
        return record
    }

    /// The response of a call is mostly the answer of its last exchange, whose record then serves for both.
    private func recordedAnswer(_ response: HTTPResponse, _ record: CallRecord) -> CallRecord.Response? {
        guard case .success(let answer)? = exchanges.last?.answer, let body = response.body.data,
            response.status == answer.status, response.source == answer.source, response.url == answer.url,
            response.headers == answer.headers, response.trailers == answer.trailers,
            response.connection?.id == answer.connection?.id, body == answer.body.data,
            var recorded = record.attempts.last?.hops.last?.response
        else { return nil }
        recorded.connection?.tls = nil
        return recorded
    }

    private func exchange(_ exchange: Exchange, _ redactor: inout Redactor) -> CallRecord.Exchange {
        redactor.isAnswer = false
        redactor.noteCredentials(of: exchange.completed)
        var recorded = CallRecord.Exchange(
            attempt: exchange.attempt, hop: exchange.hop, start: exchange.start,
            request: request(exchange.request, exchange.sources, sent: exchange.sent, isFinal: true, &redactor))
        recorded.spanID = exchange.request.headers["traceparent"].flatMap(TraceParent.init)?.spanID
        guard let answer = exchange.answer, let end = exchange.end else { return recorded }
        var streaming = Duration.zero
        var read = exchange.read
        var timings: Timings?
        switch answer {
        case .success(let response):
            // The caller reads the stream of the last response.
            if response.body.isStream, exchange.attempt == exchanges.last?.attempt, exchange.hop == exchanges.last?.hop
            {
                streaming = (ending?.1 ?? lastEvent) - end
                if ending != nil || streamed.size > 0 { read = streamed }
                // A status is no fault of the body, and a call that waits has read it.
                if case .failure(let error)? = ending?.0, error.kind != .httpStatus,
                    !waits.contains(where: { $0.start > end })
                {
                    recorded.failure = failure(error, &redactor)
                }
            }
            timings = response.timings
            recorded.response = self.response(response, read, &redactor)
            recorded.request.body?.wireSize = response.connection?.sentBodySize
        case .failure(let error):
            timings = error.timings
            recorded.failure = failure(error, &redactor)
        }
        if let tls = exchange.sent?.peer.map(CallRecord.TLS.init) {
            recorded.response?.connection?.tls = tls
            recorded.failure?.connection?.tls = tls
        }
        let duration = end - exchange.start + streaming
        recorded.duration = duration
        recorded.stages = CallRecord.Stages(timings, duration: duration, streaming: streaming)
        return recorded
    }

    private func failure(_ error: NetworkError, _ redactor: inout Redactor) -> CallRecord.Failure {
        CallRecord.Failure(
            kind: redactor.text(error.kind.description), message: redactor.text(error.message),
            response: error.response.map { response($0, nil, &redactor) },
            connection: error.connection.map(CallRecord.Connection.init))
    }

    /// - Parameter sent: the head as it was sent, whose fields are shown in place of those that the SDK has set.
    private func request(
        _ request: HTTPRequest, _ sources: [String: CallEvent.FieldSource], sent: SentHead? = nil, isFinal: Bool,
        _ redactor: inout Redactor
    ) -> CallRecord.Request {
        redactor.isAnswer = false
        redactor.noteCredentials(of: request)
        let fields = sent?.fields ?? request.headers.map { (name: $0.name, value: $0.value) }
        let headers = fields.map { name, value in
            var field = CallRecord.Field(name: name, value: redactor.field(name, value))
            guard isFinal else { return field }
            let source = sources[name.lowercased()]
            field.source = source?.rawValue ?? Self.source(of: name, value, call)
            if source == .row { field.origin = call.row?.headerOrigins[name.lowercased()]?.description }
            return field
        }
        let body = request.body.flatMap { body in
            BodyRecorder(capture).recorded(
                body, type: request.headers["Content-Type"], coding: request.headers["Content-Encoding"], &redactor)
        }
        return CallRecord.Request(
            method: request.method.rawValue, url: redactor.url(request.url), headers: headers, body: body)
    }

    /// The source of a field if the call was not composed, or if the field was added afterwards.
    private static func source(of name: String, _ value: String, _ call: ObservedCall) -> String {
        guard call.request.headers[values: name].contains(value) else { return "sdk" }
        return (call.entityHeaders[values: name].contains(value) ? CallEvent.FieldSource.entity : .call).rawValue
    }

    /// - Parameter read: what was read of a streamed body; `nil` if nothing was yet, and for a collected body.
    private func response(
        _ response: HTTPResponse, _ read: Streamed?, _ redactor: inout Redactor
    ) -> CallRecord.Response {
        redactor.isAnswer = true
        func fields(_ headers: HTTPHeaders) -> [CallRecord.Field] {
            headers.map { CallRecord.Field(name: $0, value: redactor.field($0, $1)) }
        }
        let headers = fields(response.headers)
        let trailers = fields(response.trailers)
        let type = response.headers["Content-Type"]
        // A body that was decoded keeps the field.
        let isDecoded = (exchanges.last?.request ?? call.request).decompresses != false
        let coding = isDecoded ? nil : response.headers["Content-Encoding"]
        let bodies = BodyRecorder(capture)
        var body: CallRecord.Body?
        if let read {
            body = bodies.recorded(read.beginning, size: read.size, type: type, coding: coding, &redactor)
        } else if let data = response.body.data {
            body =
                data.isEmpty
                ? nil : bodies.recorded(data, size: Int64(data.count), type: type, coding: coding, &redactor)
        } else {
            body = CallRecord.Body(contentType: type, content: .omitted("a stream that is not read yet"))
        }
        body?.wireSize = response.source == .network ? response.connection?.receivedBodySize : 0
        return CallRecord.Response(
            status: response.status, reason: redactor.text(response.reason), version: "\(response.version)",
            headers: headers, trailers: trailers, body: body, url: redactor.url(response.url), source: response.source,
            connection: response.connection.map(CallRecord.Connection.init))
    }
}

extension CallRecord.Connection {
    init(_ connection: HTTPResponse.Connection) {
        self.init(
            id: connection.id, remoteAddress: connection.remoteAddress, remotePort: connection.remotePort,
            localPort: connection.localPort, isReused: connection.isReused, headSize: connection.headSize)
    }
}

extension CallRecord.TLS {
    init(_ peer: TLSPeer) {
        self.init(
            version: peer.version, cipher: peer.cipher, subject: peer.subject, issuer: peer.issuer,
            validFrom: peer.validFrom, validUntil: peer.validUntil, isTrusted: peer.isTrusted)
    }
}

internal import Cryptography
internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Synchronization

/// Collects one exchange for a cassette, and delivers its entry once, when its body has ended or is released.
final class CassetteRecording: Sendable {
    private struct State {
        var response: HTTPResponse?
        var pieces: [Int] = []
        var body = Data()
        var byteCount = 0
        var socket: SocketRecording?
        var isOver = false
    }

    private let asked: CassetteEntry.Request
    private let limit: Int
    private let deliver: @Sendable (CassetteEntry) -> Void
    private let redaction: CassetteRedaction
    private let state = Mutex(State())

    init(
        _ asked: CassetteEntry.Request, _ redaction: CassetteRedaction, limit: Int,
        deliver: @escaping @Sendable (CassetteEntry) -> Void
    ) {
        self.asked = asked
        self.redaction = redaction
        self.limit = limit
        self.deliver = deliver
    }

    /// Records the head now, and the body while it is read.
    func response(_ response: HTTPResponse) -> HTTPResponse {
        note(response)
        if let output = response.output {
            output.observer = state.withLock { state in
                state.socket = SocketRecording(redaction, limit: limit)
                return state.socket
            }
        }
        if let data = response.body.data {
            append(data)
            end(nil)
            return response
        }
        var response = response
        response.body = ResponseBody(Source(response.body, self))
        return response
    }

    /// Records a failure, with the response if there was one.
    func failed(_ error: any Error) {
        if let response = (error as? NetworkError)?.response {
            note(response)
            append(response.data)
        }
        end(error)
    }

    private func note(_ response: HTTPResponse) {
        var head = response
        head.body = .empty
        head.output = nil
        state.withLock { $0.response = head }
    }

    private func append(_ data: Data, isPiece: Bool = false) {
        state.withLock { state in
            // The frames of a WebSocket are recorded as messages.
            guard state.socket == nil else { return }
            state.byteCount += data.count
            if state.byteCount <= limit { state.body.append(data) } else { state.body = Data() }
            if isPiece { state.pieces.append(data.count) }
        }
    }

    /// - Parameter isReleased: whether the body was released before its end.
    private func end(_ error: (any Error)?, isReleased: Bool = false) {
        let entry: CassetteEntry? = state.withLock { state in
            guard !state.isOver else { return nil }
            state.isOver = true
            var entry = CassetteEntry(request: asked)
            let body: RecordedBody =
                state.byteCount <= limit ? RecordedBody(state.body) : .omitted(byteCount: state.byteCount)
            entry.response = state.response.map { redaction.response($0, body) }
            if state.pieces.count <= 100_000 { entry.response?.pieces = state.pieces }
            if let error { entry.failure = redaction.failure(NetworkError(ending: error, nil)) }
            if isReleased, state.socket == nil, !isWhole(state) {
                entry.failure = .init(
                    kind: .simulation,
                    message: "the recorded body ends here, because the program that was recorded read no further; "
                        + "record again with the mode all")
            }
            state.socket?.complete(&entry, isEnded: error == nil && !isReleased)
            return entry
        }
        if let entry { deliver(entry) }
    }

    /// Whether a body has all of its bytes by its own length, although nobody has read its end.
    private func isWhole(_ state: State) -> Bool {
        guard let head = state.response else { return true }
        return asked.method == "HEAD" || [204, 304].contains(head.status)
            || head.headers["Content-Encoding"] == nil && head.headers["Content-Length"] == "\(state.byteCount)"
    }

    /// Passes a streamed body on, and records it.
    private final class Source: AbandonableBodySource, @unchecked Sendable {
        // Sendable: a body has one reader, which reads one piece at a time.
        private let body: ResponseBody
        private var iterator: ResponseBody.Iterator
        private let recording: CassetteRecording

        init(_ body: ResponseBody, _ recording: CassetteRecording) {
            self.body = body
            iterator = body.makeAsyncIterator()
            self.recording = recording
        }

        func next() async throws -> Data? {
            do {
                guard let piece = try await iterator.next() else {
                    recording.end(nil)
                    return nil
                }
                recording.append(piece, isPiece: true)
                return piece
            } catch {
                recording.end(error)
                throw error
            }
        }

        func abandon() { body.abandon() }

        // Released before its end, or just before the end was seen.
        deinit { recording.end(nil, isReleased: true) }
    }
}

extension CassetteEntry {
    /// The response to a request, or the failure.
    func replay(_ request: HTTPRequest, _ redaction: CassetteRedaction) throws -> HTTPResponse {
        let error = failure.map { NetworkError($0.kind, message: $0.message, request: request) }
        guard let recorded = response else {
            throw error ?? NetworkError(.simulation, message: "an entry without a response", request: request)
        }
        if case .omitted(let count) = recorded.body {
            throw NetworkError(
                .simulation,
                message:
                    "the body of \(title) (line \(line)) has \(count) bytes, which is more than a cassette records",
                request: request)
        }
        var response = HTTPResponse(
            status: recorded.status, reason: recorded.reason, version: recorded.version,
            headers: HTTPHeaders(recorded.headers), trailers: HTTPHeaders(recorded.trailers), url: request.url)
        if recorded.status == 101, request.context.upgrades {
            let socket = SocketReplay(self, redaction)
            response.output = socket.output()
            response.body = ResponseBody(socket)
            response.headers["Sec-WebSocket-Accept"] = MessageDigest.webSocketAccept(
                request.headers["Sec-WebSocket-Key"] ?? "")
        } else if request.streamsBody == true {
            response.body = ResponseBody(ReplayedSource(recorded.piecesOfBody, error))
        } else {
            response.body = ResponseBody(recorded.body.data)
            if let failure {
                throw NetworkError(failure.kind, message: failure.message, request: request, response: response)
            }
        }
        return response
    }
}

extension CassetteEntry.Response {
    /// The body in its pieces. If it was edited in the file, the recorded sizes apply to its beginning.
    fileprivate var piecesOfBody: [Data] {
        var rest = body.data[...]
        var parts: [Data] = []
        for count in pieces where count > 0 && !rest.isEmpty {
            parts.append(Data(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        if !rest.isEmpty { parts.append(Data(rest)) }
        return parts
    }
}

/// A body of recorded pieces, which may end in a failure.
private final class ReplayedSource: ResponseBody.Source {
    private let rest: Mutex<(pieces: ArraySlice<Data>, error: NetworkError?)>

    init(_ pieces: [Data], _ error: NetworkError?) { rest = Mutex((pieces[...], error)) }

    func next() async throws -> Data? {
        try Task.checkCancellation()
        return try rest.withLock { rest in
            if let piece = rest.pieces.popFirst() { return piece }
            if let error = rest.error { throw error }
            return nil
        }
    }
}

/// The body of a request, read so that it can be compared, recorded and sent.
struct CapturedBody {
    let recorded: RecordedBody
    /// What is sent in place of a body that can be read only once.
    let sendable: HTTPBody?

    /// - Throws: ``NetworkError/Kind/requestBody`` for a file that cannot be read, and what a stream throws.
    init(
        _ body: HTTPBody?, _ secrets: Secrets, limit: Int, standIn: (String) -> String = { _ in Secrets.placeholder }
    ) async throws {
        guard let body else {
            (recorded, sendable) = (.none, nil)
            return
        }
        switch body.content {
        case .parameters: (recorded, sendable) = (.none, nil)
        case .encoded(let encoder): (recorded, sendable) = (RecordedBody(try encoder.encode()), nil)
        case .data(let data): (recorded, sendable) = (RecordedBody(data), nil)
        case .file(let path): (recorded, sendable) = (try Self.file(path, limit), nil)
        case .stream(let stream):
            let pieces = try await Self.pieces(stream, limit)
            recorded = RecordedBody(pieces.reduce(into: Data()) { $0 += $1 })
            let again = BodyStream(length: stream.length, isReplayable: true) {
                var rest = pieces[...]
                return { rest.popFirst() }
            }
            sendable = stream.isReplayable ? nil : .stream(made: again, contentType: body.contentType)
        case .multipart(let files):
            var text = ""
            var files = files
            for index in files.indices {
                let (part, again) = try await Self.part(files[index], secrets, limit, standIn)
                text += part
                files[index] = again
            }
            (recorded, sendable) = (RecordedBody(Data(text.utf8)), .multipart(files))
        }
    }

    private static func file(_ path: String, _ limit: Int) throws -> RecordedBody {
        let size = try UploadedFile.size(of: path) ?? 0
        if size > limit { return .omitted(byteCount: Int(size)) }
        do {
            return RecordedBody(try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw NetworkError(
                .requestBody,
                message:
                    "the file \(path) cannot be read (\(NetworkError.reason(of: error))); check path and permissions",
                underlying: error)
        }
    }

    private static func pieces(_ stream: BodyStream, _ limit: Int) async throws -> [Data] {
        let next = stream.makeIterator()
        var pieces: [Data] = []
        var count = 0
        while let piece = try await next() {
            pieces.append(piece)
            count += piece.count
            guard count <= limit else {
                throw NetworkError(
                    .requestBody, message: "a cassette records streams of up to \(limit) bytes; send a file instead")
            }
        }
        return pieces
    }

    /// The part as text for the cassette, without the random boundary; and the part that is sent.
    private static func part(
        _ file: UploadFile, _ secrets: Secrets, _ limit: Int, _ standIn: (String) -> String
    ) async throws -> (String, UploadFile) {
        var again = file
        let body: RecordedBody
        switch file.source {
        case .data(let data): body = RecordedBody(data)
        case .path(let path): body = try self.file(path, limit)
        case .stream(let stream):
            let data = try await pieces(stream, limit).reduce(into: Data()) { $0 += $1 }
            body = RecordedBody(data)
            again.source = .data(data)
        }
        var text = "-- part: \(file.name)"
        if let name = file.fileName { text += "; file: \(name)" }
        if let type = file.contentType { text += "; type: \(type)" }
        switch body {
        case .bytes(let data) where secrets.contains(parameter: file.name):
            text += "\n\(standIn(String(decoding: data, as: UTF8.self)))\n"
        case .none: text += "\n"
        case .omitted(let count): text += "\n(\(count) bytes)\n"
        case .bytes(let data):
            var redactor = Redactor(secrets)
            text += "\n\(YAMLText.printable(data) ?? redactor.data(data).base64EncodedString())\n"
        }
        return (text, again)
    }
}

import FoundationEssentials
import HTTPCore

/// The steps that send one reply: a pure function of the reply and its request. ``ReplyWriter`` performs them.
struct ReplyPlan {
    /// The facts of the request that decide how a reply is written.
    struct Context: Equatable {
        var isHead = false
        /// 0 for HTTP/1.0, 1 for HTTP/1.1.
        var minorVersion = 1
        var keepsConnection = true
    }

    enum Content: Equatable {
        case bytes(ArraySlice<UInt8>)
        case data(Data)
        case pattern(Range<Int64>)

        var count: Int64 {
            switch self {
            case .bytes(let bytes): Int64(bytes.count)
            case .data(let data): Int64(data.count)
            case .pattern(let range): range.upperBound - range.lowerBound
            }
        }

        func prefix(_ count: Int64) -> Content {
            switch self {
            case .bytes(let bytes): .bytes(bytes.prefix(Int(count)))
            case .data(let data): .data(data.prefix(Int(count)))
            case .pattern(let range): .pattern(range.lowerBound..<min(range.upperBound, range.lowerBound + count))
            }
        }

        func dropFirst(_ count: Int64) -> Content {
            switch self {
            case .bytes(let bytes): .bytes(bytes.dropFirst(Int(count)))
            case .data(let data): .data(data.dropFirst(Int(count)))
            case .pattern(let range): .pattern(min(range.upperBound, range.lowerBound + count)..<range.upperBound)
            }
        }
    }

    enum Role: Equatable {
        case interim
        case head
        /// Chunk sizes, line ends, trailers.
        case framing
        case body
    }

    enum Step: Equatable {
        case send(Content, Role)
        case wait(Duration)
        case stall
    }

    enum Ending: Equatable {
        case keep
        case close
        case reset
    }

    private(set) var steps: [Step]
    private(set) var ending: Ending
    let bytesPerSecond: Int?

    init(_ reply: MockReply, answering context: Context) {
        bytesPerSecond = reply.bytesPerSecond
        let framing = Framing(reply, answering: context)
        steps = []
        for interim in reply.interims where context.minorVersion > 0 {
            let line = "HTTP/1.1 \(interim.status) \(ReasonPhrase.of(interim.status))\r\n"
            steps.append(.send(.bytes(ArraySlice((line + interim.headers.lines + "\r\n").utf8)), .interim))
        }
        let head = reply.rawHead ?? framing.head(of: reply, answering: context)
        if !head.isEmpty { steps.append(.send(.bytes(ArraySlice(head)), .head)) }
        if !framing.isBodyless { framing.appendBody(of: reply, to: &steps) }
        ending = framing.keepsConnection ? .keep : .close

        for pause in reply.pauses { insert(pause) }
        if let (byteCount, resets) = reply.cut { truncate(to: byteCount, resets: resets) }
        if bytesPerSecond == nil { joinSmallSteps() }
    }

    private mutating func insert(_ pause: MockReply.Pause) {
        let step: Step = if let duration = pause.duration { .wait(duration) } else { .stall }
        steps.insert(step, at: index(of: pause.point))
    }

    /// The index of a point. Splits the step that contains it. Pauses at one point keep their order.
    private mutating func index(of point: MockReply.Point) -> Int {
        func end(of roles: [Role]) -> Int {
            let last = steps.lastIndex { step in roles.contains { $0 == step.role } }
            return last.map { $0 + 1 } ?? 0
        }
        var index = 0
        switch point {
        case .start: break
        case .beforeHead: index = end(of: [.interim])
        case .afterHead: index = end(of: [.interim, .head])
        case .afterBodyBytes(var remaining):
            index = end(of: [.interim, .head])
            for (position, step) in steps.enumerated() where remaining > 0 {
                guard case .send(let content, .body) = step else { continue }
                index = position + 1
                if content.count > remaining {
                    steps[position] = .send(content.prefix(remaining), .body)
                    steps.insert(.send(content.dropFirst(remaining), .body), at: index)
                }
                remaining -= content.count
            }
        }
        // A pause has no role.
        while index < steps.count, steps[index].role == nil { index += 1 }
        return index
    }

    private mutating func truncate(to byteCount: Int64, resets: Bool) {
        ending = resets ? .reset : .close
        var remaining = byteCount
        for (position, step) in steps.enumerated() {
            guard case .send(let content, let role) = step, role != .interim else { continue }
            if content.count >= remaining {
                steps.removeSubrange((position + 1)...)
                steps[position] = .send(content.prefix(remaining), role)
                if remaining == 0 { steps.removeLast() }
                return
            }
            remaining -= content.count
        }
    }

    /// Joins head and body of a small reply, so that they go out in one system call.
    private mutating func joinSmallSteps() {
        guard steps.count > 1 else { return }
        var joined: [Step] = []
        for step in steps {
            if case .send(let next, let role) = step, next.count <= 32_768,
                case .send(.bytes(var bytes), _)? = joined.last, bytes.count <= 32_768
            {
                // Removed first, so that the bytes are appended without a copy.
                joined.removeLast()
                switch next {
                case .bytes(let more): bytes.append(contentsOf: more)
                case .data(let more): bytes.append(contentsOf: more)
                case .pattern(let range): bytes.append(contentsOf: MockPattern.bytes(in: range))
                }
                joined.append(.send(.bytes(bytes), role))
            } else {
                joined.append(step)
            }
        }
        steps = joined
    }
}

extension ReplyPlan.Step {
    fileprivate var role: ReplyPlan.Role? {
        if case .send(_, let role) = self { role } else { nil }
    }
}

/// How the end of the body is marked, and whether the connection stays open (RFC 9112 §6.3, §9.3).
private struct Framing {
    enum Kind: Equatable {
        case length(Int64)
        case chunked(size: Int)
        case untilClose
        /// No framing field is added: the caller's headers have one, or the status allows no body.
        case given
    }

    let kind: Kind
    let isBodyless: Bool
    let saysClose: Bool
    let keepsConnection: Bool

    init(_ reply: MockReply, answering context: ReplyPlan.Context) {
        let hasNoBody = (100..<200).contains(reply.status) || reply.status == 204 || reply.status == 304
        isBodyless = reply.rawHead == nil && (context.isHead || hasNoBody)
        let count = reply.body.count
        let announced = reply.announcedLength ?? reply.headers["Content-Length"].flatMap { Int64($0) }

        if hasNoBody || reply.headers.contains("Transfer-Encoding") || reply.headers.contains("Content-Length") {
            kind = .given
        } else if let chunkSize = reply.chunkSize {
            let mayChunk = context.minorVersion > 0 && !reply.headers.removes("Transfer-Encoding")
            kind = mayChunk ? .chunked(size: chunkSize) : .untilClose
        } else if reply.framing == .untilClose || reply.headers.removes("Content-Length") {
            kind = .untilClose
        } else {
            kind = .length(reply.announcedLength ?? count)
        }

        let endsWithConnection = kind == .untilClose && !isBodyless
        let ownConnection = reply.headers["Connection"]?.lowercased()
        saysClose = !context.keepsConnection || reply.connectionEnd == .close || endsWithConnection
        let hasLength = kind != .untilClose && reply.chunkSize == nil
        let isTruncated = hasLength && !isBodyless && (announced ?? count) > count
        keepsConnection =
            !saysClose && reply.connectionEnd != .drop && !isTruncated && reply.rawHead == nil
            && !(ownConnection?.contains("close") ?? false)
    }

    func head(of reply: MockReply, answering context: ReplyPlan.Context) -> [UInt8] {
        var head = "HTTP/1.1 \(reply.status) \(reply.reason ?? ReasonPhrase.of(reply.status))\r\n" + reply.headers.lines
        switch kind {
        case .length(let count): head += "Content-Length: \(count)\r\n"
        case .chunked: head += "Transfer-Encoding: chunked\r\n"
        case .untilClose, .given: break
        }
        if !reply.headers.mentions("Connection") {
            if saysClose {
                head += "Connection: close\r\n"
            } else if context.minorVersion == 0 {
                head += "Connection: keep-alive\r\n"
            }
        }
        return Array((head + "\r\n").utf8)
    }

    func appendBody(of reply: MockReply, to steps: inout [ReplyPlan.Step]) {
        guard reply.rawHead == nil, case .chunked(let size) = kind else {
            for piece in reply.body.pieces(ofAtMost: .max) { steps.append(.send(piece, .body)) }
            return
        }
        for piece in reply.body.pieces(ofAtMost: Int64(size)) {
            let start = String(piece.count, radix: 16) + "\r\n"
            steps.append(.send(.bytes(ArraySlice(start.utf8)), .framing))
            steps.append(.send(piece, .body))
            steps.append(.send(.bytes(ArraySlice("\r\n".utf8)), .framing))
        }
        let end = "0\r\n" + reply.trailers.lines + "\r\n"
        steps.append(.send(.bytes(ArraySlice(end.utf8)), .framing))
    }
}

extension MockReply {
    /// The size of a chunk when the body is sent in chunks.
    fileprivate var chunkSize: Int? {
        if case .chunked(let size) = framing { return size }
        if case .chunks = body, framing == .automatic { return .max }
        return nil
    }
}

extension MockReply.Body {
    fileprivate var count: Int64 {
        switch self {
        case .none: 0
        case .bytes(let data): Int64(data.count)
        case .chunks(let chunks): chunks.reduce(0) { $0 + Int64($1.count) }
        case .pattern(let byteCount): byteCount
        }
    }

    /// The content in pieces that are never empty. Chunks stay as they are.
    fileprivate func pieces(ofAtMost size: Int64) -> [ReplyPlan.Content] {
        let whole: ReplyPlan.Content
        switch self {
        case .none: return []
        case .chunks(let chunks): return chunks.filter { !$0.isEmpty }.map { .data($0) }
        case .bytes(let data): whole = .data(data)
        case .pattern(let byteCount): whole = .pattern(0..<byteCount)
        }
        var pieces: [ReplyPlan.Content] = []
        var rest = whole
        while rest.count > 0 {
            pieces.append(rest.prefix(min(size, rest.count)))
            rest = rest.dropFirst(min(size, rest.count))
        }
        return pieces
    }
}

extension HTTPHeaders {
    var lines: String { reduce(into: "") { $0 += "\($1.name): \($1.value)\r\n" } }

    fileprivate func mentions(_ name: String) -> Bool {
        fields.contains { $0.name.equalsIgnoringASCIICase(name) }
    }

    fileprivate func removes(_ name: String) -> Bool {
        fields.contains { $0.value == nil && $0.name.equalsIgnoringASCIICase(name) }
    }
}

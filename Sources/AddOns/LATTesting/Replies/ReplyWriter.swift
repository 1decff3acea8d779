import Platform

/// Performs a ``ReplyPlan`` without I/O: it returns what to do next, and the caller reports what was sent and the time.
struct ReplyWriter {
    enum Action: Equatable {
        /// Send from the start of these bytes, then tell ``ReplyWriter/didSend(_:at:)`` how many the socket took.
        case send(ReplyPlan.Content)
        /// Call again at this time.
        case wait(until: MonotonicTime)
        /// Send nothing more and leave the connection open.
        case stall
        /// The reply is complete.
        case finish(ReplyPlan.Ending)
    }

    private let plan: ReplyPlan
    private var index = 0
    /// How much of the current step has been sent.
    private var offset: Int64 = 0
    private var waitEnd: MonotonicTime?
    private var nextBodyByte = MonotonicTime(nanoseconds: .min)

    init(_ plan: ReplyPlan) { self.plan = plan }

    /// The most bytes that one step offers.
    static let largestPiece: Int64 = 262_144

    mutating func next(at now: MonotonicTime) -> Action {
        while index < plan.steps.count {
            switch plan.steps[index] {
            case .send(let content, let role):
                if offset >= content.count {
                    advance()
                    continue
                }
                var limit = Self.largestPiece
                if role == .body, let rate = plan.bytesPerSecond {
                    if nextBodyByte > now { return .wait(until: nextBodyByte) }
                    limit = min(limit, Int64(max(1, rate / 20)))
                }
                return .send(content.dropFirst(offset).prefix(limit))
            case .wait(let duration):
                let end = waitEnd ?? now + duration
                waitEnd = end
                if now < end { return .wait(until: end) }
                advance()
            case .stall:
                return .stall
            }
        }
        // A throttled body waits after its last piece too.
        if nextBodyByte > now { return .wait(until: nextBodyByte) }
        return .finish(plan.ending)
    }

    mutating func didSend(_ count: Int, at now: MonotonicTime) {
        guard index < plan.steps.count, case .send(_, let role) = plan.steps[index] else { return }
        offset += Int64(count)
        if role == .body, let rate = plan.bytesPerSecond {
            let time = Duration.nanoseconds(Int64(Double(count) / Double(rate) * 1e9))
            nextBodyByte = max(now, nextBodyByte) + time
        }
    }

    private mutating func advance() {
        index += 1
        offset = 0
        waitEnd = nil
    }
}

/// The reason phrases of RFC 9110 §15 and the IANA registry of status codes.
enum ReasonPhrase {
    /// The phrase of a status, `Unknown` for one without a phrase.
    static func of(_ status: Int) -> String { phrases[status] ?? "Unknown" }

    private static let phrases: [Int: String] = [
        100: "Continue", 101: "Switching Protocols", 102: "Processing", 103: "Early Hints",
        104: "Upload Resumption Supported",
        200: "OK", 201: "Created", 202: "Accepted", 203: "Non-Authoritative Information", 204: "No Content",
        205: "Reset Content", 206: "Partial Content",
        300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified",
        307: "Temporary Redirect", 308: "Permanent Redirect",
        400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found",
        405: "Method Not Allowed", 406: "Not Acceptable", 407: "Proxy Authentication Required",
        408: "Request Timeout", 409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed",
        413: "Content Too Large", 414: "URI Too Long", 415: "Unsupported Media Type",
        416: "Range Not Satisfiable", 417: "Expectation Failed", 421: "Misdirected Request",
        422: "Unprocessable Content", 425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required",
        429: "Too Many Requests", 431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons",
        500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
        504: "Gateway Timeout", 505: "HTTP Version Not Supported", 507: "Insufficient Storage",
        511: "Network Authentication Required",
    ]
}

import HTTPCore
import ResponseCache

/// What a download asks of the server.
enum ContentAsk: Hashable, Sendable {
    /// Everything, without `Range`.
    case whole
    /// `bytes=0-`: everything, and whether the server has ranges.
    case probe
    /// A part, under the condition that the content is still the same: `Range` with `If-Range`. Without an end it
    /// goes to the last byte.
    case part(from: Int64, end: Int64?, ContentValidator)

    /// Puts `Range` and `If-Range` into a request (RFC 9110 §14.2, §13.1.5).
    func apply(to headers: inout HTTPHeaders) {
        switch self {
        case .whole: break
        case .probe: headers["Range"] = "bytes=0-"
        case .part(let start, let end, let validator):
            headers["Range"] = "bytes=\(start)-" + (end.map { "\($0 - 1)" } ?? "")
            headers["If-Range"] = validator.fieldValue
        }
    }
}

/// The content that an answer brings.
struct ContentAnswer: Hashable, Sendable {
    /// Where its first byte belongs.
    var start: Int64
    /// Where it ends; `nil` when the server does not say.
    var end: Int64?
    /// The size of the whole; `nil` when the server does not say.
    var total: Int64?
    /// The version it belongs to.
    var validator: ContentValidator?
    /// Whether it is a part (206), which shows that the server has ranges.
    var isPart: Bool
    /// Whether the server says that it has no ranges (`Accept-Ranges: none`, RFC 9110 §14.3).
    var deniesRanges: Bool
    /// Whether it belongs to another version than what is there, which is worth nothing then.
    var voidsRest: Bool
}

/// What an answer means for a download: a function of question, answer and what is known, no I/O.
enum AnswerRule {
    /// What is to be done.
    enum Verdict: Hashable {
        /// Take the body.
        case content(ContentAnswer)
        /// All bytes are here already; so many are all.
        case complete(total: Int64)
        /// What is here is worth nothing, or cannot be gone on with: ask for the whole.
        case startOver(Reason)
        /// The status is no success.
        case refused
        /// The answer cannot be used, and asking again would not help.
        case unusable(String)
    }

    /// Why a download starts over.
    enum Reason: Hashable {
        /// The server has another version now.
        case changed
        /// The server's parts are not what was asked for, so none are asked for any more.
        case wrongRange(String)
        /// The server refuses the range (416).
        case refusedRange
    }

    /// What is known before the answer.
    struct Known: Hashable {
        var validator: ContentValidator?
        var total: Int64?
        /// How many bytes from the start are there without a hole, when these are all that are there.
        var contiguous: Int64?
    }

    static func judge(status: Int, headers: HTTPHeaders, to ask: ContentAsk, _ known: Known) -> Verdict {
        switch status {
        case 200, 203: whole(headers, ask, known)
        case 206: part(headers, ask, known)
        case 416: refusedRange(headers, ask, known)
        default: .refused
        }
    }

    // MARK: 200

    private static func whole(_ headers: HTTPHeaders, _ ask: ContentAsk, _ known: Known) -> Verdict {
        // With a transfer coding Content-Length does not count (RFC 9112 §6.3).
        let isCoded = headers.contains("Transfer-Encoding")
        let length = isCoded ? nil : headers["Content-Length"].flatMap(ContentRange.number)
        let validator = ContentValidator(headers)
        var voidsRest = true
        if case .part(_, _, let expected) = ask {
            // A server, or one of several, that knows no ranges sends the same content whole: what is here stays good.
            voidsRest = validator != expected || length.map { $0 != known.total ?? $0 } ?? false
        }
        return .content(
            ContentAnswer(
                start: 0, end: length, total: length, validator: validator, isPart: false,
                deniesRanges: deniesRanges(headers), voidsRest: voidsRest))
    }

    private static func deniesRanges(_ headers: HTTPHeaders) -> Bool {
        headers["Accept-Ranges"]?.lowercased() == "none"
    }

    // MARK: 206

    private static func part(_ headers: HTTPHeaders, _ ask: ContentAsk, _ known: Known) -> Verdict {
        let asked: (start: Int64, end: Int64?)
        switch ask {
        case .whole: return .unusable("the server sent a part (206) though the whole was asked for")
        case .probe: asked = (0, nil)
        case .part(let start, let end, _): asked = (start, end)
        }
        if let type = headers["Content-Type"], type.lowercased().hasPrefix("multipart/byteranges") {
            return .startOver(.wrongRange("several parts in one (multipart/byteranges)"))
        }
        let field = headers["Content-Range"]
        guard case .part(let range, let total)? = ContentRange(field) else {
            return .startOver(.wrongRange(field.map { "Content-Range \"\($0)\"" } ?? "no Content-Range"))
        }
        guard range.lowerBound == asked.start, range.upperBound <= asked.end ?? .max else {
            return .startOver(.wrongRange("bytes \(range.lowerBound)-\(range.upperBound - 1)"))
        }
        if let length = headers["Content-Length"].flatMap(ContentRange.number), length != Int64(range.count) {
            return .startOver(.wrongRange("\(length) bytes for a range of \(range.count)"))
        }
        if case .part(_, _, let expected) = ask {
            switch expected.compare(with: headers) {
            case .same: break
            case .different: return .startOver(.changed)
            case .unknown: return .startOver(.wrongRange("a part without the ETag of the whole"))
            }
        }
        if let total, let knownTotal = known.total, total != knownTotal {
            return .startOver(.wrongRange("a total of \(total) bytes where it was \(knownTotal)"))
        }
        return .content(
            ContentAnswer(
                start: range.lowerBound, end: range.upperBound, total: total ?? known.total,
                validator: ask == .probe ? ContentValidator(headers) : known.validator, isPart: true,
                deniesRanges: false, voidsRest: ask == .probe))
    }

    // MARK: 416

    private static func refusedRange(_ headers: HTTPHeaders, _ ask: ContentAsk, _ known: Known) -> Verdict {
        guard case .part(let start, _, let validator) = ask else {
            return ask == .probe ? .startOver(.refusedRange) : .refused
        }
        // Nothing is left to send when what is here is all there is (RFC 9110 §15.5.17).
        if case .unsatisfied(let total)? = ContentRange(headers["Content-Range"]), total == start,
            known.contiguous == total, known.total ?? total == total, validator.compare(with: headers) != .different
        {
            return .complete(total: total)
        }
        return .startOver(.refusedRange)
    }
}

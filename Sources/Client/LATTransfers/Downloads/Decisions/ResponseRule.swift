import HTTPCore
import LATClient
import ResponseCache

enum ContentRequest: Hashable, Sendable {
    /// The whole content, without `Range`.
    case whole
    /// `bytes=0-`: the whole content, to see whether the server supports ranges.
    case probe
    /// A part, if the content is unchanged: `Range` with `If-Range`. Without an end it extends to the last byte.
    case part(from: Int64, end: Int64?, ContentValidator)

    /// Adds `Range` and `If-Range` to a request (RFC 9110 §14.2, §13.1.5).
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

struct ContentResponse: Hashable, Sendable {
    var start: Int64
    /// The offset after the last byte of the response's content; `nil` if the server does not say.
    var end: Int64?
    /// The size of the whole content; `nil` if the server does not say.
    var total: Int64?
    var validator: ContentValidator?
    /// The content coding of the bytes, such as `gzip`; `nil` for none.
    var coding: String?
    /// Whether the response is a part (206), which shows that the server supports ranges.
    var isPart: Bool
    /// Whether the server says that it has no ranges (`Accept-Ranges: none`, RFC 9110 §14.3).
    var deniesRanges: Bool
    /// Whether the response has another version of the content, so that the received bytes are useless.
    var invalidatesReceived: Bool
}

/// Decides what a response means for a download, from the request, the response and what is known. No I/O.
enum ResponseRule {
    enum Verdict: Hashable {
        case content(ContentResponse)
        /// Do nothing: all bytes have been received, and this is their number.
        case complete(total: Int64)
        /// Discard the received bytes and request the whole content.
        case startOver(Reason)
        /// Fail, because the status has no content to save, unless a new URL may help.
        case refused
        /// Fail, because the response is unusable and a retry would not help.
        case unusable(String)
    }

    enum Reason: Hashable {
        /// The server has another version now.
        case changed
        /// The server's parts are not what was requested, so no more parts are requested.
        case wrongRange
        /// The server rejects the range (416).
        case refusedRange
    }

    struct Known: Hashable {
        var validator: ContentValidator?
        var coding: String?
        var total: Int64?
        /// The number of received bytes, if they form one range from the start.
        var contiguous: Int64?
        /// The offset after the last received byte.
        var end: Int64 = 0
    }

    static func judge(status: Int, headers: HTTPHeaders, to ask: ContentRequest, _ known: Known) -> Verdict {
        switch status {
        case 200, 203: undeclared(headers, ask, known) ?? whole(headers, ask, known)
        case 206: part(headers, ask, known)
        case 416: refusedRange(headers, ask, known)
        default: .refused
        }
    }

    // MARK: 200

    /// The verdict on a part that is sent as if it were the whole; `nil` for anything else.
    private static func undeclared(_ headers: HTTPHeaders, _ ask: ContentRequest, _ known: Known) -> Verdict? {
        guard ContentRange.isPart(status: 200, headers) else { return nil }
        // Without its length, nothing shows whether the field or the status is right.
        if ask != .whole, !headers.contains("Content-Length") { return .startOver(.wrongRange) }
        return part(headers, ask, known)
    }

    private static func whole(_ headers: HTTPHeaders, _ ask: ContentRequest, _ known: Known) -> Verdict {
        // With a transfer coding, Content-Length is ignored (RFC 9112 §6.3).
        let isCoded = headers.contains("Transfer-Encoding")
        let length = isCoded ? nil : headers["Content-Length"].flatMap(ContentRange.number)
        let validator = ContentValidator(headers)
        var invalidatesReceived = true
        if case .part(_, _, let expected) = ask {
            // A server without ranges sends the whole of the same content: the received bytes stay valid.
            let isSame =
                validator != nil && expected.compare(with: headers) == .same && coding(headers) == known.coding
            // One version has one length, which is at least that of what was received.
            if isSame, let length, length < known.end || length != known.total ?? length {
                return .startOver(.wrongRange)
            }
            invalidatesReceived = !isSame || known.total.map { $0 != length } ?? false
        }
        return .content(
            ContentResponse(
                start: 0, end: length, total: length, validator: validator, coding: coding(headers), isPart: false,
                deniesRanges: headers["Accept-Ranges"]?.lowercased() == "none",
                invalidatesReceived: invalidatesReceived))
    }

    // MARK: 206

    private static func part(_ headers: HTTPHeaders, _ ask: ContentRequest, _ known: Known) -> Verdict {
        let asked: (start: Int64, end: Int64?)
        switch ask {
        case .whole: return .unusable("the server sent a part (Content-Range) though the whole was requested")
        case .probe: asked = (0, nil)
        case .part(let start, let end, _): asked = (start, end)
        }
        if let type = headers["Content-Type"], type.lowercased().hasPrefix("multipart/byteranges") {
            return .startOver(.wrongRange)
        }
        guard case .part(let range, let total)? = ContentRange(headers["Content-Range"]),
            range.lowerBound == asked.start, range.upperBound <= asked.end ?? .max
        else { return .startOver(.wrongRange) }
        if let length = headers["Content-Length"].flatMap(ContentRange.number), length != Int64(range.count) {
            return .startOver(.wrongRange)
        }
        if case .part(_, _, let expected) = ask {
            switch expected.compare(with: headers) {
            case .same: break
            case .different: return .startOver(.changed)
            case .unknown: return .startOver(.wrongRange)
            }
            guard coding(headers) == known.coding else { return .startOver(.wrongRange) }
        }
        let validator = ask == .probe ? ContentValidator(headers) : known.validator?.adding(headers)
        // Without a strong validator, no other part can be joined with this one.
        guard validator != nil || range.upperBound == total else { return .startOver(.wrongRange) }
        if let knownTotal = known.total, total ?? knownTotal != knownTotal || range.upperBound > knownTotal {
            return .startOver(.wrongRange)
        }
        if ask != .probe, let total, total < known.end { return .startOver(.wrongRange) }
        return .content(
            ContentResponse(
                start: range.lowerBound, end: range.upperBound, total: total ?? known.total,
                validator: validator, coding: coding(headers), isPart: true, deniesRanges: false,
                invalidatesReceived: ask == .probe))
    }

    /// The content codings of a response, in the form in which two responses are compared; `nil` for none.
    private static func coding(_ headers: HTTPHeaders) -> String? {
        let codings = headers[values: "Content-Encoding"].joined(separator: ",").lowercased()
            .filter { !$0.isWhitespace }
        return codings.isEmpty || codings == "identity" ? nil : codings
    }

    // MARK: 416

    private static func refusedRange(_ headers: HTTPHeaders, _ ask: ContentRequest, _ known: Known) -> Verdict {
        guard case .part(let start, _, let validator) = ask else {
            return ask == .probe ? .startOver(.refusedRange) : .refused
        }
        // If all bytes have been received, the range after them is unsatisfiable (RFC 9110 §15.5.17).
        guard case .unsatisfied(let total)? = ContentRange(headers["Content-Range"]), total == start,
            known.contiguous == total, known.total ?? total == total
        else { return .startOver(.refusedRange) }
        // Where the size was unknown, only a validator shows that it is that of the same version.
        let isSame =
            switch validator.compare(with: headers) {
            case .same: true
            case .different: false
            case .unknown: known.total != nil
            }
        return isSame ? .complete(total: total) : .startOver(.refusedRange)
    }
}

import HTTPCore
import ResponseCache

/// Whether a response that is a part of the content answers its request (RFC 9110 §14.4, §15.3.7), so that a part passes
/// neither for the whole nor for another part.
enum PartialContentRule {
    /// Records why a response does not answer its request, as it was sent. A body that is still to come is counted.
    static func check(_ response: inout HTTPResponse, to request: HTTPRequest) {
        let field = response.headers["Content-Range"]
        guard field != nil || response.status == 206, response.isSuccess, request.method != .head else { return }
        guard request.headers.contains("Range") else {
            if isUnasked(response, field) {
                response.partFault = "\(words(response, field)) though the whole was requested"
            }
            return
        }
        // A transfer judges its parts itself, and asks for them once more.
        guard response.status == 206, !request.context.judgesParts, !isMultipart(response),
            case .part(let range, let total)? = ContentRange(field)
        else { return }
        if let asked = asked(request, of: total), !asked.contains(range.lowerBound) {
            let wanted = URLText.visible(request.headers["Range"] ?? "")
            response.partFault = "\(words(response, field)) though Range: \(wanted) was requested"
            return
        }
        let length = response.headers["Content-Length"].flatMap { ContentRange.number($0) }
        let count = Int64(range.count)
        let isCoded = response.headers.contains("Content-Encoding")
        if !response.headers.contains("Transfer-Encoding"), let length, length != count {
            response.partFault = "\(words(response, field)) of \(length) bytes"
        } else if !isCoded, let body = ResponseBody.joining([response.body], byteCount: count) {
            if length == nil { response.body = body }
        } else if !isCoded {
            response.partFault = "\(words(response, field)) of \(response.data.count) bytes"
        }
    }

    /// Whether a response has, or may have, less than the content, which was asked for. A 206 without a range of bytes has not:
    /// some APIs answer a page of a list with it, and PostgREST names its range without a unit.
    private static func isUnasked(_ response: HTTPResponse, _ field: String?) -> Bool {
        guard response.status == 206 else { return ContentRange.isPart(status: response.status, response.headers) }
        if isMultipart(response) { return true }
        guard let field, field.trimmingFieldWhitespace.lowercased().hasPrefix("bytes") else { return false }
        guard case .part(let range, let total?)? = ContentRange(field) else { return true }
        return range != 0..<total
    }

    private static func isMultipart(_ response: HTTPResponse) -> Bool {
        response.headers["Content-Type"].map(MediaType.essence) == "multipart/byteranges"
    }

    /// The bytes that the request asks for; `nil` if that depends on a size which is not known, and for several ranges.
    private static func asked(_ request: HTTPRequest, of total: Int64?) -> Range<Int64>? {
        if total == nil, request.headers["Range"]?.contains("=-") == true { return nil }
        return RangeRule.part(request, of: total ?? .max)
    }

    private static func words(_ response: HTTPResponse, _ field: String?) -> String {
        let range = field.map { "Content-Range: \(URLText.visible($0))" } ?? "multipart/byteranges"
        return "the server answered \(response.status) with a part (\(range))"
    }
}

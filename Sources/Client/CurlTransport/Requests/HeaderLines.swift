import CLibcurl
internal import HTTPCore
import Synchronization

/// Turns a request's header fields into lines for `CURLOPT_HTTPHEADER`, and refuses fields that must not be sent.
///
/// The lines include `User-Agent` and `Accept-Encoding`: libcurl's options for these would format them anew for each request.
final class HeaderLines: Sendable {
    /// What the lines depend on besides the request.
    struct Context: Hashable {
        /// Whether a proxy reads the fields, and not only the server.
        var reachesProxy = false
        /// Whether `Cookie` is left out here because it is sent with the manager's cookies.
        var takesCookies = false
    }

    private let userAgent: String
    private let acceptEncoding: String
    /// The lines of a request without header fields.
    private let standard: [String]
    /// The latest results, since requests of one kind repeat the same fields.
    private let memos = Mutex<[Memo]>([])
    private let nextMemo = Atomic<Int>(0)

    /// The lines, with everything they depend on.
    private struct Memo {
        let fields: [HTTPHeaders.Field]
        let traits: Traits
        let lines: [String]

        static var limit: Int { 4 }
    }

    /// What the lines depend on besides the fields.
    private struct Traits: Hashable {
        var decompresses: Bool
        var context: Context
        /// `nil` without a body.
        var body: Body?

        struct Body: Hashable {
            var contentType: ExactText?
            var boundary: String?
            var isSmall: Bool
        }
    }

    init(userAgent: String, accepting codings: [ContentCoding] = EngineConfiguration().contentCodings) {
        self.userAgent = "User-Agent: \(userAgent)"
        let names = ContentCodings.accepted(codings)
        acceptEncoding = "Accept-Encoding: \(names.isEmpty ? "identity" : names.joined(separator: ", "))"
        standard = [self.userAgent, acceptEncoding]
    }

    /// Returns the lines for a request.
    func lines(
        for request: HTTPRequest, body: PreparedBody?, decompresses: Bool, context: Context = Context()
    ) throws(NetworkError) -> [String] {
        if request.headers.hasNoFields, body == nil, request.authentication == nil, decompresses { return standard }
        let fields = request.headers.fields
        let bodyTraits = body.map {
            Traits.Body(
                contentType: request.body?.contentType.map(ExactText.init), boundary: $0.boundary,
                isSmall: $0.isSmall)
        }
        let traits = Traits(decompresses: decompresses, context: context, body: bodyTraits)
        let isKeepable = request.authentication == nil && bodyTraits?.boundary == nil
        if isKeepable, let lines = known(fields, traits) { return lines }
        let (lines, names) = try make(fields, for: request, body: body, traits)
        // Whether Content-Length and Transfer-Encoding are valid depends on the body's length, which is not in a memo.
        if isKeepable, !names.contains("content-length"), !names.contains("transfer-encoding") {
            keep(Memo(fields: fields, traits: traits, lines: lines))
        }
        return lines
    }

    private func known(_ fields: [HTTPHeaders.Field], _ traits: Traits) -> [String]? {
        memos.withLock { memos in memos.first { $0.fields == fields && $0.traits == traits }?.lines }
    }

    private func keep(_ memo: Memo) {
        let index = nextMemo.wrappingAdd(1, ordering: .relaxed).oldValue % Memo.limit
        memos.withLock { memos in
            if index < memos.count { memos[index] = memo } else { memos.append(memo) }
        }
    }

    private func make(
        _ fields: [HTTPHeaders.Field], for request: HTTPRequest, body: PreparedBody?, _ traits: Traits
    ) throws(NetworkError) -> (lines: [String], names: Set<String>) {
        var lines: [String] = []
        var type = HTTPBody.multipart([]).ownContentType ?? ""
        var names = Set<String>()
        for field in fields {
            try Self.check(field)
            let name = field.name.lowercased()
            names.insert(name)
            switch name {
            case "content-length": try Self.checkContentLength(field.value, body: body)
            case "transfer-encoding": try Self.checkTransferEncoding(field.value, body: body)
            // Only a proxy may receive this field.
            case "proxy-authorization" where !traits.context.reachesProxy: break
            case "cookie" where traits.context.takesCookies: break
            case "content-type" where traits.body?.boundary != nil: type = Self.multipartType(field.value) ?? type
            default: lines.append(Self.line(field))
            }
        }
        if !names.contains("user-agent") { lines.append(userAgent) }
        if traits.decompresses { lines.append(acceptEncoding) }
        if case .bearer(let token) = request.authentication, request.headers["Authorization"] == nil {
            try Self.check(HTTPHeaders.Field(name: "Authorization", value: token))
            lines.append("Authorization: Bearer \(token)")
        }
        if let body {
            if let boundary = traits.body?.boundary {
                lines.append("Content-Type: \(type); boundary=\(boundary)")
            } else if !names.contains("content-type") {
                try Self.appendContentType(of: request, body: body, to: &lines)
            }
            // libcurl would wait up to a second for a "100 Continue" that many servers never send.
            if !names.contains("expect"), !body.isSmall { lines.append("Expect:") }
        }
        return (lines, names)
    }

    private static func line(_ field: HTTPHeaders.Field) -> String {
        guard let value = field.value else { return "\(field.name):" }  // libcurl's notation for removing a field
        let isBlank = value.utf8.allSatisfy { $0 == 0x20 || $0 == 0x09 }
        return isBlank ? "\(field.name);" : "\(field.name): \(value)"  // libcurl's notation for a field without a value
    }

    /// Returns the caller's type for a multipart body without its boundary, which is that of the body; `nil` for a type that
    /// is not multipart, such as one set for all requests.
    private static func multipartType(_ value: String?) -> String? {
        guard let value, value.lowercased().hasPrefix("multipart/") else { return nil }
        let parameters = value.split(separator: ";").filter { parameter in
            !parameter.drop { $0 == " " || $0 == "\t" }.lowercased().hasPrefix("boundary")
        }
        return parameters.joined(separator: ";")
    }

    private static func appendContentType(
        of request: HTTPRequest, body: PreparedBody, to lines: inout [String]
    ) throws(NetworkError) {
        if let contentType = request.body?.contentType {
            try check(HTTPHeaders.Field(name: "Content-Type", value: contentType))
            lines.append("Content-Type: \(contentType)")
        } else if body.isSmall {
            // Without this line libcurl adds `Content-Type: application/x-www-form-urlencoded`.
            lines.append("Content-Type:")
        }
    }

    private static func check(_ field: HTTPHeaders.Field) throws(NetworkError) {
        guard field.name.utf8.isToken else {
            throw .invalidRequest(
                "the header name \"\(field.name.escaped)\" is not a token (RFC 9110 §5.1); letters, digits and "
                    + "!#$%&'*+-.^_`|~ are allowed")
        }
        guard let value = field.value, !value.utf8.isFieldValue else { return }
        throw .invalidRequest(
            "the value of the header \"\(field.name)\" holds a control character (CR, LF and NUL are never sent); "
                + "remove or encode it")
    }

    private static func checkContentLength(_ value: String?, body: PreparedBody?) throws(NetworkError) {
        guard let value else { return }
        guard let length = body == nil ? 0 : body?.length else {
            throw .invalidRequest(
                "Content-Length says \(value.escaped) but the body's length is not known; leave the field out, or give the "
                    + "length to the body, as in .stream(length:); trailers follow only a body of unknown length")
        }
        guard value != "\(length)" else { return }
        throw .invalidRequest(
            "Content-Length says \(value.escaped) but the body has \(length) bytes; leave the field out, since it is set "
                + "automatically")
    }

    private static func checkTransferEncoding(_ value: String?, body: PreparedBody?) throws(NetworkError) {
        // The field is not sent with a form, whose length is known.
        let isUnknownLength = body != nil && body?.length == nil || body?.boundary != nil
        guard let value, !(value.lowercased() == "chunked" && isUnknownLength) else { return }
        throw .invalidRequest(
            "Transfer-Encoding \"\(value.escaped)\" cannot be set; leave it out, since a body of unknown length is "
                + "sent chunked automatically")
    }
}

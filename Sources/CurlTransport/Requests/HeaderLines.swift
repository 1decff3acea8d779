import CLibcurl
import HTTPCore

/// Turns a request's headers into the lines `CURLOPT_HTTPHEADER` takes, and
/// refuses what must not go on the wire.
///
/// `User-Agent` and `Accept-Encoding` are among them though libcurl has
/// options of its own for both: it would format each anew for each request.
struct HeaderLines: Sendable {
    /// Where the fields of a request go.
    struct Context {
        /// Whether a proxy reads them, and not only the server.
        var reachesProxy = false
        /// Whether `Cookie` is sent by other means, with the manager's cookies.
        var takesCookies = false
    }

    private let userAgent: String
    private let acceptEncoding: String
    /// The lines of a request that brings none of its own.
    private let standard: [String]

    init(userAgent: String) {
        self.userAgent = "User-Agent: \(userAgent)"
        acceptEncoding = "Accept-Encoding: \(Self.codings.joined(separator: ", "))"
        standard = [self.userAgent, acceptEncoding]
    }

    /// What libcurl can take off. `deflate` is left out: servers disagree on what it is (RFC 9110 §8.4.1.2).
    private static let codings: [String] = {
        guard let info = curl_version_info(CURLVERSION_TENTH) else { return ["identity"] }
        let features = Int(info.pointee.features)
        let known = [(CURL_VERSION_LIBZ, "gzip"), (CURL_VERSION_BROTLI, "br"), (CURL_VERSION_ZSTD, "zstd")]
        let names = known.filter { features & Int($0.0) != 0 }.map(\.1)
        return names.isEmpty ? ["identity"] : names
    }()

    /// The lines for a request.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the field.
    func lines(
        for request: HTTPRequest, body: PreparedBody?, decompresses: Bool, context: Context = Context()
    ) throws(NetworkError) -> [String] {
        if request.headers.hasNoFields, body == nil, request.authentication == nil, decompresses { return standard }
        var lines: [String] = []
        var names = Set<String>()
        for field in request.headers.fields {
            try Self.check(field)
            let name = field.name.lowercased()
            names.insert(name)
            switch name {
            case "content-length": try Self.checkContentLength(field.value, body: body)
            case "transfer-encoding": try Self.checkTransferEncoding(field.value, body: body)
            // Never the server's business; a proxy's user and password stand in its URL.
            case "proxy-authorization" where !context.reachesProxy: break
            case "cookie" where context.takesCookies: break
            case "content-type" where body?.isMultipart ?? false:
                if let type = Self.multipartType(field.value) { lines.append("Content-Type: \(type)") }
            default: lines.append(Self.line(field))
            }
        }
        if !names.contains("user-agent") { lines.append(userAgent) }
        if decompresses { lines.append(acceptEncoding) }
        if case .bearer(let token) = request.authentication, request.headers["Authorization"] == nil {
            try Self.check(HTTPHeaders.Field(name: "Authorization", value: token))
            lines.append("Authorization: Bearer \(token)")
        }
        if let body {
            if !names.contains("content-type") { try Self.appendContentType(of: request, body: body, to: &lines) }
            // libcurl would wait up to a second for "100 Continue" from servers that never send it.
            if !names.contains("expect"), !body.isSmall { lines.append("Expect:") }
        }
        return lines
    }

    private static func line(_ field: HTTPHeaders.Field) -> String {
        guard let value = field.value else { return "\(field.name):" }  // libcurl's notation for "not this one"
        let isBlank = value.utf8.allSatisfy { $0 == 0x20 || $0 == 0x09 }
        return isBlank ? "\(field.name);" : "\(field.name): \(value)"  // the semicolon: "without a value"
    }

    /// The caller's type of a multipart body without its boundary, which libcurl adds; `nil` for a type that no multipart
    /// body has, such as one set for all requests.
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
        } else if case .bytes = body {
            // Without this libcurl says that all bytes are a form.
            lines.append("Content-Type:")
        }
    }

    private static func check(_ field: HTTPHeaders.Field) throws(NetworkError) {
        guard field.name.utf8.isToken else {
            throw .invalidRequest(
                "the header name \"\(visible(field.name))\" is not a token (RFC 9110 §5.1); letters, digits and "
                    + "!#$%&'*+-.^_`|~ are allowed")
        }
        guard let value = field.value, !value.utf8.allSatisfy(isAllowedInValue) else { return }
        throw .invalidRequest(
            "the value of the header \"\(field.name)\" holds a control character (CR, LF and NUL are never sent); "
                + "remove or encode it")
    }

    /// What RFC 9110 §5.5 lets a field value hold.
    static func isAllowedInValue(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F || byte == 0x09 }

    private static func checkContentLength(_ value: String?, body: PreparedBody?) throws(NetworkError) {
        guard let value, let length = body?.length ?? (body == nil ? 0 : nil), value != "\(length)" else { return }
        throw .invalidRequest(
            "Content-Length says \(visible(value)) but the body has \(length) bytes; leave it out, it is computed")
    }

    private static func checkTransferEncoding(_ value: String?, body: PreparedBody?) throws(NetworkError) {
        guard let value, !(value.lowercased() == "chunked" && body?.length == nil) else { return }
        throw .invalidRequest(
            "Transfer-Encoding is not the caller's to set (\"\(visible(value))\"); a body of unknown length is sent "
                + "chunked by itself")
    }

    private static func visible(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") { $0 += $1.escaped(asASCII: false) }
    }
}

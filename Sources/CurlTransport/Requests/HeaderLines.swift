import HTTPCore

/// Turns a request's headers into the lines `CURLOPT_HTTPHEADER` takes, and
/// refuses what must not go on the wire.
enum HeaderLines {
    /// The lines, `nil` when there are none to give.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the field.
    static func make(
        for request: HTTPRequest, body: PreparedBody?
    ) throws(NetworkError) -> [String]? {
        if request.headers.hasNoFields, body == nil, request.authentication == nil { return nil }
        var lines: [String] = []
        var hasContentType = false
        var hasExpect = false
        var hasAuthorization = false
        for field in request.headers.fields {
            try check(field)
            if field.name.equalsIgnoringASCIICase("Content-Length") {
                try checkContentLength(field.value, body: body)
                continue
            }
            if field.name.equalsIgnoringASCIICase("Transfer-Encoding") {
                try checkTransferEncoding(field.value, body: body)
                continue
            }
            if field.name.equalsIgnoringASCIICase("Content-Type") { hasContentType = true }
            if field.name.equalsIgnoringASCIICase("Expect") { hasExpect = true }
            if field.name.equalsIgnoringASCIICase("Authorization") { hasAuthorization = field.value != nil }
            lines.append(line(field))
        }
        if case .bearer(let token) = request.authentication, !hasAuthorization {
            try check(HTTPHeaders.Field(name: "Authorization", value: token))
            lines.append("Authorization: Bearer \(token)")
        }
        if let body {
            if !hasContentType { appendContentType(of: request, body: body, to: &lines) }
            if !hasExpect, case .bytes = body {} else if !hasExpect {
                // libcurl would wait up to a second for "100 Continue" from servers that never send it.
                lines.append("Expect:")
            }
        }
        return lines.isEmpty ? nil : lines
    }

    private static func line(_ field: HTTPHeaders.Field) -> String {
        switch field.value {
        case nil: "\(field.name):"  // libcurl's notation for "not this one"
        case "": "\(field.name);"  // and for "without a value"
        case let value?: "\(field.name): \(value)"
        }
    }

    private static func appendContentType(of request: HTTPRequest, body: PreparedBody, to lines: inout [String]) {
        if let contentType = request.body?.contentType {
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

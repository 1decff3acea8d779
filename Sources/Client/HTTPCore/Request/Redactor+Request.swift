internal import FoundationEssentials

// The secrets of a request.
extension Redactor {
    /// Remembers what the SDK adds to a request by itself: its credentials and those of its proxy.
    package mutating func noteCredentials(of request: HTTPRequest) {
        switch request.authentication {
        case .bearer(let token)?: _ = mark(token)
        case .basic(let user, let password)?, .digest(let user, let password)?, .any(let user, let password)?:
            noteUser(user, password)
        case nil: break
        }
        if case .url(let url)? = request.proxy { noteUser(ofURL: url) }
        for cookies in request.headers[values: "Cookie"] { _ = field("Cookie", cookies) }
    }

    /// Remembers all secrets of a request, with those of a body in memory of up to 64 KiB.
    package mutating func note(_ request: HTTPRequest) {
        noteCredentials(of: request)
        _ = url(request.url)
        for (name, value) in request.headers { _ = field(name, value) }
        let type = request.headers["Content-Type"] ?? request.body?.contentType
        switch request.body?.content {
        case .data(let data)?: _ = body(data.prefix(64 << 10), type: type, isTruncated: true)
        case .encoded(let encoder)?:
            _ = (try? encoder.encode()).map { body($0.prefix(64 << 10), type: type, isTruncated: true) }
        case .multipart(let files)?: for file in files { _ = part(file, limit: 64 << 10) }
        default: break
        }
    }

    /// A part of a form, with its content when that is in memory.
    package mutating func part(_ file: UploadFile, limit: Int) -> RedactedBody.Part {
        var part = RedactedBody.Part(
            name: text(file.name), fileName: file.fileName.map { text($0) },
            contentType: file.contentType.map { text($0) })
        guard case .data(let data) = file.source, limit > 0 else { return part }
        let shown = Self.text(data.prefix(limit), file.contentType, isTruncated: data.count > limit)
        part.text = shown.map { content(file.name, $0) }
        // Remembers a secret that is not text, and those in bytes.
        if shown == nil { _ = content(file.name, String(decoding: bytes(data.prefix(limit)), as: UTF8.self)) }
        return part
    }

    /// Text for an error of a request, from the app or its server: either may repeat a secret of the request in it.
    package static func scrubbed(_ text: String, of request: HTTPRequest?) -> String {
        var redactor = Redactor(.standard)
        if let request { redactor.note(request) }
        let text = redactor.text(text)
        return redactor.scrubbed(text)
    }
}

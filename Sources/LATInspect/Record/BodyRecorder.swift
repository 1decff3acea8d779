internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// Captures bodies within the bounds of a ``BodyCapture``, redacted.
struct BodyRecorder {
    private let capture: BodyCapture

    init(_ capture: BodyCapture) { self.capture = capture }

    /// The body of a request; `nil` for none.
    func recorded(_ body: HTTPBody, type: String?, _ redactor: inout Redactor) -> CallRecord.Body? {
        let type = type ?? body.contentType
        switch body.content {
        case .parameters: return nil
        case .data(let data):
            return recorded(data, size: Int64(data.count), type: type, &redactor)
        case .encoded(let encoder):
            guard let data = try? encoder.encode() else {
                return CallRecord.Body(contentType: type, content: .omitted("it cannot be encoded"))
            }
            return recorded(data, size: Int64(data.count), type: type, &redactor)
        case .file(let path):
            return CallRecord.Body(contentType: type, content: .omitted("the file \(redactor.text(path))"))
        case .stream(let stream):
            return CallRecord.Body(contentType: type, content: .omitted("a stream"), size: stream.length)
        case .multipart(let files):
            return CallRecord.Body(
                contentType: type ?? "multipart/form-data", content: .parts(files.map { part($0, &redactor) }))
        }
    }

    /// - Parameters:
    ///   - data: the body, or its beginning.
    ///   - size: the number of bytes of the whole.
    func recorded(_ data: Data, size: Int64, type: String?, _ redactor: inout Redactor) -> CallRecord.Body {
        var body = CallRecord.Body(contentType: type, content: .omitted(""), size: size)
        let data = data.prefix(capture.maxSize)
        let mediaType = BodyCapture.mediaType(type)
        guard capture.maxSize > 0, capture.keeps(mediaType) else {
            body.content = .omitted("bodies of this type are not kept")
            return body
        }
        body.isTruncated = size > Int64(data.count)
        body.content = content(data, mediaType, type, isTruncated: body.isTruncated, &redactor)
        return body
    }

    private func content(
        _ data: Data, _ mediaType: String, _ type: String?, isTruncated: Bool, _ redactor: inout Redactor
    ) -> CallRecord.Body.Content {
        if mediaType == "multipart/form-data", let boundary = Self.boundary(type) {
            return .parts(Self.parts(data, boundary, &redactor))
        }
        guard let text = Self.text(data, type, isTruncated: isTruncated) else {
            return .bytes(redactor.bytes(Data(data)))
        }
        return .text(mediaType == "application/x-www-form-urlencoded" ? redactor.form(text) : redactor.text(text))
    }

    /// The text of a body; `nil` when it is not text. A truncated character at the end is left out.
    private static func text(_ data: Data, _ type: String?, isTruncated: Bool) -> String? {
        let hasNUL = data.withUnsafeBytes { $0.contains(0) }
        if hasNUL, data.starts(with: [0xFF, 0xFE]) || data.starts(with: [0xFE, 0xFF]) {
            return Charset("utf-16").decode(data.dropLast(data.count % 2))
        }
        guard !hasNUL || Charset.declared(in: type).name.lowercased().hasPrefix("utf-16") else { return nil }
        for cut in 0...(isTruncated ? min(3, data.count) : 0) {
            if let text = String(validating: data.dropLast(cut), as: UTF8.self) { return text }
        }
        return type.flatMap { Charset.declared(in: $0).decode(data) }
    }

    // MARK: Parts

    private func part(_ file: UploadFile, _ redactor: inout Redactor) -> CallRecord.Part {
        var part = CallRecord.Part(
            name: redactor.text(file.name), fileName: file.fileName, contentType: file.contentType)
        if case .data(let data) = file.source, capture.maxSize > 0 {
            part.text = Self.text(
                data.prefix(capture.maxSize), file.contentType, isTruncated: data.count > capture.maxSize
            )
            .map { redactor.part(file.name, $0) }
        }
        return part
    }

    /// The boundary in a `Content-Type` (RFC 2046 §5.1.1). A malformed type is read without its quotes, so that secrets are
    /// found in the parts of such a body too.
    private static func boundary(_ type: String?) -> String? {
        guard let type else { return nil }
        let plain = type.filter { $0 != "\"" }
        for text in [type, plain] {
            let found = FileName.parameters(of: text).first { $0.name == "boundary" }?.value
            guard let found, !found.isEmpty else { continue }
            // Only a quoted boundary may have spaces.
            return type == plain ? String(found.prefix { $0 != " " && $0 != "\t" }) : found
        }
        return nil
    }

    /// The parts of a multipart body that was given as bytes.
    private static func parts(_ data: Data, _ boundary: String, _ redactor: inout Redactor) -> [CallRecord.Part] {
        let text = String(decoding: data, as: UTF8.self)
        let sections = text.split(separator: "--" + boundary, omittingEmptySubsequences: false).dropFirst()
        return sections.compactMap { section in
            guard !section.hasPrefix("--"), let blank = section.firstRange(of: "\r\n\r\n") else { return nil }
            let head = section[..<blank.lowerBound]
            var content = String(section[blank.upperBound...])
            if content.hasSuffix("\r\n") { content = String(content.dropLast()) }
            let parameters = FileName.parameters(of: field("content-disposition", in: head) ?? "")
            let name = parameters.first { $0.name == "name" }?.value ?? ""
            let fileName = parameters.first { $0.name == "filename" }?.value
            var part = CallRecord.Part(name: redactor.text(name), fileName: fileName)
            part.contentType = field("content-type", in: head)
            part.text = redactor.part(name, content)
            return part
        }
    }

    /// The bytes of a multipart body without the content of its secret parts.
    static func withoutSecretParts(_ data: Data, _ type: String?, _ secrets: Secrets) -> Data {
        guard let boundary = boundary(type) else { return data }
        let (mark, blank) = (Data("--\(boundary)".utf8), Data("\r\n\r\n".utf8))
        var shown = Data()
        var rest = data[...]
        while !rest.isEmpty {
            let end = rest.dropFirst(mark.count).firstRange(of: mark)?.lowerBound ?? rest.endIndex
            let section = rest[..<end]
            rest = rest[end...]
            guard let head = section.firstRange(of: blank) else {
                shown += section
                continue
            }
            let fields = String(decoding: section[..<head.lowerBound], as: UTF8.self)
            let parameters = FileName.parameters(of: field("content-disposition", in: fields[...]) ?? "")
            let isSecret = parameters.contains { $0.name == "name" && secrets.contains(parameter: $0.value) }
            shown += isSecret ? section[..<head.upperBound] + Data("\(Secrets.placeholder)\r\n".utf8) : section
        }
        return shown
    }

    /// - Parameter name: the name of the field, in lower case.
    private static func field(_ name: String, in head: Substring) -> String? {
        head.split(whereSeparator: \.isNewline).first { $0.lowercased().hasPrefix(name + ":") }
            .map { String($0.dropFirst(name.count + 1).drop { $0 == " " }) }
    }
}

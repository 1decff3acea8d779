package import FoundationEssentials

/// What may be shown of a body.
package enum RedactedBody: Sendable {
    package struct Part: Sendable {
        package var name: String
        package var fileName: String?
        package var contentType: String?
        /// `nil` for what is not text.
        package var text: String?
    }

    case text(String)
    /// Bytes that are not text.
    case bytes(Data)
    case parts([Part])
    /// Compressed bytes, in which secrets cannot be found.
    case compressed
}

extension Redactor {
    /// - Parameters:
    ///   - data: the body, or its beginning.
    ///   - coding: the `Content-Encoding` of the bytes.
    package mutating func body(
        _ data: Data, type: String?, coding: String? = nil, isTruncated: Bool = false
    ) -> RedactedBody {
        if Self.isCompressed(data, coding) { return .compressed }
        let mediaType = MediaType.plainEssence(of: type)
        if mediaType == "multipart/form-data", let boundary = Self.boundary(type) {
            return .parts(parts(data, boundary, isTruncated: isTruncated))
        }
        guard let text = Self.text(data, type, isTruncated: isTruncated) else { return .bytes(self.data(data)) }
        return .text(mediaType == "application/x-www-form-urlencoded" ? form(text) : self.text(text))
    }

    /// The bytes of a body in the charset that they have. Without secrets they stay as they are.
    package mutating func data(_ data: Data, isForm: Bool = false) -> Data {
        if let text = WideText(data) {
            let shown = self.text(text.text)
            return shown == text.text ? data : text.data(of: shown)
        }
        guard let text = String(validating: data, as: UTF8.self) else { return bytes(data) }
        return Data((isForm ? form(text) : self.text(text)).utf8)
    }

    mutating func content(_ name: String, _ content: String) -> String {
        secrets.contains(parameter: name) ? mark(content) : text(content)
    }

    private static func isCompressed(_ data: Data, _ coding: String?) -> Bool {
        let coding = coding?.lowercased() ?? ""
        // The signatures of gzip (RFC 1952 §2.3.1) and zstd (RFC 8878 §3.1.1).
        return !coding.isEmpty && coding != "identity" || data.starts(with: [0x1F, 0x8B])
            || data.starts(with: [0x28, 0xB5, 0x2F, 0xFD])
    }

    /// The text of a body; `nil` when it is not text. A truncated character at the end is left out.
    static func text(_ data: Data, _ type: String?, isTruncated: Bool) -> String? {
        let hasNUL = data.withUnsafeBytes { $0.contains(0) }
        if hasNUL {
            let isWide = Charset.declared(in: type).name.lowercased().hasPrefix("utf-16")
            let wide = isWide ? Charset.declared(in: type).decode(data) : WideText(data)?.text
            return wide.flatMap { $0.unicodeScalars.contains { $0.value < 9 } ? nil : $0 }
        }
        for cut in 0...(isTruncated ? min(3, data.count) : 0) {
            if let text = String(validating: data.dropLast(cut), as: UTF8.self) { return text }
        }
        return type.flatMap { Charset.declared(in: $0).decode(data) }
    }

    // MARK: Parts

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

    /// What is before the first delimiter, and from each to the next. A delimiter is a line that begins with `--` and the
    /// boundary (RFC 2046 §5.1.1), so that a long boundary is compared only once with each line.
    private static func sections(_ data: Data, _ boundary: String) -> [Data] {
        let mark = Data("--\(boundary)".utf8)
        var sections: [Data] = []
        var (start, line) = (data.startIndex, data.startIndex)
        while line < data.endIndex {
            if data[line...].starts(with: mark) {
                sections.append(data[start..<line])
                start = line
            }
            line = data[line...].firstIndex(of: 0x0A).map { $0 + 1 } ?? data.endIndex
        }
        return sections + [data[start...]]
    }

    /// The parts of a multipart body that was given as bytes.
    private mutating func parts(_ data: Data, _ boundary: String, isTruncated: Bool) -> [RedactedBody.Part] {
        let sections = Self.sections(data, boundary)
        return sections.enumerated().dropFirst().compactMap { index, section in
            let section = section.dropFirst(boundary.utf8.count + 2)
            guard !section.starts(with: "--".utf8), let blank = section.firstRange(of: Data("\r\n\r\n".utf8)) else {
                return nil
            }
            let head = String(decoding: section[..<blank.lowerBound], as: UTF8.self)[...]
            var content = Data(section[blank.upperBound...])
            if content.suffix(2).elementsEqual("\r\n".utf8) { content = content.dropLast(2) }
            let parameters = FileName.parameters(of: Self.field("content-disposition", in: head) ?? "")
            let name = parameters.first { $0.name == "name" }?.value ?? ""
            let fileName = parameters.first { $0.name == "filename" }?.value
            let type = Self.field("content-type", in: head)
            // A secret that is not text is remembered, too.
            let shown = Self.text(content, type, isTruncated: isTruncated && index == sections.count - 1)
            let text = self.content(name, shown ?? String(decoding: content, as: UTF8.self))
            return RedactedBody.Part(
                name: self.text(name), fileName: fileName.map { self.text($0) },
                contentType: type.map { self.text($0) }, text: shown == nil ? nil : text)
        }
    }

    /// The bytes of a multipart body without the content of its secret parts.
    package func withoutSecretParts(_ data: Data, _ type: String?) -> Data {
        guard let boundary = Self.boundary(type) else { return data }
        let blank = Data("\r\n\r\n".utf8)
        var shown = Data()
        for section in Self.sections(data, boundary) {
            guard let head = section.firstRange(of: blank) else {
                shown += section
                continue
            }
            let fields = String(decoding: section[..<head.lowerBound], as: UTF8.self)
            let parameters = FileName.parameters(of: Self.field("content-disposition", in: fields[...]) ?? "")
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

extension MediaType {
    /// The media type of a field `Content-Type`, in lower case, without parameters. Blanks are removed, so that secrets are
    /// found in bodies with a malformed type too.
    package static func plainEssence(of field: String?) -> String {
        essence(of: field ?? "").filter { $0 != " " && $0 != "\t" }
    }
}

/// Text in UTF-16 whose charset is not declared: with a byte order mark, or with Latin letters and digits in at least half of
/// its units. What is not valid in it is replaced.
package struct WideText: Sendable {
    package let text: String
    private let isMarked: Bool
    private let isBigEndian: Bool
    /// The last byte of an odd number.
    private let rest: Data

    /// `nil` for other bytes.
    package init?(_ data: Data) {
        guard data.count >= 4 else { return nil }
        let bytes = [UInt8](data)
        let isLittleMark = bytes[0] == 0xFF && bytes[1] == 0xFE
        isMarked = isLittleMark || bytes[0] == 0xFE && bytes[1] == 0xFF
        isBigEndian = isMarked ? !isLittleMark : bytes[0] == 0
        let high = isBigEndian ? 0 : 1
        let pairs = stride(from: 0, to: bytes.count - 1, by: 2)
        guard isMarked || pairs.count(where: { bytes[$0 + high] == 0 }) * 4 >= bytes.count else { return nil }
        let units = pairs.map { UInt16(bytes[$0 + high]) << 8 | UInt16(bytes[$0 + 1 - high]) }
        let plain = isMarked ? units.dropFirst() : units[...]
        // Decoding UTF-16 costs ten times as much.
        text =
            plain.allSatisfy { $0 < 0x80 }
            ? String(decoding: plain.map { UInt8($0) }, as: UTF8.self) : String(decoding: plain, as: UTF16.self)
        rest = data.suffix(data.count % 2)
    }

    /// Another text in the same form.
    package func data(of text: String) -> Data {
        let units = (isMarked ? [0xFEFF] : []) + Array(text.utf16)
        return Data(
            units.flatMap { isBigEndian ? [UInt8($0 >> 8), UInt8($0 & 0xFF)] : [UInt8($0 & 0xFF), UInt8($0 >> 8)] })
            + rest
    }
}

/// Field values that are lists (RFC 9110 §5.6.1).
enum FieldList {
    /// The elements between commas, quoted texts kept whole, white space around them and empty ones left out.
    static func elements(of value: String) -> [String] {
        var elements: [String] = []
        forEachElement(of: value) { elements.append(String(decoding: $0, as: UTF8.self)) }
        return elements
    }

    /// Gives the bytes of ``elements(of:)`` one after the other, without a copy.
    static func forEachElement(of value: String, _ body: (UnsafeBufferPointer<UInt8>.SubSequence) -> Void) {
        var value = value
        value.withUTF8 { bytes in
            var start = 0
            var isQuoted = false
            var isEscaped = false
            func take(upTo end: Int) {
                let element = bytes[start..<end].trimmingFieldWhitespace
                if !element.isEmpty { body(element) }
            }
            for (index, byte) in bytes.enumerated() {
                switch byte {
                case _ where isEscaped: isEscaped = false
                case UInt8(ascii: "\\") where isQuoted: isEscaped = true
                case UInt8(ascii: "\""): isQuoted.toggle()
                case UInt8(ascii: ",") where !isQuoted:
                    take(upTo: index)
                    start = index + 1
                default: break
                }
            }
            take(upTo: bytes.count)
        }
    }

    /// The field names of a list, in lower case.
    static func names(_ value: String) -> [String] { elements(of: value).map { $0.lowercased() } }

    /// The text inside quotes; a text without them as it is.
    static func unquoted(_ text: String) -> String {
        let quote = UInt8(ascii: "\"")
        guard text.utf8.count >= 2, text.utf8.first == quote, text.utf8.last == quote else { return text }
        var result = ""
        var isEscaped = false
        for character in text.dropFirst().dropLast() {
            if character == "\\", !isEscaped {
                isEscaped = true
            } else {
                result.append(character)
                isEscaped = false
            }
        }
        return result
    }
}

extension String {
    /// The text without spaces and tabs at its ends.
    var trimmingFieldWhitespace: String {
        guard let first = utf8.first, let last = utf8.last, first.isFieldWhitespace || last.isFieldWhitespace else {
            return self
        }
        return String(decoding: Array(utf8)[...].trimmingFieldWhitespace, as: UTF8.self)
    }
}

extension BidirectionalCollection<UInt8> where SubSequence == Self {
    /// The bytes without spaces and tabs at their ends.
    var trimmingFieldWhitespace: Self {
        var trimmed = self
        while trimmed.first?.isFieldWhitespace == true { trimmed = trimmed.dropFirst() }
        while trimmed.last?.isFieldWhitespace == true { trimmed = trimmed.dropLast() }
        return trimmed
    }
}

extension UInt8 {
    fileprivate var isFieldWhitespace: Bool { self == 0x20 || self == 0x09 }
}

/// Field values that are lists (RFC 9110 §5.6.1).
package enum FieldList {
    /// The elements between commas or another ASCII separator. Quoted strings are kept whole; surrounding white space and
    /// empty elements are dropped.
    package static func elements(of value: String, separatedBy separator: UInt8 = UInt8(ascii: ",")) -> [String] {
        var elements: [String] = []
        forEachElement(of: value, separatedBy: separator) { elements.append(String(decoding: $0, as: UTF8.self)) }
        return elements
    }

    /// Passes the bytes of each of ``elements(of:separatedBy:)`` to a closure, without a copy.
    package static func forEachElement(
        of value: String, separatedBy separator: UInt8 = UInt8(ascii: ","),
        _ body: (Slice<UnsafeBufferPointer<UInt8>>) -> Void
    ) {
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
                case separator where !isQuoted:
                    take(upTo: index)
                    start = index + 1
                default: break
                }
            }
            take(upTo: bytes.count)
        }
    }

    /// The field names of a list, in lower case.
    package static func names(_ value: String) -> [String] { elements(of: value).map { $0.lowercased() } }

    /// The name in lower case and the unquoted value of `name=value`, `name="value"` or `name`.
    package static func parameter(_ text: String) -> (name: String, value: String?) {
        guard let equals = text.firstIndex(of: "=") else { return (text.trimmingFieldWhitespace.lowercased(), nil) }
        let value = String(text[text.index(after: equals)...]).trimmingFieldWhitespace
        return (String(text[..<equals]).trimmingFieldWhitespace.lowercased(), unquoted(value))
    }

    /// A `qvalue` in thousandths (RFC 9110 §12.4.2): from 0 to 1, with up to three decimals; `nil` for anything else.
    package static func weight(_ text: some StringProtocol) -> Int? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, whole == "0" || whole == "1" else { return nil }
        let decimals = parts.count > 1 ? String(parts[1]) : ""
        guard decimals.utf8.count <= 3, decimals.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let fraction = Int(decimals + String(repeating: "0", count: 3 - decimals.utf8.count))
        else { return nil }
        let weight = (whole == "1" ? 1000 : 0) + fraction
        return weight <= 1000 ? weight : nil
    }

    /// The text inside quotes; a text without quotes is returned unchanged.
    package static func unquoted(_ text: String) -> String {
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
    package var trimmingFieldWhitespace: String {
        guard let first = utf8.first, let last = utf8.last, first.isFieldWhitespace || last.isFieldWhitespace else {
            return self
        }
        var text = self
        return text.withUTF8 { String(decoding: $0[...].trimmingFieldWhitespace, as: UTF8.self) }
    }
}

extension Slice<UnsafeBufferPointer<UInt8>> {
    /// The bytes without spaces and tabs at their ends.
    package var trimmingFieldWhitespace: Self { trimmed { $0.isFieldWhitespace } }
}

extension RandomAccessCollection<UInt8> where Index == Int {
    /// The bytes without those at their ends that meet the condition.
    func trimmed(_ isTaken: (UInt8) -> Bool) -> SubSequence {
        // Indices, because `removeFirst()` would copy a slice that shares its storage.
        var start = startIndex
        var end = endIndex
        while start < end, isTaken(self[start]) { start += 1 }
        while end > start, isTaken(self[end - 1]) { end -= 1 }
        return self[start..<end]
    }
}

extension UInt8 {
    /// Space or tab (RFC 9110 §5.6.3).
    var isFieldWhitespace: Bool { self == 0x20 || self == 0x09 }
}

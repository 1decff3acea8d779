/// A scheme of a `WWW-Authenticate` field, with its parameters (RFC 9110 §11.3).
struct AuthenticationScheme {
    /// The scheme in lower case.
    let name: String
    /// Parameter names in lower case, with their unquoted values.
    var parameters: [String: String] = [:]

    /// Returns the schemes of several fields, in their order.
    static func all(in fields: [String]) -> [AuthenticationScheme] {
        var schemes: [AuthenticationScheme] = []
        for field in fields {
            var reader = ParameterReader(field)
            while let (name, value) = reader.next() {
                if let value {
                    if !schemes.isEmpty { schemes[schemes.count - 1].parameters[name] = value }
                } else {
                    schemes.append(AuthenticationScheme(name: name))
                }
            }
        }
        return schemes
    }

    /// Returns a parameter's value from a field without a scheme, such as `Authentication-Info`.
    static func parameter(_ name: String, of field: String) -> String? {
        var reader = ParameterReader(field)
        while let next = reader.next() {
            if next.name == name { return next.value }
        }
        return nil
    }
}

/// Reads the names in a field, each with its value if it has one.
private struct ParameterReader {
    private let bytes: [UInt8]
    private var index = 0

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func next() -> (name: String, value: String?)? {
        skip { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "=") || Self.isBlank($0) }
        let name = take { !Self.endsName($0) }
        guard !name.isEmpty else {
            // A quotation mark in place of a name: the rest cannot be parsed.
            index = bytes.count
            return nil
        }
        let end = index
        skip(Self.isBlank)
        guard index < bytes.count, bytes[index] == UInt8(ascii: "=") else {
            index = end
            return (Self.text(name).lowercased(), nil)
        }
        index += 1
        skip(Self.isBlank)
        return (Self.text(name).lowercased(), value())
    }

    private mutating func value() -> String {
        guard index < bytes.count, bytes[index] == UInt8(ascii: "\"") else {
            return Self.text(take { $0 != UInt8(ascii: ",") && !Self.isBlank($0) })
        }
        index += 1
        var value: [UInt8] = []
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            if bytes[index] == UInt8(ascii: "\\"), index + 1 < bytes.count { index += 1 }
            value.append(bytes[index])
            index += 1
        }
        index += 1
        return Self.text(value[...])
    }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) { _ = take(isSkipped) }

    private mutating func take(_ isTaken: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = min(index, bytes.count)
        while index < bytes.count, isTaken(bytes[index]) { index += 1 }
        return bytes[start..<max(start, min(index, bytes.count))]
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    private static func endsName(_ byte: UInt8) -> Bool {
        isBlank(byte) || byte == UInt8(ascii: "=") || byte == UInt8(ascii: ",") || byte == UInt8(ascii: "\"")
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}

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
    private var rest: Substring.UTF8View

    init(_ text: String) { rest = Substring(text).utf8 }

    mutating func next() -> (name: String, value: String?)? {
        rest = rest.drop { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "=") || Self.isBlank($0) }
        let name = take { !Self.isBlank($0) && !"=,\"".utf8.contains($0) }.lowercased()
        // The name is empty at the end, and at a quotation mark, which makes the rest unreadable.
        guard !name.isEmpty else { return nil }
        let next = rest.drop(while: Self.isBlank)
        guard next.first == UInt8(ascii: "=") else { return (name, nil) }
        rest = next.dropFirst().drop(while: Self.isBlank)
        return (name, value())
    }

    private mutating func value() -> String {
        guard rest.first == UInt8(ascii: "\"") else { return take { $0 != UInt8(ascii: ",") && !Self.isBlank($0) } }
        rest.removeFirst()
        var value: [UInt8] = []
        while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
            let escaped = byte == UInt8(ascii: "\\") ? rest.popFirst() : nil
            value.append(escaped ?? byte)
        }
        return String(decoding: value, as: UTF8.self)
    }

    private mutating func take(while isTaken: (UInt8) -> Bool) -> String {
        let taken = rest.prefix(while: isTaken)
        rest = rest[taken.endIndex...]
        return String(Substring(taken))
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}

package import FoundationEssentials

/// A reply of Redis (RESP2).
package enum RedisValue: Hashable, Sendable {
    /// Nothing: the key does not exist.
    case none
    case integer(Int64)
    /// A short text such as `OK`.
    case status(String)
    /// Bytes of any kind.
    case data(Data)
    case array([RedisValue])
    /// An error reply: its first word, such as `OOM`, and the whole text. Indirect, so that the elements of arrays are small.
    indirect case failure(code: String, text: String)

    /// The bytes of ``data(_:)`` or ``status(_:)``; `nil` for anything else.
    package var data: Data? {
        switch self {
        case .data(let data): data
        case .status(let text): Data(text.utf8)
        default: nil
        }
    }

    /// ``data`` as UTF-8; `nil` for anything else.
    package var text: String? {
        switch self {
        case .data(let data):
            data.withUnsafeBytes { bytes in
                // Decoding changes bytes that are not UTF-8. `String(validating:as:)` finds them, too, but takes a thousand
                // instructions for a word.
                var text = String(decoding: bytes, as: UTF8.self)
                return text.withUTF8 { $0.elementsEqual(bytes) } ? text : nil
            }
        case .status(let text): text
        default: nil
        }
    }

    /// An integer, also one that came as text; `nil` for anything else.
    package var integer: Int64? {
        switch self {
        case .integer(let number): number
        default: text.flatMap { Int64($0) }
        }
    }

    /// The elements of an array; `nil` for anything else.
    package var array: [RedisValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    package var isNone: Bool { self == .none }

    /// The value unless it is a failure.
    ///
    /// - Throws: ``FleetError`` that says what the server refused.
    package func checked(_ command: String) throws(FleetError) -> RedisValue {
        if case .failure(let code, let text) = self { throw FleetError(code: code, text: text, command: command) }
        return self
    }
}

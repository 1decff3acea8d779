import FoundationEssentials

/// Base64 in the alphabet for URLs and file names (RFC 4648 §5).
package enum Base64 {
    /// Bytes in that alphabet, without padding.
    package static func urlText(of data: Data) -> String {
        let bytes = data.base64EncodedString().utf8.compactMap { byte -> UInt8? in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): nil
            default: byte
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The bytes of a text in either alphabet, with padding or without; `nil` when it is not Base64.
    package static func data(of text: String) -> Data? {
        var bytes = Array(text.utf8)
        while bytes.last == UInt8(ascii: "=") { bytes.removeLast() }
        guard text.utf8.count - bytes.count <= 2, bytes.count % 4 != 1 else { return nil }
        for (index, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "-") { bytes[index] = UInt8(ascii: "+") }
            if byte == UInt8(ascii: "_") { bytes[index] = UInt8(ascii: "/") }
        }
        bytes += [UInt8](repeating: UInt8(ascii: "="), count: (4 - bytes.count % 4) % 4)
        return Data(base64Encoded: Data(bytes))
    }
}

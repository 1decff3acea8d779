/// The parts of a request target (RFC 9112 §3.2) as slices of it.
struct RequestTarget {
    let path: Substring
    let query: Substring?

    init(_ target: String) {
        var rest = target[...]
        if !rest.utf8.starts(with: "/".utf8), let scheme = rest.firstRange(of: "://") {
            let afterScheme = rest[scheme.upperBound...]
            let pathStart = afterScheme.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
            rest = rest[pathStart...]
        }
        let utf8 = rest.utf8
        if let mark = utf8.firstIndex(of: UInt8(ascii: "?")) {
            path = rest[..<mark]
            query = rest[utf8.index(after: mark)...]
        } else {
            path = rest
            query = nil
        }
    }

    /// The pairs of a query or form.
    static func items(of text: String) -> [RecordedRequest.Item] {
        text.split(separator: "&").map { pair in
            guard let equals = pair.firstIndex(of: "=") else {
                return RecordedRequest.Item(decoded(pair, plusIsSpace: true), nil)
            }
            return RecordedRequest.Item(
                decoded(pair[..<equals], plusIsSpace: true),
                decoded(pair[pair.index(after: equals)...], plusIsSpace: true))
        }
    }

    /// Percent-decodes (RFC 3986 §2.1). A `%` without two digits stays.
    static func decoded(_ text: Substring, plusIsSpace: Bool = false) -> String {
        let source = Array(text.utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(source.count)
        var index = 0
        while index < source.count {
            let byte = source[index]
            if byte == UInt8(ascii: "%"), index + 2 < source.count,
                let high = digit(source[index + 1]), let low = digit(source[index + 2])
            {
                bytes.append(high << 4 | low)
                index += 3
                continue
            }
            bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
            index += 1
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}

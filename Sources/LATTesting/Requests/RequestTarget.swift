import HTTPCore

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

    /// Returns the pairs of a query or form.
    static func items(of text: String) -> [RecordedRequest.Item] {
        text.split(separator: "&").map { pair in
            guard let equals = pair.firstIndex(of: "=") else {
                return RecordedRequest.Item(pair.percentDecoded(plusIsSpace: true), nil)
            }
            return RecordedRequest.Item(
                pair[..<equals].percentDecoded(plusIsSpace: true),
                pair[pair.index(after: equals)...].percentDecoded(plusIsSpace: true))
        }
    }
}

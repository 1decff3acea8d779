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

    static func items(of text: String) -> [RecordedRequest.Item] {
        text.split(separator: "&").map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                .map { $0.percentDecoded(plusIsSpace: true) }
            return RecordedRequest.Item(pair[0], pair.count > 1 ? pair[1] : nil)
        }
    }
}

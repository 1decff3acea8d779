import HTTPCore

/// The parts of a request target (RFC 9112 §3.2) as slices of it.
struct RequestTarget {
    let path: Substring
    let query: Substring?

    init(_ target: String) {
        let parts = URLParts(target)
        // A target that begins with two slashes is a path, too.
        let rest = parts.isAbsolute ? parts.pathAndQuery : target[...]
        let utf8 = rest.utf8
        path = Substring(utf8.prefix { $0 != UInt8(ascii: "?") })
        query = path.endIndex < rest.endIndex ? rest[utf8.index(after: path.endIndex)...] : nil
    }

    static func items(of text: String) -> [RecordedRequest.Item] {
        text.split(separator: "&").map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                .map { $0.percentDecoded(plusIsSpace: true) }
            return RecordedRequest.Item(pair[0], pair.count > 1 ? pair[1] : nil)
        }
    }
}

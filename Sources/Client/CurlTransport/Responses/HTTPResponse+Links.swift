public import HTTPCore

extension HTTPResponse {
    /// The links of the fields `Link` (RFC 8288), with absolute URLs. A link whose URL cannot be resolved is left out.
    public var links: Links {
        Links(
            headers[values: "Link"].flatMap(Link.all).compactMap { link in
                guard let target = URLReference.link(link.url, at: url) else { return nil }
                var link = link
                link.url = target
                if let anchor = link.anchor {
                    guard let context = URLReference.resolve(anchor, against: url) else { return nil }
                    link.anchor = context == url ? nil : context
                }
                return link
            })
    }

    /// The URL of the first link of the response itself with a relation in lower case, as the server wrote it.
    package func writtenLink(_ relation: String) -> String? {
        for value in headers[values: "Link"] {
            for link in Link.all(in: value) where link.relations.contains(relation) {
                if link.anchor.map({ URLReference.resolve($0, against: url) == url }) ?? true { return link.url }
            }
        }
        return nil
    }

    /// The first value of `Link` that is malformed where it names a relation in lower case.
    package func malformedLink(_ relation: String) -> String? {
        headers[values: "Link"].first { value in
            let unread = Link.read(value).unread.lowercased()
            return unread.contains("rel") && unread.contains(relation)
        }
    }

    /// The links of a response, in the order of the fields.
    public struct Links: Sequence, Sendable {
        private let all: [Link]

        init(_ all: [Link]) { self.all = all }

        /// The first link of the response itself with this relation, in any case, such as `next`; `nil` when there is none. A
        /// link about another resource (`anchor`) is found only in the sequence.
        public subscript(relation: String) -> Link? {
            let relation = relation.lowercased()
            return all.first { $0.anchor == nil && $0.relations.contains(relation) }
        }

        /// An iterator over all links.
        public func makeIterator() -> IndexingIterator<[Link]> { all.makeIterator() }
    }
}

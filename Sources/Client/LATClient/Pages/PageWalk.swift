import CurlTransport
import FoundationEssentials
import HTTPCore

/// Decides from each page of a list where the next one is. A pure value.
struct PageWalk: Sendable {
    /// What the request of a page has beyond that of the first one.
    struct Step: Sendable {
        /// The URL; `nil` for that of the first request.
        var address: String?
        var parameters: [String: JSONValue] = [:]
        /// Whether an address was at another origin than the page that named it: from then on, no credentials are sent.
        var hasLeftOrigin = false

        /// The text by which a loop is recognized.
        var name: String {
            address ?? parameters.map { "\($0.key) = \($0.value)" }.sorted().joined(separator: ", ")
        }
    }

    private let paging: Paging
    private let allowsInsecure: Bool
    private(set) var step = Step()
    /// The number of the page that `step` requests, from 1.
    private(set) var number = 1
    private var position = 0
    /// The pages by the names of their steps.
    private var seen: [String: Int] = [:]
    private var lastBody: Data?
    /// How often the last body has been received in a row.
    private var equalPages = 1
    /// Two pages may have the same content; so many in a row are those of a server that does not know the parameter.
    private static let mostEqualPages = 10

    init(_ paging: Paging, allowsInsecure: Bool = false) {
        self.paging = paging
        self.allowsInsecure = allowsInsecure
        switch paging.style {
        case .number(let parameter, let first, _), .offset(let parameter, let first, _):
            position = first
            step.parameters = [parameter: .int(Int64(first))]
        case .link, .address, .cursor: break
        }
    }

    /// What a page means for the list.
    enum Verdict: Sendable {
        /// The list has ended before this page, which has no items.
        case nothing
        case last
        /// ``step`` is that of the next page.
        case more
        /// This page can be used, but there is no way to the next one.
        case broken(NetworkError)
    }

    /// Goes on to the page after this one.
    ///
    /// - Throws: ``NetworkError/Kind/decoding(path:)`` for a page whose JSON has not the shape that the paging needs.
    mutating func advance(after page: HTTPResponse) throws(NetworkError) -> Verdict {
        var next: Step?
        switch paging.style {
        case .link:
            next = page.links["next"].map { Step(address: $0.url) }
        case .address(let path):
            if let text = try text(at: path, of: page) {
                // The end of the list is no URL at all; anything else must not end it silently.
                guard let url = URLReference.resolve(text, against: page.url) else {
                    return .broken(
                        shape("\(path) is \"\(URLText.visible(String(text.prefix(40))))\", not a URL", path, page))
                }
                next = Step(address: url)
            }
        case .cursor(let path, let parameter):
            next = try text(at: path, of: page).map { Step(parameters: [parameter: .string($0)]) }
        case .number(let parameter, _, let items):
            guard try count(items, of: page) > 0 else { return number > 1 ? .nothing : .last }
            guard position < .max else { return .last }
            position += 1
            next = Step(parameters: [parameter: .int(Int64(position))])
        case .offset(let parameter, _, let items):
            let count = try count(items, of: page)
            guard count > 0 else { return number > 1 ? .nothing : .last }
            guard position <= .max - count else { return .last }
            position += count
            next = Step(parameters: [parameter: .int(Int64(position))])
        }
        if let limit = paging.limit, number >= limit { return .last }
        guard let next else { return .last }
        do throws(NetworkError) {
            try go(to: next, after: page)
            return .more
        } catch {
            return .broken(error)
        }
    }

    private mutating func go(to next: Step, after page: HTTPResponse) throws(NetworkError) {
        var next = next
        next.hasLeftOrigin = step.hasLeftOrigin
        if let address = next.address {
            let (origin, pageOrigin) = (URLReference.origin(of: address), URLReference.origin(of: page.url))
            // A redirect of the page has left the origin that gets credentials, too.
            if page.redirects.contains(where: { URLReference.origin(of: $0.url) != pageOrigin }) {
                next.hasLeftOrigin = true
            }
            if origin != pageOrigin {
                if !allowsInsecure, origin?.hasPrefix("http:") == true, page.url.lowercased().hasPrefix("https:") {
                    throw NetworkError(
                        .redirect,
                        message: "page \(number) is encrypted and names \(next.shown) as the next one, which is not; "
                            + "have the server write https, or set followsInsecureRedirects", response: page)
                }
                next.hasLeftOrigin = true
            }
        }
        if seen.isEmpty { seen[next.address == nil ? step.name : page.url] = 1 }
        if let earlier = seen.updateValue(number + 1, forKey: next.name) {
            throw loop("page \(number) names page \(earlier) as the next one (\(next.shown))", page)
        }
        if next.address == nil {
            equalPages = page.data == lastBody ? equalPages + 1 : 1
            guard equalPages < Self.mostEqualPages else {
                throw loop(
                    "the last \(equalPages) pages are the same, as of a server that does not know the parameter", page)
            }
            lastBody = page.data
        }
        number += 1
        step = next
    }

    private func loop(_ what: String, _ page: HTTPResponse) -> NetworkError {
        NetworkError(
            .protocolViolation,
            message: "\(what), so the list would never end; check how the server divides it, or read fewer pages with "
                + "limit(…), maxPages in a row", response: page)
    }

    // MARK: The JSON of a page

    private func value(at path: String, of page: HTTPResponse) throws(NetworkError) -> JSONDocument? {
        do {
            return try page.document()[path: path]
        } catch {
            throw error as? NetworkError ?? NetworkError(.decoding(path: path), message: "\(error)", response: page)
        }
    }

    /// A text or number that is not empty; `nil` for what says that there is none.
    private func text(at path: String, of page: HTTPResponse) throws(NetworkError) -> String? {
        if page.hasNoContent { return nil }
        switch try value(at: path, of: page)?.value {
        case nil, .null, .bool(false), .string(""): return nil
        case .string(let text): return text
        case let value? where value.double != nil || value.int != nil: return value.description
        case let value?:
            throw shape("\(path) is \(value.description.prefix(40)), not a text or a number", path, page)
        }
    }

    private func count(_ items: String, of page: HTTPResponse) throws(NetworkError) -> Int {
        if page.hasNoContent { return 0 }
        if let count = try value(at: items, of: page)?.elementCount { return count }
        throw shape(items.isEmpty ? "its JSON is no array" : "there is no array at \(items)", items, page)
    }

    private func shape(_ what: String, _ path: String, _ page: HTTPResponse) -> NetworkError {
        NetworkError(
            .decoding(path: path),
            message: "page \(number) cannot be followed: \(what); name the place in the paging, or in pages of the row",
            response: page)
    }
}

extension PageWalk.Step {
    fileprivate var shown: String { URLText.visible(String(address.map(URLParts.redacted) ?? name)) }
}

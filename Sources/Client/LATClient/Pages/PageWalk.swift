import CurlTransport
import FoundationEssentials
import HTTPCore

/// Decides from each page of a list where the next one is. A pure value.
struct PageWalk: Sendable {
    private let paging: Paging
    private let allowsInsecure: Bool
    private(set) var step = FollowUp()
    /// The number of the page that `step` requests, from 1.
    private var number: Int { step.page }
    private var position = 0
    /// The pages by the names of their steps.
    private var seen: [String: Int] = [:]
    private var lastBody: Data?
    /// How often the last body has been received in a row.
    private var equalPages = 1
    /// Two pages may have the same content; so many in a row are those of a server that does not know the parameter.
    private static let mostEqualPages = 10

    init(_ paging: Paging, allowsInsecure: Bool = false, plan: RoutePlan? = nil) {
        self.paging = paging
        self.allowsInsecure = allowsInsecure
        step.plan = plan
        switch paging.style {
        case .number(let parameter, let first), .offset(let parameter, let first):
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
        var marks: WayMarks {
            WayMarks(response: page, what: "page \(number)", setting: "the paging, or in pages of the row")
        }
        var next: FollowUp?
        switch paging.style {
        case .link(let relation):
            // The end of the list is no link at all; one that cannot be followed must not end it silently.
            if let written = page.writtenLink(relation) {
                guard let url = URLReference.link(written, at: page.url) else {
                    return .broken(marks.unusable("Link", written))
                }
                next = FollowUp(address: url)
            } else if let malformed = page.malformedLink(relation) {
                let wanted = "a list of links (RFC 8288); have the server write <URL>; rel=\"\(relation)\""
                return .broken(marks.unusable("Link", malformed, wanted: wanted))
            }
        case .address(let path):
            do throws(NetworkError) {
                next = try marks.address(at: path).map { FollowUp(address: $0) }
            } catch {
                return .broken(error)
            }
        case .cursor(let path, let parameter):
            next = try marks.text(at: path).map { FollowUp(parameters: [parameter: .string($0)]) }
        case .number(let parameter, _):
            guard try count(of: marks) > 0 else { return number > 1 ? .nothing : .last }
            guard position < .max else { return .last }
            position += 1
            next = FollowUp(parameters: [parameter: .int(Int64(position))])
        case .offset(let parameter, _):
            let count = try count(of: marks)
            guard count > 0 else { return number > 1 ? .nothing : .last }
            guard position <= .max - count else { return .last }
            position += count
            next = FollowUp(parameters: [parameter: .int(Int64(position))])
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

    private mutating func go(to next: FollowUp, after page: HTTPResponse) throws(NetworkError) {
        var next = next
        next.plan = step.plan
        next.address = next.address.map { String(URLParts($0).withoutFragment) }
        try next.leave(page, "page \(number)", after: step, allowsInsecure: allowsInsecure)
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
        next.page = number + 1
        step = next
    }

    private func loop(_ what: String, _ page: HTTPResponse) -> NetworkError {
        NetworkError(
            .protocolViolation,
            message: "\(what), so the list would never end; check how the server divides it, or read fewer pages with "
                + "limit(…), maxPages in a row", response: page)
    }

    private func count(of marks: WayMarks) throws(NetworkError) -> Int {
        if marks.response.hasNoContent { return 0 }
        let items = paging.items ?? ""
        if let count = try marks.value(at: items)?.elementCount { return count }
        throw marks.shape(items.isEmpty ? "its JSON is no array" : "there is no array at \(items)", items)
    }
}

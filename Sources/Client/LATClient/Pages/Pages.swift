public import DomainTables
public import HTTPCore
import Platform

extension Paging {
    /// The pages of a list, in order. Each is requested when the one before it has arrived, at the earliest.
    ///
    /// Each iteration begins with the first page. A loop in the pages, or a next page that is not encrypted although this one
    /// is, is thrown after the last page that could be used. Credentials are sent to the origin of the first page only: once a
    /// page is at another one, this page and those after it get none.
    public struct Pages<Page: Sendable>: AsyncSequence, Sendable {
        let start: @Sendable () -> PageWalk
        let limit: Int?
        let prefetches: Bool
        let fetch: @Sendable (FollowUp) async throws -> (page: Page, response: HTTPResponse)

        /// An iterator that begins with the first page.
        public func makeAsyncIterator() -> Iterator { Iterator(reader: Reader(self)) }

        /// The iterator of the pages.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let reader: Reader<Page>

            /// The next page, `nil` at the end.
            ///
            /// - Throws: ``NetworkError``, as the calls do; `protocolViolation` for a loop; `CancellationError` when the
            ///   current task was cancelled.
            public mutating func next() async throws -> Page? { try await reader.next() }
        }
    }

    /// Reads one page after the other, and one ahead. Its end cancels the request that is ahead.
    fileprivate final class Reader<Page: Sendable> {
        private let pages: Pages<Page>
        private var walk: PageWalk
        private var ahead: Task<(page: Page, response: HTTPResponse), any Error>?
        private var lookahead = Lookahead()
        private var delivery: MonotonicTime?
        private var failure: NetworkError?
        private var hasEnded = false

        init(_ pages: Pages<Page>) {
            self.pages = pages
            walk = pages.start()
        }

        deinit { ahead?.cancel() }

        func next() async throws -> Page? {
            guard !hasEnded else {
                defer { failure = nil }
                if let failure { throw failure }
                return nil
            }
            // Until the next page is known, an error ends the list.
            hasEnded = true
            if let limit = pages.limit, limit <= 0 { return nil }
            let start = MonotonicTime.now
            let (page, response) = try await fetch()
            lookahead.note(
                work: delivery.map { start.nanoseconds - $0.nanoseconds },
                wait: MonotonicTime.now.nanoseconds - start.nanoseconds)
            switch try walk.advance(after: response) {
            case .nothing: return nil
            case .last: break
            case .broken(let error): failure = error
            case .more:
                hasEnded = false
                if pages.prefetches, lookahead.pays {
                    // The request is made on this thread: another one would only be woken to hand it over.
                    ahead = Task.immediate { [fetch = pages.fetch, step = walk.step] in try await fetch(step) }
                }
            }
            delivery = .now
            return page
        }

        private func fetch() async throws -> (page: Page, response: HTTPResponse) {
            guard let ahead else { return try await pages.fetch(walk.step) }
            self.ahead = nil
            return try await withTaskCancellationHandler {
                try await ahead.value
            } onCancel: {
                ahead.cancel()
            }
        }
    }
}

/// Decides whether the next page is worth a request ahead. A pure value.
///
/// Such a request runs in a task of its own, which costs more than it saves when the app takes no time for its pages.
struct Lookahead: Sendable {
    private var work: Int64 = 0
    private var wait: Int64 = 0
    private var isFirst = true

    /// Whether the app has lately worked for a tenth of the time that it waits for a page. Nothing is known after the first page.
    var pays: Bool { isFirst || work * 10 >= wait }

    /// Notes the times of one page, in nanoseconds.
    ///
    /// - Parameters:
    ///   - work: the time between the page before and the demand for this one; `nil` for the first.
    ///   - wait: the time between the demand and the page.
    mutating func note(work latest: Int64?, wait: Int64) {
        // A long work is remembered for a few pages, so that pages of different sizes do not stop what pays in the mean.
        if let latest { (isFirst, work) = (false, max(latest, work / 2)) }
        self.wait = wait
    }
}

extension EntityRequest {
    /// The replies of a list that the server divides into pages.
    ///
    /// ```swift
    /// for try await page in FetchUser(id: 42).pages(on: central) { print(page.model) }
    /// ```
    ///
    /// - Parameters:
    ///   - paging: where the next page is. Default `nil`: `pages` of the row, else ``Paging/link``.
    ///   - manager: sends the requests. Default ``CentralRequestManager/shared``.
    public func pages(
        _ paging: Paging? = nil, on manager: CentralRequestManager = .shared
    ) -> Paging.Pages<Reply<Model>> {
        let call = call
        let paging = paging ?? manager.routePlan(of: call.route)?.paging ?? .link
        return manager.pages(paging, of: call.route) { step in
            var plan = try call.plan()
            try plan.go(to: step)
            let reply = try await manager.reply(to: plan, as: Model.self, progress: call.progressHandler)
            return (reply, reply.response)
        }
    }
}

extension CentralRequestManager {
    /// The responses of a list that the server divides into pages.
    ///
    /// ```swift
    /// for try await page in central.pages("GET", "/users", parameters: ["per_page": 100]) { print(try page.json()) }
    /// ```
    ///
    /// - Parameters:
    ///   - method: the method of each request.
    ///   - url: the first page, absolute or relative to the base URL.
    ///   - paging: where the next page is. Default ``Paging/link``.
    ///   - parameters: as in a call. A page with a URL of its own gets none in its query. Default none.
    ///   - body: the body of each request. Default `nil`.
    ///   - headers: override the manager's. Default none.
    public func pages(
        _ method: String, _ url: some URLConvertible, _ paging: Paging = .link, parameters: Parameters? = nil,
        body: HTTPBody? = nil, headers: HTTPHeaders = HTTPHeaders()
    ) -> Paging.Pages<HTTPResponse> {
        let first = HTTPRequest(method, RequestBuilder.absoluteURL(url.urlText, base: baseURL), headers: headers)
        return pages(paging) { [self] step in
            var (request, parts) = (first, CallArguments(parameters: parameters, body: body))
            step.apply(to: &request, &parts)
            if step.hasLeftOrigin { pipeline.redirect.rule.strip(&request, defaults: configuration.headers) }
            let response = try await response(nil) { (request, parts) }
            return (response, response)
        }
    }

    /// The replies of a row of the table whose list the server divides into pages, as `pages` of the row says.
    ///
    /// ```swift
    /// for try await page in central.pages(server: "user.list", as: [User].self) { print(page.model) }
    /// ```
    public func pages<Model: Decodable & Sendable>(
        server: ServerName, _ paging: Paging? = nil, parameters: Parameters? = nil,
        as model: Model.Type = JSONValue.self
    ) -> Paging.Pages<Reply<Model>> {
        EntityCall(Route(server: server), parameters: parameters, as: model).pages(paging, on: self)
    }

    fileprivate func pages<Page: Sendable>(
        _ paging: Paging, of route: Route? = nil,
        _ fetch: @escaping @Sendable (FollowUp) async throws -> (page: Page, response: HTTPResponse)
    ) -> Paging.Pages<Page> {
        let allowsInsecure = pipeline.redirect.rule.allowsInsecure
        return Paging.Pages(
            start: { PageWalk(paging, allowsInsecure: allowsInsecure, plan: self.routePlan(of: route)) },
            limit: paging.limit,
            prefetches: paging.prefetches, fetch: fetch)
    }

    /// The plan of the route of an entity; `nil` when it cannot be made, which its calls report.
    func routePlan(of route: Route?) -> RoutePlan? {
        route.flatMap { try? plans.plan(for: $0, in: domains, baseURL: baseURL) }
    }
}

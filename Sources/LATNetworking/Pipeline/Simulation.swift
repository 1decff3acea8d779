import CurlTransport
public import FoundationEssentials
public import HTTPCore

/// Answers in a server's place: from files, from a canned reply, or from another server. Such responses say
/// ``HTTPResponse/Source/simulated``.
///
/// ```swift
/// configuration.simulation = .fixtures("Tests/Fixtures")
/// try await FetchUser(id: 42).simulated(.reply(json: ["name": "Ada"], after: .milliseconds(200))).startRequest()
/// ```
public struct Simulation: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case off
        case fixtures(directory: String, delay: Duration)
        case server(baseURL: String, delay: Duration)
        case reply(status: Int, headers: HTTPHeaders, body: Data, delay: Duration)
    }

    let kind: Kind

    /// No simulation, also where the manager or the domain has one.
    public static let off = Simulation(kind: .off)

    /// Answers from files below a directory, each after a delay.
    ///
    /// `GET /v1/users/42` is looked for as `v1/users/42.GET.json`, `v1/users/42.json`, `v1/users/42`; for an entity's
    /// path with names in braces also as `v1/users/{id}.GET.json` and so on. What is not there is
    /// ``NetworkError/Kind/simulation``.
    public static func fixtures(_ directory: String, after delay: Duration = .zero) -> Simulation {
        Simulation(kind: .fixtures(directory: directory, delay: delay))
    }

    /// Sends requests to another server: the path is joined to this base URL.
    public static func server(_ baseURL: String, after delay: Duration = .zero) -> Simulation {
        Simulation(kind: .server(baseURL: baseURL, delay: delay))
    }

    /// Always the same answer.
    public static func reply(
        status: Int = 200, headers: HTTPHeaders = HTTPHeaders(), data: Data = Data(), after delay: Duration = .zero
    ) -> Simulation {
        Simulation(kind: .reply(status: status, headers: headers, body: data, delay: delay))
    }

    /// Always the same JSON.
    public static func reply(
        status: Int = 200, json: JSONValue, headers: HTTPHeaders = HTTPHeaders(), after delay: Duration = .zero
    ) -> Simulation {
        let type: HTTPHeaders = ["Content-Type": "application/json"]
        return .reply(
            status: status, headers: type.merging(headers), data: Data(json.description.utf8), after: delay)
    }
}

/// Answers simulated requests: the request's own simulation, else the domain's, else the manager's.
struct SimulationInterceptor: Interceptor {
    let standard: Simulation?

    func isIdle(for request: HTTPRequest) -> Bool {
        standard == nil && (request.attachment == nil || request.context.simulation == nil)
    }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        switch (request.context.simulation ?? standard)?.kind {
        case nil, .off:
            return try await next(request)
        case .server(let baseURL, let delay):
            try await Self.wait(delay, for: request)
            var elsewhere = request
            let isOwn = request.context.addresses.contains { request.url.hasPrefix($0) }
            let path = isOwn ? request.context.filledPath.map { $0 + Self.ownQuery(of: request) } : nil
            elsewhere.url = RequestBuilder.join(baseURL, path ?? Self.path(of: request.url, withQuery: true))
            var response = try await next(elsewhere)
            response.source = .simulated
            return response
        case .reply(let status, let headers, let body, let delay):
            try await Self.wait(delay, for: request)
            return HTTPResponse(
                status: status, headers: headers, body: ResponseBody(body), url: request.url, source: .simulated)
        case .fixtures(let directory, let delay):
            try await Self.wait(delay, for: request)
            return try fixture(for: request, in: directory)
        }
    }

    private func fixture(for request: HTTPRequest, in directory: String) throws -> HTTPResponse {
        let context = request.context
        let paths = [context.filledPath, Self.path(of: request.url, withQuery: false), context.path].compactMap { $0 }
        var tried: [String] = []
        for path in paths {
            let name = String(path.drop { $0 == "/" })
            guard !name.split(separator: "/").contains("..") else { continue }
            for candidate in ["\(name).\(request.method).json", "\(name).json", name] {
                let file = "\(directory)/\(candidate)"
                tried.append(candidate)
                guard !name.isEmpty, let data = try? Data(contentsOf: URL(filePath: file)) else { continue }
                let type = MediaType.forFileName(candidate) ?? "application/octet-stream"
                return HTTPResponse(
                    status: 200, headers: ["Content-Type": type], body: ResponseBody(data), url: request.url,
                    source: .simulated)
            }
        }
        throw NetworkError(
            .simulation,
            message: "no fixture in \(directory) for \(request.method) \(paths.first ?? ""); make one of "
                + tried.joined(separator: ", "), request: request)
    }

    /// The delay of a simulated server, which may be longer than the caller waits.
    private static func wait(_ delay: Duration, for request: HTTPRequest) async throws {
        guard let timeout = request.timeout, timeout <= delay else {
            return try await FlowClock.continuous.wait(delay, for: request)
        }
        try await FlowClock.continuous.wait(timeout, for: request)
        throw NetworkError(
            .timeout(.total), message: "the simulated answer takes \(delay), longer than the timeout of \(timeout)",
            request: request)
    }

    /// The query that the parameters made, without that of the domain's base URL.
    private static func ownQuery(of request: HTTPRequest) -> String {
        if let query = request.context.ownQuery { return query.isEmpty ? "" : "?" + query.dropFirst() }
        let address = request.context.addresses.first { request.url.hasPrefix($0) } ?? request.url
        let query = request.url.dropFirst(address.count).dropFirst()
        return query.isEmpty ? "" : "?" + query
    }

    static func path(of url: String, withQuery: Bool) -> String {
        var rest = Substring(url.prefix { $0 != "#" })
        if let slashes = rest.firstRange(of: "://") {
            rest = rest[slashes.upperBound...].drop { $0 != "/" && $0 != "?" }
        }
        return String(withQuery ? rest : rest.prefix { $0 != "?" })
    }
}

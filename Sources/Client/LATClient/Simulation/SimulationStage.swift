import FoundationEssentials
import HTTPCore
import Platform

extension Simulation {
    /// The URL at the server that replaces the real one; `nil` when there is no such server.
    ///
    /// - Parameter path: the path after the base URL, where it is known.
    func address(path: String?, of url: String) -> String? {
        guard case .server(let baseURL, _) = kind else { return nil }
        return URLParts.join(baseURL, path ?? Self.path(of: url, withQuery: true))
    }

    /// The part of a URL after the authority.
    static func path(of url: String, withQuery: Bool) -> String {
        let parts = URLParts(url)
        return String(withQuery ? parts.pathAndQuery : parts.path)
    }
}

/// Answers in place of the server, after a delay, as the call's ``Simulation`` says. A call to a replacement server is
/// only delayed, because its request has that server's URL from the start.
struct SimulationStage: Stage {
    let clock: CallClock

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        switch chain.call.details.simulation?.kind {
        case nil, .off:
            return try await chain.proceed(request)
        case .server(_, let delay):
            try await wait(delay, for: request, chain.call)
            var response = try await chain.proceed(request)
            response.source = .simulated
            return response
        case .reply(let status, let headers, let body, let delay):
            try await wait(delay, for: request, chain.call)
            return HTTPResponse(
                status: status, headers: headers, body: ResponseBody(body), url: request.url, source: .simulated)
        case .fixtures(let directory, let delay):
            try await wait(delay, for: request, chain.call)
            return try fixture(for: request, chain.call.details, in: directory)
        }
    }

    private func fixture(
        for request: HTTPRequest, _ details: CallDetails, in directory: String
    ) throws -> HTTPResponse {
        let paths = [details.filledPath, Simulation.path(of: request.url, withQuery: false), details.row?.path]
            .compactMap { $0 }
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
            message: "no fixture in \(directory) for \(request.method) \(paths.first ?? ""); create one of "
                + tried.joined(separator: ", "), request: request)
    }

    private func wait(_ delay: Duration, for request: HTTPRequest, _ call: Call) async throws {
        guard let timeout = request.timeout, timeout <= delay else { return try await clock.wait(delay, for: call) }
        try await clock.wait(timeout, for: call)
        throw NetworkError(
            .timeout(.total),
            message: "the simulated response takes \(delay), longer than the timeout of \(timeout); "
                + "raise the timeout or shorten the delay",
            request: request)
    }
}

public import FoundationEssentials

/// A replacement for a server: files, a fixed response, or another server. Its responses have the source
/// ``HTTPResponse/Source/simulated``.
///
/// ```swift
/// configuration.simulation = .fixtures("Tests/Fixtures")
/// try await FetchUser(id: 42).simulated(.reply(json: ["name": "Ada"], after: .milliseconds(200))).startRequest()
/// ```
public struct Simulation: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case off
        case fixtures(directory: String, delay: Duration)
        case server(baseURL: String, delay: Duration)
        case reply(status: Int, headers: HTTPHeaders, body: Data, delay: Duration)
    }

    package let kind: Kind

    /// No simulation, even if the manager or the domain has one.
    public static let off = Simulation(kind: .off)

    /// Responds with files below a directory, each after a delay. Default: no delay.
    ///
    /// The files for `GET /v1/users/42` are `v1/users/42.GET.json`, `v1/users/42.json` and `v1/users/42`, in this order.
    /// For an entity whose path has names in braces, `v1/users/{id}.GET.json` and so on follow. A request without a file
    /// fails with ``NetworkError/Kind/simulation``.
    public static func fixtures(_ directory: String, after delay: Duration = .zero) -> Simulation {
        Simulation(kind: .fixtures(directory: directory, delay: delay))
    }

    /// Sends requests to another server, by default without a delay. The path is joined to this base URL.
    public static func server(_ baseURL: String, after delay: Duration = .zero) -> Simulation {
        Simulation(kind: .server(baseURL: baseURL, delay: delay))
    }

    /// Responds to every request with the same data. Default: status 200, no fields, no delay.
    public static func reply(
        status: Int = 200, headers: HTTPHeaders = HTTPHeaders(), data: Data = Data(), after delay: Duration = .zero
    ) -> Simulation {
        Simulation(kind: .reply(status: status, headers: headers, body: data, delay: delay))
    }

    /// Responds to every request with the same JSON. Default: status 200, no further fields, no delay.
    public static func reply(
        status: Int = 200, json: JSONValue, headers: HTTPHeaders = HTTPHeaders(), after delay: Duration = .zero
    ) -> Simulation {
        let type: HTTPHeaders = ["Content-Type": "application/json"]
        return .reply(
            status: status, headers: type.merging(headers), data: Data(json.description.utf8), after: delay)
    }

    package var isOn: Bool { kind != .off }

    /// Whether a response is made without a server.
    package var needsNoServer: Bool {
        switch kind {
        case .fixtures, .reply: true
        case .off, .server: false
        }
    }
}

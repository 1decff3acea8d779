public import FoundationEssentials

/// Answers in a server's place: from files, from a canned reply, or from another server. Such responses say
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

    /// Whether there is one.
    package var isOn: Bool { kind != .off }
}

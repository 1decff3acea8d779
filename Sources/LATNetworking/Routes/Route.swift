public import HTTPCore

/// Where an entity's request goes: a row of the server table, or a domain and a path.
///
/// ```swift
/// Route("GET", server: "user.detail")               // a row of the table says domain and path
/// Route(server: "user.detail")                      // and the method
/// Route("GET", domain: "daxiang", path: "/v1/users/{id}")
/// Route("GET", url: "https://example.org/users/{id}") // no table
/// ```
///
/// Names in braces in the path are filled with the parameters of that name, percent-encoded; those are then sent
/// nowhere else.
public struct Route: Hashable, Sendable {
    enum Target: Hashable, Sendable {
        case server(ServerName)
        case domain(DomainName, path: String)
        case url(String)
    }

    /// The method; `nil` for the server row's.
    public let method: HTTPMethod?
    let target: Target

    /// A row of the server table, and the method, which wins over the row's.
    public init(_ method: String, server: ServerName) { self.init(HTTPMethod(method), .server(server)) }

    /// A row of the server table, with its method.
    public init(server: ServerName) { self.init(nil, .server(server)) }

    /// A domain of the table, and a path joined to its base URL.
    public init(_ method: String, domain: DomainName, path: String) {
        self.init(HTTPMethod(method), .domain(domain, path: path))
    }

    /// An address that no table knows: an absolute URL, or a path for the manager's base URL.
    public init(_ method: String, url: String) { self.init(HTTPMethod(method), .url(url)) }

    private init(_ method: HTTPMethod?, _ target: Target) {
        self.method = method
        self.target = target
    }
}

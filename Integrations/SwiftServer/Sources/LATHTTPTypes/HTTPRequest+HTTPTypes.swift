public import HTTPTypes
public import LATNetworking

extension LATNetworking.HTTPRequest {
    /// Makes a request of the SDK from a request head of swift-http-types.
    ///
    /// ```swift
    /// let response = try await manager.send(HTTPRequest(incoming, base: "https://api.example.org"))
    /// ```
    ///
    /// Fields keep their order, their repetitions and the spelling of their names. Scheme, authority and path become the URL,
    /// and ``HTTPTypes/HTTPRequest/init(_:)`` makes them of it again. A standard method that is not in upper case becomes
    /// so, as everywhere in the SDK.
    ///
    /// - Parameters:
    ///   - head: the request head.
    ///   - base: the scheme and authority of a head that has none, and a prefix of its path: `https://api.example.org/v1`.
    ///     Default `nil`: the path alone is the URL, which the manager joins to its base URL.
    ///   - body: the body. Default `nil`.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for `CONNECT` and for the path `*`, which are no URLs, and for a path
    ///   with the segment `..`, which could leave the base.
    public init(
        _ head: HTTPTypes.HTTPRequest, base: String? = nil, body: LATNetworking.HTTPBody? = nil
    ) throws(NetworkError) {
        guard head.method != .connect else {
            throw NetworkError(
                .invalidRequest, message: "CONNECT asks for a tunnel; open a WebSocket with LATRealtime, or set a proxy"
            )
        }
        let path = head.path ?? "/"
        guard path.isEmpty || path.first == "/" else {
            throw NetworkError(
                .invalidRequest, message: "the path \"\(path)\" does not begin with a slash, so it has no URL")
        }
        let segments = path.prefix { $0 != "?" }.split(separator: "/")
        guard base == nil || !segments.contains(where: { $0.lowercased().replacing("%2e", with: ".") == ".." }) else {
            throw NetworkError(
                .invalidRequest,
                message: "the path \"\(path)\" has the segment \"..\", which could lead out of its base")
        }
        let url: String
        if let base {
            url = (base.last == "/" ? String(base.dropLast()) : base) + path
        } else if let authority = head.authority {
            url = "\(head.scheme ?? "https")://\(authority)\(path)"
        } else {
            url = path
        }
        self.init(head.method.rawValue, url, headers: HTTPHeaders(head.headerFields), body: body)
    }
}

extension HTTPTypes.HTTPRequest {
    /// Makes a request head of a request of the SDK. Settings and body are not part of it.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` when method, a name or a value has characters that HTTP does not allow.
    public init(_ request: LATNetworking.HTTPRequest) throws(NetworkError) {
        guard let method = Method(request.method.rawValue) else {
            throw NetworkError(.invalidRequest, message: "the method \"\(request.method)\" is not a token")
        }
        let fields = try HTTPFields(request.headers)
        guard let colon = request.url.firstRange(of: "://") else {
            self.init(method: method, scheme: nil, authority: nil, path: request.url, headerFields: fields)
            return
        }
        let rest = request.url[colon.upperBound...].prefix { $0 != "#" }
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let path = rest[authority.endIndex...]
        self.init(
            method: method, scheme: String(request.url[..<colon.lowerBound]),
            authority: String(authority.split(separator: "@").last ?? ""),
            path: path.first == "/" ? String(path) : "/" + path, headerFields: fields)
    }
}

extension HTTPTypes.HTTPResponse {
    /// Makes a response head of a response of the SDK: status, reason and fields.
    ///
    /// - Throws: ``NetworkError/Kind/protocolViolation`` for a field that swift-http-types does not hold.
    public init(_ response: LATNetworking.HTTPResponse) throws(NetworkError) {
        guard (100...999).contains(response.status) else {
            throw NetworkError(.protocolViolation, message: "\(response.status) is not a status of HTTP")
        }
        self.init(
            status: Status(code: response.status, reasonPhrase: response.reason),
            headerFields: try HTTPFields(response.headers, kind: .protocolViolation))
    }
}

extension LATNetworking.HTTPResponse {
    /// Makes a response of the SDK from a response head of swift-http-types, for a transport or an interceptor of the app.
    ///
    /// - Parameters:
    ///   - head: the response head.
    ///   - body: the body. Default empty.
    ///   - url: the URL that it answers.
    public init(_ head: HTTPTypes.HTTPResponse, body: ResponseBody = .empty, url: String) {
        self.init(
            status: head.status.code, reason: head.status.reasonPhrase, headers: HTTPHeaders(head.headerFields),
            body: body, url: url)
    }
}

extension HTTPHeaders {
    /// The fields in order, including repeated ones.
    public init(_ fields: HTTPFields) { self.init(fields.map { ($0.name.rawName, $0.value) }) }
}

extension HTTPFields {
    /// The lines in order, including repeated ones. Removals are left out.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a name or value with characters that HTTP does not allow.
    public init(_ headers: HTTPHeaders) throws(NetworkError) { try self.init(headers, kind: .invalidRequest) }

    init(_ headers: HTTPHeaders, kind: NetworkError.Kind) throws(NetworkError) {
        self.init()
        for (name, value) in headers {
            guard let known = HTTPField.Name(name) else {
                throw NetworkError(kind, message: "the name of the field \"\(name)\" is not a token")
            }
            guard HTTPField.isValidValue(value) else {
                throw NetworkError(
                    kind,
                    message:
                        "the value of the field \(name) has a character that HTTP does not allow, or space around it")
            }
            append(HTTPField(name: known, value: value))
        }
    }
}

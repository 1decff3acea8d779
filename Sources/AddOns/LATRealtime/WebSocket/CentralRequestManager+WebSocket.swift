public import LATNetworking

extension CentralRequestManager {
    /// Opens a WebSocket.
    ///
    /// ```swift
    /// let socket = try await central.webSocket("wss://chat.example.org/room", protocols: ["chat.v2"])
    /// ```
    ///
    /// The handshake is made like any call, with headers, token, redirects, proxies, cookies and limits. It is not cached,
    /// and the connection does not count against limits of connections. The `timeout` of the request limits the handshake.
    ///
    /// - Parameters:
    ///   - url: a `ws`, `wss`, `http` or `https` URL, or a path that is joined to the base URL.
    ///   - protocols: the subprotocols to offer, the preferred one first. Default none.
    ///   - parameters: sent in the query. Default none.
    ///   - headers: override the manager's; a `nil` value removes a field. Default none.
    ///   - tag: names a group of calls for `cancelRequests(_:)`. Default `nil`.
    ///   - options: limits, keep-alive and reconnection.
    /// - Returns: the open socket.
    /// - Throws: `NetworkError`, of kind `httpStatus` for an answer other than 101, and of kind `protocolViolation` for a
    ///   101 that is not a valid handshake; `CancellationError` when the current task was cancelled.
    public func webSocket(
        _ url: some URLConvertible, protocols: [String] = [], parameters: Parameters? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, options: WebSocketOptions = WebSocketOptions()
    ) async throws -> WebSocket {
        try await open(protocols, options) { () throws(NetworkError) in
            try liveCall(
                HTTPRequest("GET", url.urlText, headers: headers), parameters: parameters, tag: tag, standard: [:],
                upgrades: true)
        }
    }

    /// Opens a WebSocket with a request, whose settings apply to the handshake. Its `timeout` limits one handshake, its
    /// `deadline` the whole socket.
    ///
    /// - Throws: as the form with a URL.
    public func webSocket(
        _ request: HTTPRequest, protocols: [String] = [], options: WebSocketOptions = WebSocketOptions()
    ) async throws -> WebSocket {
        try await open(protocols, options) { () throws(NetworkError) in
            try liveCall(request, standard: [:], upgrades: true)
        }
    }

    /// Opens the WebSocket of a route: a row of the server table, or a path of a domain. The rows apply as they do to
    /// any call. An `https` base URL works like a `wss` one.
    ///
    /// - Parameters:
    ///   - route: a row of the table, or an address, with the method GET.
    ///   - protocols: the subprotocols to offer, the preferred one first. Default none.
    ///   - parameters: fill the names in braces of the path; the others go into the query. Default none.
    ///   - headers: override the row's and the provider's; a `nil` value removes a field. Default none.
    ///   - tag: names a group of calls for `cancelRequests(_:)`. Default `nil`.
    ///   - options: limits, keep-alive and reconnection.
    /// - Throws: as the form with a URL.
    public func webSocket(
        _ route: Route, protocols: [String] = [], parameters: Parameters? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, options: WebSocketOptions = WebSocketOptions()
    ) async throws -> WebSocket {
        try await EntityCall(route, parameters: parameters, as: JSONValue.self).headers(headers).setting(\.tag, tag)
            .webSocket(on: self, protocols: protocols, options: options)
    }

    /// Opens the WebSocket of a row of the server table, by its name. The row needs no method.
    ///
    /// - Throws: as the form with a URL.
    public func webSocket(
        server: ServerName, protocols: [String] = [], parameters: Parameters? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, options: WebSocketOptions = WebSocketOptions()
    ) async throws -> WebSocket {
        try await webSocket(
            Route("GET", server: server), protocols: protocols, parameters: parameters, headers: headers, tag: tag,
            options: options)
    }

    fileprivate func open(
        _ protocols: [String], _ options: WebSocketOptions, _ make: () throws(NetworkError) -> LiveCall
    ) async throws -> WebSocket {
        let call: LiveCall
        do throws(NetworkError) {
            try options.check()
            try Self.check(protocols)
            call = try make()
            guard call.request.method == .get, call.request.body == nil else {
                throw NetworkError(
                    .invalidRequest,
                    message: "a WebSocket is opened with GET and without a body, not with \(call.request.method)",
                    request: call.request)
            }
        } catch {
            await noteUnmade(error)
            throw error
        }
        let session = SocketSession(self, call, protocols, options)
        try await session.open()
        return WebSocket(session)
    }

    private static func check(_ protocols: [String]) throws(NetworkError) {
        for name in protocols where !name.utf8.isToken {
            throw .invalidRequest(
                "the subprotocol \"\(URLText.visible(name))\" is not a token (RFC 6455 §4.1); use letters, digits and "
                    + "-._~")
        }
        guard Set(protocols).count == protocols.count else {
            throw .invalidRequest("a subprotocol is offered twice; name each once")
        }
    }
}

extension EntityRequest {
    /// Opens the WebSocket of this request.
    ///
    /// ```swift
    /// let socket = try await JoinRoom(id: 7).webSocket(protocols: ["chat.v2"])
    /// ```
    ///
    /// The entity is read now; its parameters fill the path and the query.
    ///
    /// - Parameters:
    ///   - manager: sends the request. Default `CentralRequestManager.shared`.
    ///   - protocols: the subprotocols to offer, the preferred one first. Default none.
    ///   - options: limits, keep-alive and reconnection.
    /// - Throws: as the form with a URL.
    public func webSocket(
        on manager: CentralRequestManager = .shared, protocols: [String] = [],
        options: WebSocketOptions = WebSocketOptions()
    ) async throws -> WebSocket {
        let call = call
        return try await manager.open(protocols, options) { () throws(NetworkError) in
            try manager.liveCall(call, standard: [:], upgrades: true)
        }
    }
}

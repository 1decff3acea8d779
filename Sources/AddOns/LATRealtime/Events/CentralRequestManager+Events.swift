public import LATNetworking

extension CentralRequestManager {
    /// Opens an event stream (`text/event-stream`) and reads its events one by one.
    ///
    /// ```swift
    /// let options = EventOptions(endsAt: "[DONE]")
    /// for try await event in central.events("POST", url, body: .json(prompt), options: options) {
    ///     print(try event.decode(Token.self).text)
    /// }
    /// ```
    ///
    /// Every connection is made like any call, with headers, token, redirects, proxies, cookies and limits. It is not cached,
    /// and does not count against limits of connections. There is no total timeout unless one is given; the idle timeout
    /// applies, and a comment from the server restarts it.
    ///
    /// - Parameters:
    ///   - method: the method; standard names in any case, others as given.
    ///   - url: an absolute URL, or a path that is joined to the base URL.
    ///   - parameters: fields of the body if it is multipart; the whole body if `body` is `.json` or `.form`, or if
    ///     there is none and the method is not `GET`, `HEAD` or `DELETE`; otherwise in the query. Default none.
    ///   - body: the body itself. Default `nil`.
    ///   - timeout: the longest time of one connection. Default `nil`: none.
    ///   - headers: override the manager's; a `nil` value removes a field. Default none.
    ///   - tag: names a group of calls for `cancelRequests(_:)`. Default `nil`.
    ///   - options: reconnection, limits, and where the stream begins and ends.
    /// - Returns: the stream, which connects when it is read.
    public func events(
        _ method: String, _ url: some URLConvertible, parameters: Parameters? = nil, body: HTTPBody? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        options: EventOptions = EventOptions()
    ) -> EventStream<ServerSentEvent> {
        EventStream(self, options) { manager throws(NetworkError) in
            try manager.liveCall(
                HTTPRequest(method, url.urlText, headers: headers), parameters: parameters, body: body,
                timeout: timeout,
                tag: tag, standard: EventSession.headers)
        }
    }

    /// Opens an event stream with GET, as the form with a method.
    public func events(
        _ url: some URLConvertible, parameters: Parameters? = nil, headers: HTTPHeaders = HTTPHeaders(),
        options: EventOptions = EventOptions()
    ) -> EventStream<ServerSentEvent> {
        events("GET", url, parameters: parameters, headers: headers, options: options)
    }

    /// Opens an event stream with a request, whose settings apply to the stream.
    ///
    /// The stream itself sets cache, streaming and duplicates. The request's `timeout` limits one connection, its `deadline`
    /// the whole stream.
    public func events(
        _ request: HTTPRequest, options: EventOptions = EventOptions()
    ) -> EventStream<ServerSentEvent> {
        EventStream(self, options) { manager throws(NetworkError) in
            try manager.liveCall(request, standard: EventSession.headers)
        }
    }

    /// Opens the event stream of a route: a row of the server table, or a path of a domain. The rows apply as they do
    /// to any call, with their `events` settings.
    ///
    /// - Parameters:
    ///   - route: a row of the table, or an address.
    ///   - parameters: fill the names in braces of the path; the others go into the query or the body. Default none.
    ///   - headers: override the row's and the provider's; a `nil` value removes a field. Default none.
    ///   - tag: names a group of calls for `cancelRequests(_:)`. Default `nil`.
    ///   - options: override the row's `events` settings.
    public func events(
        _ route: Route, parameters: Parameters? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        options: EventOptions = EventOptions()
    ) -> EventStream<ServerSentEvent> {
        EntityCall(route, parameters: parameters, as: JSONValue.self).headers(headers).setting(\.tag, tag)
            .events(on: self, options: options)
    }

    /// Opens the event stream of a row of the server table, by its name.
    public func events(
        server: ServerName, parameters: Parameters? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        options: EventOptions = EventOptions()
    ) -> EventStream<ServerSentEvent> {
        events(Route(server: server), parameters: parameters, headers: headers, tag: tag, options: options)
    }
}

extension EntityRequest {
    /// Opens the event stream of this request.
    ///
    /// ```swift
    /// for try await event in AskModel(prompt: "Hello").events(options: EventOptions(endsAt: "[DONE]")) { … }
    /// ```
    ///
    /// The entity is read now; later changes do not affect the stream.
    ///
    /// - Parameters:
    ///   - manager: sends the request. Default `CentralRequestManager.shared`.
    ///   - options: override the row's `events` settings.
    public func events(
        on manager: CentralRequestManager = .shared, options: EventOptions = EventOptions()
    ) -> EventStream<ServerSentEvent> {
        let call = call
        return EventStream(manager, options) { manager throws(NetworkError) in
            try manager.liveCall(call, standard: EventSession.headers)
        }
    }

    /// Opens the event stream of this request, with events decoded from the JSON of their data.
    ///
    /// ```swift
    /// for try await token in AskModel(prompt: "Hello").events(of: Token.self) { print(token.text) }
    /// ```
    ///
    /// - Parameters:
    ///   - model: what the data of each event is decoded as.
    ///   - type: the only type of events to deliver. Default `nil`: all of them.
    ///   - manager: the manager that opens the stream. Default: the shared one.
    ///   - options: override the row's `events` settings.
    public func events<Event: Decodable & Sendable>(
        of model: Event.Type, type: String? = nil, on manager: CentralRequestManager = .shared,
        options: EventOptions = EventOptions()
    ) -> EventStream<Event> {
        events(on: manager, options: options).decoded(as: model, type: type)
    }
}

public import FoundationEssentials
public import HTTPTypes
internal import LATHTTPTypes
public import LATNetworking
public import OpenAPIRuntime

/// Sends the requests of clients that swift-openapi-generator made with a manager, so that they have its cache, limits,
/// retries, credentials, fleet and cassettes.
///
/// ```swift
/// let client = Client(serverURL: try Servers.Server1.url(), transport: ManagerTransport(manager))
/// ```
///
/// Bodies are streamed in both directions: that of a request is read no faster than it is sent, that of a response arrives
/// while it is read, with backpressure, and both may go on at the same time. A response body that nobody reads to its end gives
/// its connection back when it is released. Its size has no limit unless `prepare` sets `maxBodySize`. A request body that can
/// be iterated several times can also be sent again, after a redirect or by the retry policy. Every status is returned to the
/// client, whose document says what it means. The tag of the call is the identifier of the operation.
public struct ManagerTransport: ClientTransport {
    private let manager: CentralRequestManager
    private let prepare: @Sendable (inout LATNetworking.HTTPRequest, _ operationID: String) -> Void

    /// Makes a transport.
    ///
    /// - Parameters:
    ///   - manager: sends the requests.
    ///   - prepare: sets what the document does not say, such as the cache policy of an operation. Default: nothing.
    public init(
        _ manager: CentralRequestManager,
        prepare: @escaping @Sendable (_ request: inout LATNetworking.HTTPRequest, _ operationID: String) -> Void = {
            _, _ in
        }
    ) {
        self.manager = manager
        self.prepare = prepare
    }

    /// Sends a request, and returns the response as soon as its head has arrived.
    ///
    /// - Throws: ``NetworkError`` when there is no response; `CancellationError` when the current task was cancelled.
    public func send(
        _ request: HTTPTypes.HTTPRequest, body: OpenAPIRuntime.HTTPBody?, baseURL: URL, operationID: String
    ) async throws -> (HTTPTypes.HTTPResponse, OpenAPIRuntime.HTTPBody?) {
        var own = try LATNetworking.HTTPRequest(request, base: baseURL.absoluteString, body: body.map(Self.body))
        own.tag = operationID
        own.streamsBody = true
        prepare(&own, operationID)
        let response = try await manager.send(own)
        let head = try HTTPTypes.HTTPResponse(response)
        guard request.method != .head, ![204, 205, 304].contains(response.status) else { return (head, nil) }
        return (head, Self.body(of: response))
    }

    private static func body(_ body: OpenAPIRuntime.HTTPBody) -> LATNetworking.HTTPBody {
        var length: Int64?
        if case .known(let count) = body.length { length = count }
        switch body.iterationBehavior {
        case .multiple: return .stream(length: length) { body.map { Data($0) } }
        case .single: return .stream(body.map { Data($0) }, length: length)
        }
    }

    private static func body(of response: LATNetworking.HTTPResponse) -> OpenAPIRuntime.HTTPBody {
        if let data = response.body.data { return OpenAPIRuntime.HTTPBody(data) }
        // The length is that before the body was decoded.
        let isCoded = response.headers["Content-Encoding"] != nil
        let length = isCoded ? nil : response.headers["Content-Length"].flatMap { Int64($0) }
        return OpenAPIRuntime.HTTPBody(
            response.body.map { ArraySlice($0) }, length: length.map { .known($0) } ?? .unknown,
            iterationBehavior: .single)
    }
}

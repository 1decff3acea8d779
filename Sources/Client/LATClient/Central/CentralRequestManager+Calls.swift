import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform

/// The arguments of a call of the central API, besides method, URL and headers.
package struct CallArguments {
    var parameters: Parameters?
    var files: [UploadFile] = []
    var body: HTTPBody?
    var cache: CachePolicy?
    var timeout: Duration?
    var tag: String?
    var streams = false
    var linkedNames: [String]?
    package var bodyHandler: BodyHandler?

    package init(
        parameters: Parameters? = nil, files: [UploadFile] = [], body: HTTPBody? = nil, cache: CachePolicy? = nil,
        timeout: Duration? = nil, tag: String? = nil, streams: Bool = false, bodyHandler: BodyHandler? = nil
    ) {
        self.parameters = parameters
        self.files = files
        self.body = body
        self.cache = cache
        self.timeout = timeout
        self.tag = tag
        self.streams = streams
        self.bodyHandler = bodyHandler
    }
}

// Making calls is synchronous, so that a call is complete, and can be cancelled, before anything waits.
extension CentralRequestManager {
    /// Makes a call of the central API.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for arguments that cannot be combined.
    package func call(
        _ request: HTTPRequest, _ parts: CallArguments = CallArguments(), progress: ProgressHandler? = nil,
        cached: (@Sendable (HTTPResponse, Call) -> Void)? = nil
    ) throws(NetworkError) -> Call {
        do throws(NetworkError) {
            var request = located(request)
            if let timeout = parts.timeout { request.timeout = timeout }
            if let cache = parts.cache { request.cachePolicy = cache }
            if let tag = parts.tag { request.tag = tag }
            if (request.streamsBody == true) != parts.streams { request.streamsBody = parts.streams }
            var details = CallDetails(
                judge: parts.streams ? nil : configuration.successJudge, bodyHandler: parts.bodyHandler)
            if (request.cachePolicy ?? configuration.cachePolicy) == .cacheThenNetwork {
                details.deliversCached = cached.map(CachedReplyHandler.init)
            }
            let hasProvider = configuration.parameterProvider != nil
            if parts.parameters != nil || parts.body != nil || !parts.files.isEmpty || hasProvider {
                var content = RequestContent(
                    files: parts.files, body: parts.body ?? request.body,
                    encoding: request.parameterEncoding ?? configuration.parameterEncoding)
                if let parameters = parts.parameters {
                    content.members = try RequestBuilder.encoded(parameters, by: codingRules(of: request))
                }
                if hasProvider {
                    // The provider's parameters are fresh for each attempt; see `CompositionStage`.
                    details.addresses = [simulatedAddress(of: request.url) ?? request.url]
                    details.content = content
                    details.linkedNames = parts.linkedNames
                }
                try RequestBuilder.put(content, into: &request)
            }
            return makeCall(request, details, progress: progress)
        } catch {
            throw error.attaching(request)
        }
    }

    /// The coding of a request without a route.
    private func codingRules(of request: HTTPRequest) -> CodingRules? {
        request.hasNoSettings ? coding : request.coding.map { CodingRules.of($0) } ?? coding
    }

    /// Makes the call of a request. Its deadline counts from now; the current accessories and subscribers observe it.
    ///
    /// - Parameter watch: reports to the observers of the call that this one is a part of; `nil` if this call is
    ///   no part of another.
    func makeCall(
        _ request: consuming HTTPRequest, _ details: consuming CallDetails = CallDetails(),
        progress: ProgressHandler? = nil, partOf watch: CallReporter? = nil
    ) -> Call {
        if details.row == nil, details.simulation == nil, let simulation = configuration.simulation, simulation.isOn {
            details.simulation = simulation
            if let address = simulatedAddress(of: request.url) { request.url = address }
        }
        if details.row == nil { details.coding = codingRules(of: request) }
        if let coding = details.coding {
            if let body = request.body { request.body = body.coded(by: coding) }
            if let body = details.content?.body { details.content?.body = body.coded(by: coding) }
        }
        details.partition = request.cachePartition ?? storage.partition
        // The manager's deadline is for calls that end by themselves.
        let limit = request.deadline ?? (request.context.isLive ? nil : configuration.deadline)
        let accessories = request.hasNoSettings ? [] : request.accessories
        return Call(
            request, details: details, deadline: limit.map { pipeline.limits.clock.now() + $0 },
            watchers: !accessories.isEmpty ? reporters.adding(accessories) : reporters.isEmpty ? nil : reporters,
            watch: watch, progress: progress)
    }

    /// Returns the response to a call without a route, if it is a success.
    ///
    /// - Throws: ``NetworkError`` of kind `httpStatus`, or `business` when the manager's judge rejects the response.
    package func checked(_ response: HTTPResponse, of call: Call) throws -> HTTPResponse {
        _ = try StatusRule.check(response, to: call.request)
        if let judge = call.details.judge { try ReplyDecoder.ask(judge, about: response, to: call.request) }
        return response
    }

    /// Returns the request with an absolute URL, and all its fields in its headers.
    func located(_ request: HTTPRequest) -> HTTPRequest {
        var request = request
        request.url = RequestBuilder.absoluteURL(request.url, base: baseURL)
        if !request.hasNoSettings { request.takeHeadersOfOptions() }
        return request
    }

    private func simulatedAddress(of url: String) -> String? { configuration.simulation?.address(path: nil, of: url) }

    /// Makes a call, and notifies the outcome observers when that fails.
    @inline(__always)
    func made(_ make: () throws(NetworkError) -> Call) async throws(NetworkError) -> Call {
        do throws(NetworkError) {
            return try make()
        } catch {
            throw await refused(error)
        }
    }

    @inline(never)
    private func refused(_ error: NetworkError) async -> NetworkError {
        await notifyOutcomeObservers(.failure(error), error.request ?? HTTPRequest("GET", ""))
        return error
    }
}

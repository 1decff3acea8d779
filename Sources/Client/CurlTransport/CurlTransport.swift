import CLibcurl
import FoundationEssentials
package import HTTPCore
import Platform
import Synchronization

/// The libcurl engine: a transport that sends requests on a thread of its own.
///
/// ```swift
/// let transport = try CurlTransport()
/// let response = try await transport.send(HTTPRequest("GET", "http://127.0.0.1:8080/"))
/// ```
///
/// It pools connections, multiplexes HTTP/2, and enforces time and size limits.
/// It follows no redirects and returns a response whatever its status. A
/// process may have any number of engines; they share nothing. Releasing the
/// last reference ends the thread; ``shutdown()`` also waits for that.
package final class CurlTransport: Transport {
    /// The version of this package, as in the default `User-Agent`.
    public static let version = "1.1"

    /// The plan of a request without settings of its own, computed once.
    let standardPlan: TransferPlan
    private let headerLines: HeaderLines
    private let proxies: ProxySettings
    let tls: TLSMaterials
    private let addressGuard: AddressGuard?
    private let cookieStore: CookieStore?
    let versions: VersionChoice
    private let hasUnixSocket: Bool
    private let netrc: Netrc?
    /// Whether the proxy must send a challenge before it gets credentials, so that a request may be sent twice.
    private let challengesOfProxy: Bool
    /// Whether all bodies are sent in pieces, because each piece must wait for the engine's send rate.
    private let sendsInPieces: Bool
    let origins: OriginStore?
    private let lastSettings = Mutex<(options: RequestOptions, context: RequestContext, settings: TransferSettings)?>(
        nil)
    let mailbox: Mailbox<Engine.Command>
    /// Runs Swift tasks on the engine's thread. ``EngineExecutor`` says when to use it, and what not to do there.
    public let executor: EngineExecutor
    let targets = TargetCache(capacity: 512)
    /// The addresses that have failed.
    package let addressCircuits = AddressCircuits()
    private let finalReport: FinalReport

    /// The gauges at the end of the thread.
    private final class FinalReport: Sendable {
        let gauges = Mutex(EngineGauges(easyHandles: 0, sockets: 0, isRunning: false))
    }

    /// Starts an engine.
    ///
    /// - Throws: ``NetworkError`` when the configuration cannot work, or the system has no thread or descriptor left.
    public init(configuration: EngineConfiguration = EngineConfiguration()) throws {
        try configuration.validate()
        standardPlan = TransferPlan(configuration)
        headerLines = HeaderLines(
            userAgent: configuration.userAgent ?? DefaultUserAgent.value, accepting: configuration.contentCodings)
        proxies = try ProxySettings(configuration.proxy, environment: ProcessInfo.processInfo.environment)
        tls = TLSMaterials(
            try TLSMaterial(configuration.tls, warn: configuration.warn), warn: configuration.warn)
        addressGuard =
            configuration.blocksPrivateAddresses
            ? try AddressGuard(allowing: configuration.allowedPrivateAddresses) : nil
        cookieStore =
            configuration.cookies == .off
            ? nil
            : try CookieStore(
                configuration.cookies, keepsSessions: configuration.keepsSessionCookies, warn: configuration.warn,
                write: configuration.cookieWriter)
        versions = try VersionChoice(configuration)
        hasUnixSocket = configuration.unixSocketPath != nil
        netrc = try Netrc(configuration.netrc)
        challengesOfProxy = configuration.proxyAuthentication != .basic
        sendsInPieces = configuration.maxSendRate != nil
        origins = try OriginStore(configuration)
        let engine = try Engine(
            configuration, proxies: proxies, tls: tls.own, addressGuard: addressGuard, cookies: cookieStore,
            addressCircuits: addressCircuits)
        mailbox = engine.mailbox
        executor = engine.executor
        let finalReport = FinalReport()
        self.finalReport = finalReport
        let isStarted = BackgroundThread.start("lat-engine") { [engine] in
            // BackgroundThread blocks SIGPIPE, which libcurl does not do with CURLOPT_NOSIGNAL. OpenSSL calls write(2),
            // which raises it on a closed connection.
            lat_use_utf8_names()
            engine.run()
            let (gauges, waiters) = engine.finalReport()
            finalReport.gauges.withLock { $0 = gauges }
            for waiter in waiters { waiter.resume() }
        }
        guard isStarted else {
            engine.tearDown()
            throw EngineFailure.noResources("thread")
        }
        tls.own.lists.fetch(by: self)
        if let alternatives = origins?.alternatives {
            observeNetwork { [weak alternatives] in alternatives?.networkHasChanged() }
        }
        if !configuration.tls.verifiesCertificates {
            configuration.warn("certificates are not verified: anyone who claims to be the server is trusted")
        }
    }

    /// Adds to a request the credentials that the netrc file has for its host; `nil` without a netrc file.
    package var fileCredentials: (@Sendable (HTTPRequest) -> HTTPRequest)? {
        guard let netrc else { return nil }
        return { [targets] request in
            guard let target = try? targets.target(for: request.url) else { return request }
            return netrc.authenticated(request, target)
        }
    }

    /// The digest of the client certificate that a request sends; `nil` for none, or one that cannot be read.
    package func certificateDigest(for request: HTTPRequest) -> String? { tls.identityDigest(for: request.tls) }

    /// The request with the credentials that this transport adds to it, for observers that have to know them.
    package func completed(_ request: HTTPRequest) -> HTTPRequest {
        var request = fileCredentials?(request) ?? request
        for cookie in cookies?.all(reaching: request) ?? [] {
            request.headers.append("Cookie", "\(cookie.name)=\(cookie.value)")
        }
        if request.proxy == nil, !proxies.isEmpty, !usesUnixSocket(request),
            let target = try? targets.target(for: request.url)
        {
            request.proxy = proxies.proxy(for: target).map { .url($0.url) }
        }
        return request
    }

    /// Whether a request goes to a Unix domain socket, to which libcurl connects without a proxy.
    private func usesUnixSocket(_ request: HTTPRequest) -> Bool { request.unixSocketPath != nil || hasUnixSocket }

    /// The cookies of this transport; `nil` when it keeps none.
    public var cookies: CookieJar? { cookieStore.map(CookieJar.init) }

    deinit {
        // Does not wait for the thread to end: the last reference may be released on the engine's own thread.
        mailbox.post(.shutDown(nil))
    }

    /// Sends one request and returns its response, whatever its status.
    ///
    /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
    public func send(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request, for: nil) }

    /// Sends one request for an owner that can cancel, suspend and prioritize it.
    ///
    /// - Throws: The errors of ``send(_:)``; ``NetworkError/Kind/cancelled`` when the owner was cancelled.
    package func send(_ request: HTTPRequest, for owner: (any TransferOwner)?) async throws -> HTTPResponse {
        var transfer = try prepare(request, owner)
        await perform(transfer)
        if !isResponse(transfer) { transfer = try await sendAgain(request, for: owner, after: transfer) }
        return try transfer.takeResult()
    }

    /// The URL that a request for `url` goes to: the `https` form where the host requires TLS
    /// (``EngineConfiguration/HSTSPolicy``).
    package func effectiveURL(of url: String) -> String {
        guard let hsts = origins?.hsts, let target = try? targets.target(for: url) else { return url }
        return hsts.secureURL(of: target) ?? url
    }

    /// Ends all transfers with ``NetworkError/Kind/shutDown``, closes every connection, and returns when the engine's
    /// thread has ended. Later requests fail. Calling it is optional.
    public func shutdown() async {
        await withUnsafeContinuation { continuation in
            if !mailbox.post(.shutDown(continuation)) { continuation.resume() }
        }
        await origins?.flush()
    }

    /// Applies what another process found out about an address.
    package func adopt(_ report: CircuitReport, of circuit: String) { mailbox.post(.adopt(report, circuit: circuit)) }

    /// Counts of the engine's libcurl handles and sockets; after shutdown, those at its end.
    public var gauges: EngineGauges {
        get async {
            await withUnsafeContinuation { continuation in
                if !mailbox.post(.gauges(continuation)) {
                    continuation.resume(returning: finalReport.gauges.withLock { $0 })
                }
            }
        }
    }

    // MARK: Preparing

    /// Checks a request and resolves its settings. When it throws, nothing was sent.
    func prepare(
        _ request: HTTPRequest, _ owner: (any TransferOwner)?, warmUp: WarmUp? = nil
    ) throws -> Transfer {
        do throws(NetworkError) {
            guard request.method.isToken else { throw RequestCheck.method(request.method) }
            guard request.method != .connect else { throw RequestCheck.connect }
            let target = try targets.target(for: request.url)
            // A request that needs no completion is not copied.
            guard origins != nil || netrc != nil || !request.hasNoSettings || target.socketPath != nil else {
                return try transfer(request, target, owner, warmUp)
            }
            let (changed, changedTarget) = try completed(request, target, owner?.bodyHandler)
            return try transfer(changed, changedTarget, owner, warmUp)
        } catch {
            throw error.attaching(request)
        }
    }

    /// The request as it goes out: HSTS, netrc credentials and body compression applied.
    private func completed(
        _ request: consuming HTTPRequest, _ target: consuming Target, _ handler: BodyHandler?
    ) throws(NetworkError) -> (HTTPRequest, Target) {
        request.takeHeadersOfOptions()
        if let path = target.socketPath { request.unixSocketPath = path }
        if request.context.isAnonymous {
            guard !hasUnixSocket else {
                throw .invalidRequest("all requests of the manager go to a Unix domain socket; set tls.crlFile")
            }
            return (request, target)
        }
        if let url = origins?.hsts?.secureURL(of: target) {
            request.url = url
            target = try targets.target(for: url)
        }
        if let netrc { request = netrc.authenticated(request, target) }
        return (try BodyCoding.applied(to: request, handler), target)
    }

    private func transfer(
        _ request: HTTPRequest, _ target: Target, _ owner: (any TransferOwner)?, _ warmUp: WarmUp?
    ) throws(NetworkError) -> Transfer {
        var plan = try plan(for: request, target, owner?.bodyHandler)
        // An alternative service may speak HTTP/2 or HTTP/3, where libcurl supports neither upgrades nor trailers.
        if !request.context.upgrades, request.trailers == nil,
            let alternative = origins?.alternative(for: request, target, plan)
        {
            if alternative.isOrigin(of: target) {
                // The origin itself speaks HTTP/3, which is raced against older versions.
                plan.version = versions.race(target)
            } else {
                plan.alternative = alternative
                plan.headerLines.append(alternative.usedField)
                if alternative.protocolName == AlternativeService.http3 { plan.version = VersionChoice.http3Only }
            }
        }
        plan.warmUp = warmUp
        let pipe = request.streamsBody == true ? BodyPipe() : nil
        let transfer = Transfer(request: request, owner: owner, target: target, plan: plan, pipe: pipe)
        if let pipe {
            transfer.keepAlive = self
            transfer.connect(pipe, mailbox)
        }
        if let owner {
            transfer.mailbox = mailbox
            if owner.isObserved, let handler = owner.headHandler { transfer.sentHeads = SentHeads(handler) }
            owner.attach(transfer)
        }
        return transfer
    }

    func plan(
        for request: HTTPRequest, _ target: Target, _ handler: BodyHandler? = nil
    ) throws(NetworkError) -> TransferPlan {
        var plan = standardPlan
        var proxies = proxies
        if let policy = request.proxy {
            proxies = try ProxySettings(policy, environment: ProcessInfo.processInfo.environment)
        }
        let usesUnixSocket = usesUnixSocket(request)
        plan.proxy = usesUnixSocket ? nil : proxies.proxy(for: target)
        if let addressGuard {
            if plan.proxy != nil, let rule = addressGuard.refusal(ofProxiedHost: target.host) {
                throw AddressGuard.error(rule, address: target.host, host: target.host)
            }
            if request.unixSocketPath != nil {
                throw AddressGuard.error(.unixSocket, address: "a Unix domain socket", host: target.host)
            }
        }
        if target.isSecure || plan.proxy != nil {
            plan.tls = try tls.material(for: request.tls)
            (plan.tls ?? tls.own).trust?.prepare()
        }
        plan.pins = tls.own.pins(forHost: target.host)
        plan.body = try preparedBody(of: request, handler)
        plan.decompresses = RequestCheck.decompresses(request)
        plan.headerLines = try headerLines.lines(
            for: request, body: plan.body, decompresses: plan.decompresses, context: fieldContext(&plan, request))
        if request.version != .automatic || versions.standard != .automatic {
            plan.version = try versions.choice(
                for: request, target, proxy: plan.proxy, unixSocket: usesUnixSocket)
            plan.needsReset = EasyHandle.needsNewConnection(plan.version)
        }
        if request.hasNoSettings { return plan }
        if let dictionary = request.context.dictionary { plan.offer(dictionary, with: request) }
        if let trailers = request.trailers {
            plan.headerLines.append(try TrailerFields.line(trailers, of: request, over: plan.version))
            plan.version = VersionChoice.http1
            if let proxy = plan.proxy, !proxy.isSOCKS, !isTunnel(request), challengesOfProxy {
                throw NetworkError.invalidRequest(
                    "trailers can be sent only once, but this proxyAuthentication sends the request again after the "
                        + "proxy's challenge; use .basic")
            }
        }
        if request.context.upgrades {
            plan.headerLines += UpgradeSource.headerLines
            plan.body = .source(UpgradeSource())
        }
        try settings(of: request).apply(to: &plan)
        return plan
    }

    /// The checked settings of a request. Those of the last request are kept, since calls of one route have equal
    /// settings.
    private func settings(of request: HTTPRequest) throws(NetworkError) -> TransferSettings {
        if let known = lastSettings.withLock({ $0 }), known.options.isSame(as: request.options),
            known.context.isSame(as: request.context)
        {
            return known.settings
        }
        let settings = try TransferSettings(request)
        lastSettings.withLock { $0 = (request.options, request.context, settings) }
        return settings
    }

    /// Returns the context of a request's header lines, and copies the request's own `Cookie` fields to the plan.
    private func fieldContext(_ plan: inout TransferPlan, _ request: HTTPRequest) -> HeaderLines.Context {
        // An HTTP proxy reads the fields of a plain HTTP request.
        let isForProxy = plan.proxy.map { !$0.isSOCKS && !isTunnel(request) } ?? false
        guard cookieStore != nil, !request.headers.hasNoFields else { return .init(reachesProxy: isForProxy) }
        let own = request.headers.fields.filter { $0.name.equalsIgnoringASCIICase("Cookie") }
        guard !own.isEmpty else { return .init(reachesProxy: isForProxy) }
        let values = own.compactMap(\.value).filter { !$0.isEmpty }
        plan.ignoresCookies = values.isEmpty
        plan.ownCookies = values.isEmpty ? nil : values.joined(separator: "; ")
        return .init(reachesProxy: isForProxy, takesCookies: !values.isEmpty)
    }

    private func isTunnel(_ request: HTTPRequest) -> Bool {
        request.context.upgrades || request.url.lowercased().hasPrefix("https:")
    }

    private func preparedBody(of request: HTTPRequest, _ handler: BodyHandler?) throws(NetworkError) -> PreparedBody? {
        if let body = request.body {
            guard request.method != .head, request.method != .trace else { throw RequestCheck.body(of: request.method) }
            let prepared = try PreparedBody(body, request.boundarySeed, handler)
            if request.trailers != nil { return prepared.chunked }
            return sendsInPieces || request.maxSendRate != nil ? prepared.inPieces : prepared
        }
        switch request.method {
        // These methods send Content-Length: 0 without a body (RFC 9110 §8.6).
        case .post, .put, .patch: return .bytes(Data())
        default: return nil
        }
    }
}

extension HTTPRequest {
    /// What the boundary of a form is made of. An outbox keeps a text for it, so that each attempt sends the same bytes.
    fileprivate var boundarySeed: MultipartSource.Seed? {
        context.entry?.boundary.map { .kept($0) } ?? idempotencyKey.map { .key($0) }
    }
}

import CLibcurl
import FoundationEssentials
public import HTTPCore
import Platform
import Synchronization

/// The engine: sends requests through libcurl, on one thread of its own.
///
/// ```swift
/// let transport = try CurlTransport()
/// let response = try await transport.send(HTTPRequest("GET", "http://127.0.0.1:8080/"))
/// ```
///
/// It keeps connections, multiplexes HTTP/2, measures, limits and cancels.
/// It follows no redirects and gives every status as it came. Any number of
/// engines may live in a process; they share nothing. Letting go of the last
/// reference ends the thread; ``shutdown()`` waits for that.
public final class CurlTransport: Transport {
    /// The version of this package, as in the default `User-Agent`.
    public static let version = "1.1"

    /// The settings of an engine.
    public typealias Configuration = EngineConfiguration
    /// What is alive in an engine.
    public typealias Gauges = EngineGauges

    /// What transfers have in common, worked out once.
    let standardPlan: TransferPlan
    private let headerLines: HeaderLines
    private let proxies: ProxySettings
    private let tls: TLSMaterial
    private let addressGuard: AddressGuard?
    private let cookieStore: CookieStore?
    private var keepsCookies: Bool { cookieStore != nil }
    private let versions: VersionChoice
    private let hasUnixSocket: Bool
    private let netrc: Netrc?
    /// Whether a proxy's challenge is answered.
    private let challengesOfProxy: Bool
    /// Whether all bodies go out piece by piece, so that each waits for the rate.
    private let sendsInPieces: Bool
    private let origins: OriginMemory?
    private let lastSettings = Mutex<(request: HTTPRequest, settings: TransferSettings)?>(nil)
    let mailbox: Mailbox<Engine.Command>
    /// Runs tasks on the engine's thread: ``EngineExecutor`` says when that pays, and what must not be done there.
    public let executor: EngineExecutor
    let targets = TargetCache(capacity: 512)
    private let finalReport: FinalReport

    /// What the thread leaves when it ends.
    private final class FinalReport: Sendable {
        let gauges = Mutex(Gauges(easyHandles: 0, sockets: 0, isRunning: false))
    }

    /// Starts an engine.
    ///
    /// - Throws: ``NetworkError`` for a configuration that cannot work, or when the system has no thread or
    ///   descriptor left.
    public init(configuration: Configuration = Configuration()) throws {
        try configuration.validate()
        standardPlan = TransferPlan(configuration)
        headerLines = HeaderLines(userAgent: configuration.userAgent ?? DefaultUserAgent.value)
        proxies = try ProxySettings(configuration.proxy, environment: ProcessInfo.processInfo.environment)
        tls = try TLSMaterial(configuration.tls, warn: configuration.warn)
        addressGuard =
            configuration.blocksPrivateAddresses
            ? try AddressGuard(allowing: configuration.allowedPrivateAddresses) : nil
        cookieStore =
            configuration.cookies == .off
            ? nil : try CookieStore(configuration.cookies, warn: configuration.warn, write: configuration.cookieWriter)
        versions = try VersionChoice(configuration)
        hasUnixSocket = configuration.unixSocketPath != nil
        netrc = try Netrc(configuration.netrc)
        challengesOfProxy = configuration.proxyAuthentication != .basic
        sendsInPieces = configuration.maxSendRate != nil
        origins = try OriginMemory(configuration)
        let engine = try Engine(
            configuration, proxies: proxies, tls: tls, addressGuard: addressGuard, cookies: cookieStore)
        mailbox = engine.mailbox
        executor = engine.executor
        let finalReport = FinalReport()
        self.finalReport = finalReport
        let isStarted = BackgroundThread.start("lat-engine") { [engine] in
            // SIGPIPE is blocked on it too: with CURLOPT_NOSIGNAL libcurl does not keep it off, and OpenSSL calls write(2).
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
        if versions.standard == .http3 { observeNetwork { [versions] in versions.networkHasChanged() } }
        if let alternatives = origins?.alternatives {
            observeNetwork { [weak alternatives] in alternatives?.networkHasChanged() }
        }
        if !configuration.tls.verifiesCertificates {
            configuration.warn(
                "certificates are not verified: this manager talks to anybody who claims to be the server")
        }
    }

    /// The cookies; `nil` when none are kept.
    public var cookies: CookieJar? { cookieStore.map(CookieJar.init) }

    deinit {
        // Nobody waits for the end here: the last reference may go on the engine's own thread.
        mailbox.post(.shutDown(nil))
    }

    /// Sends one request and gives its answer, whatever its status.
    ///
    /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
    public func send(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request, for: nil) }

    /// Sends one request of an owner, who may cancel, hold and hurry it.
    ///
    /// - Throws: as ``send(_:)``; of kind ``NetworkError/Kind/cancelled`` when the owner was cancelled.
    package func send(_ request: HTTPRequest, for owner: (any TransferOwner)?) async throws -> HTTPResponse {
        let transfer = try prepare(request, owner)
        do {
            let response = try await answer(to: transfer)
            if transfer.plan.version.isRace { versions.note(response, of: transfer.target) }
            guard let origins, origins.note(response, to: transfer) else { return response }
        } catch let error as NetworkError {
            if error.kind == .cancelled, Task.isCancelled { throw CancellationError() }
            if transfer.plan.version.isRace { versions.note(error, of: transfer.target) }
            guard let origins, origins.note(error, of: transfer) else { throw error.attaching(request) }
        }
        // The address that stood in for the origin's is not to be used; it is passed over from here on.
        return try await send(request, for: owner)
    }

    /// Hands a transfer to the engine and waits for its end.
    @inline(__always)
    func answer(to transfer: Transfer) async throws -> HTTPResponse {
        try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { continuation in
                transfer.setContinuation(continuation)
                if !mailbox.post(.start(transfer)) {
                    transfer.owner?.detach(transfer)
                    transfer.answer(.failure(EngineFailure.shutDown))
                }
            }
        } onCancel: {
            mailbox.post(.cancel(transfer))
        }
    }

    /// The address that a URL is asked at: the `https` one where the host is known to want that (``HSTSPolicy``).
    package func effectiveURL(of url: String) -> String {
        guard let hsts = origins?.hsts, let target = try? targets.target(for: url) else { return url }
        return hsts.secureURL(of: target) ?? url
    }

    /// Ends all transfers with ``NetworkError/Kind/shutDown``, closes every connection, and returns when the thread
    /// is over. Later requests fail. Never required.
    public func shutdown() async {
        await withUnsafeContinuation { continuation in
            if !mailbox.post(.shutDown(continuation)) { continuation.resume() }
        }
        await origins?.flush()
    }

    /// What is alive in the engine.
    public var gauges: Gauges {
        get async {
            await withUnsafeContinuation { continuation in
                if !mailbox.post(.gauges(continuation)) {
                    continuation.resume(returning: finalReport.gauges.withLock { $0 })
                }
            }
        }
    }

    // MARK: Preparing

    /// Checks a request and settles its numbers. Nothing was sent when it throws.
    func prepare(
        _ request: HTTPRequest, _ owner: (any TransferOwner)?, warmUp: WarmUp? = nil
    ) throws -> Transfer {
        do throws(NetworkError) {
            guard request.method.isToken else { throw RequestCheck.method(request.method) }
            guard request.method != .connect else { throw RequestCheck.connect }
            let target = try targets.target(for: request.url)
            // A request that is changed is copied, which one that is not shall not pay for.
            guard origins != nil || netrc != nil || !request.hasStandardTransfer else {
                return try transfer(request, target, owner, warmUp)
            }
            let (changed, changedTarget) = try completed(request, target, owner?.bodyHandler)
            return try transfer(changed, changedTarget, owner, warmUp)
        } catch {
            throw error.attaching(request)
        }
    }

    /// The request as it goes out: to the address that its host wants, with the credentials of a file, compressed.
    private func completed(
        _ request: HTTPRequest, _ target: Target, _ handler: BodyHandler?
    ) throws(NetworkError) -> (HTTPRequest, Target) {
        var (request, target) = (request, target)
        if let url = origins?.hsts?.secureURL(of: target) {
            request.url = url
            target = try targets.target(for: url)
        }
        if let netrc { request = netrc.authenticated(request, target) }
        return (try BodyCompression.applied(to: request, handler), target)
    }

    private func transfer(
        _ request: HTTPRequest, _ target: Target, _ owner: (any TransferOwner)?, _ warmUp: WarmUp?
    ) throws(NetworkError) -> Transfer {
        var plan = try plan(for: request, target, owner?.bodyHandler)
        if let alternative = origins?.alternative(for: request, target, plan) {
            if alternative.isOrigin(of: target) {
                // HTTP/3 at the origin's own port, where another version answers too.
                plan.version = versions.race(target)
            } else {
                plan.alternative = alternative
                plan.headerLines.append(alternative.usedField)
                if alternative.protocolName == AlternativeService.http3 { plan.version = VersionChoice.http3Only }
            }
        }
        plan.progress = owner?.progressHandler
        plan.warmUp = warmUp
        let pipe = request.streamsBody ? BodyPipe() : nil
        let transfer = Transfer(request: request, owner: owner, target: target, plan: plan, pipe: pipe)
        connect(transfer, pipe)
        return transfer
    }

    private func connect(_ transfer: Transfer, _ pipe: BodyPipe?) {
        if let pipe {
            transfer.keepAlive = self
            transfer.connect(pipe, mailbox)
        }
        if let owner = transfer.owner {
            transfer.mailbox = mailbox
            owner.attach(transfer)
        }
    }

    func plan(
        for request: HTTPRequest, _ target: Target, _ handler: BodyHandler? = nil
    ) throws(NetworkError) -> TransferPlan {
        var plan = standardPlan
        var proxies = proxies
        if let policy = request.proxy {
            proxies = try ProxySettings(policy, environment: ProcessInfo.processInfo.environment)
        }
        plan.proxy = proxies.proxy(for: target)
        if let addressGuard {
            if plan.proxy != nil, let rule = addressGuard.refusal(ofProxiedHost: target.host) {
                throw AddressGuard.error(rule, address: target.host, host: target.host)
            }
            if request.unixSocketPath != nil {
                throw AddressGuard.error(.unixSocket, address: "a Unix domain socket", host: target.host)
            }
        }
        if target.isSecure || plan.proxy != nil { tls.trust?.prepare() }
        plan.pins = tls.pins(forHost: target.host)
        plan.body = try preparedBody(of: request, handler)
        plan.decompresses = RequestCheck.decompresses(request)
        plan.headerLines = try headerLines.lines(
            for: request, body: plan.body, decompresses: plan.decompresses, context: fieldContext(&plan, request))
        if request.version != .automatic || versions.standard != .automatic {
            plan.version = try versions.choice(
                for: request, target, proxy: plan.proxy, unixSocket: request.unixSocketPath != nil || hasUnixSocket)
        }
        if request.hasStandardTransfer { return plan }
        if let trailers = request.trailers {
            plan.headerLines.append(try TrailerFields.line(trailers, of: request))
            if let proxy = plan.proxy, !proxy.isSOCKS, !isTunnel(request), challengesOfProxy {
                throw NetworkError.invalidRequest(
                    "trailers are sent once, and proxyAuthentication sends the request again after the proxy's challenge; "
                        + "use .basic")
            }
        }
        try settings(of: request).apply(to: &plan)
        return plan
    }

    /// What a request's own settings come to. Those of the last one are kept: the calls of a route have the same.
    private func settings(of request: HTTPRequest) throws(NetworkError) -> TransferSettings {
        if let known = lastSettings.withLock({ $0 }), known.request.sharesSettings(with: request) {
            return known.settings
        }
        let settings = try TransferSettings(request)
        lastSettings.withLock { $0 = (request.settingsAlone, settings) }
        return settings
    }

    /// Which fields of a request are not sent as they are, and what becomes of its cookies instead.
    private func fieldContext(_ plan: inout TransferPlan, _ request: HTTPRequest) -> HeaderLines.Context {
        // In a tunnel, and without a proxy, the fields reach the server.
        let isForProxy = plan.proxy.map { !$0.isSOCKS && !isTunnel(request) } ?? false
        guard keepsCookies, !request.headers.hasNoFields else { return .init(reachesProxy: isForProxy) }
        let own = request.headers.fields.filter { $0.name.equalsIgnoringASCIICase("Cookie") }
        guard !own.isEmpty else { return .init(reachesProxy: isForProxy) }
        let values = own.compactMap(\.value).filter { !$0.isEmpty }
        plan.ignoresCookies = values.isEmpty
        plan.ownCookies = values.isEmpty ? nil : values.joined(separator: "; ")
        return .init(reachesProxy: isForProxy, takesCookies: !values.isEmpty)
    }

    private func isTunnel(_ request: HTTPRequest) -> Bool { request.url.lowercased().hasPrefix("https:") }

    private func preparedBody(
        of request: HTTPRequest, _ handler: BodyHandler?
    ) throws(NetworkError) -> PreparedBody? {
        if let body = request.body {
            guard request.method != .head, request.method != .trace else { throw RequestCheck.body(of: request.method) }
            let prepared = try PreparedBody(body, handler)
            if request.trailers != nil { return prepared.chunked }
            return sendsInPieces || request.maxSendRate != nil ? prepared.inPieces : prepared
        }
        switch request.method {
        // These say that they bring nothing with Content-Length: 0 (RFC 9110 §8.6).
        case .post, .put, .patch: return .bytes(Data())
        default: return nil
        }
    }
}

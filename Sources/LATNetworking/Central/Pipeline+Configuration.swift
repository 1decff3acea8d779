import CurlTransport
import HTTPCore
import Platform
import Synchronization

extension Pipeline {
    /// Creates the chain that a manager's configuration describes.
    convenience init(
        _ configuration: CentralRequestManager.Configuration, storage: CacheStorage, reachability: Reachability,
        sender: StageTable.Sender, scope: CredentialScope,
        manager: @escaping @Sendable () -> CentralRequestManager?
    ) {
        let timeout = configuration.engine.timeout
        let limits = TimeLimits()
        let clock = limits.clock
        let sharing = SharingStage(
            configuration.duplicates, secrets: configuration.secrets,
            volatileParameters: Set(configuration.volatileParameters))
        let barrier = BarrierStage()
        let composition = CompositionStage(
            defaults: configuration.headers, immediateHeaderProvider: configuration.immediateHeaderProvider,
            headerProvider: configuration.headerProvider, parameterProvider: configuration.parameterProvider,
            isShownBefore: !configuration.interceptors.isEmpty, timeout: timeout, limits: limits, scope: scope)
        let redirect = RedirectStage(
            policy: configuration.redirects,
            rule: RedirectRule(
                secrets: configuration.secrets, allowsInsecure: configuration.followsInsecureRedirects,
                effectiveURL: { url in
                    if case .engine(let engine) = sender { engine.effectiveURL(of: url) } else { url }
                }),
            handler: configuration.redirectHandler, timeout: timeout, limits: limits)
        var engine: CurlTransport?
        if case .engine(let own) = sender { engine = own }
        let certificate = configuration.engine.tls.clientCertificate.map { "certificate \($0)" }
        let signer = configuration.signer.map { "signer \($0.identity)" }
        let operations = CacheOperations(
            storage: storage, volatileParameters: Set(configuration.volatileParameters),
            version: configuration.cacheVersion, cachesUnsafeMethods: configuration.cachesUnsafeMethods,
            secrets: configuration.secrets, cookies: engine?.cookies, fileCredentials: engine?.fileCredentials,
            verdict: configuration.successJudge.map { ReplyDecoder(judge: $0) },
            managerCredentials: [certificate, signer].compactMap(\.self),
            unixSocketPath: configuration.engine.unixSocketPath, maxBodySize: configuration.engine.maxBodySize,
            servesStaleWhenDisconnected: configuration.servesStaleWhenDisconnected, mode: configuration.cacheMode)
        let cache = CacheStage(
            standard: configuration.cachePolicy, operations: operations, timeout: timeout, limits: limits)
        let httpCache = HTTPCacheStage(
            standard: configuration.cachePolicy, operations: operations, timeout: timeout, limits: limits)
        let retryPolicy = configuration.retryPolicy
        let limit = LimitStage(
            configuration.limits, configuration.circuitBreaker, shared: configuration.companion?.sharedLimits(),
            clock: clock)

        var stages: [Place: any Stage] = [
            .rejection: RejectionStage(sharing), .barrier: barrier,
            .retry: RetryStage(policy: retryPolicy, budget: configuration.retryBudget, clock: clock),
            .connectivity: ConnectivityStage(
                limit: configuration.reachability.connectivityTimeout, limits: limits,
                waitUntilReachable: { await reachability.waitUntilConnectable($0, within: $1) }),
            .mirrors: MirrorStage(memory: configuration.mirrorMemory), .composition: composition, .sharing: sharing,
            .simulation: SimulationStage(clock: clock), .cache: cache, .cacheOfSealed: cache, .httpCache: httpCache,
            .httpCacheOfOpened: httpCache,
            .seal: SealStage(standard: configuration.sealer, named: configuration.sealers), .redirect: redirect,
            .limits: limit, .attempt: AttemptStage(),
        ]
        var always: StageSet = []
        /// Adds a stage that only some managers have.
        func addOptional(_ place: Place, _ stage: (any Stage)?) {
            guard let stage else { return }
            stages[place] = stage
            always.insert(place)
        }
        if !configuration.interceptors.isEmpty {
            addOptional(
                .interceptors,
                InterceptorStage(interceptors: configuration.interceptors, limits: limits, shown: composition.shown))
        }
        if !configuration.networkInterceptors.isEmpty {
            addOptional(
                .networkInterceptors,
                InterceptorStage(interceptors: configuration.networkInterceptors, limits: limits, shown: { $0 }))
        }
        if !configuration.limits.isUnlimited || configuration.circuitBreaker != nil { always.insert(.limits) }
        addOptional(.sign, configuration.signer.map { SignStage(signer: $0) })
        func authentication(_ authenticator: any Authenticator) -> AuthenticationStage {
            AuthenticationStage(TokenSource(authenticator, manager), scope: scope, limits: limits)
        }
        stages[.authentication] = NamedAuthenticationStage(
            standard: configuration.authenticator.map(authentication),
            named: configuration.authenticators.mapValues(authentication))
        if configuration.authenticator != nil { always.insert(.authentication) }
        let hasProvider =
            configuration.immediateHeaderProvider != nil || configuration.headerProvider != nil
            || configuration.parameterProvider != nil
        self.init(
            StageTable(stages, sender, limits, secrets: configuration.secrets),
            toCache: StageTable(
                stages.merging(CacheProbe.stages) { $1 }, sender, limits, secrets: configuration.secrets), operations,
            always: always,
            defaults: RequestDefaults(
                retries: retryPolicy.retries, waitsForConnectivity: configuration.reachability.waitsForConnectivity,
                seals: configuration.sealer != nil, cachesSealed: configuration.cachesSealed,
                cachePolicy: configuration.cachePolicy,
                composes: !configuration.headers.hasNoFields || hasProvider,
                hasParameterProvider: configuration.parameterProvider != nil),
            mayHoldEntries: { storage.mayHoldEntries }, sharing: sharing, barrier: barrier, redirect: redirect,
            limit: limit)
    }
}

extension TokenSource {
    init(_ authenticator: any Authenticator, _ manager: @escaping @Sendable () -> CentralRequestManager? = { nil }) {
        self.init(
            apply: { request in
                var request = request
                try await authenticator.apply(to: &request)
                return request
            },
            isRejected: { await authenticator.isRejected($0, to: $1) },
            refresh: {
                guard let manager = manager() else { return try await authenticator.refresh() }
                try await authenticator.refresh(using: manager)
            }, refreshTimeout: authenticator.refreshTimeout, refreshPause: authenticator.refreshPause)
    }
}

/// The base URL of a manager, which may change at any time.
final class MutableBaseURL: Sendable {
    private let value: Mutex<String?>

    init(_ url: String?) { value = Mutex(url) }

    var url: String? {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}

/// A weak reference to the manager, for its own stages.
final class ManagerReference: Sendable {
    private struct Weak {
        weak var manager: CentralRequestManager?
    }

    private let reference = Mutex(Weak())

    var value: CentralRequestManager? {
        get { reference.withLock { $0.manager } }
        set { reference.withLock { $0.manager = newValue } }
    }
}

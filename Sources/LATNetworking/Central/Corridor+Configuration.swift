import HTTPCore

extension Corridor {
    /// The corridor of a manager, furnished as its configuration says.
    init(
        _ configuration: CentralRequestManager.Configuration, storage: CacheStorage, reachability: Reachability,
        transport: any Transport
    ) {
        self.init(
            interceptors: configuration.interceptors,
            flow: FlowRooms(deadline: configuration.deadline, duplicates: configuration.duplicates),
            retry: RetryInterceptor(policy: configuration.effectiveRetryPolicy, budget: configuration.retryBudget),
            connectivity: ConnectivityInterceptor(
                waits: configuration.reachability.waitsForConnectivity,
                limit: configuration.reachability.connectivityTimeout
            ) { await reachability.waitUntilReachable($0, within: $1) },
            authorize: configuration.authenticator.map { AuthorizeInterceptor($0) },
            limits: LimitInterceptor(configuration.limits, configuration.circuitBreaker),
            mirrors: MirrorInterceptor(memory: configuration.mirrorMemory),
            compose: ComposeInterceptor(
                defaults: configuration.headers, headerProvider: configuration.headerProvider,
                parameterProvider: configuration.parameterProvider, timeout: configuration.engine.timeout),
            simulation: SimulationInterceptor(standard: configuration.simulation),
            cache: CacheInterceptor(
                standard: configuration.cachePolicy,
                desk: CacheDesk(
                    storage: storage, volatileParameters: Set(configuration.volatileParameters),
                    version: configuration.cacheVersion, cachesUnsafeMethods: configuration.cachesUnsafeMethods,
                    maxBodySize: configuration.engine.maxBodySize),
                timeout: configuration.engine.timeout),
            cachesSealed: configuration.cachesSealed,
            seal: SealInterceptor(standard: configuration.sealer, named: configuration.sealers),
            sign: configuration.signer.map { SignInterceptor(signer: $0) },
            redirect: RedirectInterceptor(
                policy: configuration.redirects,
                rule: RedirectRule(
                    secretHeaders: configuration.secretHeaders,
                    allowsInsecure: configuration.followsInsecureRedirects),
                handler: configuration.redirectHandler, timeout: configuration.engine.timeout),
            networkInterceptors: configuration.networkInterceptors,
            transport: transport)
    }
}

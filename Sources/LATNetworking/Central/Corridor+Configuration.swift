import HTTPCore

extension Corridor {
    /// The corridor of a manager, furnished as its configuration says.
    init(
        _ configuration: CentralRequestManager.Configuration, storage: CacheStorage, transport: any Transport
    ) {
        self.init(
            interceptors: configuration.interceptors,
            retry: RetryInterceptor(retries: configuration.retries),
            compose: ComposeInterceptor(
                defaults: configuration.headers, headerProvider: configuration.headerProvider,
                parameterProvider: configuration.parameterProvider),
            simulation: SimulationInterceptor(standard: configuration.simulation),
            cache: CacheInterceptor(
                standard: configuration.cachePolicy,
                desk: CacheDesk(
                    storage: storage, volatileParameters: Set(configuration.volatileParameters),
                    version: configuration.cacheVersion, cachesUnsafeMethods: configuration.cachesUnsafeMethods,
                    maxBodySize: configuration.engine.maxBodySize),
                timeout: configuration.engine.timeout),
            redirect: RedirectInterceptor(
                policy: configuration.redirects, secretHeaders: configuration.secretHeaders,
                timeout: configuration.engine.timeout),
            transport: transport)
    }
}

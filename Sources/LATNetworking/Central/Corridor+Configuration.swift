import HTTPCore

extension Corridor {
    /// The corridor of a manager, furnished as its configuration says.
    init(_ configuration: CentralRequestManager.Configuration, transport: any Transport) {
        self.init(
            interceptors: configuration.interceptors,
            retry: RetryInterceptor(retries: configuration.retries),
            compose: ComposeInterceptor(
                defaults: configuration.headers, headerProvider: configuration.headerProvider,
                parameterProvider: configuration.parameterProvider),
            simulation: SimulationInterceptor(standard: configuration.simulation),
            redirect: RedirectInterceptor(
                policy: configuration.redirects,
                rule: RedirectRule(
                    secretHeaders: configuration.secretHeaders,
                    allowsInsecure: configuration.followsInsecureRedirects),
                handler: configuration.redirectHandler, timeout: configuration.engine.timeout),
            transport: transport)
    }
}

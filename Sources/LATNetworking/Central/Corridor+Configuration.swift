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
            seal: SealInterceptor(standard: configuration.sealer, named: configuration.sealers),
            sign: configuration.signer.map { SignInterceptor(signer: $0) },
            redirect: RedirectInterceptor(
                policy: configuration.redirects, secretHeaders: configuration.secretHeaders,
                timeout: configuration.engine.timeout),
            transport: transport)
    }
}

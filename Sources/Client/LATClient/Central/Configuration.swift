public import CurlTransport
public import FoundationEssentials
public import HTTPCore
public import ResponseCache

extension CentralRequestManager {
    /// The settings of a manager, including those of its engine. They are read when the manager is created.
    ///
    /// ```swift
    /// var configuration = CentralRequestManager.Configuration()
    /// configuration.baseURL = "https://api.example.org/v2"
    /// configuration.timeout = .seconds(30)
    /// configuration.headerProvider = { _ in ["Authorization": "Bearer \(await tokens.current)"] }
    /// let manager = try CentralRequestManager(configuration: configuration)
    /// ```
    ///
    /// The engine's settings (`timeout`, `connectTimeout`, `idleTimeout`, `maxConnectionsPerHost`, `proxy`, `tls`, …)
    /// are also members of this type; ``EngineConfiguration`` describes them.
    @dynamicMemberLookup
    public struct Configuration: Sendable {
        /// The settings of the engine. Default `EngineConfiguration()`.
        public var engine = EngineConfiguration()

        /// The URL that paths are joined to, with exactly one slash between; its own path and query are kept. Default `nil`:
        /// calls use absolute URLs. ``CentralRequestManager/baseURL`` changes it later.
        public var baseURL: String?
        /// The table in which entities look up their domains and servers. Default `nil`. A table from a file or a source
        /// follows it: a change applies from the next request on.
        public var domains: DomainTable?
        /// Called when a change of the table's file or source was adopted or rejected. Default `nil`: rejected changes are
        /// reported on standard error.
        public var domainsObserver: (@Sendable (DomainTable.FileEvent) -> Void)?
        /// Headers of every request. Default none. Later ones win in this order: these, the domain's, the server row's, the
        /// provider's, the entity's, the call's.
        public var headers = HTTPHeaders()
        /// Provides headers before each attempt; a request fails when this exceeds its timeout. Default `nil`.
        public var headerProvider: HeaderProvider?
        /// Provides headers before each attempt and before ``headerProvider``; costs no task. Default `nil`.
        public var immediateHeaderProvider: ImmediateHeaderProvider?
        /// Origins besides the manager's own that may receive credentials, such as `https://api.example.org`. Default none. The
        /// fields of ``secrets`` that a header provider sets, and those of the ``authenticator``, are sent only to the base
        /// URL, the domains of the table with their mirrors, and these. A manager without any of the three sends them
        /// everywhere.
        public var credentialOrigins: [String] = []
        /// Provides parameters that all requests have in common, before each attempt; the request's own parameters win.
        /// Does not apply to ``CentralRequestManager/send(_:)``. Default `nil`.
        public var parameterProvider: ParameterProvider?
        /// Answers requests in place of the servers. Default `nil`.
        public var simulation: Simulation?
        /// Accepts or rejects a response whose status is a success, in addition to the envelope of an entity's domain.
        /// ``CentralRequestManager/send(_:)`` and streams do not ask it. Default `nil`: every 2xx is a success.
        public var successJudge: SuccessJudge?
        /// Called with the outcome of each call, before the caller gets it. ``CentralRequestManager/send(_:)`` does not
        /// call them. Default none.
        public var outcomeObservers: [OutcomeObserver] = []
        /// May fix the cause of a call's failure and have the call sent again. Default `nil`.
        public var resolver: (any FailureResolver)?
        /// The most times that the resolver may have a call sent again. Default 1.
        public var maxReplays = 1
        /// Seals the content of requests and opens that of responses. Default `nil`: content is not sealed.
        public var sealer: (any Sealer)?
        /// Sealers by name, for the rows of the table (`sealer: "name"`) and single requests
        /// (``RequestOptions/Values/sealing``). Default none.
        public var sealers: [String: any Sealer] = [:]
        /// Whether the cache stores sealed responses and opens them at each read. Default `false`: it opens them first.
        public var cachesSealed = false
        /// Signs requests just before they are sent. Default `nil`: they are sent unsigned.
        public var signer: (any RequestSigner)?
        /// Signers by name, for the rows of the table (`signer: "name"`) and single requests
        /// (``RequestOptions/Values/signer``). Default none.
        public var signers: [String: any RequestSigner] = [:]
        /// The app's interceptors around each call, the first outermost. Default none.
        ///
        /// They see one request and its final response, whatever retries and redirects happen in between. The request has the
        /// body and the headers of the manager, the table's rows and the call. It lacks what the providers add, because those
        /// are called anew each time an interceptor calls `next`.
        public var interceptors: [any Interceptor] = []
        /// The app's interceptors next to the network, the first outermost. Default none.
        ///
        /// They see every attempt and every hop of a redirect as it is sent, with the providers' headers and parameters, so
        /// they can sign requests. The body of a redirect that is followed is a stream when it is larger than 64 KiB or takes
        /// longer than 250 ms to arrive; do not read it.
        public var networkInterceptors: [any Interceptor] = []
        /// How long an address of a domain is skipped, in favour of the domain's others, after a connection to it failed. Then
        /// one request tries it again. Default 30 s.
        public var mirrorMemory = Duration.seconds(30)
        /// The names of fields and parameters that hold secrets, which logs do not show. Such fields never follow a redirect to
        /// another origin. Rows of the table add fields (`secretHeaders`). Default ``Secrets/standard``.
        public var secrets = Secrets.standard
        /// How values become parameters and bodies, and responses become values: dates, names, bytes. Default `Coding()`, with
        /// dates in ISO 8601. The table's rows override dates and names (`dates`, `keys`); an entity or a request may have a
        /// coding of its own.
        public var coding = Coding()
        /// How parameters that do not go into the query are encoded as a body. Default ``ParameterEncoding/json``.
        public var parameterEncoding = ParameterEncoding.json
        /// Whether redirects are followed. Default: at most 20 hops.
        public var redirects = RedirectPolicy.follow(limit: 20)
        /// Called before each hop of a redirect; may change or refuse it. Default `nil`: every permitted hop is made.
        public var redirectHandler: RedirectHandler?
        /// Whether redirects from https to http are followed. Default `false`: ``NetworkError/Kind/redirect``.
        public var followsInsecureRedirects = false
        /// How often an idempotent request is retried after a network failure, 408, 429, 500, 502, 503 or 504: the number of
        /// ``retryPolicy``, which may name other statuses. Default 0. A dead connection from the pool is replaced once in any
        /// case, when that is safe.
        public var retries: Int {
            get { retryPolicy.retries }
            set { retryPolicy.retries = newValue }
        }
        /// How reachability is determined, and whether calls wait for it. Default `Reachability.Configuration()`.
        public var reachability = Reachability.Configuration()
        /// When a request is retried, and after which delay. Default `RetryPolicy()`.
        public var retryPolicy = RetryPolicy()
        /// The most retries of the manager in total; `nil`: no limit. Default: 1 per 5 requests, and 10 per second.
        public var retryBudget: RetryPolicy.Budget? = RetryPolicy.Budget()
        /// When a request that takes long is sent a second time, so that the faster response counts. Default `nil`: never.
        public var hedge: RequestOptions.Hedge?
        /// The time limit of a whole call, including retries, waits and queues. Default `nil`: none.
        public var deadline: Duration?
        /// What happens when a request is made while an equal one is running. Default ``DuplicatePolicy/allow``.
        public var duplicates = DuplicatePolicy.allow
        /// Puts a token on requests and renews it when the server rejects it. Default `nil`.
        public var authenticator: (any Authenticator)?
        /// Authenticators by name, for the rows of the table (`authenticator: "name"`) and single requests
        /// (``RequestOptions/Values/authenticator``). Each renews its own token. Default none.
        public var authenticators: [String: any Authenticator] = [:]
        /// The limits of concurrent requests and of their rate. Default no limits.
        public var limits = RequestLimits()
        /// Stops requests to a host for a while after repeated failures. Default `nil`: never.
        public var circuitBreaker: RequestLimits.CircuitBreakerPolicy?
        /// The faults that are made on purpose in staging, for requests and rows without ones of their own. With a table that
        /// says `production`, making the manager fails. Default `nil`: none.
        public var chaos: RequestOptions.Chaos?
        /// Whether the manager is for production whatever its table says, and also without a table: nothing makes faults on
        /// purpose. Default `false`: its table decides.
        public var isProduction = false
        /// Objects that observe every call. Default none.
        public var accessories: [any RequestAccessory] = []
        /// How the cache is used. Default ``CachePolicy/networkOnly``.
        public var cachePolicy = CachePolicy.networkOnly
        /// Whether the cache is private or shared, for ``CachePolicy/http``. Default `private`; `shared` if a fleet shares it.
        public var cacheMode: CacheMode {
            get { chosenCacheMode ?? companion?.cacheMode ?? .private }
            set { chosenCacheMode = newValue }
        }
        private var chosenCacheMode: CacheMode?
        /// The store of the responses. Default `nil`: a store of the SDK according to ``cacheStorage`` and
        /// ``cacheDirectory``, created when a request first needs it.
        public var cacheStore: (any CacheStore)?
        /// Where responses are kept. Default ``CentralRequestManager/Cache/Storage/memoryAndDisk``.
        public var cacheStorage = CentralRequestManager.Cache.Storage.memoryAndDisk
        /// The disk store's directory. Default `nil`: `$XDG_CACHE_HOME/<program>`, or `~/.cache/<program>`. It is
        /// created at the first write.
        public var cacheDirectory: String?
        /// How long a request waits for a look-up in the store, which a slow disk or another process's lock may delay. It then
        /// continues as if nothing were stored. With ``CachePolicy/cacheOnly``, with `only-if-cached`, and after a failure of
        /// the network, it waits at least one second, and so does a request that changes a resource, such as a POST, for the
        /// groups of what it changes (RFC 9875). Default 20 ms.
        public var cacheLookUpTimeout: Duration = .milliseconds(20)
        /// The user whose responses are stored, so that no other user gets them. Default `nil`: the response to a
        /// request with credentials is used for the same credentials only, unless the server permits sharing it
        /// (`public`); all others are used for everybody. It is changed later with
        /// ``CentralRequestManager/Cache/partition``, and for one request with ``RequestOptions/Values/cachePartition``.
        public var cachePartition: String?
        /// The app's version of the stored data; entries of other versions are not found. Default 1.
        public var cacheVersion = 1
        /// Names of parameters that do not distinguish requests, such as timestamps, nonces and signatures, besides those of
        /// the table's rows. Default none.
        public var volatileParameters: [String] = []
        /// Whether responses to methods other than GET and HEAD are stored too, under a key that includes the request's body;
        /// never those to `PUT`, `PATCH` and `DELETE`. Default `false`: only for requests with
        /// ``RequestOptions/Values/cachesUnsafeMethods``.
        public var cachesUnsafeMethods = false
        /// Whether ``CachePolicy/http`` uses a stale response whenever the network fails, and not only as long as the server's
        /// `stale-if-error` allows; never against `must-revalidate` or `no-cache` (RFC 9111 §4.2.4). Default `false`.
        public var servesStaleWhenDisconnected = false
        /// How long the network may take before ``CachePolicy/http`` delivers a stale stored response, as
        /// ``RequestOptions/Values/staleAfter`` says. Default `nil`: the network is waited for.
        public var staleAfter: Duration?
        /// The name under which the manager's cache adds itself to `Cache-Status` (RFC 9211) of the responses that callers get, such
        /// as `"app"`, so that a service can pass it on. ASCII. Default `nil`: it does not.
        public var cacheStatus: String?
        /// Whether ``CachePolicy/http`` offers stored responses as compression dictionaries, as
        /// ``RequestOptions/Values/usesDictionaries`` says. Default `false`.
        public var usesDictionaries = false
        /// Called when the cache's store fails, once for each kind of operation; requests continue without it. Default `nil`: a
        /// line on standard error.
        public var cacheObserver: CacheObserver?
        /// The wall clock of the cache, for tests. Default: the system's.
        public var cacheClock: @Sendable () -> Date = { Date() }
        /// Where the closures of calls run. Default `nil`: a serial queue of the manager.
        public var callbackExecutor: CallbackExecutor?
        /// Sends requests in place of the engine: a stand-in for tests, or a decorator. Default `nil`: the engine.
        public var transport: (any Transport)?
        /// The extension of the manager by another module.
        package var companion: (any ManagerCompanion)?

        /// The default settings.
        public init() {}

        /// Reads and writes a setting of the engine as a member of this type.
        public subscript<Value>(dynamicMember keyPath: WritableKeyPath<EngineConfiguration, Value>) -> Value {
            get { engine[keyPath: keyPath] }
            set { engine[keyPath: keyPath] = newValue }
        }
    }
}

/// An extension of a manager by another module, such as a fleet of processes.
package protocol ManagerCompanion: Sendable {
    /// Changes the settings before a manager is made with them.
    func prepare(_ configuration: inout CentralRequestManager.Configuration) throws

    /// A store with a tier below the manager's own; `nil` when it adds none.
    func store(above local: any CacheStore) throws -> (any CacheStore)?

    /// The cache mode where the app has chosen none; `nil` to leave it ``CacheMode/private``.
    var cacheMode: CacheMode? { get }

    /// The limits that a manager shares with others; called once for each manager.
    func sharedLimits() -> (any SharedLimits)?
}

extension CentralRequestManager.Configuration {
    /// Checks the settings that the engine does not check.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for an invalid value.
    func check() throws(NetworkError) {
        try limits.check(of: "configuration.limits")
        try retryPolicy.check("configuration.retryPolicy")
        try circuitBreaker?.check("configuration.circuitBreaker")
        try hedge?.check("configuration.hedge")
        try chaos?.check("configuration.chaos")
        if let cacheStatus, HTTPResponse.CacheStatus(cache: cacheStatus).field == nil {
            throw .invalidRequest("configuration.cacheStatus is not ASCII text; give a name such as \"app\"")
        }
        if chaos?.isOn == true {
            let place =
                isProduction
                ? "configuration.isProduction is true"
                : domains?.productionPlace.map { "the table says production (\($0))" }
            if let place {
                throw .invalidRequest(
                    "configuration.chaos makes faults on purpose, and \(place); leave chaos out in production")
            }
        }
        if case .follow(let limit) = redirects, limit < 0 {
            throw .invalidRequest("configuration.redirects follows \(limit) hops; give 0 or more, or .none")
        }
        if maxReplays < 0 { throw .invalidRequest("configuration.maxReplays is \(maxReplays); give 0 or more") }
        if let deadline, deadline <= .zero {
            throw .invalidRequest("configuration.deadline is \(deadline); give more than 0, or nil for none")
        }
        for (name, duration) in [
            ("mirrorMemory", mirrorMemory), ("cacheLookUpTimeout", cacheLookUpTimeout),
            ("reachability.ttl", reachability.ttl), ("reachability.failureTTL", reachability.failureTTL),
            ("reachability.connectivityTimeout", reachability.connectivityTimeout),
        ] where duration < .zero {
            throw .invalidRequest("configuration.\(name) is \(duration); give 0 or more")
        }
        if let retryBudget, !(retryBudget.share >= 0 && retryBudget.reserve >= 0) {
            throw .invalidRequest(
                "configuration.retryBudget has a share of \(retryBudget.share) and a reserve of \(retryBudget.reserve); "
                    + "give 0 or more, or nil for no limit")
        }
        for origin in credentialOrigins where URLReference.origin(of: origin) == nil {
            throw .invalidRequest(
                "configuration.credentialOrigins: \"\(URLText.visible(URLParts.redacted(origin)))\" is not an origin; write "
                    + "scheme and host, such as https://api.example.org")
        }
    }
}

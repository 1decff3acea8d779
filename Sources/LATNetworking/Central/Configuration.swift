public import CurlTransport
public import FoundationEssentials
public import HTTPCore
public import ResponseCache

extension CentralRequestManager {
    /// The settings of a manager, those of its engine among them. They are read when the manager is made.
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
    /// are members of this value too; ``CurlTransport/Configuration`` describes them.
    @dynamicMemberLookup
    public struct Configuration: Sendable {
        /// The settings of the engine.
        public var engine = CurlTransport.Configuration()

        /// What paths are joined to, with exactly one slash; its own path and query are kept. Default `nil`: calls
        /// name absolute URLs. ``CentralRequestManager/baseURL`` changes it later.
        public var baseURL: String?
        /// The table of domains and servers that entities are looked up in. Default `nil`. A table that was read from a
        /// file follows it: a change of the file counts from the next request on.
        public var domains: DomainTable?
        /// Told when the table's file was read again, or is wrong and the table stays as it was. Default `nil`: a wrong
        /// file is reported on standard error.
        public var domainsObserver: (@Sendable (DomainTableWatcher.Event) -> Void)?
        /// Headers of every request. Default none. Later wins: these, then the domain's, the server row's, the
        /// provider's, the entity's, the call's.
        public var headers = HTTPHeaders()
        /// Asked for headers before each attempt; one that takes longer than the request's timeout ends it. Default `nil`.
        public var headerProvider: HeaderProvider?
        /// Asked for headers before each attempt like ``headerProvider``, and before it, and answers at once: it costs a
        /// call no task. Default `nil`.
        public var immediateHeaderProvider: ImmediateHeaderProvider?
        /// Origins besides the manager's own that credentials may go to: `https://api.example.org`. The fields of
        /// ``secretHeaders`` that a header provider sets, and what the ``authenticator`` does, go to the base URL, the
        /// domains of the table with their mirrors, and these. Default none; a manager that has none of the three sends
        /// them to every origin.
        public var credentialOrigins: [String] = []
        /// Asked for parameters that all requests have in common, before each attempt; the request's own win. Does not
        /// apply to ``CentralRequestManager/send(_:)``. Default `nil`.
        public var parameterProvider: ParameterProvider?
        /// Answers in the servers' place. Default `nil`.
        public var simulation: Simulation?
        /// Whether an answer of status 2xx is a success, asked for entities' requests beside the domain's envelope.
        /// Default `nil`: it is.
        public var successJudge: SuccessJudge?
        /// Told how each call ended, before the caller is. Default none.
        public var outcomeObservers: [OutcomeObserver] = []
        /// May mend what made a call fail and have it sent again. Default `nil`.
        public var resolver: (any FailureResolver)?
        /// How often a call is sent again at most on the resolver's word. Default 1.
        public var maxReplays = 1
        /// Seals the content of requests and opens that of replies. Default `nil`: they go as they are.
        public var sealer: (any Sealer)?
        /// Sealers by name, for the rows of the table (`sealer: "name"`) and single requests
        /// (``HTTPRequest/sealing``). Default none.
        public var sealers: [String: any Sealer] = [:]
        /// Whether a response cache keeps sealed replies as they came, to be opened at each reading, and not what was
        /// opened. Default `false`.
        public var cachesSealed = false
        /// Signs requests as they are sent. Default `nil`: they go unsigned.
        public var signer: (any RequestSigner)?
        /// Rooms of the app around each call, the first outermost. Default none.
        ///
        /// They see one request and its final answer, whatever repetitions and redirects lie between. The request has
        /// the headers of manager, rows and call, and the body; what the providers add is not there yet, for they are
        /// asked anew each time an interceptor calls `next`.
        public var interceptors: [any Interceptor] = []
        /// Rooms of the app next to the network, the first outermost. Default none.
        ///
        /// They see every attempt and every hop of a redirect as it is sent, the providers' headers and parameters in
        /// it: the place to sign requests. The body of a redirect that is followed is a stream when it is larger than 64 KiB
        /// or takes longer than 250 ms; it is not to be read.
        public var networkInterceptors: [any Interceptor] = []
        /// How long an address of a domain is passed over after no connection to it came about, and its mirrors are
        /// asked instead; then one request tries it again. Default 30 s.
        public var mirrorMemory = Duration.seconds(30)
        /// Fields that hold secrets: they never follow a redirect to another origin. Default
        /// ``SecretHeaders/standard``.
        public var secretHeaders = SecretHeaders.standard
        /// How parameters become a body where they do not go into the query. Default ``ParameterEncoding/json``.
        public var parameterEncoding = ParameterEncoding.json
        /// Whether redirects are followed. Default: at most 20 hops.
        public var redirects = RedirectPolicy.follow(limit: 20)
        /// Asked before each hop; may change or refuse it. Default `nil`: every hop that the rules allow is made.
        public var redirectHandler: RedirectHandler?
        /// Whether a redirect from https to http is followed. Default `false`: it fails with
        /// ``NetworkError/Kind/redirect``.
        public var followsInsecureRedirects = false
        /// How often an idempotent request is repeated after a failure of the network. Default 0. A connection from
        /// the pool that turns out to be dead is replaced once whatever this says, when that is safe.
        public var retries = 0
        /// How it is found out what can be reached, and whether calls wait for it.
        public var reachability = ReachabilityConfiguration()
        /// When a request is repeated, and after which wait. Default ``RetryPolicy`` as it is; ``retries`` is its number
        /// where it has none.
        public var retryPolicy = RetryPolicy()
        /// How many repetitions the manager spends on the whole. Default one for five requests, and ten per second;
        /// `nil` for any number.
        public var retryBudget: RetryBudget? = RetryBudget()
        /// The longest time of a whole call, repetitions, waits and queues included. Default `nil`: none.
        public var deadline: Duration?
        /// What happens when a request is made while the same one is under way. Default ``DuplicatePolicy/allow``.
        public var duplicates = DuplicatePolicy.allow
        /// Puts a token on requests and renews it when it is refused. Default `nil`.
        public var authenticator: (any Authenticator)?
        /// How many requests are under way, and how many are started, at most. Default no limits.
        public var limits = RequestLimits()
        /// When a host that fails again and again is left alone. Default `nil`: never.
        public var circuitBreaker: CircuitBreakerPolicy?
        /// Watch every call. Default none.
        public var accessories: [any RequestAccessory] = []
        /// How a cache may take part. Default ``CachePolicy/networkOnly``.
        public var cachePolicy = CachePolicy.networkOnly
        /// Whether the cache is one user's own, or several users share it, for ``CachePolicy/http``. Default
        /// ``CacheMode/private``.
        public var cacheMode = CacheMode.private
        /// Keeps the responses. Default `nil`: a store of the SDK, as ``cacheStorage`` and ``cacheDirectory`` say, made
        /// when a request first needs it.
        public var cacheStore: (any CacheStore)?
        /// Where responses are kept. Default ``CacheStorageKind/memoryAndDisk``.
        public var cacheStorage = CacheStorageKind.memoryAndDisk
        /// The directory of what is kept on disk. Default `nil`: `$XDG_CACHE_HOME/<program>`, or `~/.cache/<program>`. It
        /// is made at the first write.
        public var cacheDirectory: String?
        /// How long a request waits for a look-up in the store: what holds the disk up, or another process that holds its
        /// index, delays no request beyond. It goes on as if nothing were stored; one that has nowhere else to go waits a
        /// second. Default 20 ms.
        public var cacheLookUpTimeout: Duration = .milliseconds(20)
        /// The user whose responses are kept, so that none are given to another. Default `nil`: the answer to a request
        /// with credentials is for the same ones only, all others are everybody's.
        /// ``CentralRequestManager/Cache/partition`` changes it later, ``HTTPRequest/cachePartition`` for one request.
        public var cachePartition: String?
        /// The app's version of what it stores: with another number nothing stored before is found. Default 1.
        public var cacheVersion = 1
        /// Names of parameters that do not tell requests apart: timestamps, nonces, signatures. Those of the table's rows
        /// come on top. Default none.
        public var volatileParameters: [String] = []
        /// Whether answers to other methods than GET and HEAD are stored too, under a key that their bodies are part of;
        /// never those to `PUT`, `PATCH` and `DELETE`. Default `false`: those of requests that ask for it, see ``HTTPRequest/cachesUnsafeMethods``.
        public var cachesUnsafeMethods = false
        /// Whether ``CachePolicy/http`` gives a stale answer whenever the network fails, and not only for as long as the
        /// server's `stale-if-error` allows; never against `must-revalidate` or `no-cache` (RFC 9111 §4.2.4). Default
        /// `false`.
        public var servesStaleWhenDisconnected = false
        /// Told when the cache's store fails, once for each kind of operation; requests go on without it. Default `nil`:
        /// a line on standard error.
        public var cacheObserver: CacheObserver?
        /// The wall clock of the cache, for tests. Default: the system's.
        public var cacheClock: @Sendable () -> Date = { Date() }
        /// Where the closures of calls run. Default `nil`: a serial queue of the manager's own.
        public var callbackExecutor: CallbackExecutor?
        /// Sends in place of the engine: a stand-in for tests, a decorator. Default `nil`: the engine.
        public var transport: (any Transport)?

        /// The default settings.
        public init() {}

        var effectiveRetryPolicy: RetryPolicy {
            var policy = retryPolicy
            if policy.retries == 0 { policy.retries = retries }
            return policy
        }

        /// The settings of the engine, as members of this value.
        public subscript<Value>(dynamicMember keyPath: WritableKeyPath<CurlTransport.Configuration, Value>) -> Value {
            get { engine[keyPath: keyPath] }
            set { engine[keyPath: keyPath] = newValue }
        }
    }
}

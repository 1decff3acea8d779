import BenchmarkSupport
import FoundationEssentials
import LATInspect
import LATNetworking

/// Modes `feature-…`: `central` with one more feature. What the feature costs is the difference from `feature-none`.
enum Feature: String, CaseIterable {
    case none, headers, immediateProvider, provider, interceptor, accessory, metrics, inspector, har, retries, deadline,
        limits, told, adaptive, hedge, circuit
    case authenticator, together, store, hit, text, decode
    /// Responses that `.http` stores, each of another URL, and the same with dictionaries, of which there are none.
    case rules, dictionaries
    /// A POST of 64 KiB, and the same with their digest.
    case upload, digest

    static let modes = allCases.map { "feature-\($0)" }

    init?(_ arguments: Arguments) {
        guard arguments.mode.hasPrefix("feature-") else { return nil }
        self.init(rawValue: String(arguments.mode.dropFirst("feature-".count)))
    }

    func apply(to configuration: inout CentralRequestManager.Configuration) {
        let fields: HTTPHeaders = [
            "User-Agent": "lat-bench/1", "X-App": "bench", "Authorization": "Bearer 0123456789abcdef",
        ]
        configuration.cacheStorage = .memory
        switch self {
        case .none, .text, .decode, .upload, .digest: break
        case .headers: configuration.headers = fields
        case .immediateProvider: configuration.immediateHeaderProvider = { _ in fields }
        case .provider: configuration.headerProvider = { _ in fields }
        case .interceptor: configuration.interceptors = [Passing()]
        case .accessory: configuration.accessories = [Watching()]
        case .metrics: configuration.accessories = [Metrics()]
        case .inspector: configuration.accessories = [Inspector()]
        case .har: configuration.accessories = [HARRecorder()]
        case .retries: configuration.retries = 3
        case .deadline: configuration.deadline = .seconds(30)
        case .limits: configuration.limits.maxConcurrentRequests = 100
        case .told: configuration.limits.followsServer = true
        case .adaptive: configuration.limits.adaptive = RequestLimits.Adaptive()
        // The latencies are kept, but hardly any call takes that long.
        case .hedge: configuration.hedge = .init(after: .percentile(99.999), initially: .seconds(10))
        case .circuit: configuration.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 5)
        case .authenticator: configuration.authenticator = Token()
        case .together:
            for feature in [Feature.provider, .authenticator, .retries, .limits, .circuit] {
                feature.apply(to: &configuration)
            }
        case .store: configuration.cachePolicy = .writeOnly
        case .hit: configuration.cachePolicy = .cacheElseNetwork(.forever)
        case .rules, .dictionaries:
            configuration.cachePolicy = .http
            configuration.usesDictionaries = self == .dictionaries
        }
    }

    func run(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
        if self == .upload || self == .digest {
            var request = HTTPRequest("POST", arguments.url, body: .data(Data(repeating: 97, count: 65_536)))
            if self == .digest { request.digests.sends = .sha256 }
            return try await measure(arguments) { [request] _ in try check(try await manager.send(request), arguments) }
        }
        let isStored = self == .rules || self == .dictionaries
        try await measure(arguments) { number in
            let url = isStored ? "\(arguments.url)?\(number)" : arguments.url
            let response = try await manager.startRequest("GET", url)
            try check(response, arguments)
            if self == .text, response.text?.utf8.count != 1_024 {
                throw Failure("\(arguments.url): this is not 1 KiB")
            }
            if self == .decode, try response.decode(Text.self).id != 42 {
                throw Failure("\(arguments.url): this is not the expected document")
            }
        }
    }
}

private struct Passing: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse { try await next(request) }
}

private struct Watching: RequestAccessory {}

private struct Token: Authenticator {
    func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "Bearer 0123456789abcdef" }
    func refresh() {}
}

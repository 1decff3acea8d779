import HTTPCore

/// What has gone out for a call, to whom, and what came back: by this alone it is decided whether a request may be sent
/// again, by whatever repeats requests (mirrors, waiting for the network, a renewed token, retries).
///
/// A value: the corridor notes each request as it is sent and as it ends.
struct SentRequests: Sendable {
    /// The request that went out last, as it was sent; `nil` when none has.
    private(set) var last: HTTPRequest?
    /// How many redirects were followed since the first request of this attempt.
    private(set) var hop = 0
    /// Whether a request that must not happen twice has gone out and was not refused, so that it may have had its effect.
    private(set) var mayHaveHadEffects = false
    /// How many requests went out, hops included.
    private(set) var count = 0

    /// A request is about to be sent.
    mutating func begins(_ request: HTTPRequest, hop: Int) {
        last = request
        self.hop = hop
        count += 1
    }

    /// A request has ended.
    mutating func ended(_ request: HTTPRequest, _ answer: Result<HTTPResponse, any Error>) {
        guard !Self.isRepeatable(request) else { return }
        switch answer {
        case .success(let response):
            if !Self.refusedUnprocessed.contains(response.status) { mayHaveHadEffects = true }
        case .failure(let error):
            if !Self.wasNotSent(error) { mayHaveHadEffects = true }
        }
    }

    /// What went out for another call on behalf of this one.
    mutating func absorb(_ other: SentRequests) {
        last = other.last ?? last
        hop = other.hop
        mayHaveHadEffects = mayHaveHadEffects || other.mayHaveHadEffects
        count += other.count
    }

    /// What wants to send a call's request again.
    enum Repetition {
        /// Another address of the domain, when one cannot be connected to.
        case mirror
        /// The network, when it is there again.
        case connectivity
        /// The renewal of a token that stood in these fields, or was these credentials.
        case token(HTTPHeaders, Authentication? = nil)
        /// The retry policy, with or without its rule that only idempotent requests are repeated.
        case retry(onlyIdempotent: Bool)
    }

    /// Whether the call's request may be sent again after an answer, or none, as far as what went out is concerned.
    func allows(_ repetition: Repetition, after answer: Result<HTTPResponse, NetworkError>) -> Bool {
        switch (repetition, answer) {
        case (.mirror, .failure(let error)):
            // A failure at a later hop is no failure of the first address.
            Self.isUnreachable(error) && hop == 0 && !mayHaveHadEffects
        case (.connectivity, .failure(let error)):
            Self.isUnreachable(error) && error.kind != .circuitOpen && !mayHaveHadEffects
        case (.mirror, .success), (.connectivity, .success), (.token, .failure):
            false
        case (.token(let fields, let credentials), .success):
            // A server that was not sent the token cannot have refused it. With nothing sent, the answer is simulated.
            !mayHaveHadEffects && (last.map { carries(fields, credentials, $0) } ?? true)
        case (.retry(let onlyIdempotent), _):
            !onlyIdempotent || !mayHaveHadEffects
        }
    }

    private func carries(_ fields: HTTPHeaders, _ credentials: Authentication?, _ request: HTTPRequest) -> Bool {
        // A token elsewhere, in the address for one, is known of the first hop only.
        if fields.isEmpty, credentials == nil { return hop == 0 }
        return credentials == nil || request.authentication == credentials
            ? fields.allSatisfy { request.headers[values: $0.name].contains($0.value) } : false
    }

    /// Whether no connection came about.
    static func isUnreachable(_ error: NetworkError) -> Bool {
        switch error.kind {
        case .dns, .connect, .timeout(.connect), .circuitOpen: true
        default: false
        }
    }

    /// Whether sending it twice is sending it once (RFC 9110 §9.2.2), by its method or by its idempotency key.
    static func isRepeatable(_ request: HTTPRequest) -> Bool {
        request.method.isIdempotent || request.idempotencyKey != nil
    }

    /// The statuses that say that a request was not acted upon: it wants credentials first, or to go elsewhere
    /// (RFC 9110 §15.4.8, §15.4.9, §15.5.2, §15.5.8, §15.5.20; RFC 8470 §5.2).
    private static let refusedUnprocessed: Set<Int> = [307, 308, 401, 407, 421, 425]

    /// Whether nothing of a request that failed so can have reached its server.
    static func wasNotSent(_ error: any Error) -> Bool {
        guard let error = error as? NetworkError else { return false }
        return switch error.kind {
        case .dns, .connect, .tls, .timeout(.connect), .circuitOpen, .addressBlocked, .invalidRequest, .unknownName,
            .unsupported, .duplicate:
            true
        default: false
        }
    }
}

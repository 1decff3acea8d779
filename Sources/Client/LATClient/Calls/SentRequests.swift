import HTTPCore

/// The record of what was sent for a call and what came back. A ``Chain`` records each request when it is sent and when
/// it ends.
///
/// All stages that repeat requests (mirrors, waiting for the network, a renewed token, retries) decide by this record alone
/// whether a request may be sent again.
struct SentRequests: Sendable {
    /// The last request, as it was sent; `nil` when none was.
    private(set) var last: HTTPRequest?
    /// The number of redirects followed since the first request of this attempt.
    private(set) var hop = 0
    /// Whether a request that must not be processed twice may have been processed.
    private(set) var mayHaveHadEffects = false
    /// Whether an earlier request than the last one may have been processed, such as one that was redirected.
    private(set) var hasArrivedBefore = false
    /// The same for every request.
    private var mayHaveArrived = false
    /// The number of requests sent, hops included.
    private(set) var count = 0
    /// The number of requests sent, without hops.
    private(set) var attempts = 0

    /// Which of the call's addresses answered in place of the one that its stage of mirrors chose; `nil` if that one did.
    private(set) var addressIndex: Int?
    /// Whether more was sent before for the call on behalf of which this one is made.
    private(set) var isContinued = false

    /// Whether nothing was sent, not even for the call on behalf of which this one is made.
    var isFirst: Bool { attempts == 0 && !isContinued }

    /// Records what was sent before for the call on behalf of which this one is made.
    mutating func continues(_ other: SentRequests) { isContinued = !other.isFirst }

    mutating func answered(by addressIndex: Int?) { self.addressIndex = addressIndex }

    /// Records a request that is about to be sent.
    mutating func begins(_ request: HTTPRequest, hop: Int) {
        last = request
        self.hop = hop
        hasArrivedBefore = mayHaveArrived
        count += 1
        if hop == 0 { attempts += 1 }
    }

    /// Records the end of a request.
    mutating func ended(_ request: HTTPRequest, _ answer: Result<HTTPResponse, any Error>) {
        switch answer {
        case .success(let response): guard !Self.isUnprocessed(response.status) else { return }
        case .failure(let error): guard !Self.wasNotSent(error) else { return }
        }
        mayHaveArrived = true
        // An idempotent request, or one with an idempotency key, may be processed twice (RFC 9110 §9.2.2).
        if !request.method.isIdempotent, request.idempotencyKey == nil { mayHaveHadEffects = true }
    }

    /// Adds what was sent for another call on behalf of this one.
    ///
    /// - Parameter isAnswer: whether the response to the other call is that to this one. Then the stages that send again judge
    ///   by what was sent for it.
    mutating func absorb(_ other: SentRequests, isAnswer: Bool) {
        if isAnswer { (last, hop, addressIndex) = (other.last ?? last, other.hop, other.addressIndex) }
        mayHaveHadEffects = mayHaveHadEffects || other.mayHaveHadEffects
        hasArrivedBefore =
            hasArrivedBefore || other.hasArrivedBefore || (isAnswer ? mayHaveArrived : other.mayHaveArrived)
        mayHaveArrived = mayHaveArrived || other.mayHaveArrived
        count += other.count
        attempts += other.attempts
    }

    /// The reason to send a call's request again.
    enum Repetition {
        /// Another address of the domain, because one cannot be connected to.
        case mirror
        /// The network is reachable again.
        case connectivity
        /// A renewed token. The old one was sent as this credential.
        case token(Credential)
        /// The retry policy, with or without its rule that only idempotent requests are repeated.
        case retry(onlyIdempotent: Bool)
    }

    /// Whether the call's request may be sent again after this response or error, judging by what was sent so far.
    func allows(_ repetition: Repetition, after answer: Result<HTTPResponse, NetworkError>) -> Bool {
        switch (repetition, answer) {
        case (.mirror, .failure(let error)):
            // A failure at a later hop says nothing about the first address.
            Self.isUnreachable(error) && hop == 0 && !mayHaveHadEffects
        case (.connectivity, .failure(let error)):
            Self.isUnreachable(error) && error.kind != .circuitOpen && !mayHaveHadEffects
        case (.mirror, .success), (.connectivity, .success), (.token, .failure):
            false
        case (.token(let credential), .success):
            !mayHaveHadEffects && carried(credential)
        case (.retry(let onlyIdempotent), _):
            !onlyIdempotent || !mayHaveHadEffects
        }
    }

    /// Whether the last request carried this credential: a server cannot have rejected one that it never got. Also `true`
    /// if nothing was sent, because a cache or a simulation responded.
    func carried(_ credential: Credential) -> Bool {
        guard let request = last else { return true }
        // A token elsewhere, such as in the URL, is only certain to be in the first hop.
        if credential.fields.isEmpty, credential.authentication == nil { return hop == 0 }
        return (credential.authentication == nil || request.authentication == credential.authentication)
            && credential.fields.allSatisfy { request.headers[values: $0.name].contains($0.value) }
    }

    /// Whether no connection could be made.
    static func isUnreachable(_ error: NetworkError) -> Bool {
        switch error.kind {
        case .dns, .connect, .timeout(.connect), .circuitOpen: true
        default: false
        }
    }

    /// Whether the status is that of a request that was not processed, because it lacks credentials, or is to be sent elsewhere
    /// or later (RFC 9110 §15.4.8, §15.4.9, §15.5.2, §15.5.8, §15.5.20; RFC 8470 §5.2).
    fileprivate static func isUnprocessed(_ status: Int) -> Bool {
        switch status {
        case 307, 308, 401, 407, 421, 425: true
        default: false
        }
    }

    /// Whether the error shows that nothing of the request can have reached its server.
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

extension HTTPResponse {
    /// Whether a server may have processed the request before it redirected it.
    package var hasArrivedBefore: Bool { redirects.contains { !SentRequests.isUnprocessed($0.status) } }
}

/// What an authenticator adds to a request: header fields, or credentials that the engine sends.
struct Credential: Sendable {
    var fields = HTTPHeaders()
    var authentication: Authentication?
}

extension Credential {
    /// What a request has that it had not before the authenticator saw it.
    init(of authorized: HTTPRequest, before request: HTTPRequest) {
        let own = request.headers
        fields = HTTPHeaders(
            authorized.headers.filter { !own[values: $0.name].contains($0.value) }.map { ($0.name, $0.value) })
        if authorized.authentication != request.authentication { authentication = authorized.authentication }
    }

    /// Whether it is for the field `Authorization`, which the engine writes for ``authentication``.
    var isAuthorization: Bool { authentication != nil || fields.contains("Authorization") }
}

extension HTTPRequest {
    /// Whether entity or call set the credentials of `Authorization`, or remove the field.
    var setsAuthorization: Bool {
        self.authentication != nil
            || headers.fields.contains { $0.layer != .base && $0.name.equalsIgnoringASCIICase("Authorization") }
    }
}

import CLibcurl
import Cryptography
import HTTPCore

// What of a transfer concerns Digest. The first request to an origin is challenged, and libcurl answers; what was asked is
// noted, and later requests bring the answer with them. Nothing of it runs for requests without such credentials.
extension Engine {
    /// The `Authorization` line that answers the last challenge of a transfer's origin; `nil` when there is none to answer.
    func digestLine(for transfer: Transfer) -> String? {
        let request = transfer.request
        // A body that can be sent but once goes out when libcurl has seen that the server takes the credentials.
        guard let (user, password) = request.authentication?.digestCredentials,
            let (challenge, count) = request.headers["Authorization"] == nil && request.body?.isReplayable ?? true
                ? digests.use(DigestCache.Key(transfer, user)) : nil,
            let random = try? randomBytes(16)
        else { return nil }
        let answer = challenge.answer(
            to: .init(
                method: request.method.rawValue, target: transfer.target.pathAndQuery, user: user, password: password),
            count: count, clientNonce: MessageDigest.hexadecimal(random))
        return answer.map { "Authorization: \($0)" }
    }

    /// The head of an answer is there that is not interim. Returns whether the transfer goes on.
    func noteDigest(_ transfer: Transfer, _ handle: EasyHandle) -> Bool {
        guard let (user, _) = transfer.request.authentication?.digestCredentials else { return true }
        let key = DigestCache.Key(transfer, user)
        let headers = transfer.head.headers
        guard transfer.head.status == 401 else {
            let next = headers["Authentication-Info"].flatMap { AuthenticationScheme.parameter("nextnonce", of: $0) }
            if let next, !next.isEmpty, next.utf8.count <= 1024, HeaderLines.isSendable(next) {
                digests.renew(key, nonce: next)
            }
            return true
        }
        let challenge = transfer.request.authentication?.digestChallenge(
            among: AuthenticationScheme.all(in: headers[values: "WWW-Authenticate"]))
        // As libcurl sees it: a second challenge says that the credentials are wrong, unless the nonce is stale.
        let isAnswered = handle.challengeCount == 0 || challenge?.isStale ?? false
        if let challenge { digests.note(challenge, for: key, isAnswered: isAnswered) } else { digests.forget(key) }
        handle.leaveChallengesToLibcurl(transfer)
        // Without end libcurl answers a server that finds every nonce stale.
        guard handle.challengeCount > Self.challengeLimit else { return true }
        transfer.fail(EngineFailure.alwaysStale(handle.challengeCount))
        return false
    }

    private static var challengeLimit: Int { 4 }
}

extension EngineFailure {
    fileprivate static func alwaysStale(_ count: Int) -> NetworkError {
        NetworkError(
            .protocolViolation,
            message:
                "the server said \(count) times that the nonce it had just given was stale (RFC 7616 §3.3); it has to "
                + "take one of them")
    }
}

extension DigestCache.Key {
    fileprivate init(_ transfer: Transfer, _ user: String) {
        self.init(origin: transfer.target.origin, user: user, unixSocketPath: transfer.request.unixSocketPath)
    }
}

extension Authentication {
    fileprivate var digestCredentials: (user: String, password: String)? {
        switch self {
        case .digest(let user, let password), .any(let user, let password): (user, password)
        case .basic, .bearer: nil
        }
    }

    /// The challenge that libcurl answers: the first of Digest. With ``any(user:password:)`` it prefers some schemes to it.
    fileprivate func digestChallenge(among schemes: [AuthenticationScheme]) -> DigestChallenge? {
        if case .any = self, schemes.contains(where: { $0.name == "negotiate" || $0.name == "bearer" }) { return nil }
        return schemes.first { $0.name == "digest" }.flatMap { DigestChallenge($0.parameters) }
    }
}

extension HeaderLines {
    /// Whether a text may stand in a field's value as it is.
    static func isSendable(_ text: String) -> Bool { text.utf8.allSatisfy(isAllowedInValue) }
}

// CURLAUTH_* are macros with casts, which Swift does not import.
private let basicScheme: UInt = 1 << 0
let digestScheme: UInt = 1 << 1
let anyScheme: UInt = ~(1 << 4)
/// `CURLAUTH_AWS_SIGV4`, which no server's challenge names. With one scheme alone libcurl sends no body before the server
/// has challenged; with two it waits for the challenge and sends the body.
private let unofferedScheme: UInt = 1 << 7

extension EasyHandle {
    func setCredentials(of transfer: Transfer) {
        switch transfer.request.authentication {
        case nil, .bearer: return
        case .basic(let user, let password): setCredentials(user, password, basicScheme)
        case .digest(let user, let password):
            setCredentials(user, password, answersBeforehand(transfer) ? digestScheme | unofferedScheme : digestScheme)
        case .any(let user, let password):
            _ = answersBeforehand(transfer)
            setCredentials(user, password, anyScheme)
        }
    }

    private func setCredentials(_ user: String, _ password: String, _ schemes: UInt) {
        set(CURLOPT_USERNAME, user)
        set(CURLOPT_PASSWORD, password)
        set(CURLOPT_HTTPAUTH, Int(bitPattern: schemes))
    }

    private func answersBeforehand(_ transfer: Transfer) -> Bool {
        challengeCount = 0
        guard let line = engine.digestLine(for: transfer) else { return false }
        setHeaderLines(transfer.plan.headerLines + [line])
        return true
    }

    /// The server has challenged: what libcurl sends next brings libcurl's own answer.
    fileprivate func leaveChallengesToLibcurl(_ transfer: Transfer) {
        challengeCount += 1
        setHeaderLines(transfer.plan.headerLines)
    }
}

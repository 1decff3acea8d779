import CLibcurl
import Cryptography
import FoundationEssentials
internal import HTTPCore

// Digest authentication. libcurl answers the challenge to the first request of an origin, unless it would answer it
// wrongly or not at all: then the engine ends the attempt and sends the request again with an answer of its own. The
// engine keeps the challenge, and later requests answer it in advance. None of this runs for requests without Digest
// credentials.
extension Engine {
    /// The `Authorization` line that answers the last challenge of the transfer's origin; `nil` when it cannot be
    /// answered in advance.
    func digestLine(for transfer: Transfer) -> String? {
        let request = transfer.request
        // A body that can be sent only once waits for the server's challenge, since an answer in advance may be stale.
        let mayAnswer = request.body?.isReplayable ?? true || transfer.ownAnswers > 0
        guard let (user, password) = request.authentication?.digestCredentials,
            let (challenge, count) = request.headers["Authorization"] == nil && mayAnswer
                ? digests.use(DigestCache.Key(transfer, user)) : nil,
            let random = try? randomBytes(16)
        else { return nil }
        let answer = challenge.answer(
            to: .init(
                method: request.method.rawValue, target: transfer.target.pathAndQuery, user: user, password: password,
                body: transfer.plan.body.map(\.bytesInMemory) ?? Data()),
            count: count, clientNonce: MessageDigest.hexadecimal(random))
        return answer.map { "Authorization: \($0)" }
    }

    /// Handles the head of a final response. Returns whether the transfer continues.
    func noteDigest(_ transfer: Transfer, _ handle: EasyHandle) -> Bool {
        guard let (user, _) = transfer.request.authentication?.digestCredentials else { return true }
        let key = DigestCache.Key(transfer, user)
        let headers = transfer.head.headers
        guard transfer.head.status == 401 else {
            let next = headers["Authentication-Info"].flatMap { AuthenticationScheme.parameter("nextnonce", of: $0) }
            if let next, !next.isEmpty, next.utf8.count <= 1024, next.utf8.isFieldValue {
                digests.renew(key, nonce: next)
            }
            return true
        }
        let schemes = AuthenticationScheme.all(in: headers[values: "WWW-Authenticate"])
        let challenge = transfer.request.authentication?.digestChallenge(among: schemes)
        if let challenge, transfer.request.headers["Authorization"] == nil,
            transfer.ownAnswers > 0 || !challenge.isForLibcurl || !isFirst(challenge, among: schemes)
        {
            if challenge.coversBody, let body = transfer.plan.body, body.bytesInMemory == nil {
                transfer.fail(EngineFailure.uncoveredBody)
                return false
            }
            return noteOwnChallenge(challenge, key, transfer)
        }
        // libcurl's rule: a second challenge means that the credentials are wrong, unless the nonce is stale.
        let isAnswered = handle.challengeCount == 0 || challenge?.isStale ?? false
        if let challenge { digests.note(challenge, for: key, isAnswered: isAnswered) } else { digests.forget(key) }
        handle.leaveChallengesToLibcurl(transfer)
        // libcurl would repeat the request forever if the server rejected every nonce as stale.
        guard handle.challengeCount > Self.challengeLimit else { return true }
        transfer.fail(EngineFailure.alwaysStale(handle.challengeCount - 1))
        return false
    }

    /// Whether libcurl, which answers the first Digest challenge only, answers this one.
    private func isFirst(_ challenge: DigestChallenge, among schemes: [AuthenticationScheme]) -> Bool {
        schemes.first { $0.name == "digest" }.flatMap { DigestChallenge($0.parameters) } == challenge
    }

    /// Handles a challenge that the engine answers itself. Returns whether the transfer continues; otherwise ``conclude``
    /// sends the request again.
    private func noteOwnChallenge(
        _ challenge: DigestChallenge, _ key: DigestCache.Key, _ transfer: Transfer
    ) -> Bool {
        digests.note(challenge, for: key, isAnswered: false)
        // A second challenge means that the credentials are wrong, unless the nonce is stale.
        guard transfer.ownAnswers == 0 || challenge.isStale else { return true }
        guard transfer.ownAnswers < Self.challengeLimit else {
            transfer.fail(EngineFailure.alwaysStale(transfer.ownAnswers))
            return false
        }
        transfer.ownAnswers += 1
        transfer.answersChallenge = true
        return false
    }

    /// Sends the request of a challenged transfer again, with an answer of the engine. Returns whether it did.
    func answersChallenge(_ transfer: Transfer, _ handle: EasyHandle) -> Bool {
        guard transfer.answersChallenge, !transfer.machine.isStopped else { return false }
        transfer.answersChallenge = false
        guard let timeLeft = transfer.machine.timeLeft(now) else { return false }
        guard transfer.machine.sourceBytes == 0 || transfer.plan.body?.source?.rewind() ?? true
        else {
            transfer.fail(EngineFailure.notReplayable)
            return false
        }
        transfer.machine.challenged(now)
        sendAgain(transfer, handle, timeout: timeLeft)
        return true
    }

    private static var challengeLimit: Int { 4 }
}

extension EngineFailure {
    fileprivate static var uncoveredBody: NetworkError {
        NetworkError(
            .requestBody,
            message:
                "the server's Digest challenge covers the body (qop=\"auth-int\" alone, RFC 7616 §3.4.3), and this body is a "
                + "file, a stream or multipart; send it from memory, or let the server offer qop=\"auth\" too")
    }

    fileprivate static func alwaysStale(_ count: Int) -> NetworkError {
        NetworkError(
            .protocolViolation,
            message:
                "the server rejected \(count) new nonces in a row as stale (RFC 7616 §3.3); repair the server, which must "
                + "accept the nonces it sends")
    }
}

extension DigestCache.Key {
    fileprivate init(_ transfer: Transfer, _ user: String) {
        self.init(origin: transfer.target.origin, user: user, unixSocketPath: transfer.request.unixSocketPath)
    }
}

extension Authentication {
    /// The credentials, if libcurl may use Digest.
    var digestCredentials: (user: String, password: String)? {
        switch self {
        case .digest(let user, let password), .any(let user, let password): (user, password)
        case .basic, .bearer: nil
        }
    }

    /// Returns the challenge that is answered, the first that is supported; `nil` when ``any(user:password:)`` is set and
    /// libcurl prefers another scheme of the server.
    fileprivate func digestChallenge(among schemes: [AuthenticationScheme]) -> DigestChallenge? {
        if case .any = self, schemes.contains(where: { $0.name == "negotiate" || $0.name == "bearer" }) { return nil }
        return DigestChallenge.preferred(among: schemes)
    }
}

// CURLAUTH_* are macros with casts, which Swift does not import.
private let basicScheme: UInt = 1 << 0
let digestScheme: UInt = 1 << 1
let anyScheme: UInt = ~(1 << 4)
/// `CURLAUTH_AWS_SIGV4`, which no server offers. With Digest as the only scheme, libcurl sends no body before a
/// challenge. With a second scheme it sends the body with the first request.
private let unofferedScheme: UInt = 1 << 7

extension EasyHandle {
    func setCredentials(of transfer: Transfer) {
        switch transfer.request.authentication {
        case nil, .bearer: return
        case .basic(let user, let password): setCredentials(user, password, basicScheme)
        // libcurl must not answer the next challenge, since it would answer wrongly.
        case .digest where transfer.ownAnswers > 0, .any where transfer.ownAnswers > 0: _ = answersBeforehand(transfer)
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
        setHeaderLines(of: transfer, adding: line)
        return true
    }

    /// Removes the engine's `Authorization` line, since libcurl answers this challenge.
    fileprivate func leaveChallengesToLibcurl(_ transfer: Transfer) {
        challengeCount += 1
        setHeaderLines(of: transfer)
    }
}

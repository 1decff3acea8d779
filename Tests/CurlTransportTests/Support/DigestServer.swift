import HTTPCore
import LATTesting
import Synchronization

@testable import CurlTransport

/// A server that requires Digest, verifies every answer, and accepts each nonce count once.
final class DigestServer: Sendable {
    private struct State {
        var nonces = 0
        var challenges = 0
        var counts: [Int] = []
        var nextNonce: String?
    }

    let server: MockServer
    let passwords: [String: String]
    private let algorithm: String
    /// Challenges before the one that is checked, and its `qop`.
    private let (first, quality): ([String], String)
    private let state = Mutex(State())

    init(
        _ algorithm: String = "MD5", passwords: [String: String] = ["u": "p"], first: [String] = [],
        qop: String = "auth"
    ) throws {
        (self.first, quality) = (first, qop)
        server = try MockServer()
        self.algorithm = algorithm
        self.passwords = passwords
        server.fallback { [unowned self] in reply(to: $0) }
    }

    var challenges: Int { state.withLock(\.challenges) }
    /// The accepted counts of the current nonce, sorted.
    var counts: [Int] { state.withLock { $0.counts.sorted() } }
    private var nonce: String { state.withLock { "nonce-\($0.nonces)" } }

    /// Makes the current nonce stale.
    func renewNonce() { state.withLock { ($0.nonces, $0.counts) = ($0.nonces + 1, []) } }

    /// Announces a new nonce in the next response (`nextnonce`).
    func announceNonce() { state.withLock { $0.nextNonce = "nonce-\($0.nonces + 1)" } }

    func request(_ path: String = "/", method: HTTPMethod = .get, user: String = "u", password: String = "p")
        -> HTTPRequest
    {
        HTTPRequest(method.rawValue, server.url(path)).with {
            $0.authentication = .digest(user: user, password: password)
        }
    }

    private func reply(to request: RecordedRequest) -> MockReply {
        let answer = AuthenticationScheme.all(in: request.headers[values: "Authorization"]).first?.parameters ?? [:]
        guard let user = answer["username"], let password = passwords[user], isRight(answer, request, password) else {
            return challenge(isStale: false)
        }
        let (isNew, next) = state.withLock { state -> (Bool, String?) in
            guard answer["nonce"] == "nonce-\(state.nonces)", let count = answer["nc"].flatMap({ Int($0, radix: 16) }),
                !state.counts.contains(count)
            else { return (false, nil) }
            state.counts.append(count)
            defer { state.nextNonce = nil }
            if state.nextNonce != nil { (state.nonces, state.counts) = (state.nonces + 1, []) }
            return (true, state.nextNonce)
        }
        guard isNew else { return challenge(isStale: true) }
        let reply = MockReply.text("hello \(user)")
        return next.map { reply.header("Authentication-Info", "nextnonce=\"\($0)\"") } ?? reply
    }

    private func isRight(_ answer: [String: String], _ request: RecordedRequest, _ password: String) -> Bool {
        guard request.headers[values: "Authorization"].count == 1, answer["uri"] == request.target,
            let user = answer["username"], let nonce = answer["nonce"], let client = answer["cnonce"],
            let count = answer["nc"].flatMap({ UInt32($0, radix: 16) }),
            let challenge = DigestChallenge([
                "realm": "test", "nonce": nonce, "qop": quality, "algorithm": algorithm,
            ])
        else { return false }
        let whole = challenge.answer(
            to: .init(
                method: request.method, target: request.target, user: user, password: password, body: request.body),
            count: count, clientNonce: client)
        return AuthenticationScheme.all(in: [whole ?? ""]).first?.parameters["response"] == answer["response"]
    }

    private func challenge(isStale: Bool) -> MockReply {
        state.withLock { $0.challenges += 1 }
        var reply = MockReply.text(String(repeating: "?", count: 3000), status: 401)
        for other in first { reply = reply.header("WWW-Authenticate", other) }
        return reply.header(
            "WWW-Authenticate",
            "Digest realm=\"test\", qop=\"\(quality)\", algorithm=\(algorithm), nonce=\"\(nonce)\""
                + (isStale ? ", stale=true" : ""))
    }
}

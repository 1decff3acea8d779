public import FoundationEssentials
public import HTTPCore

/// Seals with AES-256-GCM (NIST SP 800-38D), through libcrypto.
///
/// ```swift
/// let sealer = try AESGCMSealer(keys: ["k1": old, "k2": new], current: "k2")
/// configuration.sealer = sealer
/// try sealer.update(keys: ["k2": new, "k3": newest], current: "k3")    // while it is used
/// ```
///
/// Each message names its key, is bound to the request's method, path and query, to its time and a random nonce, and a
/// reply to its request. Copies of a sealer share its keys. With random nonces a key is good for 2³² messages
/// (SP 800-38D §8.3): rotate before. The bytes are described in Documentation/SealedMessages.md.
public struct AESGCMSealer: Sealer {
    let core: SealingCore

    /// Makes a sealer.
    ///
    /// - Parameters:
    ///   - keys: keys of 32 bytes by name. Messages are opened with any of them.
    ///   - current: the name of the key that seals.
    ///   - maxAge: how far the time of a message may be from this machine's, and how long messages are remembered so
    ///   that none is taken twice. Default 5 min.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` that names the key or limit that is
    ///   wrong.
    public init(keys: [String: Data], current: String, maxAge: Duration = .seconds(300)) throws(NetworkError) {
        core = try SealingCore(.aes256GCM, keys: keys, current: current, maxAge: maxAge)
    }

    /// Changes the keys, for messages from now on.
    ///
    /// - Throws: as ``init(keys:current:maxAge:)``; the keys are then as before.
    public func update(keys: [String: Data], current: String) throws(NetworkError) {
        try core.update(keys: keys, current: current)
    }

    /// Seals a request.
    public func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
        try core.seal(body, of: request)
    }

    /// Opens a reply.
    public func open(
        _ body: Data, of response: HTTPResponse, to sealed: SealedRequest
    ) async throws -> OpenedReply? {
        try core.open(body, of: response, to: sealed)
    }
}

import Cryptography
public import FoundationEssentials
public import HTTPCore
import Synchronization

/// The common part of ``AEADSealer`` and ``SealingPeer``: the keys, the current one, the window of received messages, and a
/// clock.
final class SealingCore: Sendable {
    private struct State {
        var keys: [String: Data]
        var current: String
        var window: ReplayWindow
    }

    let cipher: AuthenticatedCipher
    private let state: Mutex<State>
    /// Milliseconds since 1970.
    private let clock: @Sendable () -> Int64

    static let mediaType = "application/vnd.lat.sealed"
    static let field = "Sealed-Message"
    static let standardCapacity = 65_536

    init(
        _ cipher: AuthenticatedCipher, keys: [String: Data], current: String, maxAge: Duration,
        capacity: Int = standardCapacity, clock: @escaping @Sendable () -> Int64 = SealingCore.systemClock
    ) throws(NetworkError) {
        try Self.check(keys, current)
        guard maxAge > .zero, maxAge <= .seconds(86_400 * 365) else {
            throw .invalidRequest("maxAge is \(maxAge); give more than 0 and at most a year")
        }
        self.cipher = cipher
        self.clock = clock
        let window = ReplayWindow(maxAge: maxAge.roundedUpMilliseconds(atMost: .max), capacity: capacity)
        state = Mutex(State(keys: keys, current: current, window: window))
    }

    static let systemClock: @Sendable () -> Int64 = { Int64((Date().timeIntervalSince1970 * 1000).rounded()) }

    func update(keys: [String: Data], current: String) throws(NetworkError) {
        try Self.check(keys, current)
        state.withLock { state in
            state.keys = keys
            state.current = current
        }
    }

    private static func check(_ keys: [String: Data], _ current: String) throws(NetworkError) {
        guard keys[current] != nil else {
            throw .invalidRequest(
                "the current key \"\(current)\" is not among the keys (\(keys.keys.sorted().joined(separator: ", "))); name one of them"
            )
        }
        for (name, key) in keys {
            guard key.count == AuthenticatedCipher.keyByteCount else {
                throw .invalidRequest(
                    "the key \"\(name)\" has \(key.count) bytes instead of \(AuthenticatedCipher.keyByteCount); "
                        + "a password is not a key, derive one of that length from it")
            }
            guard (1...255).contains(name.utf8.count) else {
                throw .invalidRequest(
                    "the name of a key must have 1 to 255 bytes; \"\(name.prefix(20))\" has \(name.utf8.count)")
            }
        }
    }

    // MARK: Sealing

    func seal(
        _ content: Data, contentType: String?, kind: SealedMessage.Kind, requestNonce: [UInt8] = [],
        to binding: SealedMessage.Binding
    ) throws(NetworkError) -> (bytes: Data, nonce: [UInt8]) {
        let (keyID, key) = state.withLock { ($0.current, $0.keys[$0.current] ?? Data()) }
        let type = contentType ?? ""
        guard type.utf8.count <= 255, type.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else {
            throw .invalidRequest("the content type of a sealed body must be at most 255 ASCII characters")
        }
        do {
            let nonce = try randomBytes(AuthenticatedCipher.nonceByteCount)
            let message = SealedMessage(
                cipher: cipher, kind: kind, keyID: keyID, contentType: type, time: clock(), nonce: nonce,
                requestNonce: requestNonce)
            let head = message.head
            let sealed = try cipher.seal(content, key: key, nonce: nonce, associated: head + binding.bytes)
            return (Data(head) + sealed, nonce)
        } catch {
            throw NetworkError(
                .unsupported,
                message: "the content cannot be sealed: libcrypto has no \(cipher.rawValue), memory or random bytes",
                underlying: error)
        }
    }

    // MARK: Opening

    /// Returns the content of a message, once its tag is verified and it is not a replay.
    ///
    /// - Parameters:
    ///   - request: The nonce of the request that a reply must belong to.
    ///   - isFresh: Whether the message comes from the network. A cached one may be old and read repeatedly.
    func open(
        _ bytes: Data, kind: SealedMessage.Kind, to binding: SealedMessage.Binding, request: [UInt8]? = nil,
        isFresh: Bool = true
    ) throws(SealingFault) -> (content: Data, message: SealedMessage) {
        let bytes = Array(bytes)
        let (message, headCount) = try SealedMessage.parse(bytes)
        guard message.kind == kind else { throw .kind }
        guard message.cipher == cipher else { throw .cipher }
        let now = clock()
        let key = try state.withLock { state throws(SealingFault) in
            // Checked before the decryption to save work. The time is trusted only after the tag is verified.
            if isFresh { try state.window.checkAge(message.time, now: now) }
            guard let key = state.keys[message.keyID] else { throw SealingFault.unknownKey(message.keyID) }
            return key
        }
        let head = Array(bytes[..<headCount])
        let content: [UInt8]
        do {
            content = try cipher.open(
                Array(bytes[headCount...]), key: key, nonce: message.nonce, associated: head + binding.bytes)
        } catch {
            throw .authentication
        }
        guard isFresh else { return (Data(content), message) }
        if let request, !isEqualInConstantTime(message.requestNonce, request) { throw .otherRequest }
        try state.withLock { state throws(SealingFault) in
            // The key's name is included, because two keys may use the same nonce.
            try state.window.accept(message.nonce + Array(message.keyID.utf8), time: message.time, now: now)
        }
        return (Data(content), message)
    }

    // MARK: For AEADSealer

    /// Implements ``Sealer/seal(_:of:)`` for ``AEADSealer``.
    func seal(_ body: Data?, of request: HTTPRequest) throws(NetworkError) -> SealedRequest {
        let target = request.wireTarget
        let binding = SealedMessage.Binding(method: request.method.rawValue, target: target)
        let contentType = body == nil ? nil : request.headers["Content-Type"] ?? request.body?.contentType
        let (bytes, nonce) = try seal(body ?? Data(), contentType: contentType, kind: .request, to: binding)
        var headers: HTTPHeaders = ["Content-Type": nil]
        if body == nil {
            headers[Self.field] = bytes.base64EncodedString()
        } else {
            headers["Content-Type"] = Self.mediaType
        }
        return SealedRequest(
            method: request.method, target: target, body: body == nil ? nil : bytes, headers: headers,
            token: Data(nonce))
    }

    /// Implements ``Sealer/open(_:of:to:)`` for ``AEADSealer``.
    func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) throws -> OpenedReply? {
        let isInBody = Self.isSealed(response.headers["Content-Type"])
        let field = response.headers[Self.field].flatMap { Data(base64Encoded: $0) }
        guard isInBody || field != nil else {
            // A gateway between the two sides cannot seal: an unsealed reply is accepted unless it is a success or a 304.
            guard !response.isSuccess, response.status != 304 else { throw SealingFault.notSealed }
            return nil
        }
        let binding = SealedMessage.Binding(
            method: sealed.method.rawValue, target: sealed.target, status: response.status)
        // A message in the header does not protect a body beside it, so such a body is rejected.
        guard isInBody || body.isEmpty || sealed.method == .head else { throw SealingFault.notSealed }
        let isFresh = response.source == .network || response.source == .simulated
        let (content, message) = try open(
            isInBody ? body : field ?? Data(), kind: .reply, to: binding, request: Array(sealed.token), isFresh: isFresh
        )
        let contentType = message.contentType.isEmpty ? nil : message.contentType
        return OpenedReply(body: content, headers: ["Content-Type": contentType, Self.field: nil])
    }

    static func isSealed(_ contentType: String?) -> Bool {
        contentType.map(MediaType.essence) == mediaType
    }
}

/// Seals with authenticated encryption through libcrypto: AES-256-GCM (NIST SP 800-38D) or ChaCha20-Poly1305 (RFC 8439).
///
/// ```swift
/// let sealer = try AEADSealer(keys: ["k1": old, "k2": new], current: "k2")
/// configuration.sealer = sealer
/// try sealer.update(keys: ["k2": new, "k3": newest], current: "k3")    // while it is used
/// ```
///
/// Each message names its key, and is bound to a random nonce, its time, and the request's method, path and query. A
/// reply is also bound to its request. Copies of a sealer share its keys. With random nonces, a key must be replaced
/// before 2³² messages (SP 800-38D §8.3). Documentation/SealedMessages.md describes the format.
public struct AEADSealer: Sealer {
    /// The cipher of a sealer. Both take keys of 32 bytes.
    public enum Algorithm: String, Hashable, Sendable, CaseIterable {
        /// AES-256-GCM, the faster one where the processor has instructions for AES.
        case aes256GCM
        /// ChaCha20-Poly1305, for processors without them.
        case chaCha20Poly1305

        fileprivate var cipher: AuthenticatedCipher {
            switch self {
            case .aes256GCM: .aes256GCM
            case .chaCha20Poly1305: .chaCha20Poly1305
            }
        }
    }

    let core: SealingCore

    /// Creates a sealer.
    ///
    /// - Parameters:
    ///   - keys: The keys by name, of 32 bytes each. Any of them opens messages.
    ///   - current: The name of the key that seals.
    ///   - maxAge: The maximum difference between a message's time and the local time, and how long messages are
    ///     remembered to reject replays. Default 5 min.
    ///   - algorithm: The cipher that seals and opens. Default ``Algorithm/aes256GCM``.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` that names the wrong key or limit.
    public init(
        keys: [String: Data], current: String, maxAge: Duration = .seconds(300), algorithm: Algorithm = .aes256GCM
    ) throws(NetworkError) {
        core = try SealingCore(algorithm.cipher, keys: keys, current: current, maxAge: maxAge)
    }

    /// Replaces the keys for messages from now on.
    ///
    /// - Throws: The errors of ``init(keys:current:maxAge:algorithm:)``. The keys are then unchanged.
    public func update(keys: [String: Data], current: String) throws(NetworkError) {
        try core.update(keys: keys, current: current)
    }

    /// Seals a request.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for an unusable content type, or
    ///   ``NetworkError/Kind/unsupported`` if libcrypto cannot seal.
    public func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
        try core.seal(body, of: request)
    }

    /// Opens a reply.
    ///
    /// - Throws: An error with the reason if the reply is not sealed, was not sealed with one of the keys for this request,
    ///   is too old, or is a replay.
    public func open(
        _ body: Data, of response: HTTPResponse, to sealed: SealedRequest
    ) async throws -> OpenedReply? {
        try core.open(body, of: response, to: sealed)
    }
}

/// ``AEADSealer`` with its default cipher.
public typealias AESGCMSealer = AEADSealer

import Cryptography
public import FoundationEssentials
public import HTTPCore
import Synchronization

/// What both sealers are made of: keys by name, one of them current, the window of what was received, and a clock.
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
        let window = ReplayWindow(maxAge: maxAge.roundedUpMilliseconds, capacity: capacity)
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
                "the current key \"\(current)\" is not among the keys (\(keys.keys.sorted().joined(separator: ", ")))")
        }
        for (name, key) in keys {
            guard key.count == AuthenticatedCipher.keyByteCount else {
                throw .invalidRequest(
                    "the key \"\(name)\" has \(key.count) bytes and not \(AuthenticatedCipher.keyByteCount); "
                        + "a password as it is makes no key, derive one of that length")
            }
            guard (1...255).contains(name.utf8.count) else {
                throw .invalidRequest(
                    "the name of a key has 1 to 255 bytes; \"\(name.prefix(20))\" has \(name.utf8.count)")
            }
        }
    }

    // MARK: Sealing

    /// A sealed message and its nonce.
    func seal(
        _ content: Data, contentType: String?, kind: SealedMessage.Kind, requestNonce: [UInt8] = [],
        to binding: SealedMessage.Binding
    ) throws(NetworkError) -> (bytes: Data, nonce: [UInt8]) {
        let (keyID, key) = state.withLock { ($0.current, $0.keys[$0.current] ?? Data()) }
        let type = contentType ?? ""
        guard type.utf8.count <= 255, type.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else {
            throw .invalidRequest("the content type of a sealed body has at most 255 characters of ASCII")
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
                message: "the content cannot be sealed: libcrypto has no \(cipher.rawValue), memory or randomness",
                underlying: error)
        }
    }

    // MARK: Opening

    /// What a message holds, once its tag is right and it is no repetition.
    ///
    /// - Parameters:
    ///   - request: the nonce of the request that a reply has to answer.
    ///   - isFresh: whether it comes from the network. What a cache kept may be old and be read again.
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
            // Before the work of decrypting; what it says is believed only after the tag was right.
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
            // The key's name is part of it: two keys may well have used one nonce.
            try state.window.accept(message.nonce + Array(message.keyID.utf8), time: message.time, now: now)
        }
        return (Data(content), message)
    }
}

extension SealingCore {
    /// ``Sealer/seal(_:of:)`` of the built-in sealers.
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

    /// ``Sealer/open(_:of:to:)`` of the built-in sealers.
    func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) throws -> OpenedReply? {
        let isInBody = Self.isSealed(response.headers["Content-Type"])
        let field = response.headers[Self.field].flatMap { Data(base64Encoded: $0) }
        guard isInBody || field != nil else {
            // A gateway between the two sides cannot seal, and says no by its status alone.
            guard !response.isSuccess, response.status != 304 else { throw SealingFault.notSealed }
            return nil
        }
        let binding = SealedMessage.Binding(
            method: sealed.method.rawValue, target: sealed.target, status: response.status)
        // A body beside a message in the head is in nobody's hand.
        guard isInBody || body.isEmpty || sealed.method == .head else { throw SealingFault.notSealed }
        let isFresh = response.source == .network || response.source == .simulated
        let (content, message) = try open(
            isInBody ? body : field ?? Data(), kind: .reply, to: binding, request: Array(sealed.token), isFresh: isFresh
        )
        let contentType = message.contentType.isEmpty ? nil : message.contentType
        return OpenedReply(body: content, headers: ["Content-Type": contentType, Self.field: nil])
    }

    static func isSealed(_ contentType: String?) -> Bool {
        guard let type = contentType?.split(separator: ";").first else { return false }
        return type.lowercased().filter { $0 != " " } == mediaType
    }
}

/// What the built-in sealers have in common: all but their cipher.
protocol CoreSealer: Sealer {
    var core: SealingCore { get }
}

extension CoreSealer {
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
public struct AESGCMSealer: CoreSealer {
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
}

/// Seals with ChaCha20-Poly1305 (RFC 8439), through libcrypto.
///
/// ```swift
/// let sealer = try ChaChaPolySealer(keys: ["k1": old, "k2": new], current: "k2")
/// configuration.sealer = sealer
/// try sealer.update(keys: ["k2": new, "k3": newest], current: "k3")    // while it is used
/// ```
///
/// Each message names its key, is bound to the request's method, path and query, to its time and a random nonce, and a
/// reply to its request. Copies of a sealer share its keys. With random nonces a key is good for 2³² messages
/// at most: rotate before. The bytes are described in Documentation/SealedMessages.md.
public struct ChaChaPolySealer: CoreSealer {
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
        core = try SealingCore(.chaCha20Poly1305, keys: keys, current: current, maxAge: maxAge)
    }

    /// Changes the keys, for messages from now on.
    ///
    /// - Throws: as ``init(keys:current:maxAge:)``; the keys are then as before.
    public func update(keys: [String: Data], current: String) throws(NetworkError) {
        try core.update(keys: keys, current: current)
    }
}

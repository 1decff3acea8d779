import Cryptography
public import FoundationEssentials
public import HTTPCore

/// The other side of a sealer: opens requests and seals replies. For servers in Swift, and for tests with a stand-in.
///
/// ```swift
/// let peer = SealingPeer(try AESGCMSealer(keys: ["k1": key], current: "k1"))
/// server.fallback { request in
///     let opened = try peer.open(
///         method: request.method, target: request.target, headers: request.headers, body: request.body)
///     let reply = try peer.seal(Data("…".utf8), contentType: "application/json", status: 200, to: opened)
///     …
/// }
/// ```
public struct SealingPeer: Sendable {
    /// A request that was opened.
    public struct Request: Sendable {
        /// The method it is bound to.
        public let method: String
        /// Path and query it is bound to.
        public let target: String
        /// The content; `nil` when there was none.
        public let body: Data?
        /// The content's media type.
        public let contentType: String?
        /// The name of the key it was sealed with.
        public let keyID: String
        /// When it was sealed, in milliseconds since 1970.
        public let time: Int64
        let nonce: [UInt8]
    }

    /// A reply to send.
    public struct Reply: Sendable {
        /// Header fields to set.
        public let headers: HTTPHeaders
        /// The body; empty for a reply that can have none.
        public let body: Data
    }

    private let core: SealingCore

    /// The other side of clients that use AES-256-GCM. The sealer must not be one that also sends.
    public init(_ sealer: AESGCMSealer) { core = sealer.core }

    /// The other side of clients that use ChaCha20-Poly1305. The sealer must not be one that also sends.
    public init(_ sealer: ChaChaPolySealer) { core = sealer.core }

    init(core: SealingCore) { self.core = core }

    /// Opens a request. Each can be opened once.
    ///
    /// - Parameter target: path and query as they came.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/integrity`` for one that was not sealed with one of the
    ///   keys for this method and target, is too old, or came before.
    public func open(method: String, target: String, headers: HTTPHeaders, body: Data) throws(NetworkError) -> Request {
        do {
            let field = headers[SealingCore.field].flatMap { Data(base64Encoded: $0) }
            let isInBody = SealingCore.isSealed(headers["Content-Type"])
            guard let bytes = isInBody ? body : field, isInBody || body.isEmpty else { throw SealingFault.notSealed }
            let binding = SealedMessage.Binding(method: method, target: target)
            let (content, message) = try core.open(bytes, kind: .request, to: binding)
            return Request(
                method: method, target: target, body: isInBody ? content : nil,
                contentType: message.contentType.isEmpty ? nil : message.contentType, keyID: message.keyID,
                time: message.time, nonce: message.nonce)
        } catch {
            throw NetworkError(.integrity, message: "the request cannot be opened: \(error)", underlying: error)
        }
    }

    /// Seals a reply.
    ///
    /// - Parameters:
    ///   - content: the content; empty for none.
    ///   - contentType: its media type.
    ///   - status: the status it is sent with, to which it is bound.
    ///   - request: the request it answers.
    public func seal(
        _ content: Data, contentType: String? = nil, status: Int, to request: Request
    ) throws(NetworkError) -> Reply {
        let binding = SealedMessage.Binding(method: request.method, target: request.target, status: status)
        let (bytes, _) = try core.seal(
            content, contentType: contentType, kind: .reply, requestNonce: request.nonce, to: binding)
        let hasNoBody = status == 204 || status == 304 || request.method == "HEAD"
        guard !hasNoBody else { return Reply(headers: [SealingCore.field: bytes.base64EncodedString()], body: Data()) }
        return Reply(headers: ["Content-Type": SealingCore.mediaType], body: bytes)
    }
}

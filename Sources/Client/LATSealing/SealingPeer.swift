import Cryptography
import FoundationEssentials
import HTTPCore

/// The server's counterpart of a sealer: opens requests and seals replies. For servers in Swift, and for tests.
///
/// ```swift
/// let peer = SealingPeer(try AESGCMSealer(keys: ["k1": key], current: "k1"))
/// server.fallback { request in
///     let opened = try peer.open(
///         method: request.method, target: request.target, headers: request.headers, body: request.body)
///     let reply = try peer.seal(Data("{}".utf8), contentType: "application/json", status: 200, to: opened)
///     return MockReply(headers: reply.headers, body: .bytes(reply.body))
/// }
/// ```
package struct SealingPeer: Sendable {
    package struct Request: Sendable {
        package let method: String
        package let target: String
        /// The content; `nil` if there was none.
        package let body: Data?
        package let contentType: String?
        package let keyID: String
        /// When the message was sealed, in milliseconds since 1970.
        package let time: Int64
        let nonce: [UInt8]
    }

    package struct Reply: Sendable {
        package let headers: HTTPHeaders
        /// The body; empty for a reply that must not have one.
        package let body: Data
    }

    private let core: SealingCore

    /// Creates the counterpart of clients with such a sealer. The sealer must not be used for sending as well.
    package init(_ sealer: AEADSealer) { core = sealer.core }

    /// Opens a request. Each message can be opened once.
    ///
    /// - Parameter target: Path and query as they were received.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/integrity`` for a message that was not sealed with one of
    ///   the keys for this method and target, is too old, or is a replay.
    package func open(method: String, target: String, headers: HTTPHeaders, body: Data) throws(NetworkError) -> Request
    {
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

    /// Seals a reply. Its message is bound to the status and to the request.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for an unusable content type, or
    ///   ``NetworkError/Kind/unsupported`` if libcrypto cannot seal.
    package func seal(
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

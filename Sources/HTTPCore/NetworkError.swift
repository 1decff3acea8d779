/// What went wrong with a request, with all that is known of it.
///
/// ```swift
/// do {
///     let user = try await manager.startRequest("GET", url).decode(User.self)
/// } catch let error as NetworkError {
///     switch error.kind {
///     case .httpStatus: print(error.response?.status, error.response?.text)
///     case .timeout(let phase): print("too slow while \(phase)")
///     default: print(error)               // one sentence, with the next step
///     }
/// }
/// ```
public struct NetworkError: Error, Sendable {
    /// What kind of failure it is.
    public enum Kind: Hashable, Sendable {
        /// The request or a setting cannot be sent as it is; nothing was.
        case invalidRequest
        /// A domain or server that the table does not have.
        case unknownName
        /// The host's name was not found.
        case dns
        /// No connection came about: refused, unreachable.
        case connect
        /// The TLS handshake failed.
        case tls(TLSFailure)
        /// It took too long.
        case timeout(TimeoutPhase)
        /// The request was cancelled.
        case cancelled
        /// The server answered with a status that is no success. ``NetworkError/response`` holds it, body included.
        case httpStatus
        /// The server answered but said no, with this code (empty when it gave none).
        case business(code: String)
        /// The body does not fit the type; the path tells where, as in `items[3].price`, empty for the whole.
        case decoding(path: String)
        /// A redirect that cannot or must not be followed.
        case redirect
        /// The body is larger than the limit.
        case bodyTooLarge
        /// The connection broke before all was there.
        case connectionLost
        /// What came is not HTTP, or breaks its rules.
        case protocolViolation
        /// The proxy refused, failed or cannot be reached.
        case proxy
        /// The address is none of the public internet, and the manager has `blocksPrivateAddresses`; nothing was sent to
        /// it. The message names the address.
        case addressBlocked(AddressRule)
        /// The cache has no answer and the network may not be asked.
        case cache
        /// A file that holds what the program keeps could not be read, written or understood.
        case storage
        /// A body to send could not be read, or broke off.
        case requestBody
        /// What came is not what was sent or expected: a file with another digest, or a sealed message that was changed,
        /// repeated, or sealed with another key; nothing of such a message's content is told.
        case integrity
        /// Code of the app threw: an interceptor, provider, authenticator, signer, redirect handler, resolver or transport;
        /// ``NetworkError/underlying`` is what it threw.
        case provider
        /// A simulation has no answer to the request.
        case simulation
        /// This libcurl cannot do what the configuration asks for.
        case unsupported
        /// The token could not be renewed; ``NetworkError/underlying`` is why.
        case authentication
        /// The same request is under way and duplicates are rejected; nothing was sent.
        case duplicate
        /// The host failed so often that it is left alone for a while; nothing was sent.
        case circuitOpen
        /// The manager was shut down.
        case shutDown
        /// Anything else; ``NetworkError/curlCode`` and the message tell.
        case other
    }

    /// Why a TLS handshake failed.
    public enum TLSFailure: String, Hashable, Sendable {
        /// The certificate's time is over.
        case expired
        /// The certificate's time has not begun.
        case notYetValid
        /// The certificate is for another host.
        case wrongHost
        /// Nobody trusted signed the certificate.
        case untrusted
        /// The certificate is signed by itself.
        case selfSigned
        /// The authority has revoked the certificate.
        case revoked
        /// The server did not show that its certificate is not revoked, which was asked for (OCSP stapling).
        case certificateStatus
        /// The key is not one of the pinned.
        case pinMismatch
        /// The client's own certificate is missing, unreadable or refused.
        case clientCertificate
        /// The two sides share no protocol version or cipher.
        case protocolVersion
        /// The handshake broke off for another reason.
        case handshake
    }

    /// What was going on when the time was over.
    public enum TimeoutPhase: String, Hashable, Sendable {
        /// Connecting: name look-up, TCP, TLS.
        case connect
        /// Nothing came or went for the idle timeout.
        case idle
        /// The whole transfer.
        case total
        /// The whole call, its repetitions and waits included.
        case deadline
    }

    private final class Storage: Sendable {
        let kind: Kind
        let message: String
        let request: HTTPRequest?
        let url: String?
        let response: HTTPResponse?
        let curlCode: Int?
        let attempts: Int
        let timings: Timings?
        let underlying: (any Error)?

        init(
            kind: Kind, message: String, request: HTTPRequest?, url: String?, response: HTTPResponse?,
            curlCode: Int?, attempts: Int, timings: Timings?, underlying: (any Error)?
        ) {
            self.kind = kind
            self.message = message
            self.request = request
            self.url = url
            self.response = response
            self.curlCode = curlCode
            self.attempts = attempts
            self.timings = timings
            self.underlying = underlying
        }
    }

    private var storage: Storage

    /// Makes an error.
    ///
    /// - Parameter message: what happened, then the next step for the reader.
    public init(
        _ kind: Kind, message: String, request: HTTPRequest? = nil, response: HTTPResponse? = nil,
        curlCode: Int? = nil, attempts: Int = 1, timings: Timings? = nil, underlying: (any Error)? = nil
    ) {
        // Who answered is who was asked last.
        let answering = response.flatMap { $0.url.isEmpty ? nil : $0.url }
        storage = Storage(
            kind: kind, message: message, request: request, url: answering ?? request?.url, response: response,
            curlCode: curlCode, attempts: attempts, timings: timings, underlying: underlying)
    }

    private init(
        _ other: Storage, request: HTTPRequest?, url: String?, response: HTTPResponse?, attempts: Int
    ) {
        storage = Storage(
            kind: other.kind, message: other.message, request: request, url: url, response: response,
            curlCode: other.curlCode, attempts: attempts, timings: other.timings, underlying: other.underlying)
    }

    /// What kind of failure it is.
    public var kind: Kind { storage.kind }
    /// What happened and what to do next, for a person. Holds no secrets.
    public var message: String { storage.message }
    /// The request as its call made it, so that it can be sent again: the values of providers and authenticators are
    /// not in it, and come anew.
    public var request: HTTPRequest? { storage.request }
    /// The address that was asked last: that of a mirror, or of the last hop of a redirect.
    public var url: String? { storage.url }
    /// The response, when there was one: status, headers, and what came of the body.
    public var response: HTTPResponse? { storage.response }
    /// libcurl's code (`CURLcode`), when libcurl reported the failure.
    public var curlCode: Int? { storage.curlCode }
    /// How often the request was sent.
    public var attempts: Int { storage.attempts }
    /// How long the stages took, as far as it came.
    public var timings: Timings? { storage.timings ?? storage.response?.timings }
    /// The error below this one.
    public var underlying: (any Error)? { storage.underlying }

    /// The error with the request it belongs to, unless it names one already.
    package func attaching(_ request: HTTPRequest) -> NetworkError {
        guard storage.request == nil else { return self }
        return NetworkError(
            storage, request: request, url: storage.url ?? request.url, response: storage.response,
            attempts: storage.attempts)
    }

    /// The error as the caller gets it: with the call's own request, and the address that was asked last.
    package func of(_ request: HTTPRequest) -> NetworkError {
        NetworkError(
            storage, request: request, url: storage.url ?? request.url, response: storage.response,
            attempts: storage.attempts)
    }

    /// The error after this many attempts.
    package func counting(attempts: Int) -> NetworkError {
        NetworkError(
            storage, request: storage.request, url: storage.url, response: storage.response, attempts: attempts)
    }

    package static func invalidRequest(_ message: String) -> NetworkError {
        NetworkError(.invalidRequest, message: message)
    }

    package static func bodyTooLarge(limit: Int64) -> NetworkError {
        NetworkError(
            .bodyTooLarge,
            message: "the body is larger than \(limit) bytes; raise maxBodySize, or read it with stream()")
    }
}

extension NetworkError: CustomStringConvertible {
    /// Kind, message, and the request's method and the address asked last, without query and user information.
    public var description: String {
        var text = "\(kind): \(message)"
        if let request { text += " [\(URLText.visible("\(request.method) \(URLText.redacted(url ?? request.url))"))]" }
        return text
    }
}

extension NetworkError.Kind: CustomStringConvertible {
    /// The name, with what it carries in parentheses: `httpStatus`, `timeout(idle)`, `decoding(items[3].price)`.
    public var description: String {
        switch self {
        case .invalidRequest: "invalidRequest"
        case .unknownName: "unknownName"
        case .dns: "dns"
        case .connect: "connect"
        case .tls(let failure): "tls(\(failure.rawValue))"
        case .timeout(let phase): "timeout(\(phase.rawValue))"
        case .cancelled: "cancelled"
        case .httpStatus: "httpStatus"
        case .business(let code): code.isEmpty ? "business" : "business(\(code))"
        case .decoding(let path): path.isEmpty ? "decoding" : "decoding(\(path))"
        case .redirect: "redirect"
        case .bodyTooLarge: "bodyTooLarge"
        case .connectionLost: "connectionLost"
        case .protocolViolation: "protocolViolation"
        case .proxy: "proxy"
        case .addressBlocked(let rule): "addressBlocked(\(rule.rawValue))"
        case .cache: "cache"
        case .storage: "storage"
        case .requestBody: "requestBody"
        case .integrity: "integrity"
        case .provider: "provider"
        case .simulation: "simulation"
        case .unsupported: "unsupported"
        case .authentication: "authentication"
        case .duplicate: "duplicate"
        case .circuitOpen: "circuitOpen"
        case .shutDown: "shutDown"
        case .other: "other"
        }
    }
}

/// Small cuts at URLs as text, for messages.
package enum URLText {
    /// A text with its control characters written out, so that it can be printed in a line.
    package static func visible(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") {
            $0 += $1.value < 0x20 || $1.value == 0x7F ? $1.escaped(asASCII: true) : String($1)
        }
    }

    /// The URL without user information, query and fragment, where secrets tend to be.
    package static func redacted(_ url: String) -> String {
        // On bytes: as characters, a `?` and a combining mark after it would be one.
        let bytes = url.utf8
        let end = bytes.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? bytes.endIndex
        var text = String(url[..<end])
        if let slashes = text.firstRange(of: "://") {
            let rest = text[slashes.upperBound...]
            let authority = rest.prefix { $0 != "/" }
            // A password with a slash in it ends the authority too early: then what looks like a port is none.
            let port = authority.drop { $0 != ":" }.dropFirst()
            let isCut = !authority.contains("@") && !authority.hasPrefix("[") && !port.allSatisfy(\.isNumber)
            if let at = (isCut ? rest : authority).lastIndex(of: "@") {
                text = String(text[..<slashes.upperBound]) + String(rest[rest.index(after: at)...])
            }
        }
        return end < bytes.endIndex && bytes[end] == UInt8(ascii: "?") ? text + "?…" : text
    }
}

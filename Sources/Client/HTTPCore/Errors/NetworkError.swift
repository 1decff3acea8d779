public import FoundationEssentials
import Glibc
import JSONText
import Platform

/// The failure of a request, with everything that is known about it.
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
    private struct Facts: Sendable {
        let kind: Kind
        var message: String
        var request: HTTPRequest?
        var url: String?
        /// The method of the request sent last: one of the requests of an upload is not the request of the caller.
        var method: HTTPMethod?
        let response: HTTPResponse?
        let curlCode: Int?
        var attempts: Int
        let timings: Timings?
        var connection: HTTPResponse.Connection?
        let underlying: (any Error)?
        var hasArrivedBefore = false
    }

    /// A box for the facts, so that an error is one pointer.
    private final class Storage: Sendable {
        let facts: Facts

        init(_ facts: Facts) { self.facts = facts }
    }

    private let storage: Storage
    private var facts: Facts { storage.facts }

    /// Makes an error, by default after one attempt and with nothing else known.
    ///
    /// - Parameter message: what happened, and the next step for the reader.
    public init(
        _ kind: Kind, message: String, request: HTTPRequest? = nil, response: HTTPResponse? = nil,
        curlCode: Int? = nil, attempts: Int = 1, timings: Timings? = nil, underlying: (any Error)? = nil
    ) {
        // The URL that responded is the one requested last.
        let answering = response.flatMap { $0.url.isEmpty ? nil : $0.url }
        storage = Storage(
            Facts(
                kind: kind, message: message, request: request, url: answering ?? request?.url,
                method: request?.method ?? response?.requestMethod, response: response, curlCode: curlCode,
                attempts: max(attempts, response?.attempts ?? 1), timings: timings, connection: nil,
                underlying: underlying))
    }

    private init(_ other: NetworkError, _ change: (inout Facts) -> Void) {
        var facts = other.facts
        change(&facts)
        storage = Storage(facts)
    }

    /// The kind of failure.
    public var kind: Kind { facts.kind }
    /// What happened and the next step, for people. Contains no secrets.
    public var message: String { facts.message }
    /// The request as the caller made it, so that it can be sent again. It does not contain the values of providers and
    /// authenticators, which are added again each time.
    public var request: HTTPRequest? { facts.request }
    /// The URL requested last, such as that of a mirror or of the last redirect.
    public var url: String? { facts.url }
    /// The response, if there was one: status, headers, and the received part of the body.
    public var response: HTTPResponse? { facts.response }
    /// The code of libcurl (`CURLcode`), when libcurl reported the failure.
    public var curlCode: Int? { facts.curlCode }
    /// How often the request was sent, redirects aside: with retries, mirrors and renewed tokens.
    public var attempts: Int { facts.attempts }
    /// The timings of the transfer up to the failure.
    public var timings: Timings? { facts.timings ?? facts.response?.timings }
    /// The connection of the transfer that failed; `nil` when there was none, and for a call without observers
    /// (`RequestAccessory`).
    public var connection: HTTPResponse.Connection? { facts.connection ?? facts.response?.connection }
    /// The error that caused this one.
    public var underlying: (any Error)? { facts.underlying }

    /// The error with this request, unless it has one already.
    package func attaching(_ request: HTTPRequest) -> NetworkError {
        self.request == nil ? of(request) : self
    }

    /// The error for the caller, with the call's own request and the URL requested last.
    package func of(_ request: HTTPRequest) -> NetworkError {
        NetworkError(self) {
            $0.request = request
            $0.url = $0.url ?? request.url
            $0.method = $0.method ?? request.method
        }
    }

    /// The error with a sentence more.
    package func adding(_ text: String) -> NetworkError { NetworkError(self) { $0.message += "; " + text } }

    /// Whether an earlier request of the call than the one that failed may have been processed, such as a redirected one.
    package var hasArrivedBefore: Bool { facts.hasArrivedBefore }

    package func afterArrival() -> NetworkError { NetworkError(self) { $0.hasArrivedBefore = true } }

    package func counting(attempts: Int) -> NetworkError { NetworkError(self) { $0.attempts = attempts } }

    package func on(_ connection: HTTPResponse.Connection) -> NetworkError {
        NetworkError(self) { $0.connection = connection }
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

extension NetworkError {
    /// What the response of a failure says, decoded as its type: `error.model(of: Problem.self)?.title`. `nil` if there is no
    /// response, or its body is something else.
    public func model<Model: Decodable>(of type: Model.Type) -> Model? { try? response?.decode(type) }
}

extension NetworkError: CustomStringConvertible {
    /// The kind, the message, the number of attempts when there were several, the request's method and the URL requested
    /// last, without query and user information.
    public var description: String {
        var text = "\(kind): \(message)\(attempts > 1 ? " (after \(attempts) attempts)" : "")"
        let place = url ?? request?.url ?? ""
        if !place.isEmpty {
            let method = facts.method.map { "\($0) " } ?? ""
            text += " [\(URLText.visible(method + URLParts.redacted(place)))]"
        }
        return text
    }
}

extension NetworkError: LocalizedError {
    /// The same as ``description``, which `localizedDescription` returns too.
    public var errorDescription: String? { description }
}

/// Texts of URLs for messages.
package enum URLText {
    /// The text with escaped control characters, so that it can be printed in one line.
    package static func visible(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") {
            $0 += $1.controlsTerminal ? $1.escaped(asASCII: true) : String($1)
        }
    }
}

extension NetworkError {
    /// The system's reason for the failure of a file operation, which is shorter than the error's own description. It names
    /// the limit when too many files are open.
    package static func reason(of error: any Error) -> String {
        if let error = error as? SystemError { return error.text }
        guard let cause = (error as? CocoaError)?.underlying as? POSIXError else { return "\(error)" }
        // EEXIST means that there is a file in the place of a folder.
        return SystemError(code: cause.code == .EEXIST ? ENOTDIR : cause.code.rawValue).text
    }
}

extension Unicode.Scalar {
    /// Whether a terminal may act on the character: C0, DEL, C1, and what ends lines or reverses them.
    package var controlsTerminal: Bool {
        switch value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

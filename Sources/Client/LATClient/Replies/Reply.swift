import FoundationEssentials
import HTTPCore
import ResponseCache

/// The result of an entity's request: the model, its response and its envelope.
public struct Reply<Model: Sendable>: Sendable {
    /// The decoded model.
    public let model: Model
    /// The response that the model was decoded from.
    public let response: HTTPResponse
    /// Code, message and data, when the domain's responses have an envelope.
    public let envelope: Envelope?

    package init(model: Model, response: HTTPResponse, envelope: Envelope?) {
        self.model = model
        self.response = response
        self.envelope = envelope
    }
}

/// Decides whether a response is a success: by the statuses that the request accepts, or else by status 2xx or 304, which
/// confirms that the caller's copy is current. A part of the content is none if the whole was asked for.
package enum StatusRule {
    /// How many bytes of a streamed body are kept with the error: 1 MiB.
    static let errorBodyLimit = 1 << 20

    static func isSuccess(_ response: HTTPResponse, to request: HTTPRequest) -> Bool {
        if !request.hasNoSettings, let accepted = request.acceptedStatuses {
            return accepted.contains(response.status) && response.partFault == nil
        }
        return isStandardSuccess(response)
    }

    static func isStandardSuccess(_ response: HTTPResponse) -> Bool {
        response.isSuccess && response.partFault == nil || response.status == 304
    }

    /// - Throws: ``NetworkError/Kind/httpStatus`` for a response that is not a success.
    static func check(_ response: HTTPResponse, to request: HTTPRequest) throws(NetworkError) -> HTTPResponse {
        guard isSuccess(response, to: request) else { throw failure(response, to: request) }
        return response
    }

    /// The first bytes of a body, up to what an error keeps.
    package static func beginning(of body: ResponseBody) async throws -> Data {
        var beginning = Data()
        do {
            for try await chunk in body {
                beginning.append(chunk.prefix(errorBodyLimit - beginning.count))
                if beginning.count >= errorBodyLimit { break }
            }
        } catch let error as CancellationError {
            throw error
        } catch {
            // An incomplete body is enough: the error reports the status.
        }
        return beginning
    }

    /// The error for a response that is not a success.
    package static func failure(_ response: HTTPResponse, to request: HTTPRequest) -> NetworkError {
        if let fault = response.partFault {
            return NetworkError(.protocolViolation, message: fault, request: request, response: response)
        }
        if response.status == 504, response.source.isFromCache, CacheControl(request: request.headers).onlyIfCached {
            return NetworkError(
                .httpStatus,
                message: "nothing that is stored answers this request, and only-if-cached keeps it from the network",
                request: request, response: response)
        }
        let reason = response.reason.isEmpty ? "" : " \(response.reason)"
        let said = said(response)
        let words = Redactor.scrubbed(reason + said, of: request)
        let advice = advice(response, request, hasReason: !said.isEmpty)
        return NetworkError(
            .httpStatus,
            message: "the server answered \(response.status)\(words)"
                + (advice.isEmpty ? "" : "; \(advice)"),
            request: request, response: response)
    }

    /// A problem that the server reports, or a short sentence in plain text, as of ``MockServer``; empty for other bodies.
    private static func said(_ response: HTTPResponse) -> String {
        if let problem = response.problem,
            problem.title != nil || problem.detail != nil || problem.type != "about:blank"
        {
            return ": \"\("\(problem)".prefix(1_024))\""
        }
        let type = MediaType.essence(of: response.headers["Content-Type"] ?? "")
        guard type == "text/plain", let data = response.body.data, data.count <= 512,
            let text = String(validating: data, as: UTF8.self)?.trimmingFieldWhitespace,
            case let line = text.hasSuffix("\n") ? String(text.dropLast()) : text, !line.isEmpty,
            !line.contains(where: \.isNewline)
        else { return "" }
        return ": \"\(URLText.visible(line))\""
    }

    /// - Parameter hasReason: whether the server's own words are part of the message.
    private static func advice(_ response: HTTPResponse, _ request: HTTPRequest, hasReason: Bool) -> String {
        switch response.status {
        case 200...299 where request.context.upgrades:
            "a WebSocket begins with 101, so this is no address of a WebSocket; check the path"
        case 301, 302, 303, 307, 308:
            response.headers["Location"]?.isEmpty ?? true
                ? "it has no Location to follow"
                : request.redirects == RedirectPolicy.none
                    ? "redirects = .none leaves it to the caller; send returns it without an error"
                    : "it is followed unless redirects = .none, or the request is signed or sealed"
        case 401: "give credentials, or renew the token"
        case 403: "the credentials do not permit this"
        case 404: "check the address"
        case 405: "use an allowed method: \(response.headers["Allow"] ?? "the server lists none")"
        case 408, 425, 429, 503:
            "try again \(time(toRetry: response))"
        case 500...599: hasReason ? "the server failed" : "the server failed; the body of its response may say why"
        default: hasReason ? "" : "the body of the response may say why"
        }
    }

    /// When to try again. A `Retry-After` that cannot be used counts as absent.
    private static func time(toRetry response: HTTPResponse) -> String {
        guard let text = response.headers["Retry-After"], response.retryAfter(at: 0) != nil else { return "later" }
        return text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? "in \(text) s" : "after \(text)"
    }
}

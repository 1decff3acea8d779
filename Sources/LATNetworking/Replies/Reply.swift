import FoundationEssentials
import HTTPCore

/// The answer to an entity's request: the model, and all around it.
public struct Reply<Model: Sendable>: Sendable {
    /// The decoded answer.
    public let model: Model
    /// The response it came in.
    public let response: HTTPResponse
    /// Code, message and data, when the domain wraps its answers.
    public let envelope: Envelope?
}

/// Whether a response is what the caller of a centralized call wants: any status 2xx, and 304, which says that what the
/// caller has is still right.
enum Verdict {
    /// How much of an error's streamed body is kept with the error.
    static let errorBodyLimit = 1 << 20

    static func isSuccess(_ response: HTTPResponse) -> Bool { response.isSuccess || response.status == 304 }

    /// - Throws: ``NetworkError/Kind/httpStatus`` for a response that is none.
    static func check(_ response: HTTPResponse, to request: HTTPRequest) throws(NetworkError) -> HTTPResponse {
        guard isSuccess(response) else { throw failure(response, to: request) }
        return response
    }

    /// The first bytes of a body, as much as an error keeps.
    static func beginning(of body: ResponseBody) async throws -> Data {
        var beginning = Data()
        do {
            for try await chunk in body {
                beginning.append(chunk.prefix(errorBodyLimit - beginning.count))
                if beginning.count >= errorBodyLimit { break }
            }
        } catch let error as CancellationError {
            throw error
        } catch {
            // What came of it is what there is; the status is the news.
        }
        return beginning
    }

    /// The error for a response that is none.
    static func failure(_ response: HTTPResponse, to request: HTTPRequest) -> NetworkError {
        let reason = response.reason.isEmpty ? "" : " \(response.reason)"
        return NetworkError(
            .httpStatus, message: "the server answered \(response.status)\(reason); \(advice(response))",
            request: request, response: response)
    }

    private static func advice(_ response: HTTPResponse) -> String {
        switch response.status {
        case 300...399: "follow it with redirects = .follow(limit:)"
        case 401: "give credentials, or renew the token"
        case 403: "these credentials may not do this"
        case 404: "look at the address"
        case 405: "the address knows other methods: \(response.headers["Allow"] ?? "it does not say which")"
        case 408, 425, 429, 503:
            "try again" + (response.headers["Retry-After"].map { " after \($0) (seconds, or that date)" } ?? " later")
        case 500...599: "the fault is the server's; error.response holds what it said"
        default: "error.response holds what it said"
        }
    }
}

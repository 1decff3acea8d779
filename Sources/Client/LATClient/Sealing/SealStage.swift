import FoundationEssentials
import HTTPCore

/// Seals the content of requests and opens the content of replies.
///
/// It is inside the stage that composes requests, so that it seals what would be sent, and each attempt has a nonce and
/// time of its own. A sealed reply is collected before it is opened, even if the caller wants a stream: no byte of it
/// is delivered before all of it is verified.
struct SealStage: Stage {
    let standard: (any Sealer)?
    let named: [String: any Sealer]
    /// The manager's, for requests that have none.
    var cachePolicy = CachePolicy.networkOnly

    /// The maximum size of a file to seal, and of a sealed reply to a call that wants a stream and sets no limit.
    static let limit = 64 << 20

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard let sealer = try sealer(for: request) else { return try await chain.proceed(request) }
        let body = try content(of: request)
        let sealed = try await integrity(of: request, "the request cannot be sealed") {
            try await sealer.seal(body, of: request)
        }
        var outgoing = request
        outgoing.body = sealed.body.map { .data($0) }
        // Sealed content cannot be compressed any further.
        outgoing.contentCoding = .identity
        outgoing.headers.merge(sealed.headers)
        // The message is bound to its URL, so the target of a redirect could not open it.
        if outgoing.redirects == .automatic { outgoing.redirects = .none }
        let response = try await chain.proceed(outgoing)
        do {
            return try await open(response, to: request, sealed, sealer)
        } catch let error as NetworkError where error.kind == .integrity {
            // What the cache has may be sealed with a key that the sealer no longer has.
            let isStored = response.source.isFromCache || response.source == .revalidated
            guard isStored, (request.cachePolicy ?? cachePolicy) != .cacheOnly else { throw error }
            var again = request
            again.cachePolicy = .writeOnly
            return try await handle(again, chain.excluding(.httpCache))
        }
    }

    private func open(
        _ response: HTTPResponse, to request: HTTPRequest, _ sealed: SealedRequest, _ sealer: any Sealer
    ) async throws -> HTTPResponse {
        var response = response
        let limit = request.streamsBody == true ? Int(clamping: request.maxBodySize ?? Int64(Self.limit)) : .max
        let bytes = try await response.body.collect(upTo: limit)
        response.body = .empty
        let head = response
        let opened = try await integrity(of: request, "the reply of status \(response.status) cannot be opened", head) {
            try await sealer.open(bytes, of: head, to: sealed)
        }
        let content = opened?.body ?? bytes
        response.body = ResponseBody(content)
        // The field counts the sealed bytes, and a download would take it for the size of its file.
        if response.headers.contains("Content-Length") { response.headers["Content-Length"] = "\(content.count)" }
        for field in opened?.headers.fields ?? [] {
            response.headers.removeAll { $0.equalsIgnoringASCIICase(field.name) }
            if let value = field.value { response.headers.append(field.name, value) }
        }
        return response
    }

    private func sealer(for request: HTTPRequest) throws(NetworkError) -> (any Sealer)? {
        switch request.sealing {
        case .unsealed: return nil
        case .automatic: return standard
        case .sealed(let name):
            if let sealer = named[name] { return sealer }
            throw .missing("sealer", name, in: named, request)
        }
    }

    /// Runs a sealer. Its error becomes part of the message; an error of ``AEADSealer`` contains nothing of the content.
    private func integrity<Result>(
        of request: HTTPRequest, _ what: String, _ response: HTTPResponse? = nil, _ work: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await work()
        } catch let error as NetworkError {
            throw error.attaching(request)
        } catch {
            guard !error.endsTask else { throw error }
            throw NetworkError(
                .integrity, message: "\(what): \(error)", request: request, response: response, underlying: error)
        }
    }

    /// The bytes that would be sent without sealing.
    private func content(of request: HTTPRequest) throws -> Data? {
        switch request.body?.content {
        case nil: return nil
        case .data(let data): return data
        case .parameters(let encoding): return encoding == .json ? Data("{}".utf8) : Data()
        case .encoded(let encoder):
            do {
                return try encoder.encode()
            } catch {
                throw error.attaching(request)
            }
        case .file(let path):
            do throws(NetworkError) {
                return try HTTPBody.Bytes.content(
                    of: path, upTo: Self.limit, "sealed", tooLarge: "sealed in memory; send a smaller file")
            } catch {
                throw error.attaching(request)
            }
        case .stream, .multipart:
            throw NetworkError(
                .invalidRequest,
                message:
                    "a stream or a multipart body cannot be sealed, because sealing needs all of it; send data or "
                    + "a file, or set sealing = .unsealed", request: request)
        }
    }
}

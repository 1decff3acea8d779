import CLibcurl
internal import HTTPCore

/// The trailers of a request: announced and checked before it is sent, and read after its body.
enum TrailerFields {
    /// Fields that must not follow a body (RFC 9110 §6.5.1): those for framing, routing, coding and authentication.
    private static let refused: Set<String> = [
        "transfer-encoding", "content-length", "content-encoding", "content-type", "content-range", "host", "trailer",
        "te", "connection", "authorization", "proxy-authorization", "cookie", "expect", "cache-control",
        "max-forwards", "keep-alive", "upgrade",
    ]

    /// Returns the line of the `Trailer` field.
    ///
    /// - Parameter version: The versions that the request would use without trailers. Trailers need HTTP/1.1.
    static func line(
        _ trailers: HTTPRequest.Trailers, of request: HTTPRequest, over version: VersionChoice.Choice
    ) throws(NetworkError) -> String {
        guard !trailers.names.isEmpty else {
            throw .invalidRequest("trailers announce no field; name those that will be sent, or leave trailers out")
        }
        for name in trailers.names {
            guard name.utf8.isToken else {
                throw .invalidRequest(
                    "trailers.names: \"\(name.escaped)\" is not the name of a field (RFC 9110 §5.1); correct it")
            }
            guard !refused.contains(name.lowercased()) else {
                throw .invalidRequest(
                    "trailers.names: \"\(name)\" cannot follow a body (RFC 9110 §6.5.1); use a header")
            }
        }
        guard let body = request.body, request.method != .head, request.method != .trace else {
            throw .invalidRequest("trailers need a body, and the request has none; add one")
        }
        if case .multipart = body.content {
            throw .invalidRequest("trailers cannot follow the parts of a multipart body; send its bytes as a stream")
        }
        guard request.headers["Content-Length"] == nil else {
            throw .invalidRequest("a body with trailers is chunked and has no Content-Length; leave it out")
        }
        let isHTTP3 = version == VersionChoice.http3Only
        guard !isHTTP3, !version.hasPriorKnowledge else {
            throw NetworkError(
                .unsupported,
                message:
                    "trailers of a request need HTTP/1.1: libcurl sends none over HTTP/\(isHTTP3 ? 3 : 2); set version "
                    + "= .http1 in place of .\(isHTTP3 ? "http3Only" : "http2PriorKnowledge")")
        }
        guard request.authentication?.digestCredentials == nil else {
            throw .invalidRequest(
                "trailers can be sent only once, but Digest sends the request again after the server's challenge; use "
                    + "another authentication")
        }
        return "Trailer: \(trailers.names.joined(separator: ", "))"
    }

    /// Returns the lines for libcurl; the caller frees them.
    static func list(_ trailers: HTTPRequest.Trailers) throws(NetworkError) -> UnsafeMutablePointer<curl_slist>? {
        let announced = Set(trailers.names.map { $0.lowercased() })
        var list: UnsafeMutablePointer<curl_slist>?
        for field in trailers.fields.fields {
            guard let value = field.value else { continue }
            guard announced.contains(field.name.lowercased()), value.utf8.isFieldValue
            else {
                curl_slist_free_all(list)
                throw NetworkError(
                    .requestBody,
                    message: "the trailer \"\(field.name)\" was not announced in trailers.names, or holds a control "
                        + "character; the request was aborted")
            }
            list = curl_slist_append(list, "\(field.name): \(value)")
        }
        return list
    }
}

/// A source that hides its length, so that the body is sent chunked.
final class ChunkedSource: BodySource {
    private let source: any BodySource

    init(_ source: any BodySource) { self.source = source }

    var length: Int64? { nil }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead { source.read(into: buffer) }

    func rewind() -> Bool { source.rewind() }

    func start(wake: @escaping @Sendable () -> Void) { source.start(wake: wake) }

    func stop() { source.stop() }
}

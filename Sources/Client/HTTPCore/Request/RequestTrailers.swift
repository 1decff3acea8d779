extension HTTPRequest {
    /// The trailer fields of a request, such as a checksum or signature, known only after the body was sent (RFC 9110 §6.5).
    ///
    /// ```swift
    /// request.body = .stream(rows)
    /// request.trailers = HTTPRequest.Trailers(["X-Checksum"]) { ["X-Checksum": digest.value] }
    /// ```
    ///
    /// The closure is called on the engine's thread after the last byte of the body was sent. It must not block. A request
    /// with trailers is sent over HTTP/1.1 with a chunked body, whatever its length (`CURLOPT_TRAILERFUNCTION`).
    ///
    /// Two trailers are equal when they are copies of one value and have the same names.
    public struct Trailers: Sendable, Hashable {
        /// The names in the field `Trailer`.
        public var names: [String]
        private let maker: Maker

        private final class Maker: Sendable, ComparedByIdentity {
            let make: @Sendable () -> HTTPHeaders

            init(_ make: @escaping @Sendable () -> HTTPHeaders) { self.make = make }
        }

        /// Makes the trailers of a request.
        ///
        /// - Parameters:
        ///   - names: the names of the fields. Each must be a token. Fields for framing or routing are not allowed (RFC
        ///     9110 §6.5.1).
        ///   - fields: called for the fields each time the body was sent. A field that is not among the names, or that
        ///     contains a control character, makes the request fail with ``NetworkError/Kind/requestBody``.
        public init(_ names: [String], _ fields: @escaping @Sendable () -> HTTPHeaders) {
            self.names = names
            maker = Maker(fields)
        }

        /// The fields, read after the body was sent.
        package var fields: HTTPHeaders { maker.make() }
    }
}

/// Fields that follow a request's body, known only when it was sent (RFC 9110 §6.5): a checksum, a signature.
///
/// ```swift
/// request.body = .stream(chunks)
/// request.trailers = RequestTrailers(["X-Checksum"]) { ["X-Checksum": digest.value] }
/// ```
///
/// The closure is called after the last byte of the body was given to the network, on the engine's thread: it must not
/// block. A request with trailers is sent over HTTP/1.1 with a chunked body, whatever its length
/// (`CURLOPT_TRAILERFUNCTION`). Two are equal when one is a copy of the other.
public struct RequestTrailers: Sendable, Hashable {
    /// The names that are announced in the field `Trailer`.
    public var names: [String]
    private let maker: Maker

    private final class Maker: Sendable {
        let make: @Sendable () -> HTTPHeaders

        init(_ make: @escaping @Sendable () -> HTTPHeaders) { self.make = make }
    }

    /// Makes the trailers of a request.
    ///
    /// - Parameters:
    ///   - names: what is announced; each a token, and none that frames or routes a message.
    ///   - fields: asked for the fields each time the body was sent. A field that was not announced, or that holds a
    ///     control character, fails the request with ``NetworkError/Kind/requestBody``.
    public init(_ names: [String], _ fields: @escaping @Sendable () -> HTTPHeaders) {
        self.names = names
        maker = Maker(fields)
    }

    /// The fields, now that the body was sent.
    package var fields: HTTPHeaders { maker.make() }

    /// Whether both have the same names and closure.
    public static func == (lhs: Self, rhs: Self) -> Bool { lhs.names == rhs.names && lhs.maker === rhs.maker }

    /// Hashes names and closure.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(names)
        hasher.combine(ObjectIdentifier(maker))
    }
}

extension HTTPRequest {
    /// The value of the field `Idempotency-Key`, the same for all attempts. It tells the server that repetitions are one
    /// request, so that a `POST` may be repeated too. Default `nil`.
    ///
    /// ```swift
    /// request.idempotencyKey = HTTPRequest.randomIdempotencyKey()
    /// ```
    public var idempotencyKey: String? {
        get { headers.hasNoFields ? nil : headers["Idempotency-Key"] }
        set { headers["Idempotency-Key"] = newValue }
    }

    /// Returns a unique key: 128 random bits in hexadecimal.
    public static func randomIdempotencyKey() -> String { Hexadecimal.random(byteCount: 16) }
}

extension RequestOptions.Values {
    /// The value of the field `Idempotency-Key` (``HTTPRequest/idempotencyKey``) among the ``headers``. Default `nil`.
    public var idempotencyKey: String? {
        get { headers["Idempotency-Key"] }
        set { headers["Idempotency-Key"] = newValue }
    }
}

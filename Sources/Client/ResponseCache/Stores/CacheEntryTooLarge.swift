import HTTPCore

/// The error of a store that has no room for an entry, even if it evicted all unpinned ones.
///
/// This is not a failure of the store. A ``CacheWriter`` throws it as the `NetworkError.underlying` error of a
/// `NetworkError` of kind `NetworkError.Kind.cache`.
public struct CacheEntryTooLarge: Error, Hashable {
    /// The bytes of body and headers received so far.
    public let byteCount: Int64
    /// The maximum number of bytes that the store would have accepted.
    public let limit: Int64

    /// Creates an error for an entry of `byteCount` bytes where `limit` are allowed.
    public init(byteCount: Int64, limit: Int64) {
        self.byteCount = byteCount
        self.limit = limit
    }

    var error: NetworkError {
        NetworkError(
            .cache,
            message: "the response of at least \(byteCount) bytes is not stored: the cache accepts \(limit) at most; "
                + "raise its limit or unpin entries",
            underlying: self)
    }
}

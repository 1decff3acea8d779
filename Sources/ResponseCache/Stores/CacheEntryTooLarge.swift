import HTTPCore

/// Why a store refused an entry: there is no room for it, even if all that may go went.
///
/// It is no fault of the store. A ``CacheWriter`` throws it as the ``NetworkError/underlying`` of a ``NetworkError``
/// of kind ``NetworkError/Kind/cache``.
public struct CacheEntryTooLarge: Error, Hashable {
    /// The bytes of body and headers, as far as they had come.
    public let byteCount: Int64
    /// The most bytes that the store would have taken.
    public let limit: Int64

    /// So many bytes where so many are allowed.
    public init(byteCount: Int64, limit: Int64) {
        self.byteCount = byteCount
        self.limit = limit
    }

    /// The error that a writer throws.
    var error: NetworkError {
        NetworkError(
            .cache,
            message: "the response of \(byteCount) bytes or more is not stored: the cache takes \(limit) at most; "
                + "raise its limit, or unpin entries",
            underlying: self)
    }
}

/// Whether a cache is one user's own, or several users share it (RFC 9111 §1.1). It counts for ``CachePolicy/http``.
public enum CacheMode: String, Hashable, Sendable, CaseIterable {
    /// One user's: `private` answers are kept, `s-maxage` and `proxy-revalidate` do not count.
    case `private`
    /// For several users: `private` answers and the fields that `private="…"` names are not kept, `s-maxage` goes before
    /// `max-age`, and the answer to a request with `Authorization` is kept only when it says `public`, `s-maxage` or
    /// `must-revalidate` (RFC 9111 §3.5).
    case shared
}

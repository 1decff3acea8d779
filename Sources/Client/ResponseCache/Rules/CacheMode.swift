/// Whether a cache is private to one user or shared by several (RFC 9111 §1.1). Only `CachePolicy.http` uses it.
public enum CacheMode: String, Hashable, Sendable, CaseIterable {
    /// For one user: `private` responses are stored, `s-maxage` and `proxy-revalidate` are ignored.
    case `private`
    /// For several users: `private` responses and the fields that `private="…"` names are not stored, `s-maxage` overrides
    /// `max-age`, and the response to a request with `Authorization` is stored only when it says `public`, `s-maxage` or
    /// `must-revalidate` (RFC 9111 §3.5).
    case shared
}

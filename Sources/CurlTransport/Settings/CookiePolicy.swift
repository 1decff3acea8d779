/// Whether a manager keeps cookies and sends them back (RFC 6265).
public enum CookiePolicy: Hashable, Sendable {
    /// Cookies are header fields like any others: nothing is kept. The default.
    case off
    /// They are kept for as long as the manager lives.
    case memory
    /// They are kept in memory, and those with a date of expiry in this file too, in Netscape's format: read when the
    /// manager is made, written anew (aside, then renamed) before the response that changed them is delivered. Cookies
    /// of a session, which have no date, end with the manager (RFC 6265 §5.3).
    ///
    /// The file is for its owner only. It is one manager's: what another writes there is lost.
    case file(String)
}

/// Whether a manager keeps cookies and sends them back (RFC 6265).
///
/// A jar holds at most 180 cookies of one domain and 3,300 in all; beyond, those that are over are dropped, then the
/// oldest. A request gets at most 150 of them in a field of at most 8,190 bytes.
public enum CookiePolicy: Hashable, Sendable {
    /// Cookies are header fields like any others: nothing is kept. The default.
    case off
    /// They are kept for as long as the manager lives.
    case memory
    /// They are kept in memory, and those with a date of expiry in this file too, in Netscape's format. Cookies of a
    /// session, which have no date, end with the manager (RFC 6265 §5.3).
    ///
    /// The file is read when the manager is made, by the caller. Changes are written on a thread of their own, which no
    /// response waits for: the first at once, later ones at most once a second, several in one. Each time the file is
    /// written anew (aside, `fsync`, `rename`), so that it is whole at every moment. It has the last state when
    /// ``CookieJar/flush()`` or `shutdown()` has returned, and when the process ends by `exit` or by returning from
    /// `main`; a process that is killed may lose the last second.
    ///
    /// The file is for its owner only (0600). It is one manager's: what another writes there is lost.
    case file(String)
}

extension EngineConfiguration {
    /// Whether a manager stores cookies and sends them back (RFC 6265).
    ///
    /// A jar holds at most 180 cookies of one domain and 3,300 in all. Beyond that, expired cookies are dropped first, then
    /// the oldest. A request carries at most 150 of them, in a field of at most 8,190 bytes. Making a manager with a jar fails
    /// with ``NetworkError/Kind/unsupported`` when libpsl is missing.
    public enum CookiePolicy: Hashable, Sendable {
        /// Cookies are ordinary header fields and are not stored. The default.
        case off
        /// Cookies are kept as long as the manager lives.
        case memory
        /// Cookies are kept in memory; those with an expiry date are also kept in this file, in Netscape's format. Session
        /// cookies, which have no expiry date, end with the manager (RFC 6265 §5.3), unless
        /// ``EngineConfiguration/keepsSessionCookies`` is set.
        ///
        /// The file is read on the caller's thread when the manager is made. Changes are written on a separate thread, and no
        /// response waits for them. The first change is written at once, later ones together, at most once a second. Each
        /// write replaces the whole file (temporary file, `fdatasync`, `rename`), so the file is never incomplete. It is up to
        /// date when ``CookieJar/flush()`` or `shutdown()` returns, and when the process ends by `exit` or by returning from
        /// `main`. If the process is killed, the changes of the last second may be lost.
        ///
        /// Only the owner may read the file (0600). One manager owns it: changes by others are lost.
        case file(String)
    }
}

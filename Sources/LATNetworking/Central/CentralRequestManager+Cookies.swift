public import CurlTransport

extension CentralRequestManager {
    /// The manager's cookies, to look at, set and clear; `nil` when ``Configuration`` says `.off`, which is the default,
    /// and with a transport of the app's own.
    public var cookies: CookieJar? { engine?.cookies }
}

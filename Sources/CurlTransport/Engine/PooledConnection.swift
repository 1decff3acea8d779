import CLibcurl
internal import HTTPCore

extension Engine {
    /// Whether a pooled connection cannot carry the next request, because it was closed or holds unsolicited input.
    ///
    /// In HTTP/1, bytes after a complete response belong to no request and make the connection unusable (RFC 9112 §9.2).
    /// libcurl 7.88 takes them for the next response. Newer versions check a connection before each use, but from 8.22 on
    /// only once a second, so there the engine checks each connection itself. Two kinds of connections may have input:
    /// one with HTTP/2, whose frames may arrive at any time, and a prewarmed one that has carried no request, whose
    /// input may be TLS session tickets.
    func isUnusable(_ handle: EasyHandle, _ transfer: Transfer) -> Bool {
        let hasUnsolicitedInput =
            GlobalCurl.checksPoolOncePerSecond
            ? handle.long(CURLINFO_NUM_CONNECTS) == 0 && sockets.hasUnsolicitedInput(handle.activeSocket)
            : sockets.inputCount > 0 && sockets.takeInput(port: handle.localPort)
        return hasUnsolicitedInput && transfer.request.version != .http2PriorKnowledge
            && !OpenSSL.choseHTTP2(handle.curl)
    }
}

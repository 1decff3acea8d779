import CLibcurl
import HTTPCore

extension Engine {
    /// Whether a connection of the pool that is about to carry a request holds what is no answer to it, or was closed.
    ///
    /// What a server sends after a complete answer in HTTP/1 belongs to no request, and the connection cannot be used
    /// (RFC 9112 §9.2). libcurl 7.88 would give it to the next request; newer ones look before each use, from 8.22 on once a
    /// second only, where the engine looks itself. In HTTP/2, frames of the connection may come at any time. What came may
    /// also be a message of TLS itself, which only reading would tell; those that servers send come before the first answer.
    func isUnusable(_ handle: EasyHandle, _ transfer: Transfer) -> Bool {
        let hasNews =
            GlobalCurl.looksAtPoolSeldom
            ? handle.long(CURLINFO_NUM_CONNECTS) == 0 && sockets.hasNews(handle.activeSocket)
            : sockets.inputCount > 0 && sockets.takeInput(port: handle.localPort)
        return hasNews && transfer.request.version != .http2PriorKnowledge && !OpenSSL.choseHTTP2(handle.curl)
    }
}

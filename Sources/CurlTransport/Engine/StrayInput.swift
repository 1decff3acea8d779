import CLibcurl
import HTTPCore

extension Engine {
    /// Whether a connection of the pool that is about to carry a request holds what is no answer to it.
    ///
    /// What a server sends after a complete answer in HTTP/1 belongs to no request, and the connection cannot be used
    /// (RFC 9112 §9.2). libcurl 7.88 would give it to the next request; libcurl 8 does as this does. In HTTP/2, frames of
    /// the connection may come at any time. What came may also be a message of TLS itself, which only reading would tell;
    /// those that servers send come before the first answer.
    ///
    /// libcurl 8.22 looks at the connections of its pool once a second only, but names the socket.
    func holdsStrayInput(_ handle: EasyHandle, _ transfer: Transfer) -> Bool {
        if GlobalCurl.looksAtPoolSeldom {
            guard handle.long(CURLINFO_NUM_CONNECTS) == 0, sockets.takeInput(on: handle.activeSocket) else {
                return false
            }
        } else {
            guard sockets.inputCount > 0, sockets.takeInput(port: handle.localPort) else { return false }
        }
        return transfer.request.version != .http2PriorKnowledge && !OpenSSL.choseHTTP2(handle.curl)
    }
}

import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// Receives the answer of an authorization server, which the browser brings to a port of 127.0.0.1 (RFC 8252 §7.3).
///
/// It answers one browser: each connection has two seconds, and the first request for its path counts. Others, such as that for
/// an icon, are answered with 404.
final class LoopbackRedirect: Sendable {
    private static let path = "/callback"

    /// The query of the answer.
    let answer = Waiter<String>()
    /// The address of the answer.
    let url: String
    private let listener: Int32

    init() throws(NetworkError) {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard listener >= 0 else { throw Self.failure() }
        let answer = answer
        guard SocketAddress(host: [127, 0, 0, 1])?.call(bind, listener) == true, listen(listener, 8) == 0,
            let own = SocketAddress.own(of: listener),
            BackgroundThread.start("lat-redirect", { Self.serve(listener, answer) })
        else {
            let failure = Self.failure()
            Glibc.close(listener)
            throw failure
        }
        self.listener = listener
        url = "http://127.0.0.1:\(own.port)\(Self.path)"
    }

    /// Stops listening. The thread closes the socket. Called once.
    func close() { shutdown(listener, Int32(SHUT_RDWR)) }

    private static func failure() -> NetworkError {
        NetworkError(
            .storage,
            message: "no port of 127.0.0.1 can be opened for the browser: \(SystemError().text); use deviceCode")
    }

    private static func serve(_ listener: Int32, _ answer: Waiter<String>) {
        while true {
            let connection = accept(listener, nil, nil)
            if connection >= 0 {
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                respond(connection, answer)
                Glibc.close(connection)
            } else if errno == EINVAL {
                // It was shut down.
                Glibc.close(listener)
                return
            } else if errno != EINTR {
                // There are too many open files, for instance.
                usleep(10_000)
            }
        }
    }

    private static func respond(_ connection: Int32, _ answer: Waiter<String>) {
        var limit = timeval(tv_sec: 2, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
        setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
        let query = query(inHead: head(connection))
        let isFirst = query.map { answer.end(.success($0)) } ?? false
        let page =
            isFirst
            ? "You have signed in, or refused. Close this window, and go back to the program."
            : "There is nothing here. Go back to the program."
        let text =
            "HTTP/1.1 \(query == nil ? "404 Not Found" : "200 OK")\r\nContent-Type: text/plain; charset=utf-8\r\n"
            + "Content-Length: \(page.utf8.count)\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
            + "Connection: close\r\n\r\n\(page)"
        _ = Array(text.utf8).withUnsafeBytes {
            Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
    }

    private static func head(_ connection: Int32) -> [UInt8] {
        var head: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let end = MonotonicTime.now + 2_000
        while head.count < 16_384, !head.suffix(4).elementsEqual("\r\n\r\n".utf8), .now < end {
            let count = recv(connection, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            head += buffer[..<count]
        }
        return head
    }

    /// The query of a request for the path; `nil` for another one.
    static func query(inHead head: [UInt8]) -> String? {
        let line = String(decoding: head.prefix { $0 != 0x0D && $0 != 0x0A }, as: UTF8.self)
        let words = line.split(separator: " ")
        guard words.count == 3, words[0] == "GET" else { return nil }
        let parts = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 && parts[0] == path ? String(parts[1]) : nil
    }
}

internal import Dispatch
internal import FoundationEssentials
internal import Glibc
internal import LATNetworking
internal import Platform
internal import Synchronization

/// One connection of a ``LoopbackServer``: reads a request, checks where it comes from, and writes the response. Runs on a
/// thread that may block.
struct ServedRequest {
    static let maxHeadSize = 16 << 10
    static let maxBodySize = 1 << 20
    /// The longest wait until the client sends or takes more bytes, in milliseconds.
    private static let patience: Int32 = 10_000

    let socket: Int32
    let port: Int
    /// The host of the server's URL, if only this machine can reach it, so that its names are known.
    let ownHost: String?

    private enum Refusal: Error {
        case gone
        case status(Int, String)
    }

    /// - Parameter didRead: called when the client has sent a whole request that is answered.
    func run(_ handler: @escaping LoopbackServer.Handler, didRead: () -> Void) {
        let request: LoopbackServer.Request
        do {
            request = try read()
            try check(request)
            didRead()
        } catch Refusal.status(let status, let text) {
            _ = write(LoopbackServer.Response(status: status, text), isHead: false)
            return
        } catch {
            return
        }
        guard let response = Self.wait({ await handler(request) }) else { return }
        _ = write(response, isHead: request.method == "HEAD")
    }

    /// Tells a client that there is no room for its connection, without waiting for its request.
    static func refuseForRoom(_ socket: Int32) {
        let text = "All connections are in use; close a page, then reload.\n"
        let answer = "HTTP/1.1 503 Busy\r\nContent-Length: \(text.utf8.count)\r\nConnection: close\r\n\r\n\(text)"
        _ = Array(answer.utf8).withUnsafeBytes {
            Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
    }

    // MARK: Reading

    private func read() throws -> LoopbackServer.Request {
        var bytes = Data()
        let deadline = ContinuousClock.now + .seconds(10)
        let blank = Data("\r\n\r\n".utf8)
        var end: Range<Data.Index>?
        while end == nil {
            guard bytes.count <= Self.maxHeadSize else { throw Refusal.status(431, "the head is too large") }
            // One byte at a time does not keep the connection for longer.
            guard ContinuousClock.now < deadline else { throw Refusal.gone }
            bytes.append(try chunk())
            end = bytes.firstRange(of: blank)
        }
        guard let end, let head = String(validating: bytes[..<end.lowerBound], as: UTF8.self) else {
            throw Refusal.status(400, "this is not HTTP")
        }
        let lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count == 3, words[2].hasPrefix("HTTP/1."), words[1].hasPrefix("/") else {
            throw Refusal.status(400, "the first line is not a request line of HTTP/1.1")
        }
        var headers = HTTPHeaders()
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { throw Refusal.status(400, "a field has no colon") }
            headers.append(String(line[..<colon]), String(line[line.index(after: colon)...]).trimmingFieldWhitespace)
        }
        guard headers["Transfer-Encoding"] == nil else { throw Refusal.status(411, "send Content-Length") }
        let length = headers["Content-Length"].map { Int($0) ?? -1 } ?? 0
        guard (0...Self.maxBodySize).contains(length) else { throw Refusal.status(413, "the body is too large") }
        var body = Data(bytes[end.upperBound...])
        while body.count < length { body.append(try chunk()) }
        let parts = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return LoopbackServer.Request(
            method: String(words[0]), path: String(parts[0]), query: parts.count > 1 ? String(parts[1]) : "",
            headers: headers, body: body.prefix(length))
    }

    private func chunk() throws -> Data {
        try wait(for: Int16(POLLIN))
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        let count = recv(socket, &buffer, buffer.count, 0)
        guard count > 0 else { throw Refusal.gone }
        return Data(buffer[..<count])
    }

    private func wait(for events: Int16) throws {
        var wait = pollfd(fd: socket, events: events, revents: 0)
        guard poll(&wait, 1, Self.patience) > 0 else { throw Refusal.gone }
    }

    // MARK: Checking

    /// Refuses a request whose `Host` is not this server, or whose `Origin` is another one; elsewhere than on loopback, one with
    /// an `Origin`.
    private func check(_ request: LoopbackServer.Request) throws {
        // A request with two of the field is invalid (RFC 9112 §3.2).
        guard request.headers[values: "Host"].count <= 1 else {
            throw Refusal.status(400, "the field Host is repeated")
        }
        guard let ownHost else {
            if request.headers["Origin"] != nil {
                throw Refusal.status(403, "pages of a browser may not ask this server")
            }
            return
        }
        let hosts = ["127.0.0.1", "localhost", "[::1]", ownHost]
        let names = hosts.map { "\($0):\(port)" } + (port == 80 ? hosts : [])
        guard let host = request.headers["Host"]?.lowercased(), names.contains(host) else {
            throw Refusal.status(403, "the field Host names another server; use http://\(ownHost):\(port)/")
        }
        if let origin = request.headers["Origin"]?.lowercased(), !names.contains(where: { "http://\($0)" == origin }) {
            throw Refusal.status(403, "pages of another origin may not ask this server")
        }
    }

    // MARK: Writing

    private func write(_ response: LoopbackServer.Response, isHead: Bool) -> Bool {
        var head = "HTTP/1.1 \(response.status) \(response.status == 200 ? "OK" : "Status")\r\n"
        for (name, value) in response.headers { head += "\(name): \(value)\r\n" }
        head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
        switch response.body {
        case .data(let data):
            head += "Content-Length: \(data.count)\r\n\r\n"
            return send(Data(head.utf8) + (isHead ? Data() : data))
        case .stream(let stream):
            guard send(Data((head + "\r\n").utf8)) else { return false }
            let chunks = Chunks(stream)
            while !isHead, let chunk = Self.wait({ await chunks.next() }) ?? nil {
                guard send(chunk) else { return false }
            }
            return true
        }
    }

    private func send(_ data: Data) -> Bool {
        var rest = data[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else {
                guard count < 0, errno == EAGAIN || errno == EINTR, (try? wait(for: Int16(POLLOUT))) != nil else {
                    return false
                }
            }
        }
        return true
    }

    // MARK: Waiting

    private final class Box<Value: Sendable>: Sendable {
        let value = Mutex<Value?>(nil)
    }

    /// The iterator of a stream, which only the thread of the connection asks for the next element.
    private final class Chunks: @unchecked Sendable {
        // Sendable: one call of `next()` at a time.
        private var iterator: AsyncStream<Data>.Iterator

        init(_ stream: AsyncStream<Data>) { iterator = stream.makeAsyncIterator() }

        func next() async -> Data? { await iterator.next() }
    }

    /// Runs asynchronous work and blocks this thread, which is the server's own, until it is done.
    private static func wait<Value: Sendable>(_ work: @escaping @Sendable () async -> Value) -> Value? {
        let box = Box<Value>()
        let done = DispatchSemaphore(value: 0)
        Task {
            let value = await work()
            box.value.withLock { $0 = value }
            done.signal()
        }
        done.wait()
        return box.value.withLock { $0 }
    }
}

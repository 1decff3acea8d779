import Dispatch
import Glibc

/// A server for one connection that sends each byte of a chunked request body back as soon as it arrives, as the body of its
/// response. When nobody reads the response, it reads no more of the request either.
final class EchoServer: Sendable {
    let port: Int
    private let listener: Int32

    var baseURL: String { "http://127.0.0.1:\(port)" }

    init() {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(listener, $0, size)
                _ = listen(listener, 1)
                _ = getsockname(listener, $0, &size)
            }
        }
        self.listener = listener
        port = Int(in_port_t(bigEndian: address.sin_port))
        DispatchQueue(label: "echo").async { Self.serve(accept(listener, nil, nil)) }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private static func serve(_ connection: Int32) {
        defer { close(connection) }
        func send(_ bytes: ArraySlice<UInt8>) -> Bool {
            var rest = bytes
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var head: [UInt8]? = []
        var last: ArraySlice<UInt8> = []
        while true {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            var bytes = buffer[..<count]
            if let begun = head {
                let all = begun + bytes
                guard let end = all.firstRange(of: Array("\r\n\r\n".utf8)) else {
                    head = all
                    continue
                }
                head = nil
                bytes = all[end.upperBound...]
                guard send(ArraySlice("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8)) else { return }
            }
            guard send(bytes) else { return }
            last = (last + bytes).suffix(7)
            // The last chunk. The bytes of the tests have no zero digits.
            if last.elementsEqual("\r\n0\r\n\r\n".utf8) { return }
        }
    }
}

import FoundationEssentials
import Glibc

@testable import LATTesting

/// A blocking client of raw bytes, with which tests see what is on the wire.
final class RawClient {
    enum Ending: Equatable {
        case closed
        case reset
        case timedOut
    }

    struct Failure: Error {
        let text: String
        var code: Int32 = 0
    }

    struct Response {
        var head = ""
        var body = Data()
        var status: Int { Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0 }
        var text: String { String(decoding: body, as: UTF8.self) }

        subscript(name: String) -> String? {
            for line in head.split(separator: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                    return parts[1].drop { $0 == " " }.description
                }
            }
            return nil
        }
    }

    let descriptor: Int32
    private var received: [UInt8] = []

    init(port: Int, receiveBuffer: Int32? = nil, timeoutSeconds: Int = 20) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        if let receiveBuffer { Socket.set(descriptor, SOL_SOCKET, SO_RCVBUF, receiveBuffer) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        let code = errno
        setTimeout(seconds: timeoutSeconds)
        if result != 0 { throw Failure(text: "connect: \(String(cString: strerror(code)))") }
    }

    convenience init(_ server: MockServer, receiveBuffer: Int32? = nil) throws {
        try self.init(port: server.port, receiveBuffer: receiveBuffer)
    }

    init(unixSocketPath: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(unixSocketPath.utf8)) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        setTimeout(seconds: 20)
        if result != 0 { throw Failure(text: "connect") }
    }

    deinit { Glibc.close(descriptor) }

    private func setTimeout(seconds: Int) {
        var time = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    }

    // MARK: Sending

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw Failure(text: "send") }
            rest = rest.dropFirst(count)
        }
    }

    /// Sends what the system takes without waiting. Returns how many bytes that was.
    func sendWithoutWaiting(_ bytes: [UInt8]) -> Int {
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        return max(0, bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, flags) })
    }

    func get(_ path: String, headers: String = "") throws {
        try send("GET \(path) HTTP/1.1\r\nHost: test\r\n\(headers)\r\n")
    }

    func shutdownSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    // MARK: Receiving

    private func receiveMore() throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count < 0 { throw Failure(text: "receive", code: errno) }
        received += buffer[..<count]
        return count > 0
    }

    /// Reads this many bytes.
    func read(_ count: Int) throws -> [UInt8] {
        while received.count < count {
            guard try receiveMore() else { throw Failure(text: "the end after \(received.count) of \(count) bytes") }
        }
        let bytes = Array(received[..<count])
        received.removeFirst(count)
        return bytes
    }

    /// Reads up to the end of a text.
    func read(through end: String) throws -> String {
        let bytes = Array(end.utf8)
        var searched = 0
        while true {
            if let range = received[searched...].firstRange(of: bytes) {
                return String(decoding: try read(range.upperBound), as: UTF8.self)
            }
            searched = max(0, received.count - bytes.count)
            guard try receiveMore() else { throw Failure(text: "the end before \(end.debugDescription)") }
        }
    }

    /// Reads everything to the end of the connection, and returns how it ended.
    func readToEnd() -> (text: String, ending: Ending) {
        let (bytes, ending) = readBytesToEnd()
        return (String(decoding: bytes, as: UTF8.self), ending)
    }

    func readBytesToEnd() -> (bytes: [UInt8], ending: Ending) {
        var ending = Ending.closed
        do {
            while try receiveMore() {}
        } catch {
            ending = (error as? Failure)?.code == ECONNRESET ? .reset : .timedOut
        }
        defer { received = [] }
        return (received, ending)
    }

    /// Compares this many bytes with the pattern, in constant memory. Returns the offset of the first wrong byte.
    func checkPattern(byteCount: Int64) throws -> Int64? {
        var offset: Int64 = 0
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        let early = received
        received = []
        if let mismatch = MockPattern.firstMismatch(in: early, at: 0) { return mismatch }
        offset += Int64(early.count)
        while offset < byteCount {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw Failure(text: "the end after \(offset)") }
            if let mismatch = MockPattern.firstMismatch(in: buffer[..<count], at: offset) { return mismatch }
            offset += Int64(count)
        }
        return nil
    }

    /// Reads one response as an HTTP/1.1 client does.
    func response(toHead: Bool = false) throws -> Response {
        var response = Response()
        response.head = try read(through: "\r\n\r\n")
        if toHead || [204, 304].contains(response.status) || (100..<200).contains(response.status) { return response }
        if response["Transfer-Encoding"] == "chunked" {
            while true {
                let line = try read(through: "\r\n")
                let size = Int(line.dropLast(1), radix: 16) ?? 0
                if size == 0 { break }
                response.body += try read(size)
                _ = try read(2)
            }
            while try read(through: "\r\n") != "\r\n" {}
        } else if let length = response["Content-Length"].flatMap(Int.init) {
            response.body = Data(try read(length))
        } else {
            while try receiveMore() {}
            response.body = Data(received)
            received = []
        }
        return response
    }

    func getResponse(_ path: String, headers: String = "") throws -> Response {
        try get(path, headers: headers)
        return try response()
    }
}

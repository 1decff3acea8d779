import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// A server with one resource and correct ranges (RFC 9110 §14), whose replies a test may falsify.
final class RangeServer: Sendable {
    struct Content: Sendable {
        var data: Data
        var headers: HTTPHeaders = ["ETag": "\"v1\""]
    }

    /// Returns the reply to send, given the request, its number and the correct reply.
    typealias Falsification = @Sendable (_ request: RecordedRequest, _ number: Int, _ honest: MockReply) -> MockReply

    let mock: MockServer
    private let content: Mutex<Content>
    private let count = Mutex(0)

    init(_ data: Data, headers: HTTPHeaders = ["ETag": "\"v1\""], falsify: @escaping Falsification = { $2 }) throws {
        mock = try MockServer()
        content = Mutex(Content(data: data, headers: headers))
        mock.fallback { [weak self] request in
            guard let self else { return .status(500) }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return falsify(request, number, Self.honest(request, content.withLock { $0 }))
        }
    }

    var url: String { mock.url("/files/big.bin") }

    /// Replaces the content with another version.
    func change(to data: Data, headers: HTTPHeaders) {
        content.withLock { $0 = Content(data: data, headers: headers) }
    }

    /// Returns the reply of a conforming server.
    static func honest(_ request: RecordedRequest, _ content: Content) -> MockReply {
        var reply = MockReply(headers: content.headers, body: .bytes(content.data))
        reply.headers["Accept-Ranges"] = "bytes"
        guard let field = request.headers["Range"], field.hasPrefix("bytes=") else { return reply }
        if let condition = request.headers["If-Range"], condition != content.headers["ETag"],
            condition != content.headers["Last-Modified"]
        {
            return reply
        }
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        let total = content.data.count
        let first = Int(ends[0]) ?? 0
        let last = min(Int(ends[1]) ?? .max, total - 1)
        guard first <= last else {
            return MockReply(status: 416, headers: ["Content-Range": "bytes */\(total)"])
        }
        reply.status = 206
        reply.headers["Content-Range"] = "bytes \(first)-\(last)/\(total)"
        reply.body = .bytes(content.data[first...last])
        return reply
    }

    /// The `Range` fields of the requests, in order, with `-` for none.
    var ranges: [String] { mock.requests.map { $0.headers["Range"] ?? "-" } }
}

/// Returns bytes that depend on their offset, so that misplaced bytes are detected, and on the version's seed.
func content(_ count: Int, seed: Int64 = 0) -> Data {
    MockPattern.bytes(in: (seed * 1_000)..<(seed * 1_000 + Int64(count)))
}

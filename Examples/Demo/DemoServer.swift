import FoundationEssentials
import LATNetworking
import LATTesting

/// The routes of the demo's server.
package enum DemoServer {
    /// The size of the download in bytes.
    static let downloadSize: Int64 = 6 << 20
    /// Where the first download stops.
    static let downloadStop: Int64 = 4 << 20
    /// The size of the uploaded file in bytes: more than the system buffers at once.
    static let uploadSize: Int64 = 16 << 20

    /// - Parameter slowsTransfers: whether transfers are slowed to about 1.5 s, so that their progress can be seen.
    package static func setUp(_ server: MockServer, slowsTransfers: Bool) {
        // The last route that matches is taken, so this first one answers only where no other matches. Its answer shows
        // what was sent.
        server.echo(path: "/")
        server.route("POST", "/orders") { request in
            let order = try JSONValue(parsing: request.body)
            let reply: JSONValue = ["id": 7, "item": order["item"] ?? nil, "count": order["count"] ?? nil]
            return try .json(encoding: reply, status: 201)
        }
        server.route("*", "/photos") { request in
            .json(#"{"received": \#(request.bodyByteCount)}"#, status: 201)
        }
        server.route("GET", "/film") { request in
            // A request without a range is the first download, which the server does not finish.
            let reply = file(request)
            let whole = request.headers["Range"] == nil ? reply.stalling(.afterBodyBytes(downloadStop)) : reply
            return slowsTransfers ? whole.throttled(bytesPerSecond: 4 << 20) : whole
        }
        server.route("GET", "/big.iso") { file($0) }
        server.route("GET", "/stall") { _ in .text("never sent").stalling(.beforeHead) }
        server.route("GET", "/prices") { _ in
            .events((1...10).map { .event(#"{"price": \#(100 + $0)}"#, type: "price", id: "\($0)") })
        }
        server.route("POST", "/chat") { _ in
            .events(.event(#"{"text": "Hello"}"#), .event("[DONE]"))
        }
        server.route("GET", "/chat") { _ in
            .webSocket([.text("Welcome. Each message is sent back.")]) { [.text($0.text)] }
        }
        server.route("GET", "/items/{id}") { request in
            .json(#"{"id": \#(request.pathParameters["id"] ?? "0")}"#)
        }
        server.route("*", "/v1/users/{id}") { request in
            let user: JSONValue = ["id": .string(request.pathParameters["id"] ?? ""), "name": "Ada"]
            return try .json(encoding: ["status": 10_000, "message": "ok", "datas": user] as JSONValue)
        }
        // The bodies are only counted, so they need not be recorded.
        server.bodyLimit = 65_536
        if slowsTransfers { server.bodyReadRate = 10 << 20 }
    }

    /// The file, or the range of it that is asked for (RFC 9110 §14.2).
    private static func file(_ request: RecordedRequest) -> MockReply {
        var reply = MockReply.pattern(byteCount: downloadSize)
        let field = request.headers["Range"] ?? ""
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
        let end = min(
            downloadSize, ends.count > 1 ? ends[1].map { min($0, downloadSize - 1) + 1 } ?? downloadSize : downloadSize)
        if field.hasPrefix("bytes="), let start = ends.first ?? nil, start < end, end - start < downloadSize {
            let range = start..<end
            let place = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(downloadSize)"
            reply = MockReply(
                status: 206, headers: ["Content-Range": place], body: .bytes(MockPattern.bytes(in: range)))
        }
        return reply.header("ETag", "\"1\"").header("Accept-Ranges", "bytes")
    }
}

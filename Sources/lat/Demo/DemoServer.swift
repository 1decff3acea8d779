import LATNetworking
import LATTesting

/// What the server of the demo answers.
enum DemoServer {
    /// The bytes of the download.
    static let downloadSize: Int64 = 6 << 20
    /// The bytes of the file that is uploaded from disk: more than the system takes into its buffers at once.
    static let uploadSize: Int64 = 16 << 20

    /// - Parameter isUnhurried: whether transfers take about a second and a half, for somebody who watches.
    static func setUp(_ server: MockServer, isUnhurried: Bool) {
        server.echo(path: "/search")
        server.echo(path: "/get")
        server.echo(path: "/v2/get")
        server.route("POST", "/orders") { request in
            let order = try JSONValue(parsing: request.body)
            let reply: JSONValue = ["id": 7, "item": order["item"] ?? nil, "count": order["count"] ?? nil]
            return try .json(encoding: reply, status: 201)
        }
        server.route("POST", "/photos") { request in
            .json(#"{"received": \#(request.bodyByteCount)}"#, status: 201)
        }
        server.route("GET", "/film") { _ in
            let reply = MockReply.pattern(byteCount: downloadSize)
            return isUnhurried ? reply.throttled(bytesPerSecond: 4 << 20) : reply
        }
        server.route("GET", "/stall") { _ in .text("never whole").stalling(.beforeHead) }
        server.route("GET", "/items/{id}") { request in
            .json(#"{"id": \#(request.pathParameters["id"] ?? "0")}"#)
        }
        // Only counted: what is uploaded need not be kept.
        server.bodyLimit = 65_536
        if isUnhurried { server.bodyReadRate = 10 << 20 }
    }
}

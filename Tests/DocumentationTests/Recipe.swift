import Foundation
import LATNetworking
import LATTesting
import Synchronization
import Testing

/// A sample of Documentation/Recipes.md.
struct Recipe: Sendable, CustomTestStringConvertible {
    /// The heading above.
    var title: String
    /// The line of the page.
    var line: Int
    /// Runs the sample with a manager, the address of a ``RecipeServer``, and a temporary folder.
    var run: @Sendable (_ central: CentralRequestManager, _ server: String, _ folder: String) async throws -> Void

    var testDescription: String { "\(title) (line \(line))" }
}

/// The server of the recipes.
///
/// | path | answer |
/// |---|---|
/// | `/get`, `/post`, `/put`, `/delete`, `/anything/…` | the request as JSON, in the form of httpbin |
/// | `/users`, `/users/{id}` | users: `id`, `name`, `age` |
/// | `/orders`, `/orders/{id}` | an order: `id`, `product`, `count`; 201 to a POST |
/// | `/private` | 401 without `Authorization: Bearer` and the token of `/login` |
/// | `/login` | `{"token": …}` |
/// | `/status/{code}` | that status |
/// | `/slow` | nothing, until the client leaves |
/// | `/flaky` | 503, then 200, in turn |
/// | `/redirect` | 302 to `/get` |
/// | `/credit` | 402 with a code |
/// | `/invoices/{id}` | an invoice |
/// | `/lists/orders` | orders, in two pages |
/// | `/graphql` | a user, if the question has variables |
/// | `/oauth/token`, `/oauth/device` | the token of `/login` |
/// | `/bulk` | the number of lines |
/// | `/chat` | two events, and `[DONE]` |
/// | `/page?number=N` | three numbers of a list of three pages, with the next one in `Link` |
/// | `/search` | to `QUERY`: the question, fresh for a minute |
/// | `/problem` | 403 with problem details |
/// | `/lines` | ten lines of JSON |
/// | `/events` | three server-sent events |
/// | `/big` | 1 MiB with an `ETag`, ranges and 304 |
/// | `/image.png` | a picture of one pixel |
/// | `/films` | resumable uploads |
/// | `/upload` | the number of received bytes, and their media type |
/// | `/cached` | a response that is fresh for a minute |
final class RecipeServer: Sendable {
    private static let token = "fresh"
    private static let tag = #""v1""#
    private static let big = Data((0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    private static let image = Data(
        base64Encoded:
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

    let server: MockServer
    private let flaky = Mutex(0)

    /// The address, without a slash at its end.
    var url: String { server.baseURL }

    init() throws {
        server = try MockServer()
        for path in ["/get", "/post", "/put", "/patch", "/delete", "/anything"] { server.echo(path: path) }
        addContent()
        addOutcomes()
        addFiles()
    }

    private func addContent() {
        server.route("GET", "/users") { _ in .json("[\(Self.user("1")), \(Self.user("2"))]") }
        server.route("GET", "/users/{id}") { .json(Self.user($0.pathParameters["id"] ?? "0")) }
        for method in ["PUT", "PATCH"] { server.route(method, "/users/{id}") { .json($0.text) } }
        for (path, status) in [("/orders", 201), ("/orders/{id}", 200)] {
            server.route("*", path) { request in
                let id = request.pathParameters["id"] ?? "1"
                return .json(#"{"id": \#(id), "product": "tea", "count": 2}"#, status: status)
            }
        }
        server.route("GET", "/lists/orders") { request in
            let reply = MockReply.json(#"[{"id": 1, "product": "tea", "count": 2, "total": "12.50", "state": "new"}]"#)
            return request.query("page") == "2" ? reply : reply.header("Link", "</lists/orders?page=2>; rel=next")
        }
        server.route("GET", "/invoices/{id}") { _ in .json(#"{"amount": "12.50", "state": "paid"}"#) }
        server.route("POST", "/graphql") { request in
            let question = try? JSONValue(parsing: request.body)
            return question?["variables"]["id"].int == 7
                ? .json(#"{"data": {"user": {"name": "Ada"}}}"#) : .json(#"{"errors": [{"message": "which?"}]}"#)
        }
        server.route("POST", "/bulk") { .json(#"{"received": \#($0.text.split(separator: "\n").count)}"#) }
        server.route("POST", "/chat") { _ in
            .chunked(
                [#"{"text": "Hel"}"#, #"{"text": "lo"}"#, "[DONE]"].map { Data("data: \($0)\n\n".utf8) },
                contentType: "text/event-stream")
        }
        server.route("GET", "/page") { request in
            let number = Int(request.query("number") ?? "1") ?? 1
            let reply = MockReply.json("[\(number * 3 - 2), \(number * 3 - 1), \(number * 3)]")
            return number < 3 ? reply.header("Link", "</page?number=\(number + 1)>; rel=\"next\"") : reply
        }
        server.route("POST", "/jobs") { _ in
            .json(#"{"state": "queued"}"#, status: 202).header("Location", "/jobs/1?left=2")
        }
        server.route("GET", "/jobs/1") { request in
            let left = request.query("left").flatMap { Int($0) } ?? 0
            return left > 0
                ? .json(#"{"state": "running"}"#, status: 202).header("Location", "/jobs/1?left=\(left - 1)")
                : .json(#"{"state": "done", "total": 42}"#)
        }
        server.route("QUERY", "/search") { .json($0.text).header("Cache-Control", "max-age=60") }
        server.route("GET", "/problem") { _ in
            .data(
                Data(#"{"type": "/problems/credit", "detail": "too little", "balance": 30}"#.utf8),
                contentType: "application/problem+json", status: 403)
        }
        server.route("GET", "/lines") { _ in .chunked((1...10).map { Data("{\"number\": \($0)}\n".utf8) }) }
        server.route("GET", "/events") { _ in
            let events = (1...3).map { Data("id: \($0)\ndata: {\"number\": \($0)}\n\n".utf8) }
            return .chunked(events, contentType: "text/event-stream")
        }
        server.route("GET", "/cached") { _ in
            .json(#"{"cached": true}"#).header("Cache-Control", "max-age=60").header("ETag", Self.tag)
        }
    }

    private func addOutcomes() {
        server.route("POST", "/credit") { _ in
            .json(#"{"error": {"code": "4711", "message": "too little", "missing": 30}}"#, status: 402)
        }
        server.route("POST", "/oauth/token") { _ in
            .json(#"{"access_token": "\#(Self.token)", "token_type": "Bearer", "expires_in": 3600}"#)
        }
        server.route("POST", "/oauth/device") { request in
            .json(#"{"device_code": "d", "user_code": "AB-CD", "verification_uri": "http://h/d", "interval": 1}"#)
        }
        server.route("*", "/login") { _ in .json(#"{"token": "\#(Self.token)"}"#) }
        server.route("*", "/private") { request in
            request.headers["Authorization"] == "Bearer \(Self.token)"
                ? .json(#"{"private": true}"#)
                : .text("sign in first", status: 401).header("WWW-Authenticate", "Bearer")
        }
        server.route("*", "/status/{code}") { request in
            let status = request.pathParameters["code"].flatMap { Int($0) } ?? 404
            return .text("status \(status)", status: status)
        }
        server.route("*", "/slow") { _ in .text("late").stalling(.start) }
        server.route("*", "/flaky") { [weak self] _ in
            let isRefused = self?.flaky.withLock { count in
                count += 1
                return !count.isMultiple(of: 2)
            }
            return isRefused == true ? .text("try again", status: 503) : .json(#"{"steady": true}"#)
        }
        server.route("*", "/redirect") { _ in .redirect(to: "/get") }
    }

    private func addFiles() {
        server.route("*", "/big") { request in
            let reply: MockReply
            let last = Self.big.count - 1
            let bounds = request.headers["Range"]?.dropFirst("bytes=".count).split(
                separator: "-", omittingEmptySubsequences: false)
            if request.headers["If-None-Match"] == Self.tag {
                reply = .status(304)
            } else if let bounds, let start = Int(bounds[0]), request.headers["If-Range"] ?? Self.tag == Self.tag {
                let end = min(Int(bounds[1]) ?? last, last)
                reply = .data(Self.big[start...end], contentType: "application/octet-stream", status: 206)
                    .header("Content-Range", "bytes \(start)-\(end)/\(last + 1)")
            } else {
                reply = .data(Self.big, contentType: "application/octet-stream")
            }
            return reply.header("ETag", Self.tag).header("Accept-Ranges", "bytes")
        }
        server.route("GET", "/image.png") { _ in .data(Self.image ?? Data(), contentType: "image/png") }
        server.resumableUploads(path: "/films")
        server.route("*", "/upload") { request in
            .json(#"{"bytes": \#(request.bodyByteCount), "type": "\#(request.headers["Content-Type"] ?? "")"}"#)
        }
    }

    private static func user(_ id: String) -> String { #"{"id": \#(id), "name": "Ada", "age": 36}"# }
}

internal import FoundationEssentials
internal import LATNetworking
internal import Synchronization

/// Serves the inspector's page, its stream of calls, bodies and texts to copy.
///
/// Everyone on the machine can read the page's own files. Everything else needs the token, or the cookie given for it.
package final class PageServer: Sendable {
    /// What the page shows.
    enum Source: Sendable {
        case calls(InspectedCalls)
        case file(name: String, content: Data)
    }

    private struct Hello: Encodable {
        var run: String
        var program: String
        var file: String?
    }

    typealias Response = LoopbackServer.Response

    private let source: Source
    private let hello: Hello
    private let resender: Resender?
    private let outboxes: InspectedOutboxes?
    private let token = Hexadecimal.random(byteCount: 32)
    private let session = Hexadecimal.random(byteCount: 32)
    /// The path of the cookie. Browsers send a cookie to all ports of a host, but only below its path.
    private let home = "/\(Hexadecimal.random(byteCount: 16))"
    private let server = Mutex<LoopbackServer?>(nil)

    /// The address of the page, with its token.
    package var address: String { "http://127.0.0.1:\(port)/#\(token)" }
    var port: Int { server.withLock { $0?.port ?? 0 } }

    /// - Parameters:
    ///   - program: The title of the page.
    ///   - resender: Sends requests again; `nil` for a page that only shows a file.
    ///   - outboxes: Outboxes of this process. Default: none.
    /// - Throws: ``NetworkError`` when the port is in use.
    init(
        _ source: Source, program: String, port: Int, resender: Resender? = nil, outboxes: InspectedOutboxes? = nil
    ) throws {
        self.source = source
        (self.resender, self.outboxes) = (resender, outboxes)
        var file: String?
        if case .file(let name, _) = source { file = name }
        hello = Hello(run: Hexadecimal.random(byteCount: 8), program: program, file: file)
        let made = try LoopbackServer(port: port) { [weak self] request in
            guard let self else { return Response(status: 410, "The inspector has ended.") }
            return Self.guarded(await answer(to: request))
        }
        server.withLock { $0 = made }
    }

    /// Stops the server and ends the streams of all pages.
    package func stop() {
        server.withLock { $0 }?.stop()
        if case .calls(let calls) = source { calls.wakeReaders() }
    }

    // MARK: Access

    private static func guarded(_ response: Response) -> Response {
        var response = response
        response.headers["Content-Security-Policy"] =
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; "
            + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
            + "trusted-types 'none'"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response
    }

    /// Whether the request comes from no page of another origin. The server has checked `Host` and `Origin`.
    private static func isOwn(_ request: LoopbackServer.Request) -> Bool {
        guard let site = request.headers["Sec-Fetch-Site"] else { return true }
        // A link from another site may open the page, but not the addresses with its data.
        return site == "same-origin" || site == "none"
            || request.path == "/" && request.headers["Sec-Fetch-Mode"] == "navigate"
    }

    private var cookieName: String { "lat-inspector-\(port)" }

    private func isAllowed(_ request: LoopbackServer.Request, atHome: Bool) -> Bool {
        if let key = request.headers["Authorization"], Self.isEqual(key, "Bearer \(token)") { return true }
        guard atHome else { return false }
        let cookies = (request.headers["Cookie"] ?? "").split(separator: ";")
        return cookies.contains { Self.isEqual(String($0.drop { $0 == " " }), "\(cookieName)=\(session)") }
    }

    /// Compares in a time that does not depend on where the texts differ.
    private static func isEqual(_ one: String, _ other: String) -> Bool {
        guard one.utf8.count == other.utf8.count else { return false }
        return zip(one.utf8, other.utf8).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    // MARK: Answers

    private func answer(to request: LoopbackServer.Request) async -> Response {
        var request = request
        let isAtHome = request.path.hasPrefix("\(home)/")
        if isAtHome { request.path.removeFirst(home.count) }
        guard Self.isOwn(request) else {
            return Response(status: 403, "Pages of other origins may not ask this server.")
        }
        let name = request.path == "/" ? "index.html" : String(request.path.dropFirst())
        if let content = pageFiles[name] {
            guard request.method == "GET" || request.method == "HEAD" else {
                return Response(status: 405, "This address takes GET.")
            }
            return Self.file(name, content)
        }
        if request.path == "/session" { return openSession(request) }
        guard isAllowed(request, atHome: isAtHome) else {
            return Response(
                status: 401, "The key is missing or no longer valid. Open the address that the program printed.")
        }
        switch (request.method, request.path) {
        case ("GET", "/hello"): return .json(hello)
        case ("POST", "/copy"): return CopyText.answer(request)
        case ("GET", "/outbox"): return await outboxes?.answer() ?? .json([String]())
        case ("POST", "/outbox"): return await outboxes?.change(request) ?? .unknown
        case ("GET", "/file"):
            guard case .file(_, let content) = source else { break }
            return Response("application/json", content)
        default: break
        }
        guard case .calls(let calls) = source else { return .unknown }
        switch (request.method, request.path) {
        case ("GET", "/stream"):
            let hello = (try? JSONEncoder().encode(hello)) ?? Data()
            let stream = CallStream(calls, first: Data("event: hello\ndata: ".utf8) + hello + Data("\n\n".utf8))
            return Response("text/event-stream", AsyncStream(unfolding: { await stream.next() }))
        case ("POST", "/har"): return await calls.apart { [request] in calls.har(request) }
        case ("GET", "/search"):
            let text = request.parameter("text") ?? ""
            return await calls.apart { Response.json(calls.ids(containing: text)) }
        case ("POST", "/resend"):
            guard let resender else { break }
            return await resender.answer(request)
        case ("GET", _) where request.path.hasPrefix("/calls/"): return calls.answer(request)
        default: break
        }
        return .unknown
    }

    private static let types = [
        "html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml",
    ]

    private static func file(_ name: String, _ content: [UInt8]) -> Response {
        let type = types[String(name.split(separator: ".").last ?? "")] ?? "application/octet-stream"
        return Response("\(type); charset=utf-8", Data(content))
    }

    private func openSession(_ request: LoopbackServer.Request) -> Response {
        guard request.method == "POST", Self.isEqual(String(decoding: request.body, as: UTF8.self), token) else {
            return Response(
                status: 401, "This is not the key of this page. Open the address that the program printed.")
        }
        var response = Response("text/plain", Data("\(home)/".utf8))
        response.headers["Set-Cookie"] = "\(cookieName)=\(session); Path=\(home)/; HttpOnly; SameSite=Strict"
        return response
    }
}

extension LoopbackServer.Response {
    static let unknown = LoopbackServer.Response(status: 404, "There is nothing at this address.")

    static func json(_ value: some Encodable) -> LoopbackServer.Response {
        LoopbackServer.Response("application/json", (try? JSONEncoder().encode(value)) ?? Data())
    }
}

/// The stream of one page. Each event has the newest state of the calls that changed since the event before it.
private final class CallStream: Sendable {
    private let calls: InspectedCalls
    private let reader: InspectedCalls.Reader
    private let first: Mutex<Data?>
    private let beat: Task<Void, Never>

    init(_ calls: InspectedCalls, first: Data) {
        self.calls = calls
        self.first = Mutex(first)
        let reader = calls.addReader()
        self.reader = reader
        // Writing a comment from time to time shows whether the page is still connected.
        beat = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(15))
                reader.wake()
            }
        }
    }

    deinit {
        beat.cancel()
        calls.remove(reader)
    }

    func next() async -> Data? {
        if let first = first.withLock({ $0.take() }) { return first }
        await reader.change()
        let ids = calls.changes(for: reader, limit: 250)
        let data = await calls.apart { [calls] () -> Data? in
            let lines = ids.compactMap { id in
                calls.record(id).map { WireCall($0.record, number: $0.number, program: calls.program(of: id)) }
            }
            return lines.isEmpty ? nil : try? JSONEncoder().encode(lines)
        }
        // Several changes of a call within a short time are sent as one.
        if ids.count < 250 { try? await Task.sleep(for: .milliseconds(50)) }
        guard let data else { return Data(":\n\n".utf8) }
        return Data("data: ".utf8) + data + Data("\n\n".utf8)
    }
}

/// The files of the page by name, which SwiftPM puts into the program.
let pageFiles: [String: [UInt8]] = [
    "body.js": PackageResources.body_js,
    "compare.js": PackageResources.compare_js,
    "detail.js": PackageResources.detail_js,
    "dom.js": PackageResources.dom_js,
    "filter.js": PackageResources.filter_js,
    "har.js": PackageResources.har_js,
    "icon.svg": PackageResources.icon_svg,
    "icons.js": PackageResources.icons_js,
    "index.html": PackageResources.index_html,
    "list.js": PackageResources.list_js,
    "main.js": PackageResources.main_js,
    "messages.js": PackageResources.messages_js,
    "outbox.js": PackageResources.outbox_js,
    "resend.js": PackageResources.resend_js,
    "store.js": PackageResources.store_js,
    "style.css": PackageResources.style_css,
    "theme.js": PackageResources.theme_js,
    "timing.js": PackageResources.timing_js,
    "totals.js": PackageResources.totals_js,
]

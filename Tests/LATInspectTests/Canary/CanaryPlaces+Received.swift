import FoundationEssentials
import LATRealtime
import LATTesting

@testable import LATClient
@testable import LATTransfers

// What the server sends.
extension CanaryPlace {
    private static func field(_ name: String, _ value: @escaping @Sendable (Canary) -> String) -> CanaryPlace {
        CanaryPlace("response \(name)") { .json("{}").header(name, value($1)) }
    }

    private static func body(_ name: String, type: String, _ body: @escaping @Sendable (Canary) -> Data) -> CanaryPlace
    {
        CanaryPlace(name) { .data(body($1), contentType: type) }
    }

    private static let streamed: Send = { central, server, _ in
        for try await _ in try await central.stream("GET", server.url("/x")).body {}
        return nil
    }

    static let answers: [CanaryPlace] = [
        CanaryPlace("Location") { .redirect(to: "/next?code=\($1.escaped)") },
        CanaryPlace("URL in Location") {
            .redirect(to: "/next?to=\("https://u:\($1.escaped)@h/?token=\($1.escaped)".percentEncodedComponent)")
        },
        CanaryPlace("Location with a fragment") { .redirect(to: "/next#access_token=\($1.escaped)") },
        CanaryPlace("Location that is not followed") {
            .redirect(to: "https://u:\($1.escaped)@h/next?token=\($1.escaped)", status: 305)
        },
        field("Content-Location") { "/x?token=\($0.escaped)" }, field("Link") { "</x?token=\($0.escaped)>; rel=next" },
        field("Refresh") { "0; url=https://u:\($0.escaped)@h/?sig=\($0.escaped)" },
        field("Set-Cookie") { "sid=\($0.text); Path=/; HttpOnly" }.with { $0.isPlain = true },
        field("set-cookie") { "sid=\($0.text)" }.with { $0.isPlain = true },
        field("X-Auth-Token") { $0.text }, field("X-JSON") { #"{"token":\#($0.json)}"# },
        body("answer in JSON", type: "application/json") {
            Data(
                #"{"access_token":\#($0.json),"refresh_token":\#(Canary(text: $0.text + "2", testDescription: "").json)}"#
                    .utf8)
        },
        body("answer in JSON lines", type: "application/x-ndjson") {
            Data("{\"token\":\($0.json)}\n{\"token\":\($0.json)}\n".utf8)
        },
        body("answer as a form", type: "text/plain") { Data("oauth_x=1&access_token=\($0.escaped)".utf8) },
        body("page with a URL", type: "text/html") {
            Data("<a href='https://h/?a=1&amp;token=\($0.escaped)'>x</a>".utf8)
        },
        body("answer in UTF-16", type: "application/json") {
            Data([0xFF, 0xFE]) + utf16(#"{"token":\#($0.json)}"#)
        },
        body("answer that is not UTF-8", type: "application/json") {
            Data([0x22, 0xFF, 0x22]) + Data(#"{"token":\#($0.json)}"#.utf8)
        },
        body("answer with a NUL", type: "application/json") { Data([0]) + Data(#"{"token":\#($0.json)}"#.utf8) },
        body("binary answer", type: "application/octet-stream") {
            Data([0, 255]) + Data("token=\($0.escaped)\u{0}".utf8)
        },
        body("long answer", type: "application/json") {
            Data(#"{"a":"\#(String(repeating: "x", count: 4_080))","token":\#($0.json)}"#.utf8)
        },
        CanaryPlace(
            "compressed answer",
            send: {
                var request = HTTPRequest("GET", $1.url("/x?\($2.text.count)"))
                request.decompresses = false
                return try await $0.send(request)
            }
        ).with {
            $0.isPlain = true
            $0.answer = { _, _ in
                .data(Canary.gzip, contentType: "application/json").header("Content-Encoding", "gzip")
            }
            $0.exceptions = ["cassette": "what is compressed"]
        },
        CanaryPlace("decompressed answer") { _, _ in
            .data(Canary.gzip, contentType: "application/json").header("Content-Encoding", "gzip")
        }.with { $0.isPlain = true },
        CanaryPlace("answer of a failure") { .json(#"{"token":\#($1.json)}"#, status: 500) },
        CanaryPlace(
            "answer of OAuth",
            send: { central, server, _ in
                let token =
                    try await central.startRequest("POST", server.url("/token")).json()["access_token"].string ?? ""
                return try await central.startRequest(
                    "GET", server.url("/me"), headers: ["Authorization": "Bearer \(token)"])
            }
        ).with { $0.answer = { .json(#"{"access_token":\#($1.json),"token_type":"bearer"}"#) } },
        CanaryPlace("trailer") {
            .json("{}").inChunks(of: 1).withTrailers(
                ["X-Auth-Token": $1.text, "X-Link": "https://u:\($1.escaped)@h/?token=\($1.escaped)"])
        },
        CanaryPlace("stream", send: streamed).with { $0.answer = { .json(#"{"token":\#($1.json)}"#).inChunks(of: 3) } },
        CanaryPlace(
            "JSON of an event",
            send: { central, server, _ in
                for try await event in central.events("GET", server.url("/x")) where event.data == "end" { break }
                return nil
            }
        ).with { $0.answer = { .events(.event(#"{"token":\#($1.json)}"#, type: "note", id: "1"), .event("end")) } },
        CanaryPlace("events read at once", answer: { .events(.event(#"{"a":{"token":\#($1.json)}}"#), .event("end")) }),
        CanaryPlace(
            "messages of a socket",
            send: { central, server, canary in
                let socket = try await central.webSocket(server.url("/x?token=\(canary.escaped)"))
                try await socket.send(#"{"token":\#(canary.json)}"#)
                try await socket.send(Data([255, 0]) + Data(#"{"token":\#(canary.json)}"#.utf8))
                for try await _ in socket.messages {}
                return nil
            }
        ).with {
            $0.answer = {
                .webSocket(
                    .receive(2), .text(#"{"token":\#($1.json)}"#), .data(Data([255]) + Data($1.text.utf8)),
                    .close(4001, "no \($1.text.prefix(60))"))
            }
        },
        CanaryPlace(
            "model that cannot be decoded",
            send: {
                try await $0.startRequest("GET", $1.url("/x?\($2.text.count)")).decode([String: Int].self).isEmpty
                    ? nil : nil
            }
        ).with { $0.answer = { .json(#"{"token":\#($1.json)}"#) } },
    ]

    /// An answer that repeats what the client has sent.
    private static func echo(
        _ name: String, headers: @escaping @Sendable (Canary) -> HTTPHeaders = { ["X-Api-Key": $0.text] },
        _ reply: @escaping @Sendable (Canary) -> MockReply
    ) -> CanaryPlace {
        CanaryPlace("echo \(name)", send: { try await $0.startRequest("GET", $1.url("/x"), headers: headers($2)) })
            .with {
                $0.answer = { reply($1) }
                $0.exceptions = [
                    "in a field": "HTTPResponse", "in a path": "HTTPResponse", "in a reason": "NetworkError",
                ].filter { $0.key == name }.reduce(into: [:]) { $0[$1.value] = Self.descriptions }
            }
    }

    /// The same, of something else than a header.
    private static func echo(of name: String, send: @escaping Send) -> CanaryPlace {
        CanaryPlace("echo of \(name)", send: send).with {
            $0.answer = {
                .text("you sent \($1.text), \($1.json), \($1.escaped)").header("X-Echo", $1.text)
            }
            $0.exceptions = ["HTTPResponse": descriptions]
        }
    }

    private static let descriptions = "They know no values: a server's echo of a secret in another field is shown"

    static let echoes: [CanaryPlace] = [
        echo("in a body") { .text("you sent \($0.text)!") },
        echo("in JSON") { .json(#"{"echo":"<\#($0.json.dropFirst())}"#) },
        echo("percent-encoded") { .text("you sent \($0.escaped)") },
        echo("in a field") { .json("{}").header("X-Echo", "got \($0.text)") },
        echo("in a path") { .redirect(to: "/\($0.escaped)/next") },
        echo("in a reason") { MockReply(status: 400, reason: "no \($0.text.replacing("é", with: "e"))") },
        echo("in the body of a failure") { .text("no \($0.text)", status: 500) },
        echo("in a trailer") { .text("x").inChunks(of: 1).withTrailers(["X-Echo": $0.text]) },
        echo("in a stream") { .text("you sent \($0.text)").inChunks(of: 4) }.with {
            $0.send = { central, server, canary in
                let response = try await central.stream("GET", server.url("/x"), headers: ["X-Api-Key": canary.text])
                for try await _ in response.body {}
                return nil
            }
        },
        echo("of Basic", headers: { ["Authorization": "Basic \($0.basic)"] }) { .text("\($0.text) \($0.basic)") },
        echo("of a cookie", headers: { ["Cookie": "a=b; s=\($0.text)"] }) { .text($0.text) }.with { $0.isPlain = true },
        echo(of: "bearer") {
            var request = HTTPRequest("GET", $1.url("/x"))
            request.authentication = .bearer(token: $2.text)
            return try await $0.send(request)
        },
        echo(of: "basic") {
            var request = HTTPRequest("GET", $1.url("/x"))
            request.authentication = .basic(user: "user", password: $2.text)
            return try await $0.send(request)
        },
        echo(of: "the user of a URL") {
            try await $0.startRequest("GET", $1.url("/x").replacing("://", with: "://user:\($2.escaped)@"))
        },
        echo(of: "a cookie of the jar") { central, server, canary in
            try await central.cookies?.set(Cookie("s", canary.text, domain: "127.0.0.1"))
            return try await central.startRequest("GET", server.url("/x"))
        }.with {
            $0.isPlain = true
            $0.change = { configuration, _, _ in configuration.cookies = .memory }
            $0.answer = { request, _ in .text("you sent \(request.headers["Cookie"] ?? "nothing")") }
            $0.exceptions = [:]
        },
        echo(of: "a cookie of the server") { central, server, canary in
            _ = try await central.startRequest("GET", server.url("/x"))
            return try await central.startRequest("GET", server.url("/y"))
        }.with {
            $0.isPlain = true
            $0.change = { configuration, server, canary in
                configuration.cookies = .memory
                server.route("GET", "/y") { _ in .text(canary.text) }
            }
            $0.answer = { .json("{}").header("Set-Cookie", "s=\($1.text); Path=/") }
            $0.exceptions = [:]
        },
        echo(of: "a parameter") { try await $0.startRequest("GET", $1.url("/x?token=\($2.escaped)")) },
        echo(of: "a form") {
            try await $0.startRequest(
                "POST", $1.url(), parameters: ["password": $2.text], body: .form)
        },
        echo(of: "JSON") {
            try await $0.startRequest("POST", $1.url(), body: .json(["password": JSONValue.string($2.text)]))
        },
        echo(of: "a part") {
            try await $0.startRequest("POST", $1.url(), files: [UploadFile(name: "password", value: $2.text)])
        },
        echo(of: "an answer's token") { central, server, canary in
            // In one call, of which the first attempt is answered with the token.
            try await central.startRequest("GET", server.url("/x"))
        }.with {
            $0.change = { configuration, server, canary in
                configuration.retries = 1
                configuration.retryPolicy.firstWait = .zero
                server.enqueue(.json(#"{"access_token":\#(canary.json)}"#, status: 503))
            }
        },
    ]

    static let others: [CanaryPlace] = [
        CanaryPlace("text of an error") {
            try await $0.startRequest(
                "GET", $1.url("/?password=\($2.escaped)"),
                headers: ["X-Fail": "the app threw https://u:\($2.escaped)@h/ with token=\($2.escaped)"])
        },
        CanaryPlace(
            "message of an envelope",
            send: { central, _, canary in
                let entity = Fetch().header("X-Api-Key", canary.text)
                _ = try await entity.startRequest(on: central)
                return nil
            }
        ).with {
            $0.change = { configuration, server, _ in
                configuration.domains = try DomainTable(
                    json5: """
                        { domains: { d: { baseURL: "\(server.url())",
                          envelope: { code: "code", message: "text", success: [0] } } } }
                        """)
            }
            $0.answer = { .json(#"{"code": 7, "text": \#(Canary(text: "no \($1.text)", testDescription: "").json)}"#) }
            $0.exceptions = ["NetworkError": "the message of an envelope"]
        },
        CanaryPlace("password of a proxy") {
            var request = HTTPRequest("GET", $1.url("/x"))
            request.proxy = .url("http://user:\($2.escaped)@127.0.0.1:\(try ClosedPort().port)")
            return try await $0.send(request)
        },
        CanaryPlace("echo of a proxy").with {
            $0.change = {
                $0.proxy = .url($1.url().replacing("://", with: "://user:\($2.escaped)@"))
            }
            $0.send = { central, _, _ in try await central.startRequest("GET", "http://example.invalid/x") }
            $0.answer = { .text("no \($1.text) \($1.basic)", status: 407) }
        },
        CanaryPlace("password of a certificate") {
            var request = HTTPRequest("GET", $1.url("/x").replacing("http:", with: "https:"))
            request.tls = HTTPRequest.TLS(clientCertificate: .pkcs12(path: "/missing.p12", password: $2.text))
            return try await $0.send(request)
        },
        CanaryPlace("URL that is not valid") {
            try await $0.startRequest("GET", "http://u:\($2.escaped)@127.0.0.1:99999/?token=\($2.escaped)")
        },
        CanaryPlace("server that is not there") {
            try await $0.startRequest(
                "GET", "http://u:\($2.escaped)@127.0.0.1:\(try ClosedPort().port)/?token=\($2.escaped)#\($2.escaped)")
        },
        CanaryPlace("field that is not valid") {
            try await $0.startRequest("GET", $1.url("/x"), headers: ["Authorization": "Bearer \($2.text)\r\nX: y"])
        },
    ]
}

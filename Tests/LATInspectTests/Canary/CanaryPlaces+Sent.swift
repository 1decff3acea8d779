import FoundationEssentials
import LATTesting

@testable import LATClient
@testable import LATTransfers

// What the client sends.
extension CanaryPlace {
    private static func header(_ name: String, _ value: @escaping @Sendable (Canary) -> String) -> CanaryPlace {
        CanaryPlace("header \(name)") {
            try await $0.startRequest("GET", $1.url("/x"), headers: [name: value($2)])
        }
    }

    private static func provided(
        _ name: String, _ change: @escaping @Sendable (inout HTTPRequest, Canary) -> Void
    ) -> CanaryPlace {
        CanaryPlace(name) {
            var request = HTTPRequest("GET", $1.url("/x"))
            change(&request, $2)
            return try await $0.send(request)
        }
    }

    private struct Session: Authenticator {
        let token: String

        func apply(to request: inout HTTPRequest) async throws { request.headers["X-Session"] = token }
        func refresh() async throws {}
    }

    private struct Stamp: RequestSigner {
        let text: String

        func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders { ["X-Stamp": text] }
    }

    struct Fetch: RequestEntity {
        typealias Model = JSONValue

        static let route = Route("GET", domain: "d", path: "row")
    }

    static let headers: [CanaryPlace] = [
        header("Authorization") { "Bearer \($0.text)" }, header("AUTHORIZATION") { "Basic \($0.basic)" },
        header("authorization") { #"Digest username="u", response="\#($0.text)""# }.with { $0.isPlain = true },
        header("Proxy-Authorization") { "Bearer \($0.text)" },
        header("Cookie") { "a=b; session=\($0.text)" }.with { $0.isPlain = true },
        header("X-API-Key") { $0.text }, header("x-auth-token") { $0.text }, header("X-Goog-Api-Key") { $0.text },
        header("X-Amz-Security-Token") { $0.text }, header("x-vault-token") { $0.text },
        header("PRIVATE-TOKEN") { $0.text },
        header("Job-Token") { $0.text }, header("X-Auth-Key") { $0.text }, header("X-Functions-Key") { $0.text },
        header("X-RapidAPI-Key") { $0.text }, header("X-Shopify-Access-Token") { $0.text },
        header("X-XSRF-TOKEN") { $0.text }, header("Ocp-Apim-Subscription-Key") { $0.text },
        header("Referer") { "https://example.org/?token=\($0.escaped)" },
        header("Link") { "<https://example.org/?access_token=\($0.escaped)>; rel=next, <//u:\($0.escaped)@h/>; rel=a" },
        header("X-Link") { "see https://u:\($0.escaped)@example.org/" },
        header("X-Next") { "https%3A%2F%2Fh%2Fcb%3Fa%3D1%26token%3D\($0.escaped.percentEncodedComponent)" },
        header("X-Form") { "a=1&client_secret=\($0.escaped)" }, header("X-JSON") { #"{"a":{"token":\#($0.json)}}"# },
        provided("bearer") { $0.authentication = .bearer(token: $1.text) },
        provided("basic") { $0.authentication = .basic(user: "user", password: $1.text) },
        provided("digest") { $0.authentication = .digest(user: "user", password: $1.text) },
        provided("any scheme") { $0.authentication = .any(user: "user", password: $1.text) },
        CanaryPlace("header provider").with {
            $0.change = { configuration, _, canary in configuration.headerProvider = { _ in ["X-Api-Key": canary.text] }
            }
        },
        CanaryPlace("authenticator").with {
            $0.change = { $0.authenticator = Session(token: $2.text) }
        },
        CanaryPlace("field of a signer").with { $0.change = { $0.signer = Stamp(text: $2.text) } },
        CanaryPlace("secret and tokens of OAuth2").with {
            $0.change = { configuration, server, canary in
                server.route("POST", "/token") { _ in
                    let token = String(decoding: try JSONValue.string(canary.text).data(), as: UTF8.self)
                    return .json(#"{"access_token":\#(token),"refresh_token":\#(token)}"#)
                }
                configuration.authenticator = try OAuth2(
                    .init(
                        tokenURL: server.url("/token"), clientID: "c", secret: .value(canary.text),
                        clientAuthentication: .post))
            }
        },
        CanaryPlace("header of the manager's list").with {
            $0.change = { configuration, _, canary in
                configuration.secrets.insert(header: "X-Mine")
                configuration.headers = ["X-Mine": canary.text]
            }
        },
        CanaryPlace(
            "header of a row's list",
            send: { central, _, _ in
                _ = try await Fetch().startRequest(on: central)
                return nil
            }
        ).with {
            $0.change = {
                $0.headers = ["X-Row": $2.text]
                $0.domains = try DomainTable(
                    json5: #"{ domains: { d: { baseURL: "\#($1.url())", secretHeaders: ["X-Row"] } } }"#)
            }
        },
    ]

    private static func get(_ name: String, _ path: @escaping @Sendable (Canary) -> String) -> CanaryPlace {
        CanaryPlace(name) { try await $0.startRequest("GET", $1.url(path($2))) }
    }

    private static func user(_ name: String, _ user: @escaping @Sendable (Canary) -> String) -> CanaryPlace {
        CanaryPlace(name) {
            try await $0.startRequest("GET", $1.url("/x").replacing("://", with: "://\(user($2))@"))
        }
    }

    static let urls: [CanaryPlace] = [
        get("query") { "/?access_token=\($0.escaped)&a=1" },
        get("nested query") { "/?user%5Bpassword%5D=\($0.escaped)" },
        get("escaped name") { "/?%2561ccess_token=\($0.escaped)" },
        get("code of OAuth") { "/?code=\($0.escaped)&state=1" },
        get("URL in a query") { "/?next=\("https://u:\($0.escaped)@h/?token=\($0.escaped)".percentEncodedComponent)" },
        get("path in a query") { "/?next=/cb?token=\($0.escaped)" },
        get("URL in a URL in a query") {
            let inner = "https://h/?token=\($0.escaped)".percentEncodedComponent
            return "/?next=\("https://h/?to=\(inner)".percentEncodedComponent)"
        },
        get("JSON in a query") { "/?filter=\(#"{"token":\#($0.json)}"#.percentEncodedComponent)" },
        get("form in a query") { "/?state=\("a=1&token=\($0.escaped)".percentEncodedComponent)" },
        get("URL in a path") { "/go/\("https://h/?token=\($0.escaped)".percentEncodedComponent)/x" },
        get("fragment") { "/#access_token=\($0.escaped)" },
        get("signed URL") {
            "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Security-Token=\($0.escaped)&X-Amz-Signature=\($0.escaped)"
        },
        get("query with a semicolon") { "/?a=1;token=\($0.escaped);b=2" },
        user("password of the URL") { "name:\($0.escaped)" }, user("user of the URL") { $0.escaped },
        CanaryPlace("parameters") {
            try await $0.startRequest("GET", $1.url(), parameters: ["api_key": $2.text, "a": 1])
        },
        CanaryPlace("URL in a parameter") {
            try await $0.startRequest(
                "GET", $1.url(), parameters: ["next": "https://u:\($2.escaped)@h/?sig=\($2.escaped)"])
        },
        CanaryPlace("nested parameters") {
            try await $0.startRequest("GET", $1.url(), parameters: ["user": ["password": $2.text]])
        },
    ]

    private static func post(_ name: String, _ body: @escaping @Sendable (Canary) throws -> HTTPBody) -> CanaryPlace {
        CanaryPlace(name) { try await $0.startRequest("POST", $1.url("/x"), body: try body($2)) }
    }

    private static func post(
        _ name: String, type: String?, _ body: @escaping @Sendable (Canary) -> Data
    ) -> CanaryPlace { post(name) { .data(body($0), contentType: type) } }

    static func utf16(_ text: String) -> Data { Data(text.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }) }

    static let bodies: [CanaryPlace] = [
        post("JSON value") { .json(["user": ["passWord": JSONValue.string($0.text)]]) },
        post("JSON bytes", type: "application/json") { Data(#"[{"a":1},{"id_token" : \#($0.json)}]"#.utf8) },
        post("JSON with a charset", type: "application/json; charset=ISO-8859-1") { canary in
            Data(#"{"n":"é","token":\#(canary.json)}"#.unicodeScalars.map { UInt8($0.value) })
        },
        post("JSON without a type", type: nil) { Data(#"{"secret":["x",\#($0.json)]}"#.utf8) },
        post("cut JSON", type: "application/json") { Data(#"{"token":\#($0.json),"b":"#.utf8) },
        post("JSON in a string") { .json(["inner": JSONValue.string(#"{"token":\#($0.json)}"#)]) },
        post("JSON in a string in a string") {
            let inner = JSONValue.object(["inner": .string(#"{"token":\#($0.json)}"#)])
            return .json(["outer": JSONValue.string(inner.description)])
        },
        post("URL in JSON") { .json(["url": JSONValue.string("https://u:\($0.escaped)@h/?token=\($0.escaped)")]) },
        post("escaped slashes in JSON", type: "application/json") {
            Data(#"{"url":"https:\/\/u:\#($0.escaped)@h\/?token=\#($0.escaped)"}"#.utf8)
        },
        post("form in JSON") { .json(["form": JSONValue.string("a=1&token=\($0.escaped)")]) },
        post("JSON of two bytes each", type: "application/json; charset=utf-16") {
            Data([0xFF, 0xFE]) + utf16(#"{"token":\#($0.json)}"#)
        },
        post("UTF-16 without a mark", type: nil) { utf16(#"{"token":\#($0.json)}"#) },
        post("byte that is not UTF-8", type: "application/json") {
            Data([0x22, 0xFF, 0x22, 0x20]) + Data(#"{"token":\#($0.json)}"#.utf8)
        },
        post("NUL", type: "application/json") { Data([0]) + Data(#"{"token":\#($0.json)}"#.utf8) },
        post("pair in a binary body", type: "application/octet-stream") {
            Data([0, 255]) + Data("token=\($0.escaped)\u{0}".utf8) + Data([1, 254])
        },
        post("compressed body", type: "application/json") { _ in Canary.gzip }.with {
            $0.isPlain = true
            $0.exceptions = ["cassette": "what is compressed"]
            $0.send = {
                try await $0.startRequest(
                    "POST", $1.url(), body: .data(Canary.gzip, contentType: "application/json"),
                    headers: ["Content-Encoding": "gzip", "X-Note": $2.text.isEmpty ? "a" : "b"])
            }
        },
        post("compressed body without a coding", type: "application/gzip") { _ in Canary.gzip }.with {
            $0.isPlain = true
            $0.exceptions = ["cassette": "what is compressed"]
        },
        CanaryPlace("form parameters") {
            try await $0.startRequest(
                "POST", $1.url(), parameters: ["password": $2.text, "a": 1], body: .form)
        },
        CanaryPlace("JSON parameters") {
            try await $0.startRequest(
                "POST", $1.url(), parameters: ["password": $2.text, "a": 1], body: .json)
        },
        post("form as text") { .text("a=1&client_secret=\($0.escaped)&b=2") },
        post("assertions of a form") { .text("assertion=\($0.escaped)&SAMLResponse=\($0.escaped)&b=2") },
        post("form as bytes", type: "application/x-www-form-urlencoded") {
            Data("a=1&user[password]=\($0.escaped)&b=2".utf8)
        },
        post("URL in a form", type: "application/x-www-form-urlencoded") {
            Data("redirect_uri=\("https://u:\($0.escaped)@h/?token=\($0.escaped)".percentEncodedComponent)".utf8)
        },
        post("JSON in a form", type: "application/x-www-form-urlencoded") {
            Data("data=\(#"{"token":\#($0.json)}"#.percentEncodedComponent)".utf8)
        },
        post("behind the limit of a log", type: "text/plain") {
            Data((String(repeating: "x", count: 4_080) + "&token=\($0.escaped)&").utf8)
        },
        post("long JSON", type: "application/json") {
            Data(#"{"a":"\#(String(repeating: "x", count: 4_080))","token":\#($0.json)}"#.utf8)
        },
        CanaryPlace("streamed body") {
            let text = #"{"token":\#($2.json)}"#
            let stream = AsyncStream<Data> { continuation in
                for byte in text.utf8 { continuation.yield(Data([byte])) }
                continuation.finish()
            }
            return try await $0.startRequest("POST", $1.url(), body: .stream(stream))
        },
        CanaryPlace("body of a file") {
            let folder = try TemporaryDirectory()
            let path = folder.path(of: "body.json")
            try Data(#"{"token":\#($2.json)}"#.utf8).write(to: URL(filePath: path))
            return try await $0.startRequest("POST", $1.url(), body: .file(path))
        },
    ]

    private static func files(_ name: String, _ files: @escaping @Sendable (Canary) -> [UploadFile]) -> CanaryPlace {
        CanaryPlace(name) { try await $0.startRequest("POST", $1.url(), files: files($2)) }
    }

    private static func multipart(_ name: String, _ head: String, type: String) -> CanaryPlace {
        post(name, type: type) {
            Data("--xx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n".utf8)
                + Data("--xx\r\n\(head)\r\n\r\n\($0.text)\r\n--xx--\r\n".utf8)
        }
    }

    static let parts: [CanaryPlace] = [
        files("part") { [UploadFile(name: "password", value: $0.text), UploadFile(name: "a", value: "b")] },
        files("part as bytes") {
            [UploadFile(name: "password", fileName: "p", data: Data([255, 0]) + Data($0.text.utf8))]
        },
        files("part of JSON") {
            [UploadFile(name: "a", fileName: "a.json", data: Data(#"{"token":\#($0.json)}"#.utf8))]
        },
        files("part of UTF-16") {
            [UploadFile(name: "a", fileName: "a.txt", data: Data([0xFF, 0xFE]) + utf16("token=\($0.escaped)"))]
        },
        files("name of a file") { [UploadFile(name: "a", fileName: "x?token=\($0.escaped)", data: Data("b".utf8))] },
        multipart(
            "multipart bytes", "Content-Disposition: form-data; name=\"api_key\"",
            type: "multipart/form-data; boundary=xx"),
        multipart(
            "multipart bytes without quotes", "content-disposition:form-data;Name=api_key",
            type: "multipart/form-data; xboundary=abc; boundary=\"xx\""),
        multipart(
            "multipart bytes of an image", "Content-Disposition: form-data; name=\"api_key\"\r\nX: \u{0}",
            type: "Multipart/Form-Data ; Boundary=xx"),
        CanaryPlace("long multipart bytes") {
            let pad = String(repeating: "x", count: 4_050)
            let text =
                "--xx\r\nContent-Disposition: form-data; name=\"api_key\"; filename=\"\(pad)\"\r\n\r\n\($2.text)\r\n--xx--"
            return try await $0.startRequest(
                "POST", $1.url(), body: .data(Data(text.utf8), contentType: "multipart/form-data; boundary=xx"))
        },
        CanaryPlace("file of a part") {
            let folder = try TemporaryDirectory()
            try Data($2.text.utf8).write(to: URL(filePath: folder.path(of: "p")))
            return try await $0.startRequest(
                "POST", $1.url(), files: [UploadFile(name: "password", path: folder.path(of: "p"))])
        },
    ]
}

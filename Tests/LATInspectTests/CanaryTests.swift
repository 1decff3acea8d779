import FoundationEssentials
import LATInspect
import LATTesting
import Testing

/// A secret in any place of a call is in no output. Each output of the module is a line of ``Exit/all``.
@Suite(.timeLimit(.minutes(2))) struct CanaryTests {
    static let canary = "CANARY4711secret"

    /// A way for a call to leave the process as text.
    struct Exit: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Installs the observers in a configuration, and returns a closure that gives all their output.
        let install:
            @Sendable (_ configuration: inout CentralRequestManager.Configuration) throws
                -> @Sendable () async throws -> String

        static let all = [records, metrics, har, traces, page, cassette]

        static let records = Exit(testDescription: "records") { configuration in
            let records = Records()
            configuration.accessories = [records.recorder()]
            return { String(decoding: try JSONEncoder().encode(records.all), as: UTF8.self) }
        }

        static let page = Exit(testDescription: "page") { configuration in
            let inspector = Inspector()
            let address = try inspector.start()
            configuration.accessories = [inspector]
            return {
                defer { inspector.stop() }
                return try await PageReader(address: address).everything()
            }
        }

        static let metrics = Exit(testDescription: "metrics") { configuration in
            let metrics = Metrics()
            configuration.accessories = [metrics]
            return { await metrics.text(.openMetrics) + (await metrics.text()) }
        }

        static let har = Exit(testDescription: "HAR") { configuration in
            let recorder = HARRecorder()
            configuration.accessories = [recorder]
            return { String(decoding: try recorder.data(), as: UTF8.self) }
        }

        static let traces = Exit(testDescription: "traces") { configuration in
            let collector = try MockServer()
            collector.fallback { _ in .json("{}") }
            let traces = try TraceExporter(collector.baseURL, service: "test")
            configuration.accessories = [traces]
            return {
                await traces.flush()
                return collector.requests.map(\.text).joined()
            }
        }

        static let cassette = Exit(testDescription: "cassette") { configuration in
            let folder = try TemporaryDirectory()
            let cassette = try Cassette("calls", in: folder.path, mode: .all)
            configuration.transport = cassette
            return {
                try cassette.eject()
                // A call that fails before it is sent leaves no file.
                return String(decoding: folder.read("calls.yaml") ?? Data("nothing".utf8), as: UTF8.self)
            }
        }
    }

    /// A call with the canary in one place.
    struct Place: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var reply = MockReply.json("{}")
        let send: @Sendable (CentralRequestManager, MockServer) async throws -> Void

        init(
            _ name: String, reply: MockReply = .json("{}"),
            _ send: @escaping @Sendable (CentralRequestManager, MockServer) async throws -> Void
        ) {
            testDescription = name
            self.reply = reply
            self.send = send
        }

        private static func get(_ name: String, _ reply: MockReply) -> Place {
            Place(name, reply: reply) { _ = try await $0.startRequest("GET", $1.url()) }
        }

        private static func header(_ name: String, _ value: String) -> Place {
            Place("header \(name)") { _ = try await $0.startRequest("GET", $1.url(), headers: [name: value]) }
        }

        private static func post(_ name: String, _ body: HTTPBody) -> Place {
            Place(name) { _ = try await $0.startRequest("POST", $1.url(), body: body) }
        }

        static let all: [Place] = [
            header("Authorization", "Bearer \(canary)"),
            header("authorization", "Basic \(Data("user:\(canary)".utf8).base64EncodedString())"),
            header("Cookie", "a=b; session=\(canary)"), header("X-API-Key", canary),
            header("Referer", "https://example.org/?token=\(canary)"),
            header("X-Link", "see https://u:\(canary)@example.org/"),
            Place("query") { _ = try await $0.startRequest("GET", $1.url("/?access_token=\(canary)&a=1")) },
            Place("nested query") { _ = try await $0.startRequest("GET", $1.url("/?user%5Bpassword%5D=\(canary)")) },
            Place("parameters") { _ = try await $0.startRequest("GET", $1.url(), parameters: ["api_key": canary]) },
            Place("user of the URL") { manager, server in
                let url = server.url().replacing("http://", with: "http://name:\(canary)@")
                _ = try await manager.startRequest("GET", url)
            },
            Place("fragment") { _ = try await $0.startRequest("GET", $1.url("/#access_token=\(canary)")) },
            Place("form") {
                _ = try await $0.startRequest("POST", $1.url(), parameters: ["password": canary], body: .form)
            },
            Place("JSON parameters") {
                _ = try await $0.startRequest("POST", $1.url(), parameters: ["password": canary], body: .json)
            },
            post("JSON value", .json(["user": ["passWord": canary]])),
            post(
                "JSON bytes",
                .data(Data(#"[{"a":1},{"id_token" : "\#(canary)"}]"#.utf8), contentType: "application/json")),
            post("JSON without a type", .data(Data(#"{"secret":["x","\#(canary)"]}"#.utf8))),
            post("cut JSON", .data(Data(#"{"token":"\#(canary)","b":"#.utf8), contentType: "application/json")),
            post("JSON in a string", .json(["inner": #"{"token":"\#(canary)"}"#])),
            post("form as text", .text("a=1&client_secret=\(canary)&b=2")),
            Place("part name") {
                _ = try await $0.startRequest(
                    "POST", $1.url(),
                    files: [UploadFile(name: "password", value: canary), UploadFile(name: "a", value: "b")])
            },
            post(
                "multipart bytes",
                .data(
                    Data(
                        "--xx\r\nContent-Disposition: form-data; name=\"api_key\"\r\n\r\n\(canary)\r\n--xx--\r\n".utf8),
                    contentType: "multipart/form-data; boundary=xx")),
            post(
                "multipart bytes without quotes",
                .data(
                    Data(
                        "--xx\r\ncontent-disposition:form-data;Name=api_key\r\n\r\n\(canary)\r\n--xx--\r\n".utf8),
                    contentType: "multipart/form-data; boundary=xx")),
            post(
                "multipart bytes with a parameter whose name ends like the boundary's",
                .data(
                    Data(
                        ("--xx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n"
                            + "--xx\r\nContent-Disposition: form-data; name=\"api_key\"\r\n\r\n\(canary)\r\n--xx--\r\n")
                            .utf8),
                    contentType: "multipart/form-data; xboundary=abc; boundary=xx")),
            get("Location", .redirect(to: "/next?code=\(canary)")),
            get("Set-Cookie", reply("Set-Cookie", "sid=\(canary); Path=/; HttpOnly")),
            get("set-cookie in lower case", reply("set-cookie", "sid=\(canary)")),
            get("response field", reply("X-Auth-Token", canary)),
            get("response JSON", .json(#"{"access_token":"\#(canary)","refresh_token":"\#(canary)2"}"#)),
            get("response JSON lines", .text("{\"token\":\"\(canary)\"}\n{\"token\":\"\(canary)\"}\n")),
            get("response form", .data(Data("oauth_x=1&access_token=\(canary)".utf8), contentType: "text/plain")),
            get("failure's body", .json(#"{"token":"\#(canary)"}"#, status: 500)),
            Place("echo of a header", reply: .text("you sent \(canary)!")) {
                _ = try await $0.startRequest("GET", $1.url(), headers: ["Authorization": "Bearer \(canary)"])
            },
            Place("echo in a path", reply: .redirect(to: "/\(canary)/next")) {
                _ = try await $0.startRequest("GET", $1.url("/?token=\(canary)"))
            },
            Place("text of an error") { manager, server in
                var request = HTTPRequest("GET", server.url("/?password=\(canary)"))
                request.headers["X-Fail"] = "the app threw https://u:\(canary)@h/ with token=\(canary)"
                _ = try await manager.send(request)
            },
            Place("stream", reply: .json(#"{"token":"\#(canary)"}"#)) { manager, server in
                for try await _ in try await manager.stream("GET", server.url()).body {}
            },
        ]

        private static func reply(_ name: String, _ value: String) -> MockReply {
            var reply = MockReply.json("{}")
            reply.headers[name] = value
            return reply
        }
    }

    /// Fails with an error whose text is the value of the field `X-Fail`.
    private struct Failing: Interceptor {
        struct Leak: Error, CustomStringConvertible {
            let description: String
        }

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            if let text = request.headers["X-Fail"] { throw Leak(description: text) }
            return try await next(request)
        }
    }

    @Test(arguments: Exit.all, Place.all) func secretIsInNoOutput(_ exit: Exit, _ place: Place) async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        server.enqueue(place.reply)
        var configuration = CentralRequestManager.Configuration()
        configuration.networkInterceptors = [Failing()]
        let output = try exit.install(&configuration)
        let manager = try CentralRequestManager(configuration: configuration)
        do {
            try await place.send(manager, server)
        } catch is NetworkError {
            // Some of the calls fail, and are recorded all the same.
        }
        let text = try await output()
        #expect(!text.isEmpty)
        #expect(!text.contains(Self.canary))
        // Nor in Base64.
        #expect(!text.contains(Data(Self.canary.utf8).base64EncodedString().prefix(18)))
    }

    /// What records never contain, with any list of secrets: user information of URLs, the fragment of the request's URL,
    /// and the values of `Set-Cookie`.
    private static let alwaysHidden = [
        "user of the URL", "header X-Link", "text of an error", "fragment", "Set-Cookie", "set-cookie in lower case",
    ]

    /// The search finds the canary where it is: without a list of secrets, records contain it.
    @Test(arguments: Place.all.filter { !alwaysHidden.contains($0.testDescription) })
    func withoutAListTheSecretIsFound(_ place: Place) async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        server.enqueue(place.reply)
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder()]
            $0.networkInterceptors = [Failing()]
            $0.secrets = Secrets()
        }
        do {
            try await place.send(manager, server)
        } catch is NetworkError {}
        let text = String(decoding: try JSONEncoder().encode(records.all), as: UTF8.self)
        let basic = Data("user:\(Self.canary)".utf8).base64EncodedString()
        #expect(text.contains(Self.canary) || text.contains(basic), "\(text)")
    }
}

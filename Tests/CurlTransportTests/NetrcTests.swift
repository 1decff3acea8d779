@testable import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

@Suite struct NetrcTests {
    private func header(_ user: String, _ password: String) -> String {
        "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    }

    /// Returns the `Authorization` field that a manager with this file sends to a host.
    private func sent(
        _ text: String, to host: String, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> String? {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(text.utf8), to: "netrc")
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let request = HTTPRequest("GET", "http://\(host):\(server.port)/").with(change)
        let configuration = testConfiguration {
            $0.netrc = .file(file)
            $0.resolve = ["shop.example:\(server.port)": "127.0.0.1", "other.example:\(server.port)": "127.0.0.1"]
        }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.answer(to: request).status == 200)
        }
        return server.requests.first?.headers["Authorization"]
    }

    @Test func credentialsAreSentToTheirHost() async throws {
        let file =
            "machine shop.example login ada password \"two words\"\nmachine other.example\n\tlogin b\n\tpassword c\n"
        #expect(try await sent(file, to: "shop.example") == header("ada", "two words"))
        #expect(try await sent(file, to: "Shop.Example") == header("ada", "two words"))
        #expect(try await sent(file, to: "other.example") == header("b", "c"))
        #expect(try await sent(file, to: "127.0.0.1") == nil)
        #expect(try await sent("default login anyone password d", to: "127.0.0.1") == header("anyone", "d"))
    }

    @Test func callersCredentialsTakePrecedence() async throws {
        let file = "machine shop.example login ada password x"
        #expect(try await sent(file, to: "shop.example") { $0.headers["Authorization"] = "Own" } == "Own")
        #expect(try await sent(file, to: "shop.example") { $0.headers["authorization"] = nil } == nil)
        let bearer = try await sent(file, to: "shop.example") { $0.authentication = .bearer(token: "t") }
        #expect(bearer == "Bearer t")
        let inURL = try await sent(file, to: "shop.example") {
            $0.url = $0.url.replacing("http://", with: "http://eve:pw@")
        }
        #expect(inURL == header("eve", "pw"))
    }

    @Test func userOfTheURLSelectsItsEntry() async throws {
        let file =
            "machine shop.example login ada password one\nmachine shop.example login \"b b\" password two\n"
            + "default login carl password three"
        func asked(by user: String) async throws -> String? {
            try await sent(file, to: "shop.example") { $0.url = $0.url.replacing("http://", with: "http://\(user)@") }
        }
        #expect(try await asked(by: "ada") == header("ada", "one"))
        #expect(try await asked(by: "b%20b") == header("b b", "two"))
        #expect(try await asked(by: "carl") == header("carl", ""))
        #expect(try await asked(by: "ada:") == header("ada", ""))
        #expect(try await asked(by: "ada:x") == header("ada", "x"))
    }

    @Test func credentialsAreNotKeptWithAConnection() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine shop.example login a password b".utf8), to: "netrc")
        let server = try MockServer()
        server.fallback { .text($0.headers["Authorization"] ?? "none") }
        let configuration = testConfiguration {
            $0.netrc = .file(file)
            $0.resolve = ["shop.example:\(server.port)": "127.0.0.1", "other.example:\(server.port)": "127.0.0.1"]
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<2 {
                #expect(try await transport.get("http://shop.example:\(server.port)/").text == header("a", "b"))
                #expect(try await transport.get("http://other.example:\(server.port)/").text == "none")
            }
        }
    }

    @Test func allKeywordsAreParsed() throws {
        let netrc = try Netrc(
            """
            # machine commented.example login no password no
            machine a.example login ada # a note
              password "q\\"u\\\\o\\te" account ignored
            macdef init
            machine inside.example login no password no

            machine [::1] login six password 6 machine b.example
            login only
            default login d password e
            """)
        #expect(netrc.credentials(forHost: "a.example") == .basic(user: "ada", password: "q\"u\\o\te"))
        #expect(netrc.credentials(forHost: "[::1]") == .basic(user: "six", password: "6"))
        #expect(netrc.credentials(forHost: "b.example") == .basic(user: "only", password: ""))
        #expect(netrc.credentials(forHost: "inside.example") == .basic(user: "d", password: "e"))
        #expect(netrc.credentials(forHost: "commented.example") == .basic(user: "d", password: "e"))
        #expect(try Netrc("").credentials(forHost: "a") == nil)
        #expect(try Netrc("machine a").credentials(forHost: "a") == nil)
        let hash = try Netrc("machine a login #x password\t#y # a note")
        #expect(hash.credentials(forHost: "a") == .basic(user: "#x", password: "#y"))
    }

    @Test(arguments: [
        ("machine", 1), ("machine a\nlogin", 2), ("login ada", 1), ("machine a login b\n\npasswort c", 3),
        ("machine a password \"open\n", 1), ("machine a login b password c secret", 1),
    ])
    func malformedFileIsRefusedWithItsLine(text: String, line: Int) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(text.utf8), to: "netrc")
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.netrc = .file(file) })
        }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("line \(line)") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("secret") == false)
    }

    @Test func unreadableFileIsRefused() throws {
        let directory = try TemporaryDirectory()
        let binary = try directory.write(Data([0xFF, 0x00, 0xFE]), to: "binary")
        for path in [directory.path(of: "missing"), directory.path, binary] {
            let error = #expect(throws: NetworkError.self) {
                try CurlTransport(configuration: testConfiguration { $0.netrc = .file(path) })
            }
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.contains("netrc") == true)
        }
    }
}

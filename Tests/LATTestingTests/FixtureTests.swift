import FoundationEssentials
import Glibc
import Testing

@testable import LATTesting

@Suite struct FixtureTests {
    @Test func closedPortRefusesConnections() throws {
        let closed = try ClosedPort()
        for _ in 0..<20 { #expect((try? RawClient(port: closed.port)) == nil) }
        #expect(closed.url("/a") == "http://127.0.0.1:\(closed.port)/a")
        #expect(throws: MockServerError.self) { try MockServer(port: closed.port) }
    }

    @Test func connectingToAFullBacklogHangs() throws {
        let full = try FullBacklogListener()
        let descriptor = try Socket.connectLoopback(port: full.port)
        defer { close(descriptor) }
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        #expect(poll(&entry, 1, 300) == 0)
    }

    @Test func temporaryDirectoryIsRemovedOnRelease() throws {
        var directory: TemporaryDirectory? = try TemporaryDirectory()
        let path = try #require(directory?.path)
        try directory?.write(Data("hello".utf8), to: "a/b.txt")
        try directory?.writePattern(byteCount: 700_000, to: "big.bin")
        #expect(directory?.contents == ["a", "a/b.txt", "big.bin"])
        #expect(directory?.read("a/b.txt") == Data("hello".utf8))
        #expect(directory?.read("none") == nil)
        let big = try #require(directory?.read("big.bin"))
        #expect(big.count == 700_000)
        #expect(MockPattern.firstMismatch(in: big, at: 0) == nil)
        directory = nil
        #expect(access(path, F_OK) != 0)
    }

    @Test func errorsNameTheNextStep() throws {
        let server = try MockServer()
        let error = #expect(throws: MockServerError.self) { try MockServer(port: server.port) }
        #expect(error?.kind == .system(errno: EADDRINUSE))
        #expect(error?.description.contains("choose another port") == true)
        let range = #expect(throws: MockServerError.self) { try MockServer(port: 70_000) }
        #expect(range?.description.contains("127.0.0.1:70000") == true && range?.description.contains("65535") == true)
    }

    @Test func folderOfExamplesIsAServer() throws {
        let directory = try TemporaryDirectory()
        for name in ["users/{id}.GET.json", "users/me.GET.json", "users/me.json", "logo.png", "{kind}/x/{id}.json"] {
            try directory.write(Data("\"\(name)\"".utf8), to: name)
        }
        try directory.write(Data(), to: ".hidden/x.json")
        let server = try MockServer()
        try server.route(fixtures: directory.path, under: "v1")
        let client = try RawClient(server)
        func reply(_ method: String, _ path: String) throws -> String {
            try client.send("\(method) \(path) HTTP/1.1\r\nHost: x\r\n\r\n")
            return try client.response().text
        }
        #expect(try reply("GET", "/v1/users/42?x=1") == #""users/{id}.GET.json""#)
        #expect(try reply("GET", "/v1/users/me") == #""users/me.GET.json""#)
        #expect(try reply("DELETE", "/v1/users/me") == #""users/me.json""#)
        #expect(try reply("PUT", "/v1/a/x/7") == #""{kind}/x/{id}.json""#)
        #expect(try client.getResponse("/v1/logo.png")["Content-Type"] == "image/png")
        #expect(try client.getResponse("/users/42").status == 404)
        try directory.write(Data("1".utf8), to: "users/me.GET.json")
        #expect(try reply("GET", "/v1/users/me") == "1")
        #expect(throws: MockServerError.self) { try server.route(fixtures: directory.path + "/none") }
        #expect(throws: MockServerError.self) { try server.route(fixtures: TemporaryDirectory().path) }
    }
}

import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

/// `lat request --format json`.
@Suite(.timeLimit(.minutes(1))) struct RequestReportTests {
    private let server: MockServer

    init() throws { server = try MockServer() }

    private func report(_ arguments: String..., url: String? = nil) async throws -> (JSONValue, LatProcess.Result) {
        let result = try await LatProcess.run(
            ["request", "GET", url ?? server.url("/a"), "--format", "json"] + arguments)
        return (try JSONValue(parsing: result.out), result)
    }

    @Test func responseIsOneObject() async throws {
        server.enqueue(.redirect(to: "/b"), .text("grüß").header("X-Two", "a").header("X-Two", "b"))
        let (json, result) = try await report()
        #expect(result.exitCode == 0 && result.err == "")
        #expect(json["method"].string == "GET" && json["url"].string == server.url("/b"))
        #expect(json["status"].int == 200 && json["reason"].string == "OK" && json["version"].string == "HTTP/1.1")
        #expect(json["headers"].array?.contains(["X-Two", "a"]) == true)
        #expect(json["headers"].array?.contains(["X-Two", "b"]) == true)
        #expect(json["redirects"] == [["url": .string(server.url("/a")), "status": 302]])
        #expect(json["body"].string == "grüß" && json["bodyBase64"] == nil && json["error"].isNull)
        let total = try #require(json["timings"]["total"].double)
        #expect(
            total >= (json["timings"]["firstByte"].double ?? .infinity) && total < 60_000
                && json["timings"]["connectionReused"].bool != nil)
    }

    @Test func binaryBodyIsBase64() async throws {
        server.enqueue(.data(Data([0xFF, 0xFE, 0])), .data(Data()))
        let (json, _) = try await report()
        #expect(json["bodyBase64"].string == "//4A" && json["body"] == nil)
        #expect(try await report().0["body"].string == "")
    }

    @Test func serverFailureIsReportedWithItsBody() async throws {
        server.enqueue(.json(#"{"why":1}"#, status: 503))
        let (json, result) = try await report()
        #expect(result.exitCode == 1 && result.err == "")
        #expect(json["status"].int == 503 && json["body"].string == #"{"why":1}"#)
        #expect(json["error"]["kind"].string == "httpStatus" && json["error"]["attempts"].int == 1)
        #expect(json["error"]["message"].string?.hasPrefix("the server answered 503") == true)
    }

    @Test func networkFailureIsReported() async throws {
        server.enqueue(.text("never").stalling(.start))
        let (json, result) = try await report("--timeout", "200ms")
        #expect(result.exitCode == 3 && result.err == "")
        #expect(json["status"].isNull && json["url"].string == server.url("/a"))
        #expect(json["error"]["kind"].string == "timeout" && json["error"]["detail"].string == "total")
        #expect(json["error"]["curlCode"].int == 28)
        let closed = try ClosedPort()
        let (refused, _) = try await report(url: closed.url("/"))
        #expect(refused["error"]["kind"].string == "connect" && refused["error"]["curlCode"].int == 7)
    }

    @Test func reportNamesTheOutputFile() async throws {
        let directory = try TemporaryDirectory()
        server.enqueue(.text("saved"), .text("gone", status: 410))
        let (json, _) = try await report("-o", directory.path(of: "f"))
        #expect(json["file"].string == directory.path(of: "f") && json["body"] == nil)
        #expect(directory.read("f") == Data("saved".utf8))
        let (failed, _) = try await report("-o", directory.path(of: "g"))
        #expect(failed["file"] == nil && failed["body"].string == "gone" && directory.contents == ["f"])
    }

    @Test func kindsOfErrorsHaveTheirExitCodes() {
        #expect(NetworkError.Kind.tls(.expired).names == ("tls", "expired"))
        #expect(NetworkError.Kind.connectionLost.names == ("connectionLost", nil))
        #expect(ExitCode(NetworkError(.httpStatus, message: "")) == .failure)
        #expect(ExitCode(NetworkError(.invalidRequest, message: "")) == .usage)
        #expect(ExitCode(NetworkError(.dns, message: "")) == .network)
    }
}

import Foundation
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// Files that are not plain ones: those of the kernel, which have content and the size 0, and what is no file at all.
@Suite struct SpecialFileTests {
    enum Form: CaseIterable { case whole, part, compressed }

    private func request(_ form: Form, _ path: String, to url: String) -> HTTPRequest {
        let body: HTTPBody = form == .part ? .multipart([UploadFile(name: "a", path: path)]) : .file(path)
        return HTTPRequest("PUT", url, body: body).with { $0.contentCoding = form == .compressed ? .gzip : nil }
    }

    @Test(arguments: Form.allCases) func kernelFileIsSentToItsEnd(form: Form) async throws {
        let path = "/proc/version"
        let content = try #require(FileManager.default.contents(atPath: path))
        let server = try MockServer()
        server.fallback { .text($0.headers["Transfer-Encoding"] ?? "none") }
        try await withTransport { transport async throws in
            #expect(try await transport.answer(to: request(form, path, to: server.url())).text == "chunked")
        }
        let body = try #require(server.requests.last).body
        switch form {
        case .whole: #expect(body == content)
        case .part: #expect(body.range(of: content) != nil)
        case .compressed:
            let directory = try TemporaryDirectory()
            try directory.write(body, to: "body.gz")
            let decoded = try ChildProcess.run("gzip", ["-dc", "body.gz"], in: directory.path)
            #expect(Data(decoded.utf8) == content)
        }
    }

    @Test func kernelFileIsReadAgainFromItsBeginning() async throws {
        let content = try #require(FileManager.default.contents(atPath: "/proc/version"))
        let source = try FileSource(path: "/proc/version")
        #expect(source.length == nil)
        for _ in 0..<2 {
            #expect(try await bytes(of: source) == Array(content))
            #expect(source.rewind())
        }
        source.stop()
        try await eventually("the file to close") {
            !ProcessFacts.descriptors.contains { $0.hasSuffix("=/proc/version") }
        }
    }

    private func bytes(of source: FileSource) async throws -> [UInt8] {
        source.start {}
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 100)
        while true {
            switch buffer.withUnsafeMutableBytes({ source.read(into: $0) }) {
            case .bytes(let count): all += buffer[..<count]
            case .end: return all
            case .pause: await Task.yield()
            case .failed(let error): throw error
            }
        }
    }

    /// The files of `/sys` have the size of a page and less content.
    @Test func sizeThatTheContentLacksFailsTheRequest() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 4_096, to: "a")
        let source = try FileSource(path: path) { descriptor, buffer, count, offset in
            offset < 10 ? pread(descriptor, buffer, min(count, 10 - Int(offset)), offset) : 0
        }
        let error = await #expect(throws: NetworkError.self) { try await bytes(of: source) }
        #expect(error?.kind == .requestBody, "\(String(describing: error))")
        for word in [path, "10 of the 4096 bytes", "as data"] { #expect(error?.message.contains(word) == true) }
    }

    @Test func emptyFileHasALength() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data(), to: "a")
        let server = try MockServer()
        server.fallback { .text($0.headers["Content-Length"] ?? "none") }
        try await withTransport { transport async throws in
            #expect(try await transport.answer(to: request(.whole, path, to: server.url())).text == "0")
        }
    }

    @Test(arguments: Form.allCases, ["folder", "pipe", "device", "socket"])
    func whatIsNoFileIsRefused(form: Form, kind: String) async throws {
        let directory = try TemporaryDirectory()
        let path = kind == "device" ? "/dev/zero" : directory.path(of: "x")
        var socket: MockServer?
        switch kind {
        case "folder": #expect(mkdir(path, 0o700) == 0)
        case "pipe": #expect(mkfifo(path, 0o600) == 0)
        case "socket": socket = try MockServer(unixSocketPath: path)
        default: break
        }
        let server = try MockServer()
        try await withTransport { transport async throws in
            let error = await #expect(throws: NetworkError.self) {
                _ = try await transport.send(request(form, path, to: server.url()))
            }
            #expect(error?.kind == .requestBody)
            #expect(error?.message.contains("\"\(path)\"") == true && error?.message.contains("a \(kind)") == true)
        }
        #expect(server.acceptedConnections == 0)
        socket?.stop()
    }
}

import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct MultipartTests {
    private func send(_ files: [UploadFile], method: String = "POST", headers: HTTPHeaders = [:]) async throws
        -> MultipartForm
    {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let request = HTTPRequest(method, server.url(), headers: headers, body: .multipart(files))
            #expect(try await transport.answer(to: request).status == 200)
        }
        return try MultipartForm(try #require(server.requests.first))
    }

    @Test(arguments: [
        "plain", "with \"quotes\"", "line\r\nbreak", "line\nfeed", "a; filename=\"b", "naïve 文件 🦊.txt", "%22 %0D",
        "back\\slash",
        "'", " ", "tab\tin", "a=b&c", "accent on a quote \"\u{301}",
    ])
    func namesArriveUnchanged(name: String) async throws {
        let form = try await send([
            UploadFile(name: name, value: "v"), UploadFile(name: "f", fileName: name, data: Data("d".utf8)),
        ])
        let expected = name == "%22 %0D" ? "\" \r" : name
        #expect(form.parts.map(\.name) == [expected, "f"])
        #expect(form.parts.map(\.fileName) == [nil, expected])
        #expect(form.parts.map(\.body) == [Data("v".utf8), Data("d".utf8)])
    }

    @Test func partsThatAreTooLongHaveNoLength() throws {
        let part = UploadFile(name: "a", fileName: nil, length: .max) { AsyncStream<Data> { $0.finish() } }
        #expect(try MultipartSource([part, part], nil, nil).length == nil)
    }

    @Test(.needsHTTPBin)
    func httpbinParsesTheForm() async throws {
        let base = try #require(Servers.httpbin)
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("from disk".utf8), to: "ünï.txt")
        try await withTransport { transport async throws in
            let files = [
                UploadFile(name: "title", value: "Ferien über Ostern"), UploadFile(name: "a b", path: path),
                UploadFile(name: "empty", value: ""),
                UploadFile(name: "名", fileName: "文.bin", data: Data("memory".utf8)),
            ]
            let response = try await transport.answer(to: HTTPRequest("POST", base + "/post", body: .multipart(files)))
            let json = try response.json()
            #expect(json["form"]?["title"]?.string == "Ferien über Ostern")
            #expect(json["form"]?["empty"]?.string == "")
            #expect(json["files"]?["a b"]?.string == "from disk")
            #expect(json["files"]?["名"]?.string == "memory")
        }
    }

    @Test func partsKeepOrderTypesAndBytes() async throws {
        let directory = try TemporaryDirectory()
        let large = MockPattern.bytes(in: 0..<1_000_000)
        let path = try directory.write(large, to: "a.png")
        let form = try await send([
            UploadFile(name: "a", path: path), UploadFile(name: "b", value: "1"), UploadFile(name: "b", value: "2"),
            UploadFile(name: "c", fileName: "c.unknown", data: Data()),
            UploadFile(name: "d", fileName: "d.txt", data: Data("\r\n--\r\n".utf8), contentType: "x/y"),
        ])
        #expect(form.parts.map(\.name) == ["a", "b", "b", "c", "d"])
        #expect(form.parts.map(\.fileName) == ["a.png", nil, nil, "c.unknown", "d.txt"])
        #expect(form.parts.map(\.contentType) == ["image/png", nil, nil, "application/octet-stream", "x/y"])
        #expect(form.parts.map(\.body) == [large, Data("1".utf8), Data("2".utf8), Data(), Data("\r\n--\r\n".utf8)])
        #expect(form.mediaType == "multipart/form-data")
    }

    @Test(arguments: ["PUT", "PATCH"])
    func otherMethodsSendPartsToo(method: String) async throws {
        #expect(try await send([UploadFile(name: "a", value: "b")], method: method).parts.count == 1)
    }

    @Test func boundaryIsThatOfItsSeed() {
        let seeds: [MultipartSource.Seed?] = [.key("k"), .key("l"), .kept("k"), .kept("l"), nil, nil]
        #expect(Set(seeds.map(MultipartSource.boundary)).count == 6)
        #expect(MultipartSource.boundary(.key("k")) == MultipartSource.boundary(.key("k")))
        // An entry of an outbox is sent by later processes, too.
        #expect(MultipartSource.boundary(.kept("k")) == "------------------------8254c329a92850f6d539dd376f4816ee")
    }

    @Test func manyPartsAreSent() async throws {
        let form = try await send((0..<500).map { UploadFile(name: "n\($0)", value: "v\($0)") })
        #expect(form.parts.map { String(decoding: $0.body, as: UTF8.self) } == (0..<500).map { "v\($0)" })
    }

    @Test(arguments: ["multipart/form-data", "Multipart/Form-Data; charset=utf-8"])
    func callersMediaTypeGetsABoundary(type: String) async throws {
        let form = try await send([UploadFile(name: "a", value: "b")], headers: ["Content-Type": type])
        #expect(form.mediaType == type.prefix { $0 != ";" })
        #expect(form.parts.map(\.body) == [Data("b".utf8)])
    }

    @Test(arguments: [nil, 5] as [Int64?])
    func streamedPartIsSent(length: Int64?) async throws {
        let chunks = AsyncStream<Data> {
            for text in ["he", "ll", "o"] { $0.yield(Data(text.utf8)) }
            $0.finish()
        }
        let form = try await send([
            UploadFile(name: "a", value: "1"), UploadFile(name: "s", fileName: "s.txt", stream: chunks, length: length),
            UploadFile(name: "z", value: "2"),
        ])
        #expect(form.parts.map { String(decoding: $0.body, as: UTF8.self) } == ["1", "hello", "2"])
    }

    @Test func failingPartFailsTheRequest() async throws {
        struct Broken: Error {}
        let server = try MockServer()
        try await withTransport { transport async throws in
            let chunks = AsyncThrowingStream<Data, any Error> {
                $0.yield(Data(count: 10))
                $0.finish(throwing: Broken())
            }
            for length in [nil, 100] as [Int64?] {
                let files = [UploadFile(name: "s", fileName: "s", stream: chunks, length: length)]
                let error = try await transport.failure(of: HTTPRequest("POST", server.url(), body: .multipart(files)))
                #expect(error.kind == .requestBody)
            }
            #expect(server.requestCount == 0)
        }
    }

    @Test func emptyFormIsSentOrRefused() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: .multipart([]))
            do {
                #expect(try await transport.answer(to: request).status == 200)
            } catch let error as NetworkError {
                #expect(error.kind == .invalidRequest)
            }
        }
    }

    @Test func formIsResentOnFreshConnection() async throws {
        let directory = try TemporaryDirectory()
        let data = MockPattern.bytes(in: 0..<300_000)
        let path = try directory.write(data, to: "a.bin")
        let server = try MockServer()
        server.enqueue(.text("first"), .noReply, .text("again"))
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            _ = try await transport.get(server.url())
            let files = [UploadFile(name: "a", path: path), UploadFile(name: "b", value: "x")]
            let response = try await transport.answer(to: HTTPRequest("PUT", server.url(), body: .multipart(files)))
            #expect(response.text == "again")
            #expect(try MultipartForm(try #require(server.requests.last)).parts.map(\.body) == [data, Data("x".utf8)])
        }
    }
}

import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct ProgressTests {
    private func noting(_ events: Box<[TransferProgress]>) -> TestOwner {
        TestOwner { event in events.change { $0.append(event) } }
    }

    private func expectMonotonic(_ events: [TransferProgress], sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(
            zip(events, events.dropFirst()).allSatisfy { $0.completed <= $1.completed }, "\(events)",
            sourceLocation: sourceLocation)
    }

    @Test(arguments: ["length", "chunked", "to the end", "empty", "none"], [false, true])
    func downloadProgressEndsAtTheTotal(kind: String, streams: Bool) async throws {
        let reply: MockReply =
            switch kind {
            case "length": .pattern(byteCount: 4 << 20)
            case "chunked": .pattern(byteCount: 4 << 20).inChunks()
            case "to the end": .pattern(byteCount: 4 << 20).endingWithConnection()
            case "empty": .text("")
            default: .status(204)
            }
        let size: Int64 = ["empty", "none"].contains(kind) ? 0 : 4 << 20
        let server = try MockServer()
        server.enqueue(reply)
        let events = Box<[TransferProgress]>([])
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = streams }
            let count = try await transport.answer(to: request, for: noting(events)).body.collect(upTo: 1 << 30).count
            #expect(count == size)
        }
        expectMonotonic(events.value)
        #expect(events.value.last == TransferProgress(direction: .download, completed: size, total: size))
        if kind == "length" { #expect(events.value.allSatisfy { $0.total == size }) }
    }

    @Test(arguments: [
        "small", "large", "file", "empty file", "stream", "stream of known length", "multipart", "nothing",
    ])
    func uploadProgressEndsAtTheTotal(kind: String) async throws {
        let directory = try TemporaryDirectory()
        let data = MockPattern.bytes(in: 0..<(4 << 20))
        let small = Data("hello".utf8)
        let chunks = [data, small]
        let path = try directory.write(data, to: "a.bin")
        let body: HTTPBody =
            switch kind {
            case "small": .data(small)
            case "large": .data(data)
            case "file": .file(path)
            case "empty file": .file(try directory.write(Data(), to: "empty"))
            case "stream":
                .stream(
                    AsyncStream {
                        for chunk in chunks { $0.yield(chunk) }; $0.finish()
                    })
            case "stream of known length":
                .stream(
                    AsyncStream {
                        for chunk in chunks { $0.yield(chunk) }; $0.finish()
                    }, length: 5 + 4 << 20)
            case "multipart": .multipart([UploadFile(name: "f", path: path), UploadFile(name: "v", value: "x")])
            default: .data(Data())
            }
        let server = try MockServer()
        server.fallback { .text("\($0.bodyByteCount)") }
        let events = Box<[TransferProgress]>([])
        let sent = Box<Int64>(-1)
        try await withTransport { transport async throws in
            let response = try await transport.answer(
                to: HTTPRequest("POST", server.url(), body: body), for: noting(events))
            sent.change { $0 = Int64(response.text ?? "") ?? -1 }
        }
        expectMonotonic(events.value)
        let last = events.value.last
        #expect(last == TransferProgress(direction: .upload, completed: sent.value, total: sent.value))
        #expect(events.value.allSatisfy { $0.direction == .upload })
    }

    @Test func failedTransferNeverReachesItsTotal() async throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 1 << 20).announcingLength(2 << 20))
        server.enqueue(.pattern(byteCount: 1 << 20).inChunks(of: 1000).closing(afterBytes: 500_000))
        try await withTransport { transport async throws in
            for _ in 0..<2 {
                let events = Box<[TransferProgress]>([])
                _ = try await transport.failure(of: HTTPRequest("GET", server.url()), for: noting(events))
                expectMonotonic(events.value)
                #expect(events.value.allSatisfy { $0.completed != $0.total }, "\(events.value)")
            }
        }
    }

    /// libcurl counts the body of a challenge as well, and then starts at 0.
    @Test(arguments: [100_000, 10])
    func challengeBodyIsNotCounted(challengeSize: Int) async throws {
        let server = try MockServer()
        let challenge = MockReply.data(MockPattern.bytes(in: 0..<Int64(challengeSize)), status: 401)
            .header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"abc\", qop=\"auth\"")
        server.enqueue(challenge, .text("hello"))
        let events = Box<[TransferProgress]>([])
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.authentication = .digest(user: "u", password: "p")
            }
            #expect(try await transport.answer(to: request, for: noting(events)).text == "hello")
        }
        expectMonotonic(events.value)
        #expect(events.value.last == TransferProgress(direction: .download, completed: 5, total: 5))
    }

    @Test func repeatedUploadProgressEndsAtTheTotal() async throws {
        let data = MockPattern.bytes(in: 0..<(4 << 20))
        let server = try MockServer()
        server.enqueue(.text("first"), .noReply, .text("again"))
        let events = Box<[TransferProgress]>([])
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            _ = try await transport.get(server.url())
            let request = HTTPRequest("PUT", server.url(), body: .data(data))
            #expect(try await transport.answer(to: request, for: noting(events)).text == "again")
        }
        expectMonotonic(events.value)
        let size = Int64(data.count)
        #expect(events.value.last == TransferProgress(direction: .upload, completed: size, total: size))
    }
}

import CurlTransport
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// A file that changes after its size was announced fails the request.
@Suite struct FileChangeTests {
    /// More than the socket buffers of both sides hold, so the upload stalls halfway.
    private static let size: Int64 = 48 << 20

    /// Sends a file to a server that reads only its beginning, changes the file, and lets the server read the rest.
    private func failure(multipart: Bool, _ change: @escaping @Sendable (String) -> Void) async throws -> NetworkError {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: Self.size, to: "a.bin")
        try age(path)
        let beginningIsThere = Event()
        let mayReadOn = DispatchSemaphore(value: 0)
        let server = try RawServer { connection in
            connection.takeInLittle()
            // A multipart part opens its file only when its first byte is needed.
            var count = 0
            while count < 100_000 {
                let bytes = connection.read()
                if bytes.isEmpty { break }
                count += bytes.count
            }
            beginningIsThere.happen()
            mayReadOn.wait()
            while !connection.read().isEmpty {}
        }
        let body: HTTPBody = multipart ? .multipart([UploadFile(name: "a", path: path)]) : .file(path)
        let error = Box<NetworkError?>(nil)
        try await withTransport(testConfiguration { $0.timeout = .seconds(60) }) { transport async throws in
            let work = Task { try await transport.send(HTTPRequest("PUT", server.url(), body: body)) }
            await beginningIsThere.wait()
            change(path)
            mayReadOn.signal()
            let result = await work.result
            if case .failure(let failure as NetworkError) = result { error.change { $0 = failure } }
        }
        return try #require(error.value)
    }

    @Test(arguments: [false, true])
    func fileThatGrowsFailsTheRequest(multipart: Bool) async throws {
        let error = try await failure(multipart: multipart) { truncate($0, off_t(Self.size + 5)) }
        #expect(error.kind == .requestBody && error.message.contains("longer"), "\(error)")
    }

    @Test(arguments: [false, true])
    func fileRewrittenAtSameLengthFailsTheRequest(multipart: Bool) async throws {
        let error = try await failure(multipart: multipart) { path in
            let file = open(path, O_WRONLY)
            let bytes = [UInt8](repeating: 0xFF, count: 100)
            _ = pwrite(file, bytes, bytes.count, off_t(Self.size - 200))
            close(file)
        }
        #expect(error.kind == .requestBody && error.message.contains("written to"), "\(error)")
    }

    /// One that is coded meanwhile is no mixture of two versions either.
    @Test(arguments: [(true, "longer"), (false, "written to")])
    func codedFileThatChangesFailsTheRequest(grows: Bool, reason: String) async throws {
        let directory = try TemporaryDirectory()
        var generator = SeededGenerator(seed: 1)
        // Bytes that do not become fewer, so that the first coded ones are there before the last ones are read.
        let data = Data((0..<(512 << 10)).map { _ in UInt8.random(in: 0...255, using: &generator) })
        let path = try directory.write(data, to: "a.bin")
        try age(path)
        let request = HTTPRequest("PUT", "http://h/", body: .file(path)).with { $0.contentCoding = .gzip }
        guard case .stream(let stream)? = try BodyCoding.applied(to: request).body?.content else {
            Issue.record("the file is not coded while it is sent")
            return
        }
        let next = stream.makeIterator()
        #expect(try await next() != nil)
        if grows {
            truncate(path, off_t(data.count + 5))
        } else {
            try overwrite(path, at: data.count - 200)
        }
        let error = await TestSupport.failure { while try await next() != nil {} }
        #expect(error?.kind == .requestBody && error?.message.contains(reason) == true, "\(error?.message ?? "")")
    }

    /// Gives a file an old modification time, since the file system's clock is too coarse to tell two immediate writes apart.
    private func age(_ path: String) throws {
        var times = [timespec(tv_sec: 1_000_000, tv_nsec: 0), timespec(tv_sec: 1_000_000, tv_nsec: 0)]
        try #require(utimensat(AT_FDCWD, path, &times, 0) == 0)
    }

    private func overwrite(_ path: String, at offset: Int) throws {
        let file = open(path, O_WRONLY)
        defer { close(file) }
        let bytes = [UInt8](repeating: 0xFF, count: 100)
        try #require(pwrite(file, bytes, bytes.count, off_t(offset)) == bytes.count)
    }

    /// A file may be deleted once its upload has begun.
    @Test func deletedFileIsSentCompletely() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: Self.size, to: "a.bin")
        let server = try MockServer()
        server.fallback { request in
            .text("\(request.bodyByteCount)")
        }
        try await withTransport(testConfiguration { $0.timeout = .seconds(60) }) { transport async throws in
            let isSending = Event()
            let owner = TestOwner { _ in
                unlink(path)
                isSending.happen()
            }
            let request = HTTPRequest("PUT", server.url(), body: .file(path))
            #expect(try await transport.answer(to: request, for: owner).text == "\(Self.size)")
            #expect(isSending.hasHappened)
        }
    }

    @Test func fileChangedBeforeItsPartFailsTheRequest() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data(count: 100), to: "a.bin")
        let server = try MockServer()
        try await withTransport { transport async throws in
            // The first part delays the second until its file has changed.
            let chunks = AsyncStream<Data>(unfolding: {
                try? Data(count: 50).write(to: URL(filePath: path))
                return nil
            })
            let parts = [UploadFile(name: "s", fileName: "s", stream: chunks), UploadFile(name: "a", path: path)]
            let error = try await transport.failure(of: HTTPRequest("POST", server.url(), body: .multipart(parts)))
            #expect(error.kind == .requestBody && error.message.contains("shorter"))
            #expect(server.requestCount == 0)
        }
    }
}

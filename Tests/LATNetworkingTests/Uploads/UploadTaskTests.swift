import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(2))) struct UploadTaskTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    /// Returns a stream of `count` chunks of 1 KiB that then stalls until the signal is raised.
    private func stalling(after count: Int, until signal: Event) -> AsyncStream<Data> {
        AsyncStream { continuation in
            for _ in 0..<count { continuation.yield(Data(count: 1024)) }
            let work = Task {
                await signal.wait()
                continuation.yield(Data(count: 1024))
                continuation.finish()
            }
            continuation.onTermination = { _ in work.cancel() }
        }
    }

    private static func expectMonotonic(
        _ events: [TransferProgress], sourceLocation: SourceLocation = #_sourceLocation
    ) {
        for (earlier, later) in zip(events, events.dropFirst()) {
            #expect(earlier.completed <= later.completed, sourceLocation: sourceLocation)
            for (before, after) in zip(earlier.files, later.files) {
                #expect(before.completed <= after.completed, sourceLocation: sourceLocation)
                #expect(order(before.state) <= order(after.state), sourceLocation: sourceLocation)
            }
        }
        #expect(
            events.last?.files.allSatisfy { $0.state == .done || $0.state == .failed } == true,
            sourceLocation: sourceLocation)
    }

    private static func order(_ state: TransferProgress.File.State) -> Int {
        TransferProgress.File.State.allCases.firstIndex(of: state) ?? -1
    }

    private struct Save: RequestEntity {
        typealias Model = Int
        static let route = Route("POST", url: "/save")
        var parameters: Parameters? { ["title": "Holiday"] }
    }

    @Test func uploadEndsWithTheServersReply() async throws {
        server.enqueue(.json("1"), .json("2"))
        let manager = try CentralRequestManager.caching(.cacheThenNetwork) {
            $0.baseURL = server.url()
            $0.cachesUnsafeMethods = true
        }
        #expect(try await Save().upload(on: manager).value.model == 1)
        try await manager.cache.flush()
        #expect(try await Save().upload(on: manager).value.model == 2)
    }

    @Test func progressReportsEachFileAndTheWhole() async throws {
        server.fallback { _ in .text("thanks") }
        let manager = try CentralRequestManager.make()
        let path = try directory.writePattern(byteCount: 300_000, to: "a.bin")
        let gate = Event()
        let upload = manager.upload(
            server.url("/photos"),
            files: [
                UploadFile(name: "title", value: "Holiday"), UploadFile(name: "a", path: path),
                UploadFile(name: "b", fileName: "b.txt", data: Data()),
                UploadFile(name: "c", fileName: "c", stream: stalling(after: 3, until: gate), length: 4096),
                UploadFile(name: "d", fileName: "d.txt", data: Data("12345".utf8)),
            ], parameters: ["album": 7])
        var events: [TransferProgress] = []
        for await progress in upload.progress {
            events.append(progress)
            #expect(progress.total == 304_101 && progress.files.count == 4)
            if progress.files[2].completed > 0, !gate.hasHappened {
                #expect(progress.files.map(\.state) == [.done, .done, .uploading, .waiting])
                #expect(upload.state == .running)
                gate.happen()
            }
        }
        Self.expectMonotonic(events)
        #expect(try await upload.value.text == "thanks")
        let last = try #require(events.last)
        #expect(upload.state == .finished && last.completed == 304_101 && last.fraction == 1)
        #expect(last.files.map(\.state) == [.done, .done, .done, .done])
        #expect(last.files.map(\.completed) == [300_000, 0, 4096, 5])
        #expect(last.files.map(\.fileName) == ["a.bin", "b.txt", "c", "d.txt"])
        #expect(last == upload.currentProgress)
        let request = try #require(server.requests.first)
        #expect(request.method == "POST" && request.path == "/photos")
        for text in ["name=\"album\"", "name=\"title\"", "filename=\"a.bin\"", "Content-Type: text/plain"] {
            #expect(request.body.firstRange(of: Data(text.utf8)) != nil, "\(text)")
        }
    }

    /// The sealed body is a little longer than the file, but progress stays within the file's size.
    @Test func sealedFilesProgressStaysWithinItsSize() async throws {
        let sealer = try AESGCMSealer(keys: ["k": Data(count: 32)], current: "k")
        let manager = try CentralRequestManager.make { $0.sealer = sealer }
        server.fallback { _ in .text("no", status: 500) }
        let upload = manager.upload(
            server.url(), body: .file(try directory.writePattern(byteCount: 300_000, to: "a.bin")))
        var events: [TransferProgress] = []
        for await progress in upload.progress { events.append(progress) }
        _ = await #expect(throws: NetworkError.self) { try await upload.value }
        #expect(events.allSatisfy { $0.completed <= 300_000 })
        #expect(events.last?.completed == 300_000)
        #expect(server.requests.last.map { $0.body.count > 300_000 } == true)
    }

    @Test func lateReaderGetsTheFinalProgress() async throws {
        server.fallback { _ in .status(204) }
        let manager = try CentralRequestManager.make()
        let upload = manager.upload(server.url(), files: [UploadFile(name: "a", fileName: "a", data: Data(count: 10))])
        async let early = Array(upload.progress)
        _ = try await upload.value
        let late = await Array(upload.progress)
        #expect(late.map(\.fraction) == [1] && upload.state == .finished)
        let events = await early
        Self.expectMonotonic(events)
    }

    @Test(arguments: ["PUT", "POST", "patch", "Report"])
    func bodyIsSentUnchanged(method: String) async throws {
        server.fallback { _ in .status(200) }
        let manager = try CentralRequestManager.make()
        let path = try directory.writePattern(byteCount: 200_000, to: "report.pdf")
        let upload = manager.upload(server.url("/x"), method: method, body: .file(path), parameters: ["v": 2])
        let events = await Array(upload.progress)
        _ = try await upload.value
        Self.expectMonotonic(events)
        #expect(events.last?.files.map(\.fileName) == ["report.pdf"] && events.last?.completed == 200_000)
        let request = try #require(server.requests.first)
        #expect(request.method == (method == "patch" ? "PATCH" : method))
        #expect(request.target == "/x?v=2" && request.headers["Content-Type"] == "application/pdf")
        #expect(request.body.count == 200_000 && MockPattern.firstMismatch(in: request.body, at: 0) == nil)
    }

    @Test func dataStreamsAndPartsReportProgress() async throws {
        server.fallback { _ in .status(200) }
        let manager = try CentralRequestManager.make()
        let chunks = AsyncStream<Data> {
            for _ in 0..<3 { $0.yield(Data(count: 5)) }
            $0.finish()
        }
        for (body, size) in [
            (.data(Data(count: 100)), 100), (.data(Data(count: 100_000)), 100_000), (.stream(chunks), 15),
            (.multipart([UploadFile(name: "a", fileName: "a", data: Data(count: 9))]), 9), (.data(Data()), 0),
        ] as [(HTTPBody, Int64)] {
            let upload = manager.upload(server.url(), body: body)
            _ = try await upload.value
            #expect(upload.currentProgress.completed == size && upload.currentProgress.total == size)
            #expect(upload.currentProgress.fraction == 1)
        }
        #expect(server.requestCount == 5)
    }

    @Test func resendingNeverDecreasesProgress() async throws {
        server.enqueue(.redirect(to: "/there", status: 307), .text("ok"))
        let manager = try CentralRequestManager.make()
        let path = try directory.writePattern(byteCount: 3_000_000, to: "a.bin")
        let upload = manager.upload(
            server.url(), files: [UploadFile(name: "a", path: path), UploadFile(name: "b", path: path)])
        let events = await Array(upload.progress)
        #expect(try await upload.value.redirects.count == 1)
        Self.expectMonotonic(events)
        #expect(events.last?.completed == 6_000_000 && server.requests.map(\.path) == ["/", "/there"])
    }

    @Test func callProgressNeverDecreases() async throws {
        server.enqueue(.redirect(to: "/there", status: 307), .text("ok"))
        let manager = try CentralRequestManager.make()
        let path = try directory.writePattern(byteCount: 3_000_000, to: "a.bin")
        let log = Log<TransferProgress>()
        _ = try await manager.startRequest("PUT", server.url(), body: .file(path), progress: { log.append($0) })
        let completed = log.elements.map(\.completed)
        #expect(completed == completed.sorted() && log.elements.last?.fraction == 1)
        #expect(server.requests.map(\.bodyByteCount) == [3_000_000, 3_000_000])
    }

    @Test func cancellingClosesTheConnection() async throws {
        let manager = try CentralRequestManager.make()
        let never = Event()
        defer { never.happen() }
        let upload = manager.upload(
            server.url(),
            files: [
                UploadFile(name: "a", fileName: "a", data: Data(count: 10)),
                UploadFile(name: "b", fileName: "b", stream: stalling(after: 100, until: never)),
            ])
        try await server.waitForBodyBytes(50_000)
        upload.cancel()
        let error = try #require(await failure(of: { try await upload.value }))
        #expect(error.kind == .cancelled && upload.isCancelled)
        try await server.waitUntilDisconnected()
        #expect(server.abandonedRequests.count == 1 && server.requestCount == 0)
        let last = upload.currentProgress
        #expect(upload.state == .cancelled && last.files.map(\.state) == [.failed, .failed])
        #expect(await Array(upload.progress) == [last])
    }

    @Test func cancelledReaderLeavesTheUploadRunning() async throws {
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let gate = Event()
        let upload = manager.upload(
            server.url(), files: [UploadFile(name: "b", fileName: "b", stream: stalling(after: 1, until: gate))])
        let reader = Task { await Array(upload.progress) }
        let waiter = Task { try await upload.value }
        try await server.waitForBodyBytes(1)
        reader.cancel()
        waiter.cancel()
        #expect(await reader.value.last?.fraction != 1)
        gate.happen()
        #expect(try await upload.value.text == "ok")
    }

    @Test func suspendedUploadCanBeResumed() async throws {
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let upload = manager.upload(
            server.url(), files: [UploadFile(name: "a", fileName: "a", data: Data(count: 1000))])
        upload.pause()
        upload.resume()
        #expect(try await upload.value.text == "ok")
    }

    @Test func errorStatusFailsTheFile() async throws {
        server.enqueue(.text("too large", status: 413))
        let manager = try CentralRequestManager.make()
        let upload = manager.upload(server.url(), files: [UploadFile(name: "a", fileName: "a", data: Data(count: 10))])
        let error = try #require(await failure(of: { try await upload.value }))
        #expect(error.kind == .httpStatus && error.response?.text == "too large")
        #expect(upload.currentProgress.files.map(\.state) == [.failed])
    }

    @Test func managersTimeoutDoesNotLimitUploads() async throws {
        server.fallback { _ in .text("ok").delayed(by: .milliseconds(600)) }
        let manager = try CentralRequestManager.make { $0.timeout = .milliseconds(200) }
        let files = [UploadFile(name: "a", fileName: "a", data: Data(count: 10))]
        #expect(try await manager.upload(server.url(), files: files).value.text == "ok")
        let short = manager.upload(server.url(), files: files, timeout: .milliseconds(100))
        #expect(await failure(of: { try await short.value })?.kind == .timeout(.total))
    }

    @Test func methodsWithoutABodyAreRefused() async throws {
        let manager = try CentralRequestManager.make()
        let upload = manager.upload(
            server.url(), method: "get", files: [UploadFile(name: "a", fileName: "a", data: Data(count: 1))])
        #expect(await failure(of: { try await upload.value })?.kind == .invalidRequest)
        #expect(upload.state == .failed && server.acceptedConnections == 0)
    }

    // MARK: Entities

    private struct SavePhotos: RequestEntity, Encodable {
        typealias Model = JSONValue
        static let route = Route("PUT", url: "/albums/{album}")
        var album: Int
        var title: String
        var photos: [UploadFile] = []
        var files: [UploadFile] { photos }

        enum CodingKeys: String, CodingKey { case album, title }
    }

    @Test func entityUploadReportsItsFiles() async throws {
        server.fallback { _ in .json(#"{"saved": 2}"#) }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url("") }
        let path = try directory.writePattern(byteCount: 100_000, to: "b.png")
        let entity = SavePhotos(
            album: 7, title: "Ferien",
            photos: [
                UploadFile(name: "p", fileName: "a.png", data: Data(count: 10)), UploadFile(name: "p", path: path),
            ])
        let upload = entity.upload(on: manager)
        let events = await Array(upload.progress)
        #expect(try await upload.value.model["saved"].int == 2)
        Self.expectMonotonic(events)
        #expect(events.last?.files.map(\.completed) == [10, 100_000])
        let request = try #require(server.requests.first)
        #expect(request.method == "PUT" && request.path == "/albums/7")
        #expect(request.body.firstRange(of: Data("name=\"title\"\r\n\r\nFerien\r\n".utf8)) != nil)
        #expect(request.body.firstRange(of: Data("name=\"album\"".utf8)) == nil)
    }

    @Test func entityCallWithFilesReportsProgress() async throws {
        server.fallback { _ in .json("{}") }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url("") }
        let log = Log<TransferProgress>()
        let entity = SavePhotos(
            album: 1, title: "x", photos: [UploadFile(name: "p", fileName: "a", data: Data(count: 100_000))])
        _ = try await entity.progress { log.append($0) }.startRequest(on: manager)
        let last = try #require(log.elements.last)
        #expect(last.direction == .upload && last.fraction == 1 && last.completed > 100_000)
    }
}

extension Array {
    fileprivate init<S: AsyncSequence>(_ sequence: S) async where S.Element == Element {
        var elements: [Element] = []
        do {
            for try await element in sequence { elements.append(element) }
        } catch {
            Issue.record("the sequence threw: \(error)")
        }
        self = elements
    }
}

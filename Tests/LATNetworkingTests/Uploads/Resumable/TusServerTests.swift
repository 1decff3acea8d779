import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATTransfers

/// Uploads by tus 1.0 to tuspyserver.
@Suite(.needsPython, .timeLimit(.minutes(2))) struct TusServerTests {
    private let manager: CentralRequestManager

    init() throws { manager = try .make { $0.retries = 3 } }

    private func slowly(_ url: String, _ path: String, rate: Int64? = 1 << 18) -> HTTPRequest {
        var request = HTTPRequest("POST", url, body: .file(path))
        request.maxSendRate = rate
        return request
    }

    @Test func fileArrivesInParts() async throws {
        let fixture = try UploadFixture(size: 3 << 20)
        let server = try await TusServer(fixture.served)
        var tus = ResumableUpload.tus(partSize: 1 << 20, metadata: ["title": "Größe"])
        tus.sendsChecksums = false
        let upload = manager.upload(server.url, body: .file(fixture.path), resumable: tus)
        let response = try await upload.value
        #expect(response.status == 204 && response.url.hasPrefix(server.url))
        #expect(server.uploads == [fixture.content])
        try await server.expectMethods("OPTIONS", "POST", "PATCH", "PATCH", "PATCH")
        #expect(upload.currentProgress.completed == 3 << 20 && upload.state == .finished)
        #expect(fixture.leftovers.isEmpty)
        #expect(fixture.names(in: "served").contains { $0.hasSuffix(".info") })
        let info = fixture.names(in: "served").first { $0.hasSuffix(".info") } ?? ""
        let text = String(decoding: fixture.directory.read("served/" + info) ?? Data(), as: UTF8.self)
        #expect(text.contains("big.bin") && text.contains("title"))
    }

    @Test(arguments: [0, 1000]) func smallFileNeedsOneRequest(size: Int) async throws {
        let fixture = try UploadFixture(size: size)
        let server = try await TusServer(fixture.served)
        var request = HTTPRequest("POST", server.url, body: .file(fixture.path))
        request.idempotencyKey = "1"
        let response = try await manager.upload(request, resumable: .tus).value
        #expect(response.status == 201 && server.uploads == [fixture.content])
        try await server.expectMethods("OPTIONS", "POST")
    }

    @Test func cancelledUploadIsContinued() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let server = try await TusServer(fixture.served)
        let first = manager.upload(slowly(server.url, fixture.path, rate: 1 << 17), resumable: .tus(partSize: 1 << 20))
        await first.reach(2 << 20)
        first.cancel(keepingProgress: true)
        let error = await failure { try await first.value }
        #expect(error?.kind == .cancelled && error?.message.contains("the same upload continues") == true)
        #expect(fixture.leftovers.count == 1)
        let journal = fixture.directory.path(of: "files/" + (fixture.leftovers.first ?? ""))
        let mode = try FileManager.default.attributesOfItem(atPath: journal)[.posixPermissions] as? Int
        #expect(mode == 0o600)

        let second = manager.upload(slowly(server.url, fixture.path, rate: nil), resumable: .tus(partSize: 1 << 20))
        _ = try await second.value
        #expect(server.uploads == [fixture.content] && fixture.leftovers.isEmpty)
        #expect(server.requests.count { $0.method == "POST" } == 1)
        #expect(server.received <= 5 << 20, "\(server.requests)")
    }

    @Test func serverThatRestartsIsAskedAgain() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        var server = try await TusServer(fixture.served)
        let port = server.script.port
        let patient = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 2_000, firstWait: .milliseconds(10), longestWait: .milliseconds(50))
            // The server may take longer to start than a budget lasts.
            $0.retryBudget = nil
        }
        let upload = patient.upload(slowly(server.url, fixture.path), resumable: .tus(partSize: 1 << 20))
        await upload.reach(2 << 20)
        try await server.script.process.terminate()
        server = try await TusServer(fixture.served, port: port)
        _ = try await upload.value
        #expect(server.uploads == [fixture.content])
        // On a busy machine the upload may have ended before the server, so that there is nothing to ask.
        #expect(!server.requests.contains { $0.method == "POST" })
    }

    @Test func partsSideBySideAreJoined() async throws {
        let fixture = try UploadFixture(size: (3 << 20) + 5)
        let server = try await TusServer(fixture.served)
        let upload = manager.upload(
            server.url, body: .file(fixture.path), resumable: .tus(partSize: 512 << 10, parallel: 3))
        let response = try await upload.value
        #expect(response.status == 201)
        #expect(server.uploads == [fixture.content], "the parts are gone, the whole is there")
        try await eventually("four creations") { server.requests.count { $0.method == "POST" } == 4 }
    }

    @Test func joinedPartsAreContinued() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let server = try await TusServer(fixture.served)
        let tus = ResumableUpload.tus(partSize: 512 << 10, parallel: 2)
        let first = manager.upload(slowly(server.url, fixture.path, rate: 1 << 18), resumable: tus)
        await first.reach(1 << 20)
        manager.cancelRequests(.key(first.key))
        #expect(await failure { try await first.value }?.kind == .cancelled)
        _ = try await manager.upload(slowly(server.url, fixture.path, rate: nil), resumable: tus).value
        #expect(server.uploads == [fixture.content])
        #expect(server.received <= 5 << 20, "\(server.requests)")
    }

    @Test func cancelledUploadIsRemoved() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let server = try await TusServer(fixture.served)
        let upload = manager.upload(slowly(server.url, fixture.path, rate: 1 << 17), resumable: .tus(partSize: 1 << 20))
        await upload.reach(1 << 20)
        upload.cancel()
        #expect(await failure { try await upload.value }?.kind == .cancelled)
        #expect(server.uploads.isEmpty && fixture.leftovers.isEmpty)
        #expect(upload.state == .cancelled)
    }

    @Test func changedFileStartsOver() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let server = try await TusServer(fixture.served)
        let first = manager.upload(slowly(server.url, fixture.path, rate: 1 << 17), resumable: .tus(partSize: 1 << 20))
        await first.reach(2 << 20)
        first.cancel(keepingProgress: true)
        _ = await failure { try await first.value }
        let other = UploadFixture.bytes(4 << 20, seed: 9)
        try other.write(to: URL(filePath: fixture.path), options: .atomic)
        _ = try await manager.upload(slowly(server.url, fixture.path, rate: nil), resumable: .tus).value
        #expect(server.uploads == [other], "the bytes of the old version are removed")
    }

    @Test func fileThatChangesEndsTheUpload() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        // Made before, because that takes as long as the upload on a busy machine.
        let other = UploadFixture.bytes(4 << 20, seed: 9)
        let server = try await TusServer(fixture.served)
        let upload = manager.upload(slowly(server.url, fixture.path), resumable: .tus(partSize: 1 << 20))
        await upload.reach(1 << 20)
        try other.write(to: URL(filePath: fixture.path), options: .atomic)
        let error = await failure { try await upload.value }
        #expect(error?.kind == .requestBody && error?.message.contains("has changed") == true)
        #expect(server.uploads.isEmpty && fixture.leftovers.isEmpty)
    }

    @Test func uploadThatIsGoneStartsOver() async throws {
        // So large that the last part has not begun when the upload is cancelled, also on a busy machine.
        let fixture = try UploadFixture(size: 4 << 20)
        let server = try await TusServer(fixture.served)
        let first = manager.upload(
            slowly(server.url, fixture.path), resumable: .tus(partSize: 512 << 10))
        await first.reach(1 << 20)
        first.cancel(keepingProgress: true)
        _ = await failure { try await first.value }
        // The server may still write down what it has of the last part.
        try await eventually("a server without the upload") {
            let names = fixture.names(in: "served").filter { $0 != ".keep" && $0 != ".locks" }
            for name in names { try? FileManager.default.removeItem(atPath: fixture.served + "/" + name) }
            return names.isEmpty
        }
        _ = try await manager.upload(slowly(server.url, fixture.path, rate: nil), resumable: .tus).value
        #expect(server.uploads == [fixture.content])
        #expect(server.requests.contains { $0.method == "HEAD" && $0.status == 404 })
    }

    @Test func tooLargeFileIsNotSent() async throws {
        let fixture = try UploadFixture(size: 2000)
        let server = try await TusServer(fixture.served, maxSize: 1000)
        let error = await failure {
            try await manager.upload(server.url, body: .file(fixture.path), resumable: .tus).value
        }
        #expect(error?.kind == .requestBody && error?.message.contains("at most 1000") == true)
        // The server may write its log after its answer.
        try await eventually("the request in the log") { !server.requests.isEmpty }
        #expect(server.requests.map(\.method) == ["OPTIONS"] && fixture.leftovers.isEmpty)
    }

    @Test func serverWithoutExtensionsTakesAllInTurn() async throws {
        let fixture = try UploadFixture(size: 1 << 20)
        let server = try await TusServer(fixture.served, extensions: "creation")
        let upload = manager.upload(server.url, body: .file(fixture.path), resumable: .tus(parallel: 4))
        #expect(try await upload.value.status == 204)
        #expect(server.uploads == [fixture.content])
        try await server.expectMethods("OPTIONS", "POST", "PATCH")
    }

    /// A server may remove an upload when it is complete, such as tussi 3.1. If the answer to the last PATCH is lost, it then
    /// looks like one that never was (404, 410), and sending it again could make a second file.
    @Test(arguments: [404, 410]) func lostLastAnswerIsNotSentTwice(status: Int) async throws {
        let fixture = try UploadFixture(size: 200_000)
        let server = try MockServer()
        server.bodyLimit = 0
        let url = server.url("/u")
        let offset = Box(0)
        server.fallback { request in
            switch request.method {
            case "POST":
                offset.change { $0 = 0 }
                return MockReply(status: 201, headers: ["Location": url])
            case "PATCH":
                offset.change { $0 += Int(request.headers["Content-Length"] ?? "") ?? 0 }
                guard offset.value < 200_000 else { return .noReply }
                return MockReply(status: 204, headers: ["Upload-Offset": "\(offset.value)"])
            case "HEAD" where offset.value == 200_000: return .status(status)
            case "HEAD": return MockReply(status: 200, headers: ["Upload-Offset": "\(offset.value)"])
            default: return .status(204)
            }
        }
        let (manager, path) = (manager, fixture.path)
        let tus = ResumableUpload.tus(partSize: 100_000)
        // The next run does not know more.
        for run in 1...2 {
            let error = await failure {
                try await manager.upload(server.url("/files"), body: .file(path), resumable: tus).value
            }
            #expect(error?.kind == .protocolViolation && error?.message.contains("it may be complete") == true)
            #expect(server.requests.count { $0.method == "PATCH" } == 2 && fixture.leftovers.count == 1, "run \(run)")
        }
        // Who has looked at the server may send it again.
        var again = tus
        again.resumesEarlierRun = false
        _ = await failure { [again] in
            try await manager.upload(server.url("/files"), body: .file(path), resumable: again).value
        }
        #expect(server.requests.count { $0.method == "POST" } == 2)
    }
}

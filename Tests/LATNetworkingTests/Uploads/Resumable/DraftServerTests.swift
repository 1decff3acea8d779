import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATTransfers

/// Uploads by the IETF draft to the server in MockServer.
@Suite(.timeLimit(.minutes(2))) struct DraftServerTests {
    private let server: MockServer
    private let manager: CentralRequestManager

    init() throws {
        server = try MockServer()
        server.bodyLimit = 0
        manager = try .make { $0.retryPolicy = RetryPolicy(retries: 8, firstWait: .milliseconds(1)) }
    }

    private func upload(
        _ fixture: UploadFixture, _ standard: ResumableUpload = .standard, method: String = "PUT"
    ) -> UploadTask<HTTPResponse> {
        manager.upload(server.url("/files"), method: method, body: .file(fixture.path), resumable: standard)
    }

    private var methods: [String] { server.requests.map(\.method) }

    @Test(arguments: [0, 2 << 20]) func wholeFileGoesInOneRequest(size: Int) async throws {
        let fixture = try UploadFixture(size: size)
        let uploads = server.resumableUploads(.withoutOptions)
        let response = try await upload(fixture).value
        #expect(response.status == 200 && uploads.contents == [fixture.content])
        #expect(try response.json()["size"].int == size)
        #expect(methods == ["OPTIONS", "PUT"] && fixture.leftovers.isEmpty)
        let fields = try #require(server.requests.last?.headers)
        #expect(fields["Upload-Complete"] == "?1" && fields["Upload-Length"] == "\(size)")
        #expect(fields["Upload-Draft-Interop-Version"] == "8")
        #expect(fields["Content-Disposition"] == "inline; filename=\"big.bin\"")
    }

    @Test func cutUploadContinuesAtTheOffset() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let uploads = server.resumableUploads(.withoutOptions)
        uploads.cutNext(afterBytes: 1_234_567)
        let task = upload(fixture, .standard(partSize: 1 << 20))
        let response = try await task.value
        #expect(response.status == 200 && uploads.contents == [fixture.content])
        #expect(uploads.receivedBytes == 4 << 20, "no byte is sent again")
        #expect(methods.prefix(3) == ["OPTIONS", "HEAD", "PATCH"], "the request that was cut is not among them")
        let patch = try #require(server.requests.first { $0.method == "PATCH" }?.headers)
        #expect(patch["Upload-Offset"] == "1234567" && patch["Content-Type"] == "application/partial-upload")
        #expect(patch["Upload-Complete"] == "?0")
    }

    @Test(arguments: 3...8) func olderServerIsFoundStepByStep(version: Int) async throws {
        let fixture = try UploadFixture(size: 1 << 20)
        var settings = MockServer.Uploads.Settings.withoutOptions
        settings.interopVersion = version
        let uploads = server.resumableUploads(settings)
        for _ in version...8 { uploads.cutNext(afterBytes: 100_000) }
        // The engine sends a PUT again by itself when its connection was not new.
        var request = HTTPRequest("POST", server.url("/files"), body: .file(fixture.path))
        request.retryPolicy = RetryPolicy(retries: 8, firstWait: .milliseconds(1), repeatsOnlyIdempotent: false)
        _ = try await manager.upload(request, resumable: .standard).value
        #expect(uploads.contents == [fixture.content])
        #expect(uploads.receivedBytes == Int64((1 << 20) + (8 - version) * 100_000), "the last attempt is continued")
        let patch = try #require(server.requests.first { $0.method == "PATCH" }?.headers)
        #expect(patch["Upload-Draft-Interop-Version"] == "\(version)")
        #expect(patch["Upload-Complete"] == (version > 3 ? "?1" : nil))
        #expect(patch["Upload-Incomplete"] == (version > 3 ? nil : "?0"))
    }

    @Test func serverWithoutUploadsGetsAnOrdinaryOne() async throws {
        let fixture = try UploadFixture(size: 100_000)
        server.bodyLimit = 1 << 20
        server.route("PUT", "/files") { .text("\($0.body.count)") }
        let response = try await upload(fixture).value
        #expect(response.text == "100000" && fixture.leftovers.isEmpty)
    }

    @Test func limitsOfTheServerAreKept() async throws {
        let fixture = try UploadFixture(size: 1_000_000)
        var settings = MockServer.Uploads.Settings()
        settings.limits = ["max-append-size": 300_000, "max-size": 1_000_000, "max-age": 3600]
        let uploads = server.resumableUploads(settings)
        _ = try await upload(fixture).value
        #expect(uploads.contents == [fixture.content])
        #expect(methods == ["OPTIONS", "PUT", "PATCH", "PATCH", "PATCH", "PATCH"])
        #expect(server.requests[1].headers["Upload-Complete"] == "?0" && server.requests[1].bodyByteCount == 0)
        #expect(server.requests.allSatisfy { $0.bodyByteCount <= 300_000 })
    }

    @Test func limitOfARefusalIsKept() async throws {
        let fixture = try UploadFixture(size: 1_000_000)
        var settings = MockServer.Uploads.Settings.withoutOptions
        settings.limits = ["max-append-size": 400_000]
        let uploads = server.resumableUploads(settings)
        _ = try await upload(fixture).value
        #expect(uploads.contents == [fixture.content])
        #expect(server.requests.contains { $0.method == "PATCH" && $0.bodyByteCount == 400_000 })
    }

    @Test func tooLargeFileIsNotSent() async throws {
        let fixture = try UploadFixture(size: 2_000)
        var settings = MockServer.Uploads.Settings()
        settings.limits = ["max-size": 1_999]
        server.resumableUploads(settings)
        let error = await failure { try await upload(fixture).value }
        #expect(error?.kind == .requestBody && methods == ["OPTIONS"])
    }

    @Test func digestsAreSentWhereWanted() async throws {
        let fixture = try UploadFixture(size: 1_000_000)
        var settings = MockServer.Uploads.Settings()
        settings.wantsDigests = true
        settings.limits = ["max-append-size": 600_000]
        let uploads = server.resumableUploads(settings)
        _ = try await upload(fixture).value
        #expect(uploads.contents == [fixture.content], "the server has compared them")
        #expect(server.requests[1].headers["Repr-Digest"]?.hasPrefix("sha-256=:") == true)
        #expect(server.requests.filter { $0.method == "PATCH" }.allSatisfy { $0.headers["Content-Digest"] != nil })

        var silent = ResumableUpload.standard
        silent.sendsChecksums = false
        server.forgetRequests()
        _ = try await upload(fixture, silent).value
        #expect(server.requests.allSatisfy { $0.headers["Repr-Digest"] == nil && $0.headers["Content-Digest"] == nil })
    }

    @Test func cancelledUploadIsContinuedByTheNext() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let uploads = server.resumableUploads()
        server.bodyReadRate = 1 << 20
        let request = HTTPRequest("POST", server.url("/files"), body: .file(fixture.path))
        let first = manager.upload(request, resumable: .standard(partSize: 512 << 10))
        await first.reach(1 << 20)
        first.cancel(keepingProgress: true)
        #expect(await failure { try await first.value }?.kind == .cancelled)
        #expect(uploads.contents.isEmpty && uploads.unfinished.count == 1 && !fixture.leftovers.isEmpty)
        server.bodyReadRate = nil
        _ = try await manager.upload(request, resumable: .standard).value
        #expect(uploads.contents == [fixture.content] && fixture.leftovers.isEmpty)
        #expect(uploads.receivedBytes <= (4 << 20) + 512 << 10)
        #expect(methods.count { $0 == "POST" } == 1)
    }

    @Test func cancelledUploadIsRemoved() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let uploads = server.resumableUploads()
        server.bodyReadRate = 1 << 20
        let request = HTTPRequest("POST", server.url("/files"), body: .file(fixture.path))
        let task = manager.upload(request, resumable: .standard(partSize: 512 << 10))
        await task.reach(1 << 20)
        task.cancel()
        #expect(await failure { try await task.value }?.kind == .cancelled)
        #expect(uploads.unfinished.isEmpty && fixture.leftovers.isEmpty && methods.last == "DELETE")
    }

    @Test func forgottenUploadStartsOver() async throws {
        let fixture = try UploadFixture(size: 1 << 20)
        let uploads = server.resumableUploads()
        uploads.cutNext(afterBytes: 1 << 19)
        let impatient = try CentralRequestManager.make()
        let url = server.url("/files")
        let error = await failure {
            try await impatient.upload(url, body: .file(fixture.path), resumable: .standard).value
        }
        #expect(error?.kind == .connectionLost && !fixture.leftovers.isEmpty)
        uploads.forgetAll()
        _ = try await upload(fixture).value
        #expect(uploads.contents == [fixture.content] && fixture.leftovers.isEmpty)
    }

    @Test func failingServerIsAskedForItsOffset() async throws {
        let fixture = try UploadFixture(size: 1 << 20)
        let uploads = server.resumableUploads()
        // The answers to OPTIONS, to the creation and to the first part.
        server.enqueue(.status(204), .status(503), .status(503))
        _ = try await upload(fixture, .standard(partSize: 512 << 10)).value
        #expect(uploads.contents == [fixture.content])
    }

    @Test func completionIsSentApart() async throws {
        let fixture = try UploadFixture(size: 300_000)
        let uploads = server.resumableUploads(.withoutOptions)
        uploads.cutNext(afterBytes: 300_000)
        let response = try await upload(fixture).value
        #expect(response.status == 200 && uploads.contents == [fixture.content])
        let last = try #require(server.requests.last)
        #expect(last.method == "PATCH" && last.bodyByteCount == 0 && last.headers["Upload-Offset"] == "300000")
    }

    @Test func refusedResultEndsTheUpload() async throws {
        let fixture = try UploadFixture(size: 1_000)
        var settings = MockServer.Uploads.Settings.withoutOptions
        settings.status = 422
        server.resumableUploads(settings)
        for _ in 0..<2 {
            let error = await failure { try await upload(fixture).value }
            #expect(error?.kind == .httpStatus && error?.response?.status == 422 && fixture.leftovers.isEmpty)
        }
        #expect(methods == ["OPTIONS", "PUT", "OPTIONS", "PUT"], "the next run does not take it for a success")
    }

    @Test func resultWithoutTheFieldIsConfirmed() async throws {
        let fixture = try UploadFixture(size: 1_000)
        let isComplete = Box("?1")
        server.fallback { request in
            switch request.method {
            case "OPTIONS": MockReply(status: 204, headers: ["Upload-Draft-Interop-Version": "8"])
            case "PUT": MockReply(status: 201, headers: ["Location": "/u", "Upload-Complete": "?0"])
            case "PATCH": .text("result")
            case "HEAD":
                MockReply(
                    status: 204,
                    headers: [
                        "Upload-Offset": isComplete.value == "?1" ? "1000" : "0", "Upload-Complete": isComplete.value,
                    ])
            default: .status(405)
            }
        }
        let standard = ResumableUpload.standard(partSize: 999)
        for (answer, isSuccess) in [("?1", true), ("?0", false)] {
            isComplete.change { $0 = answer }
            let result = try? await upload(fixture, standard).value
            #expect((result?.text == "result") == isSuccess, "\(methods)")
        }
    }

    @Test func progressNeverGoesBack() async throws {
        let fixture = try UploadFixture(size: 4 << 20)
        let uploads = server.resumableUploads(.withoutOptions)
        for offset in [500_000, 700_000, 900_000] as [Int64] { uploads.cutNext(afterBytes: offset) }
        let task = upload(fixture, .standard(partSize: 1 << 20))
        var last: Int64 = 0
        for await progress in task.progress {
            #expect(progress.completed >= last)
            last = progress.completed
        }
        _ = try await task.value
        #expect(last == 4 << 20 && uploads.contents == [fixture.content])
    }

    @Test func bodyInMemoryIsRefused() async throws {
        let error = await failure {
            try await manager.upload(server.url("/files"), body: .data(Data("a".utf8)), resumable: .standard).value
        }
        #expect(error?.kind == .invalidRequest && error?.message.contains("body: .file(path)") == true)
        #expect(methods.isEmpty)
    }
}

extension MockServer.Uploads.Settings {
    static var withoutOptions: Self {
        var settings = Self()
        settings.answersOptions = false
        return settings
    }
}

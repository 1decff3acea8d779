import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATTransfers

/// What must not happen to an upload that can go on: nothing of it is lost, doubled, mixed or shown to others.
@Suite(.timeLimit(.minutes(2))) struct ResumableSafetyTests {
    private let server: MockServer
    private let fixture: UploadFixture

    init() throws {
        server = try MockServer()
        server.bodyLimit = 0
        fixture = try UploadFixture(size: 200_000)
    }

    @Test func expiredUploadStartsOver() async throws {
        let url = server.url("/u")
        // The clock of this machine says nothing: whether the upload is gone, only the server knows.
        let expires = "Thu, 01 Jan 2026 00:00:00 GMT"
        let gone = Box(false)
        server.fallback { request in
            switch request.method {
            case "POST": MockReply(status: 201, headers: ["Location": url, "Upload-Expires": expires])
            case "PATCH" where server.requests.count { $0.method == "POST" } < 2: .status(400)
            case "PATCH": MockReply(status: 204, headers: ["Upload-Offset": "200000"])
            case "HEAD" where gone.value: .status(404)
            case "HEAD": MockReply(status: 200, headers: ["Upload-Offset": "100000", "Upload-Length": "200000"])
            default: .status(204)
            }
        }
        let manager = try CentralRequestManager.make()
        let path = fixture.path
        for _ in 0..<2 {
            let error = await failure {
                try await manager.upload(server.url("/files"), body: .file(path), resumable: .tus).value
            }
            #expect(error?.response?.status == 400 && fixture.leftovers.count == 1)
            #expect(error?.message.contains("the same upload continues") == true)
        }
        #expect(server.requests.map(\.method).suffix(3) == ["OPTIONS", "HEAD", "PATCH"], "it is not expired")
        gone.change { $0 = true }
        _ = try await manager.upload(server.url("/files"), body: .file(path), resumable: .tus).value
        #expect(server.requests.map(\.method).suffix(3) == ["DELETE", "POST", "PATCH"])
        #expect(fixture.leftovers.isEmpty)
    }

    @Test func refusedQuestionKeepsTheUpload() async throws {
        let url = server.url("/u")
        let status = Box(500)
        server.fallback { request in
            switch request.method {
            case "POST": MockReply(status: 201, headers: ["Location": url])
            case "OPTIONS": .status(204)
            case "HEAD": MockReply(status: status.value, headers: ["Upload-Offset": "200001"])
            default: .status(500)
            }
        }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .milliseconds(1))
        }
        let path = fixture.path
        for answer in [500, 403, 200] {
            status.change { $0 = answer }
            let error = await failure {
                try await manager.upload(server.url("/files"), body: .file(path), resumable: .tus).value
            }
            #expect(error != nil && fixture.leftovers.count == 1, "\(answer)")
        }
        #expect(server.requests.count { $0.method == "POST" } == 1)
        #expect(!server.requests.contains { $0.method == "DELETE" })
    }

    @Test func budgetLimitsTheRepetitions() async throws {
        server.fallback { $0.method == "OPTIONS" ? .status(204) : .status(503) }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 20, firstWait: .milliseconds(1))
            // One token, which is never replaced.
            $0.retryBudget = RetryPolicy.Budget(share: 0, reserve: 0)
        }
        let (path, url) = (fixture.path, server.url("/files"))
        let error = await failure { try await manager.upload(url, body: .file(path), resumable: .tus).value }
        #expect(error?.response?.status == 503)
        #expect(server.requests.map(\.method) == ["OPTIONS", "POST", "POST"])
        _ = try await manager.send(HTTPRequest("GET", url))
        #expect(server.requestCount == 4, "the upload has paid with the token of all calls")
    }

    @Test func serverThatEndsOptionsGetsTheUpload() async throws {
        let url = server.url("/u")
        server.fallback { request in
            switch request.method {
            case "OPTIONS": .noReply
            case "POST": MockReply(status: 201, headers: ["Location": url])
            default: MockReply(status: 204, headers: ["Upload-Offset": "200000"])
            }
        }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .milliseconds(1))
        }
        _ = try await manager.upload(server.url("/files"), body: .file(fixture.path), resumable: .tus).value
        #expect(server.requests.map(\.method) == ["OPTIONS", "OPTIONS", "POST", "PATCH"])
    }

    /// The server has processed the file, and redirects to a result that cannot be had: nothing listens on port 1.
    private static let lostResult = MockReply.redirect(to: "http://127.0.0.1:1/result", status: 303)

    @Test(arguments: [false, true]) func processedUploadIsNotSentAgain(isAnnounced: Bool) async throws {
        let url = server.url("/u")
        server.fallback { request in
            switch request.method {
            case "OPTIONS": .status(200)
            case "POST" where isAnnounced:
                Self.lostResult.withInterim(104, headers: ["Location": url, "Upload-Draft-Interop-Version": "8"])
            case "POST": Self.lostResult
            default: .status(404)
            }
        }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1))
        }
        let path = fixture.path
        for _ in 0..<2 {
            let error = await failure {
                try await manager.upload(
                    server.url("/files"), method: "POST", body: .file(path), resumable: .standard
                ).value
            }
            #expect(error?.kind == (isAnnounced ? .protocolViolation : .connect), "\(String(describing: error))")
            guard isAnnounced else { break }
            #expect(error?.message.contains("it may be complete") == true)
        }
        #expect(server.requests.count { $0.method == "POST" } == 1)
    }

    @Test func processedUploadGetsNoFreshLink() async throws {
        server.fallback { request in
            switch request.method {
            case "OPTIONS": .status(200)
            case "POST": .redirect(to: "/result", status: 303)
            default: .status(403)
            }
        }
        let manager = try CentralRequestManager.make()
        let (path, url, again) = (fixture.path, server.url("/files"), server.url("/again"))
        let error = await failure {
            try await manager.upload(url, method: "POST", body: .file(path), resumable: .standard) { _ in again }.value
        }
        #expect(error?.response?.status == 403 && server.requests.map(\.method) == ["OPTIONS", "POST", "GET"])
    }

    @Test func processedJoinIsNotSentAgain() async throws {
        let url = server.url("/u")
        server.fallback { request in
            switch (request.method, request.headers["Upload-Concat"]) {
            case ("OPTIONS", _): return MockReply(status: 204, headers: ["Tus-Extension": "creation, concatenation"])
            case ("POST", "partial"?): return MockReply(status: 201, headers: ["Location": url])
            case ("POST", _): return Self.lostResult
            default: return MockReply(status: 204, headers: ["Upload-Offset": "100000"])
            }
        }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1))
        }
        let path = fixture.path
        let error = await failure {
            try await manager.upload(server.url("/files"), body: .file(path), resumable: .tus(parallel: 2)).value
        }
        #expect(error?.kind == .connect)
        #expect(server.requests.count { $0.headers["Upload-Concat"]?.hasPrefix("final") == true } == 1)
    }

    @Test(arguments: [false, true]) func interceptorAddsNoSecretsForAnotherOrigin(isAnew: Bool) async throws {
        let other = try MockServer()
        other.fallback { request in
            request.method == "PATCH" ? MockReply(status: 204, headers: ["Upload-Offset": "200000"]) : .status(404)
        }
        let url = other.url("/u")
        server.fallback { $0.method == "POST" ? MockReply(status: 201, headers: ["Location": url]) : .status(204) }
        struct Credentials: Interceptor {
            let isAnew: Bool

            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                var request =
                    isAnew
                    ? HTTPRequest("\(request.method)", request.url, headers: request.headers, body: request.body)
                    : request
                request.authentication = .basic(user: "u", password: "p")
                request.headers["Cookie"] = "a=b"
                request.headers["X-Plain"] = "1"
                return try await next(request)
            }
        }
        let manager = try CentralRequestManager.make { $0.interceptors = [Credentials(isAnew: isAnew)] }
        _ = try await manager.upload(server.url("/files"), body: .file(fixture.path), resumable: .tus).value
        #expect(server.requests.allSatisfy { $0.headers["Authorization"] != nil })
        let patch = try #require(other.requests.first?.headers)
        #expect(patch["Authorization"] == nil && patch["Cookie"] == nil && patch["X-Plain"] == "1")
    }

    @Test func failedRemovalIsRepeatedByTheNextRun() async throws {
        let uploads = server.resumableUploads()
        var request = HTTPRequest("PUT", server.url("/files"), body: .file(fixture.path))
        request.maxSendRate = 100_000
        let manager = try CentralRequestManager.make()
        let first = manager.upload(request, resumable: .standard)
        try await server.waitForBodyBytes(1)
        // The answer to DELETE.
        server.enqueue(.status(503))
        first.cancel()
        let cancelled = await failure { try await first.value }
        #expect(cancelled?.kind == .cancelled && cancelled?.message.contains("next run") == true)
        #expect(uploads.unfinished.count == 1 && fixture.leftovers.count == 1, "the journal tells the next run")
        request.maxSendRate = nil
        _ = try await manager.upload(request, resumable: .standard).value
        #expect(uploads.unfinished.isEmpty && uploads.contents == [fixture.content] && fixture.leftovers.isEmpty)
    }

    @Test func refusedRemovalIsRepeatedLater() async throws {
        let (removal, append) = (Box(403), Box(500))
        let url = server.url("/u")
        server.fallback { request in
            switch request.method {
            case "POST": MockReply(status: 201, headers: ["Location": url])
            case "PATCH": MockReply(status: append.value, headers: ["Upload-Offset": "200000"])
            case "DELETE": .status(removal.value)
            default: .status(204)
            }
        }
        let manager = try CentralRequestManager.make()
        let path = fixture.path
        var tus = ResumableUpload.tus
        tus.resumesEarlierRun = false
        let upload = tus
        let error = await failure {
            try await manager.upload(server.url("/files"), body: .file(path), resumable: upload).value
        }
        #expect(error?.response?.status == 500 && fixture.leftovers.count == 1)
        append.change { $0 = 204 }
        for (status, kept) in [(403, 1), (403, 1), (204, 0)] {
            removal.change { $0 = status }
            _ = try await manager.upload(server.url("/files"), body: .file(path), resumable: upload).value
            #expect(fixture.leftovers.count == kept, "the server is told as long as it refuses")
        }
        #expect(server.requests.count { $0.method == "DELETE" } == 3)
    }

    @Test func unansweredProbeIsNotTheUploads() async throws {
        let uploads = server.resumableUploads()
        server.enqueue(.status(503))
        _ = try await CentralRequestManager.make().upload(
            server.url("/files"), body: .file(fixture.path), resumable: .standard
        ).value
        #expect(server.requests.map(\.method) == ["OPTIONS", "PUT"] && uploads.contents == [fixture.content])
    }

    @Test func interimAddressIsThatOfTheRedirect() async throws {
        let other = try MockServer()
        other.bodyLimit = 0
        let uploads = other.resumableUploads(.withoutOptions)
        uploads.cutNext(afterBytes: 100_000)
        let target = other.url("/files")
        server.route("PUT", "/files") { _ in MockReply(status: 307, headers: ["Location": target]) }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1))
        }
        _ = try await manager.upload(server.url("/files"), body: .file(fixture.path), resumable: .standard).value
        #expect(uploads.contents == [fixture.content] && uploads.receivedBytes == 200_000)
        #expect(!server.requests.contains { $0.method == "HEAD" })
    }

    @Test func lostPostIsNotSentTwice() async throws {
        server.resumableUploads(.withoutOptions).cutNext(afterBytes: 1_000)
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1))
        }
        var settings = MockServer.Uploads.Settings.withoutOptions
        settings.sendsInterim = false
        let silent = server.resumableUploads(path: "/silent", settings)
        silent.cutNext(afterBytes: 1_000)
        let (url, path) = (server.url("/silent"), fixture.path)
        let error = await failure {
            try await manager.upload(url, method: "POST", body: .file(path), resumable: .standard).value
        }
        #expect(error?.kind == .connectionLost && silent.unfinished.count == 1 && silent.contents.isEmpty)
    }

    @Test func expiredLinkIsReplaced() async throws {
        let uploads = server.resumableUploads(path: "/new")
        server.route("OPTIONS", "/old") { _ in .status(403) }
        server.route("PUT", "/old") { _ in .status(403) }
        let (old, new) = (server.url("/old"), server.url("/new"))
        let refusals = Box<[Int?]>([])
        let manager = try CentralRequestManager.make()
        _ = try await manager.upload(old, body: .file(fixture.path), resumable: .standard) { refusal in
            refusals.change { $0.append(refusal.response?.status) }
            return new
        }.value
        #expect(uploads.contents == [fixture.content] && refusals.value == [403])
        let path = fixture.path
        let error = await failure {
            try await manager.upload(old, body: .file(path), resumable: .standard) { _ in old }.value
        }
        #expect(error?.response?.status == 403, "the hook is asked once")
    }

    @Test func fileOfTheSameTimeIsAnotherVersion() async throws {
        let uploads = server.resumableUploads(.withoutOptions)
        uploads.cutNext(afterBytes: 100_000)
        let manager = try CentralRequestManager.make()
        let (url, path) = (server.url("/files"), fixture.path)
        var status = stat()
        #expect(stat(path, &status) == 0)
        _ = await failure { try await manager.upload(url, body: .file(path), resumable: .standard).value }
        #expect(uploads.unfinished.count == 1 && fixture.leftovers.count == 1)
        // As `rsync --inplace --times` writes: the size, the inode and the time of the content stay.
        let other = UploadFixture.bytes(200_000, seed: 9)
        try other.write(to: URL(filePath: path))
        #expect(utimensat(AT_FDCWD, path, [status.st_atim, status.st_mtim], 0) == 0)
        _ = try await manager.upload(url, body: .file(path), resumable: .standard).value
        #expect(uploads.contents == [other] && uploads.unfinished.isEmpty, "the bytes of two versions are not mixed")
    }

    @Test func anotherUserBeginsAnUpload() async throws {
        let uploads = server.resumableUploads(.withoutOptions)
        let manager = try CentralRequestManager.make()
        for (user, kept) in [("a", 1), ("b", 2)] {
            uploads.cutNext(afterBytes: 100_000)
            var request = HTTPRequest("PUT", server.url("/files"), body: .file(fixture.path))
            request.authentication = .basic(user: user, password: "p")
            let own = request
            _ = await failure { try await manager.upload(own, resumable: .standard).value }
            #expect(uploads.unfinished.count == kept && fixture.leftovers.count == kept)
        }
    }

    /// Does something after a response, or before a request, of a method.
    private struct Hook: Interceptor {
        let method: HTTPMethod
        var before: @Sendable () -> Void = {}
        var after: @Sendable () -> Void = {}

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            if request.method == method { before() }
            let response = try await next(request)
            if request.method == method { after() }
            return response
        }
    }

    @Test func journalThatCannotBeWrittenStopsTheUpload() async throws {
        let uploads = server.resumableUploads(.withoutOptions)
        _ = try fixture.directory.write(Data(), to: "journals/.keep")
        let folder = fixture.directory.path(of: "journals")
        var standard = ResumableUpload.standard
        standard.journalFolder = folder
        let manager = try CentralRequestManager.make {
            $0.interceptors = [Hook(method: .put, before: { try? FileManager.default.removeItem(atPath: folder) })]
        }
        var request = HTTPRequest("PUT", server.url("/files"), body: .file(fixture.path))
        request.maxSendRate = 20_000
        let (slow, upload) = (request, standard)
        let error = await failure { try await manager.upload(slow, resumable: upload).value }
        #expect(error?.kind == .storage && uploads.contents.isEmpty, "the rest is not sent")
        #expect(uploads.unfinished.isEmpty, "no journal tells the next run of it")
    }

    @Test func restartedUploadAtTheSameAddressIsKept() async throws {
        let url = server.url("/u")
        server.fallback { request in
            switch request.method {
            case "POST": MockReply(status: 201, headers: ["Location": url])
            case "PATCH" where server.requests.count { $0.method == "POST" } > 1: .status(400)
            case "PATCH", "HEAD": .status(404)
            default: .status(204)
            }
        }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .milliseconds(1))
        }
        let path = fixture.path
        let error = await failure {
            try await manager.upload(server.url("/files"), body: .file(path), resumable: .tus(partSize: 100_000)).value
        }
        #expect(error?.response?.status == 400 && fixture.leftovers.count == 1)
    }

    @Test func addressWithoutEncryptionIsNotKept() async throws {
        struct Server: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                let isCreation = request.method == .post
                return HTTPResponse(
                    status: isCreation ? 201 : 204, headers: isCreation ? ["Location": "http://h/u"] : [:],
                    body: .empty,
                    url: request.url)
            }
        }
        let manager = try CentralRequestManager.make { $0.interceptors = [Server()] }
        let path = fixture.path
        let error = await failure {
            try await manager.upload("https://h/files", body: .file(path), resumable: .tus).value
        }
        #expect(error?.kind == .protocolViolation && error?.message.contains("not encrypted") == true)
        #expect(fixture.leftovers.isEmpty)
    }

    @Test func answerBeforeACancellationCounts() async throws {
        let url = server.url("/u")
        server.fallback { request in
            switch request.method {
            case "POST": MockReply(status: 201, headers: ["Location": url])
            case "HEAD": MockReply(status: 200, headers: ["Upload-Offset": "0"])
            case "PATCH": MockReply(status: 204, headers: ["Upload-Offset": "200000"])
            default: .status(204)
            }
        }
        let managers = Box<CentralRequestManager?>(nil)
        let manager = try CentralRequestManager.make {
            $0.interceptors = [Hook(method: .post, after: { managers.value?.cancelRequests(.all) })]
        }
        managers.change { $0 = manager }
        let upload = manager.upload(server.url("/files"), body: .file(fixture.path), resumable: .tus)
        _ = await failure { try await upload.value }
        #expect(fixture.leftovers.count == 1, "the address is kept")
    }

    @Test func busyServerIsAskedAgainForItsExtensions() async throws {
        let uploads = server.resumableUploads()
        server.enqueue(.status(429), .status(503))
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1))
        }
        _ = try await manager.upload(server.url("/files"), body: .file(fixture.path), resumable: .standard).value
        #expect(server.requests.prefix(4).map(\.method) == ["OPTIONS", "OPTIONS", "OPTIONS", "PUT"])
        #expect(uploads.contents == [fixture.content])
    }

    @Test func limitOfAnInterimResponseStopsTheUpload() async throws {
        var settings = MockServer.Uploads.Settings.withoutOptions
        settings.limits = ["max-size": 1_000]
        settings.refusesTooLarge = false
        let uploads = server.resumableUploads(settings)
        var request = HTTPRequest("PUT", server.url("/files"), body: .file(fixture.path))
        request.maxSendRate = 50_000
        let slow = request
        let error = await failure { try await CentralRequestManager.make().upload(slow, resumable: .standard).value }
        #expect(error?.kind == .requestBody && error?.message.contains("at most 1000") == true)
        #expect(uploads.contents.isEmpty && uploads.unfinished.isEmpty && fixture.leftovers.isEmpty)
    }
}

import Cryptography
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATTransfers

/// Multipart uploads to moto, which checks signatures as little as checksums; `AWSSignerTests` check the signatures.
@Suite(.needsPython, .timeLimit(.minutes(2))) struct S3ServerTests {
    private let manager: CentralRequestManager

    init() throws {
        manager = try .make {
            $0.retryPolicy = RetryPolicy(retries: 3, firstWait: .milliseconds(1))
            $0.signer = try? AWSSigner(accessKeyID: "id", secretAccessKey: "key", region: "us-east-1", service: "s3")
        }
    }

    private func serve() async throws -> S3Server { try await S3Server(partSize: 1 << 20) }

    private func object(_ server: S3Server, _ name: String = "big.bin") async throws -> HTTPResponse {
        try await manager.startRequest("GET", server.url(name), timeout: .seconds(30))
    }

    @Test func partsArriveSideBySide() async throws {
        let fixture = try UploadFixture(size: (5 << 20) + 3)
        let server = try await serve()
        let upload = manager.upload(
            server.url("big.bin"), body: .file(fixture.path, contentType: "application/x-iso"),
            resumable: .s3(partSize: 1 << 20, parallel: 3), headers: ["x-amz-meta-a": "b", "x-amz-acl": "private"])
        #expect(try await upload.value.status == 200)
        let object = try await object(server)
        #expect(object.body.data == fixture.content)
        #expect(object.headers["Content-Type"] == "application/x-iso" && object.headers["x-amz-meta-a"] == "b")
        #expect(object.headers["ETag"]?.hasSuffix("-6\"") == true)
        #expect(server.requests.count { $0.method == "PUT" } == 6 && fixture.leftovers.isEmpty)
        #expect(upload.currentProgress.fraction == 1)
    }

    @Test(arguments: [0, 10]) func smallFileIsOnePart(size: Int) async throws {
        let fixture = try UploadFixture(size: size)
        let server = try await serve()
        _ = try await manager.upload(server.url("a"), body: .file(fixture.path), resumable: .s3).value
        #expect(try await object(server, "a").body.data == fixture.content)
        #expect(server.requests.count { $0.method == "PUT" } == 1)
    }

    /// Parts from this number on do not arrive.
    private struct SlowParts: Interceptor {
        let first: Int

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            if (first...9).contains(where: { request.url.contains("partNumber=\($0)") }) { request.maxSendRate = 1 }
            return try await next(request)
        }
    }

    private func slow(from first: Int) throws -> CentralRequestManager {
        try .make {
            $0.signer = manager.configuration.signer
            $0.interceptors = [SlowParts(first: first)]
        }
    }

    private func parts(_ server: S3Server) -> Int {
        server.requests.count { $0.method == "PUT" && $0.status == 200 }
    }

    @Test func storedPartsAreNotSentAgain() async throws {
        let fixture = try UploadFixture(size: 6 << 20)
        let server = try await serve()
        let request = HTTPRequest("PUT", server.url("big.bin"), body: .file(fixture.path))
        let s3 = ResumableUpload.s3(partSize: 1 << 20, parallel: 2)
        let first = try slow(from: 5).upload(request, resumable: s3)
        try await eventually("four parts") { parts(server) == 4 }
        first.cancel(keepingProgress: true)
        #expect(await failure { try await first.value }?.kind == .cancelled)
        _ = try await manager.upload(request, resumable: s3).value
        #expect(try await object(server).body.data == fixture.content)
        #expect(server.requests.count { $0.target.contains("max-parts") } == 1)
        #expect(parts(server) == 6, "\(server.requests)")
        #expect(server.requests.count { $0.target.hasSuffix("?uploads=") } == 1)
    }

    @Test func cancelledUploadLeavesNothing() async throws {
        let fixture = try UploadFixture(size: 6 << 20)
        let server = try await serve()
        let request = HTTPRequest("PUT", server.url("big.bin"), body: .file(fixture.path))
        let upload = try slow(from: 3).upload(request, resumable: .s3(partSize: 1 << 20, parallel: 2))
        try await eventually("two parts") { parts(server) == 2 }
        upload.cancel()
        #expect(await failure { try await upload.value }?.kind == .cancelled)
        let list = try await manager.startRequest("GET", server.url("?uploads="))
        #expect(list.text?.contains("<Upload>") == false && fixture.leftovers.isEmpty)
        #expect(server.requests.contains { $0.method == "DELETE" && $0.status == 204 })
    }

    @Test func removedUploadStartsOver() async throws {
        let fixture = try UploadFixture(size: 3 << 20)
        let server = try await serve()
        let request = HTTPRequest("PUT", server.url("big.bin"), body: .file(fixture.path))
        let s3 = ResumableUpload.s3(partSize: 1 << 20, parallel: 1)
        let first = try slow(from: 3).upload(request, resumable: s3)
        try await eventually("two parts") { parts(server) == 2 }
        first.cancel(keepingProgress: true)
        _ = await failure { try await first.value }
        let list = try await manager.startRequest("GET", server.url("?uploads="))
        let id = try #require(XMLText.value(of: "UploadId", in: list.text ?? ""))
        _ = try await manager.startRequest("DELETE", server.url("big.bin?uploadId=\(id)"))
        _ = try await manager.upload(request, resumable: s3).value
        #expect(try await object(server).body.data == fixture.content)
    }

    // MARK: What no honest server does

    /// A store in MockServer with one object, which answers as `answer` says.
    private func store(
        _ answer: @escaping @Sendable (RecordedRequest) -> MockReply?
    ) throws -> (server: MockServer, url: String) {
        let server = try MockServer()
        server.fallback { request in
            if let reply = answer(request) { return reply }
            if request.target.hasSuffix("?uploads=") { return .text("<R><UploadId>u&amp;1</UploadId></R>") }
            guard request.method == "PUT" else { return .text("<CompleteMultipartUploadResult/>") }
            let digest = MessageDigest.hexadecimal(try MessageDigest.of(request.body, .md5))
            return MockReply(headers: ["ETag": "\"\(digest)\""])
        }
        return (server, server.url("/bucket/a"))
    }

    @Test func lostAnswerOfTheCompletionIsFound() async throws {
        let fixture = try UploadFixture(size: 3_000)
        let tag = Box("")
        let (server, url) = try store { request in
            switch (request.method, request.target.contains("uploadId=u%261")) {
            case ("POST", true): .text("<Error><Code>NoSuchUpload</Code></Error>", status: 404)
            case ("HEAD", _): MockReply(headers: ["ETag": "\"\(tag.value)\"", "Content-Length": "3000"])
            default: nil
            }
        }
        let digests = try stride(from: 0, to: 3_000, by: 1_000).flatMap {
            try MessageDigest.of(fixture.content[$0..<($0 + 1_000)], .md5)
        }
        tag.change { $0 = MessageDigest.hexadecimal((try? MessageDigest.of(Data(digests), .md5)) ?? []) + "-3" }
        let response = try await manager.upload(
            url, body: .file(fixture.path), resumable: .s3(partSize: 1_000)
        ).value
        #expect(response.status == 200)
        #expect(server.requests.count { $0.target.hasSuffix("?uploads=") } == 1)
    }

    @Test func otherObjectIsNoResult() async throws {
        let fixture = try UploadFixture(size: 3_000)
        let (server, url) = try store { request in
            switch (request.method, request.target.contains("uploadId=")) {
            case ("POST", true): .text("<Error><Code>NoSuchUpload</Code></Error>", status: 404)
            case ("HEAD", _): MockReply(headers: ["ETag": "\"0123\""])
            default: nil
            }
        }
        let error = await failure { try await manager.upload(url, body: .file(fixture.path), resumable: .s3).value }
        #expect(error?.kind == .protocolViolation && error?.message.contains("forgot the upload") == true)
        #expect(server.requests.count { $0.target.hasSuffix("?uploads=") } == 4)
    }

    @Test func partThatArrivesLateIsRemovedToo() async throws {
        let fixture = try UploadFixture(size: 3_000)
        let lists = Box(0)
        let (server, url) = try store { request in
            switch request.method {
            case "PUT": return .status(400)
            case "DELETE": return .status(204)
            case "GET":
                lists.change { $0 += 1 }
                return lists.value == 1
                    ? .text("<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>")
                    : .text("<Error><Code>NoSuchUpload</Code></Error>", status: 404)
            default: return nil
            }
        }
        let s3 = ResumableUpload.s3(partSize: 1_000)
        let kept = await failure { try await manager.upload(url, body: .file(fixture.path), resumable: s3).value }
        #expect(kept?.response?.status == 400 && fixture.leftovers.count == 1)
        var anew = s3
        anew.resumesEarlierRun = false
        _ = await failure { [anew] in try await manager.upload(url, body: .file(fixture.path), resumable: anew).value }
        let methods = server.requests.map(\.method)
        #expect(methods.count { $0 == "DELETE" } == 2, "\(methods)")
    }

    @Test func wrongPartsEndTheUpload() async throws {
        let fixture = try UploadFixture(size: 3_000)
        let (server, url) = try store { request in
            switch (request.method, request.target.contains("uploadId=")) {
            case ("POST", true): .text("<Error><Code>InvalidPart</Code></Error>", status: 400)
            case ("GET", _): .text("<ListPartsResult/>")
            default: nil
            }
        }
        let error = await failure { try await manager.upload(url, body: .file(fixture.path), resumable: .s3).value }
        #expect(error?.response?.status == 400 && fixture.leftovers.count == 1)
        #expect(server.requests.count { $0.method == "POST" } == 5)
    }

    @Test func tooSmallPartsAreNotKept() async throws {
        let fixture = try UploadFixture(size: 3 << 20)
        let server = try await S3Server(partSize: 5 << 20)
        let url = server.url("a")
        let error = await failure {
            try await manager.upload(url, body: .file(fixture.path), resumable: .s3(partSize: 1 << 20)).value
        }
        #expect(error?.message.contains("partSize to 5242880") == true && fixture.leftovers.isEmpty)
        #expect(server.requests.contains { $0.method == "DELETE" && $0.status == 204 })
    }

    @Test func failureInASuccessIsNoSuccess() async throws {
        let fixture = try UploadFixture(size: 1_000)
        let count = Box(0)
        let (server, url) = try store { request in
            guard request.method == "POST", request.target.contains("uploadId=") else { return nil }
            count.change { $0 += 1 }
            return count.value > 1 ? nil : .text("<Error><Code>InternalError</Code></Error>")
        }
        #expect(try await manager.upload(url, body: .file(fixture.path), resumable: .s3).value.status == 200)
        #expect(server.requests.count { $0.method == "POST" } == 3)
    }

    @Test func damagedPartIsSentAgain() async throws {
        let fixture = try UploadFixture(size: 1_000)
        let count = Box(0)
        let (server, url) = try store { request in
            guard request.method == "PUT" else { return nil }
            count.change { $0 += 1 }
            let sum = count.value > 1 ? request.headers["x-amz-checksum-sha256"] ?? "" : "b3RoZXI="
            return MockReply(headers: ["ETag": "\"a\"", "x-amz-checksum-sha256": sum])
        }
        _ = try await manager.upload(url, body: .file(fixture.path), resumable: .s3).value
        let digest = Data(try MessageDigest.of(fixture.content, .sha256)).base64EncodedString()
        #expect(server.requests.count { $0.headers["x-amz-checksum-sha256"] == digest } == 2)
        #expect(server.requests.last?.text.contains("<ChecksumSHA256>\(digest)</ChecksumSHA256>") == true)
    }

    @Test func tooManyPartsAreRefused() async throws {
        let fixture = try UploadFixture(size: 10_001)
        let error = await failure {
            try await manager.upload("http://127.0.0.1:1/b/a", body: .file(fixture.path), resumable: .s3(partSize: 1))
                .value
        }
        #expect(error?.kind == .invalidRequest && error?.message.contains("partSize to 2 or more") == true)
    }
}

/// moto and what it printed.
final class S3Server: Sendable {
    let script: PythonScript

    init(partSize: Int) async throws {
        script = try await PythonScript("s3_server.py", ["--part-size", "\(partSize)"])
    }

    func url(_ name: String) -> String { "http://127.0.0.1:\(script.port)/bucket/\(name)" }

    var requests: [(method: Substring, status: Int?, bytes: Int, target: Substring)] {
        script.process.output.split(whereSeparator: \.isNewline).compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 4, let bytes = Int(words[2]) else { return nil }
            return (words[0], Int(words[1]), bytes, words[3])
        }
    }

    /// The bytes of parts that arrived.
    var received: Int { requests.reduce(0) { $0 + ($1.method == "PUT" ? $1.bytes : 0) } }
}

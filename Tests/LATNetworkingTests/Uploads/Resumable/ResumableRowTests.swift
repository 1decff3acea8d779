import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATTransfers

/// Uploads that go on by the key `uploads` of a row, and the settings that apply to all their requests.
@Suite(.timeLimit(.minutes(2))) struct ResumableRowTests {
    private let server: MockServer
    private let fixture: UploadFixture

    init() throws {
        server = try MockServer()
        server.bodyLimit = 0
        fixture = try UploadFixture(size: 200_000)
    }

    private func manager(_ row: String) throws -> CentralRequestManager {
        let table = try DomainTable(
            json5: """
                { domains: { a: { baseURL: "\(server.baseURL)", headers: { "X-Row": "1" } } },
                  servers: { "file.save": { domain: "a", path: "files", method: "POST", \(row) } } }
                """)
        return try .make { $0.domains = table }
    }

    private struct Save: RequestEntity {
        struct Stored: Decodable, Sendable { var size: Int }
        typealias Model = Stored
        static let route = Route(server: "file.save")
        var files: [UploadFile]
    }

    @Test func rowMakesTheUploadOfAnEntityResumable() async throws {
        let uploads = server.resumableUploads()
        let manager = try manager("uploads: { protocol: \"standard\", partSize: 50000 }")
        let file = UploadFile(name: "file", path: fixture.path)
        let reply = try await Save(files: [file]).upload(on: manager).value
        #expect(reply.model.size == 200_000 && uploads.contents == [fixture.content])
        #expect(server.requests.map(\.method) == ["OPTIONS", "POST", "PATCH", "PATCH", "PATCH", "PATCH"])
        #expect(server.requests.allSatisfy { $0.headers["X-Row"] == "1" })
    }

    @Test func callOfARouteIsResumableToo() async throws {
        let uploads = server.resumableUploads()
        let task = try manager("uploads: \"standard\"").upload(
            Route(server: "file.save"), files: [UploadFile(name: "file", path: fixture.path)])
        #expect(try await task.value.model["size"].int == 200_000 && uploads.contents == [fixture.content])
    }

    @Test func severalFilesAreRefused() async throws {
        let manager = try manager("uploads: \"standard\"")
        let files = [UploadFile(name: "a", path: fixture.path), UploadFile(name: "b", value: "c")]
        let error = await failure { try await Save(files: files).upload(on: manager).value }
        #expect(error?.kind == .invalidRequest && error?.message.contains("takes one file") == true)
        #expect(server.requestCount == 0)
    }

    @Test func nullTakesTheKeyBack() async throws {
        server.fallback { _ in .json("{\"size\": 1}") }
        let manager = try manager("uploads: null")
        _ = try await Save(files: [UploadFile(name: "file", path: fixture.path)]).upload(on: manager).value
        #expect(server.requests.map(\.method) == ["POST"])
        #expect(server.requests.first?.headers["Content-Type"]?.hasPrefix("multipart/form-data") == true)
    }

    @Test func addressAtAnotherOriginGetsNoSecrets() async throws {
        let other = try MockServer()
        other.fallback { request in
            request.method == "PATCH" ? MockReply(status: 204, headers: ["Upload-Offset": "200000"]) : .status(404)
        }
        let url = other.url("/u")
        server.fallback { $0.method == "POST" ? MockReply(status: 201, headers: ["Location": url]) : .status(204) }
        let manager = try CentralRequestManager.make()
        _ = try await manager.upload(
            server.url("/files"), body: .file(fixture.path), resumable: .tus,
            headers: ["Authorization": "Bearer secret", "X-Plain": "1"]
        ).value
        #expect(server.requests.allSatisfy { $0.headers["Authorization"] == "Bearer secret" })
        let patch = try #require(other.requests.first)
        #expect(patch.headers["Authorization"] == nil && patch.headers["X-Plain"] == "1")
    }

    @Test func checksumIsSentWhereTheServerTakesIt() async throws {
        let refusals = Box(1)
        let url = server.url("/u")
        server.fallback { request in
            switch request.method {
            case "OPTIONS":
                return MockReply(
                    status: 204,
                    headers: ["Tus-Extension": "creation,checksum", "Tus-Checksum-Algorithm": "md5,sha1,sha256"])
            case "POST": return MockReply(status: 201, headers: ["Location": url])
            case "HEAD": return MockReply(status: 200, headers: ["Upload-Offset": "0", "Upload-Length": "200000"])
            default:
                guard refusals.value == 0 else {
                    refusals.change { $0 -= 1 }
                    return .status(460)
                }
                return MockReply(status: 204, headers: ["Upload-Offset": "200000"])
            }
        }
        let manager = try CentralRequestManager.make { $0.retries = 1 }
        _ = try await manager.upload(server.url("/files"), body: .file(fixture.path), resumable: .tus).value
        #expect(server.requests.map(\.method) == ["OPTIONS", "POST", "PATCH", "HEAD", "PATCH"])
        let sums = server.requests.compactMap { $0.headers["Upload-Checksum"] }
        #expect(sums.count == 2 && sums.allSatisfy { $0.hasPrefix("sha256 ") && $0.count == 51 })
    }

    @Test func sameUploadRunsOnce() async throws {
        let uploads = server.resumableUploads()
        var request = HTTPRequest("PUT", server.url("/files"), body: .file(fixture.path))
        request.maxSendRate = 10_000
        let manager = try CentralRequestManager.make()
        let first = manager.upload(request, resumable: .standard)
        try await server.waitForBodyBytes(1)
        let error = await failure { try await manager.upload(request, resumable: .standard).value }
        #expect(error?.kind == .storage && error?.message.contains("already") == true)
        first.cancel()
        _ = await failure { try await first.value }
        #expect(uploads.contents.isEmpty && fixture.leftovers.isEmpty)
    }

    @Test func journalMayHaveItsOwnFolder() async throws {
        let uploads = server.resumableUploads()
        uploads.cutNext(afterBytes: 100_000)
        _ = try fixture.directory.write(Data(), to: "journals/.keep")
        var standard = ResumableUpload.standard
        standard.journalFolder = fixture.directory.path(of: "journals")
        let manager = try CentralRequestManager.make()
        let url = server.url("/files")
        let path = fixture.path
        let cut = await failure { [standard] in
            try await manager.upload(url, body: .file(path), resumable: standard).value
        }
        #expect(cut?.kind == .connectionLost)
        #expect(fixture.leftovers.isEmpty && fixture.names(in: "journals").count == 2)
        _ = try await manager.upload(url, body: .file(path), resumable: standard).value
        #expect(fixture.names(in: "journals") == [".keep"] && uploads.contents == [fixture.content])

        standard.journalFolder = fixture.directory.path(of: "missing")
        let error = await failure { [standard] in
            try await manager.upload(url, body: .file(path), resumable: standard).value
        }
        #expect(error?.kind == .storage)
    }

    /// It needs no room on a full disk.
    @Test func journalThatSaysTheSameIsNotWrittenAgain() async throws {
        let uploads = server.resumableUploads()
        uploads.cutNext(afterBytes: 100_000)
        let url = server.url("/files")
        let path = fixture.path
        _ = await failure {
            try await CentralRequestManager.make().upload(url, body: .file(path), resumable: .standard).value
        }
        func inode() -> UInt {
            var status = stat()
            return lstat(fixture.directory.path(of: "files/" + (fixture.leftovers.first ?? "")), &status) == 0
                ? UInt(status.st_ino) : 0
        }
        let before = inode()
        #expect(before > 0)
        struct Refusing: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                guard request.method != .head else { throw NetworkError(.provider, message: "not now") }
                return try await next(request)
            }
        }
        let manager = try CentralRequestManager.make { $0.interceptors = [Refusing()] }
        let error = await failure { try await manager.upload(url, body: .file(path), resumable: .standard).value }
        #expect(error?.kind == .provider && inode() == before)
    }
}

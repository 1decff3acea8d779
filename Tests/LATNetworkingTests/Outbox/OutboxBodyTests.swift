import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Bodies, files, limits and refusals of the outbox.
@Suite(.timeLimit(.minutes(2))) struct OutboxBodyTests {
    private let fixture: OutboxFixture

    init() throws { fixture = try OutboxFixture() }

    private var directory: TemporaryDirectory { fixture.directory }
    private var server: MockServer { fixture.server }
    private var central: CentralRequestManager { fixture.central }
    private var folder: String { fixture.folder }

    private func open(_ change: (inout Outbox.Configuration) -> Void = { _ in }) throws -> Outbox {
        try fixture.open(nil, change)
    }

    private func file(_ name: String, _ bytes: Data) throws -> String {
        let path = directory.path(of: name)
        try bytes.write(to: URL(filePath: path))
        return path
    }

    private var bodyFiles: [String] { directory.contents.filter { $0.hasPrefix("outbox/bodies/") } }

    @Test(arguments: Outbox.FileKeeping.allCases) func fileIsSentAndItsCopyRemoved(_ keeping: Outbox.FileKeeping)
        async throws
    {
        let bytes = content(300_000)
        let path = try file("report.pdf", bytes)
        let adder = try open { $0.limit = 0 }
        try await adder.add(HTTPRequest("PUT", "/report", body: .file(path)), files: keeping)
        #expect(bodyFiles.count == (keeping == .referenced ? 0 : 1))
        if keeping != .referenced { unlink(path) }
        await adder.close()
        let outbox = try open()
        try await outbox.waitUntilSent()
        let request = try #require(server.requests.first)
        #expect(request.body == bytes && request.headers["Content-Type"] == "application/pdf")
        #expect(bodyFiles.isEmpty)
        await outbox.close()
    }

    @Test func largeDataAndStreamsBecomeFiles() async throws {
        let bytes = content(200_000)
        let adder = try open { $0.limit = 0 }
        try await adder.add(HTTPRequest("POST", "/data", body: .data(bytes, contentType: "a/b")), group: "g")
        let chunks = AsyncStream<Data> { stream in
            for index in 0..<4 { stream.yield(bytes.dropFirst(index * 50_000).prefix(50_000)) }
            stream.finish()
        }
        try await adder.add(HTTPRequest("POST", "/stream", body: .stream(chunks, contentType: "c/d")), group: "g")
        #expect(bodyFiles.count == 2)
        await adder.close()
        let outbox = try open()
        try await outbox.waitUntilSent()
        #expect(server.requests.map(\.body) == [bytes, bytes])
        #expect(server.requests.map { $0.headers["Content-Type"] } == ["a/b", "c/d"] && bodyFiles.isEmpty)
        await outbox.close()
    }

    enum Change: CaseIterable { case longer, shorter, rewritten }

    @Test(arguments: Change.allCases) func fileThatChangesDuringItsCopyIsRefused(_ change: Change) async throws {
        let path = try file("report.bin", content(3 << 20))
        // The clock of files is coarse.
        var times = [timespec(), timespec()]
        #expect(utimensat(AT_FDCWD, path, &times, 0) == 0)
        try await open { $0.limit = 0 }.close()
        var writer = BodyWriter(folder: folder, keeping: .copied, limit: 1 << 30) {}
        writer.read = { descriptor, buffer, count in
            let count = read(descriptor, buffer, count)
            switch change {
            case .longer: truncate(path, (3 << 20) + 10)
            case .shorter: truncate(path, 1 << 20)
            case .rewritten:
                let other = Glibc.open(path, O_WRONLY | O_CLOEXEC)
                pwrite(other, "x", 1, 2 << 20)
                close(other)
            }
            return count
        }
        let error = await #expect(throws: NetworkError.self) { _ = try await writer.keep(.file(path)) }
        #expect(error?.outboxFailure == .file(path: path))
        #expect(error?.message.contains("report.bin was written to while it was copied") == true)
        writer.discard()
        #expect(bodyFiles.isEmpty)
    }

    @Test(arguments: [4, 6]) func streamOfAnotherLengthIsRefused(_ count: Int) async throws {
        let outbox = try open { $0.limit = 0 }
        func chunks() -> AsyncStream<Data> {
            AsyncStream { stream in
                for byte in 0..<UInt8(count) { stream.yield(Data([byte])) }
                stream.finish()
            }
        }
        let bodies: [HTTPBody] = [
            .stream(chunks(), length: 5),
            .multipart([UploadFile(name: "a", fileName: "a", stream: chunks(), length: 5)]),
        ]
        for body in bodies {
            let error = await #expect(throws: NetworkError.self) {
                try await outbox.add(HTTPRequest("POST", "/x", body: body))
            }
            #expect(error?.kind == .requestBody && error?.message.contains("5 bytes announced") == true)
        }
        #expect(bodyFiles.isEmpty)
        #expect(try await outbox.entries.isEmpty)
        try await outbox.add(HTTPRequest("POST", "/x", body: .stream(chunks(), length: Int64(count))))
        #expect(bodyFiles.count == 1)
        await outbox.close()
    }

    @Test func partsKeepNamesTypesAndBytes() async throws {
        let path = try file("a.png", content(1_000))
        let request = HTTPRequest(
            "POST", "/form",
            body: .multipart([
                UploadFile(name: "title", value: "Grüße"),
                UploadFile(name: "note", fileName: "n.txt", data: Data("hello".utf8)),
                UploadFile(name: "img", path: path),
            ]))
        let outbox = try open()
        try await outbox.add(request)
        try await outbox.waitUntilSent()
        let direct = try await central.startRequest(request)
        #expect(direct.status == 200)
        func parts(_ request: RecordedRequest) -> String {
            let boundary = request.headers["Content-Type"]?.split(separator: "boundary=").last.map(String.init) ?? ""
            return String(decoding: request.body, as: UTF8.self).replacing(boundary, with: "-")
        }
        #expect(server.requests.count == 2 && parts(server.requests[0]) == parts(server.requests[1]))
        await outbox.close()
    }

    /// A server that compares the bodies of one key sees equal ones, also when another process sends the entry again.
    @Test func eachAttemptSendsTheSameForm() async throws {
        let path = try file("a.png", content(1_000))
        let request = HTTPRequest(
            "POST", "/form",
            body: .multipart([UploadFile(name: "title", value: "a"), UploadFile(name: "img", path: path)]))
        server.enqueue(.status(503).header("Retry-After", "3600"), .noReply)
        let first = try open()
        try await first.add(request)
        try await eventually { try await first.load.failed == 1 }
        await first.close()
        let second = try open { $0.firstWait = .milliseconds(1) }
        try await second.sendNow()
        try await second.waitUntilSent()
        #expect(server.requestCount == 3 && Set(server.requests.map(\.body)).count == 1)
        try await second.add(request)
        try await second.waitUntilSent()
        #expect(Set(server.requests.map(\.body)).count == 2, "another entry has another key")
        await second.close()
    }

    @Test func vanishedFileIsADeadLetterWithItsName() async throws {
        let path = try file("gone.bin", content(10))
        let adder = try open { $0.limit = 0 }
        let id = try await adder.add(HTTPRequest("PUT", "/x", body: .file(path)), files: .referenced)
        await adder.close()
        unlink(path)
        let outbox = try open()
        try await eventually { try await outbox.entry(id)?.state == .refused }
        #expect(try await outbox.entry(id)?.reason?.contains("gone.bin") == true && server.requestCount == 0)
        try Data("back".utf8).write(to: URL(filePath: path))
        try await outbox.retry(id)
        try await outbox.waitUntilSent()
        #expect(server.requests.map(\.body) == [Data("back".utf8)])
        await outbox.close()
    }

    @Test func fullOutboxRefusesByCountAndSize() async throws {
        let outbox = try open {
            $0.limit = 0
            $0.maxCount = 3
            $0.maxSize = 5_000
        }
        for _ in 0..<3 { try await outbox.add(HTTPRequest("POST", "/x")) }
        let error = await #expect(throws: NetworkError.self) { try await outbox.add(HTTPRequest("POST", "/x")) }
        #expect(error?.kind == .storage && error?.outboxFailure == .tooMany(limit: 3))
        try await outbox.drop(1)
        let large = await #expect(throws: NetworkError.self) {
            try await outbox.add(HTTPRequest("POST", "/x", body: .data(content(4_990))))
        }
        #expect(large?.outboxFailure == .tooLarge(limit: 5_000))
        let path = try file("large", content(6_000))
        let file = await #expect(throws: NetworkError.self) {
            try await outbox.add(HTTPRequest("POST", "/x", body: .file(path)))
        }
        #expect(file?.outboxFailure == .tooLarge(limit: 5_000) && bodyFiles.isEmpty)
        // All or none.
        await #expect(throws: NetworkError.self) {
            try await outbox.add((0..<2).map { Outbox.Item(HTTPRequest("POST", "/\($0)")) })
        }
        #expect(try await outbox.entries.count == 2)
        await outbox.close()
    }

    @Test(.needsMountNamespaces, arguments: [(900_000, 0), (3_000_000, 60_000)])
    func fullDiskIsAnErrorAndLosesNothing(size: Int, body: Int) async throws {
        let folder = directory.path(of: "disk")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let server = server
        let (count, isFull, sent) = try await aside {
            try MountNamespace.run {
                try MountNamespace.mount(on: folder, size: "\(size)")
                let (store, _) = try OutboxStore.opening(folder)
                var count = 0
                var isFull = false
                var limits = Outbox.Configuration()
                limits.maxCount = 100_000
                while !isFull, count < 10_000 {
                    var row = OutboxRow()
                    (row.key, row.target, row.request) = ("\(count)", "t", content(500))
                    row.body = content(body)
                    do {
                        _ = try store.write { try $0.add(row, limits) }
                        count += 1
                    } catch let error as NetworkError {
                        isFull = error.outboxFailure == .diskFull
                        guard isFull else { throw error }
                    }
                }
                // What was sent can be recorded on the full disk, with the room of the reserve.
                var sent = 0
                for row in try store.read({ try $0.entries("1 ORDER BY id") }) {
                    do { try store.write { try $0.remove(row) } } catch {
                        store.releaseReserve()
                        try store.write { try $0.remove(row) }
                    }
                    sent += 1
                }
                return (count, isFull, sent)
            }
        }
        #expect(isFull && count > 10 && sent == count && server.requestCount == 0)
    }

    /// Otherwise those who add would take again and again what the sender has given up to record what was sent.
    @Test(.needsMountNamespaces) func reserveIsNotForWhoAdds() async throws {
        let folder = directory.path(of: "disk")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await aside {
            try MountNamespace.run {
                try MountNamespace.mount(on: folder, size: "2m")
                let (store, _) = try OutboxStore.opening(folder)
                try OutboxStore.checkRoom(in: folder)
                store.releaseReserve()
                let filler = folder + "/filler"
                try content((2 << 20) - (400 << 10)).write(to: URL(filePath: filler))
                #expect(throws: NetworkError.self) { try OutboxStore.checkRoom(in: folder) }
                #expect(access(folder + "/reserve", F_OK) != 0, "what there is, is for the sender")
                // A process that is just being started may still have it open.
                truncate(filler, 0)
                unlink(filler)
                try OutboxStore.checkRoom(in: folder)
                #expect(access(folder + "/reserve", F_OK) == 0)
            }
        }
    }

    /// The log of the store holds the room of some hundred changes, which it does not need.
    @Test(.needsMountNamespaces) func roomOfTheLogIsForEntries() async throws {
        let folder = directory.path(of: "disk")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let said = try await aside {
            try MountNamespace.run {
                try MountNamespace.mount(on: folder, size: "3m")
                return try RoleProcess("grow log", [folder], of: "OutboxRoles").finish().text
            }
        }
        #expect(said == "0 bytes free: entry true, a file of true, 2 entries, reserve: 0")
    }

    // MARK: Refused

    @Test func credentialOfTheCallerIsRefused() async throws {
        let outbox = try open { $0.limit = 0 }
        let request = HTTPRequest("POST", "/x", headers: ["Authorization": "Bearer secret"])
        let error = await #expect(throws: NetworkError.self) { try await outbox.add(request) }
        #expect(error?.kind == .unsupported && error?.message.contains("Authorization") == true)
        #expect(error?.message.contains("secret") == false)
        await outbox.close()
        let keeping = try open {
            $0.limit = 0
            $0.keepsCredentials = true
        }
        try await keeping.add(request)
        await keeping.close()
        var status = stat()
        #expect(stat(folder + "/outbox.sqlite", &status) == 0 && status.st_mode & 0o777 == 0o600)
        #expect(stat(folder, &status) == 0 && status.st_mode & 0o777 == 0o700)
    }

    private static let secret = "S3CR3T-4711"

    /// Whether the secret is anywhere in the folder of the outbox.
    private var isSecretKept: Bool {
        directory.contents.contains { directory.read($0)?.range(of: Data(Self.secret.utf8)) != nil }
    }

    private func shop() throws -> CentralRequestManager {
        let table = """
            { domains: { shop: { baseURL: '\(server.baseURL)' } },
              servers: {
                'order.drop': { domain: 'shop', path: 'orders/{id}', method: 'DELETE', secretHeaders: ['X-Shop-Key'] },
                'order.save': { domain: 'shop', path: 'orders', method: 'POST', query: { names: ['token'] } },
                'reset': { domain: 'shop', path: 'reset/{token}', method: 'POST' } } }
            """
        let domains = try DomainTable(json5: table)
        return try .make { $0.domains = domains }
    }

    private struct Reset: RequestEntity, Encodable {
        static let route = Route(server: "reset")
        var token = OutboxBodyTests.secret
        var parameters: Parameters? { ["id": 1] }
    }

    @Test func credentialInParametersOrRowsIsRefused() async throws {
        let manager = try shop()
        let outbox = try fixture.open(manager) { $0.limit = 0 }
        let secret = Self.secret
        let drop = EntityCall(Route(server: "order.drop"), parameters: ["id": 7])
        let hidden: [(String, Outbox.Item)] = [
            ("access_token", Outbox.Item(drop.parameters(["access_token": secret]))),
            ("auth", Outbox.Item(drop.parameters(["auth": ["token": secret]]))),
            ("X-Shop-Key", Outbox.Item(drop.header("X-Shop-Key", secret))),
            ("token", Outbox.Item(EntityCall(Route(server: "order.save"), parameters: ["token": secret]))),
            ("token", Outbox.Item(EntityCall(Route(server: "reset"), parameters: ["token": secret]))),
            ("token", Outbox.Item(Reset())),
            ("api_key", Outbox.Item(EntityCall(Route("POST", domain: "shop", path: "x?api_key=\(secret)")))),
            ("password", Outbox.Item(EntityCall(Route(server: "missing"), parameters: ["password": secret]))),
        ]
        for (name, item) in hidden {
            let error = await #expect(throws: NetworkError.self, "\(name)") { try await outbox.add([item]) }
            #expect(error?.kind == .unsupported && error?.message.contains(name) == true, "\(name)")
            #expect(error?.message.contains(secret) == false)
        }
        #expect(!isSecretKept)
        // A word of every day in a path, and what is in a body.
        try await outbox.add([
            Outbox.Item(EntityCall(Route("POST", domain: "shop", path: "items/{code}"), parameters: ["code": "a"])),
            Outbox.Item(EntityCall(Route(server: "order.save"), parameters: ["password": "b"])),
        ])
        await outbox.close()
        let keeping = try fixture.open(manager) {
            $0.limit = 0
            $0.keepsCredentials = true
        }
        for (_, item) in hidden { try await keeping.add([item]) }
        await keeping.close()
        #expect(isSecretKept)
    }

    @Test func secretFieldOfTheRowIsNotInItsAnswer() async throws {
        server.enqueue(.status(422).header("X-Shop-Key", Self.secret).header("X-Plain", "a"))
        let manager = try shop()
        let outbox = try fixture.open(manager)
        let id = try await outbox.add([Outbox.Item(EntityCall(Route(server: "order.drop"), parameters: ["id": 7]))])[0]
        try await outbox.waitUntilSent()
        let answer = try #require(try await outbox.response(to: id))
        #expect(answer.status == 422 && answer.headers["X-Plain"] == "a" && answer.headers["X-Shop-Key"] == nil)
        #expect(!isSecretKept)
        await outbox.close()
    }

    @Test func settingThatCannotBeKeptIsRefused() async throws {
        let outbox = try open { $0.limit = 0 }
        var request = HTTPRequest("POST", "/x")
        request.authentication = .basic(user: "u", password: "p")
        let error = await #expect(throws: NetworkError.self) { try await outbox.add(request) }
        #expect(error?.kind == .unsupported && error?.message.contains("setting authentication") == true)
        let missing = await #expect(throws: NetworkError.self) {
            try await outbox.add(HTTPRequest("POST", "/x", body: .file(directory.path(of: "none"))))
        }
        #expect(missing?.outboxFailure == .file(path: directory.path(of: "none")))
        let folder = await #expect(throws: NetworkError.self) {
            try await outbox.add(HTTPRequest("POST", "/x", body: .file(directory.path)))
        }
        #expect(folder?.message.contains("not a regular file") == true)
        #expect(try await outbox.entries.isEmpty)
        await outbox.close()
        let closed = await #expect(throws: NetworkError.self) { try await outbox.add(HTTPRequest("POST", "/x")) }
        #expect(closed?.kind == .shutDown)
    }

    @Test func ownKeyIsAddedOnce() async throws {
        let outbox = try open { $0.limit = 0 }
        var request = HTTPRequest("POST", "/x", body: .data(content(100_000)))
        request.idempotencyKey = "reading-7"
        let id = try await outbox.add(request)
        #expect(try await outbox.add(request) == id)
        #expect(try await outbox.entries.count == 1)
        #expect(bodyFiles.count == 1)
        await outbox.close()
    }
}

import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Downloads are compared with the `Repr-Digest` of their first response (RFC 9530).
@Suite(.timeLimit(.minutes(2))) struct DownloadDigestTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make { $0.retries = 2 }
    }

    private var target: String { directory.path(of: "big.bin") }
    private let bytes = content(3 << 20)

    private static func field(_ data: Data, _ function: RequestOptions.Digests.Algorithm = .sha256) throws -> String {
        RequestOptions.Digests.field(function, try MessageDigest.of(data, function == .sha512 ? .sha512 : .sha256))
    }

    private func download(
        _ server: RangeServer, segments: Int = 1, checks: Bool? = nil
    ) async throws -> NetworkError? {
        var request = HTTPRequest("GET", server.url)
        request.digests.checks = checks
        do {
            _ = try await manager.download(request, to: target, segments: segments).value
            return nil
        } catch let error as NetworkError {
            return error
        }
    }

    /// The first response is cut, so the file is joined from two or more.
    @Test(arguments: [1, 3], [RequestOptions.Digests.Algorithm.sha256, .sha512])
    func joinedPartsAgreeWithTheDigest(segments: Int, function: RequestOptions.Digests.Algorithm) async throws {
        for (data, kind) in [(bytes, nil), (Data("other".utf8), NetworkError.Kind.integrity)] {
            let headers: HTTPHeaders = ["ETag": "\"v1\"", "Repr-Digest": try Self.field(data, function)]
            let server = try RangeServer(bytes, headers: headers) { _, number, honest in
                number == 1 ? honest.resetting(afterBytes: 1 << 20) : honest
            }
            let error = try await download(server, segments: segments)
            #expect(error?.kind == kind, "\(error.map { "\($0)" } ?? "")")
            #expect(directory.contents == (kind == nil ? ["big.bin"] : []))
            if kind == nil {
                #expect(directory.read("big.bin") == bytes)
                try FileManager.default.removeItem(atPath: target)
            } else {
                #expect(error?.message.contains("Repr-Digest") == true, "\(error.map { "\($0)" } ?? "")")
            }
        }
    }

    @Test func wholeResponseAgreesWithItsDigest() async throws {
        for name in ["Repr-Digest", "Content-Digest"] {
            let server = try RangeServer(bytes, headers: ["ETag": "\"v1\"", name: try Self.field(Data("other".utf8))])
            #expect(try await download(server)?.kind == .integrity)
            #expect(directory.contents.isEmpty)
            #expect(try await download(server, checks: false) == nil)
            #expect(directory.read("big.bin") == bytes)
            try FileManager.default.removeItem(atPath: target)
        }
    }

    /// Only the first response of the first run announces the digest.
    @Test func digestOutlivesTheRun() async throws {
        for (data, kind) in [(bytes, nil), (Data("other".utf8), NetworkError.Kind.integrity)] {
            let field = try Self.field(data)
            let server = try RangeServer(bytes) { _, number, honest in
                if number > 3 { return honest }
                return (number == 1 ? honest.header("Repr-Digest", field) : honest).closing(afterBytes: 300_000)
            }
            #expect(try await download(server)?.kind == .connectionLost)
            #expect(directory.contents == ["big.bin.part", "big.bin.part.journal"])
            #expect(try await download(server)?.kind == kind)
            #expect(directory.contents == (kind == nil ? ["big.bin"] : []))
            if kind == nil { try FileManager.default.removeItem(atPath: target) }
        }
    }

    /// A process died after the last byte and before the rename: the bytes on disk are compared all the same.
    @Test func completeFileIsComparedBeforeItAppears() async throws {
        for (data, kind) in [(bytes, nil), (Data([bytes[0] ^ 1]) + bytes.dropFirst(), NetworkError.Kind.integrity)] {
            let server = try RangeServer(bytes)
            var journal = DownloadJournal(identity: server.url)
            journal.validator = .entityTag("\"v1\"", modified: nil)
            journal.total = Int64(bytes.count)
            journal.done.insert(0..<Int64(bytes.count))
            let digest = MessageDigest.hexadecimal(try MessageDigest.of(bytes, .sha256))
            journal.digest = DownloadOptions.Digest(.sha256, digest)
            try directory.write(data, to: "big.bin.part")
            try directory.write(journal.encoded(), to: "big.bin.part.journal")
            #expect(try await download(server)?.kind == kind)
            #expect(directory.contents == (kind == nil ? ["big.bin"] : []))
            if kind == nil { try FileManager.default.removeItem(atPath: target) }
        }
    }

    /// The file has the digest of its new version, not that of the old one.
    @Test func changedContentHasANewDigest() async throws {
        let other = content(2 << 20, seed: 1)
        let server = try RangeServer(bytes, headers: ["ETag": "\"v1\"", "Repr-Digest": try Self.field(bytes)]) {
            $1 > 3 ? $2 : $2.closing(afterBytes: 300_000)
        }
        #expect(try await download(server)?.kind == .connectionLost)
        server.change(to: other, headers: ["ETag": "\"v2\"", "Repr-Digest": try Self.field(other)])
        #expect(try await download(server) == nil)
        #expect(directory.read("big.bin") == other)
    }

    @Test func ownDigestReplacesTheServers() async throws {
        let server = try RangeServer(bytes, headers: ["ETag": "\"v1\"", "Repr-Digest": try Self.field(Data())]) {
            $1 == 1 ? $2.resetting(afterBytes: 1 << 20) : $2
        }
        var options = DownloadOptions()
        options.digest = .sha256(MessageDigest.hexadecimal(try MessageDigest.of(bytes, .sha256)))
        _ = try await manager.download(server.url, to: target, options: options).value
        #expect(directory.read("big.bin") == bytes)
    }

    /// Reading such a file takes minutes.
    @Test func cancellationEndsTheReadingOfTheFile() async throws {
        let server = try RangeServer(bytes)
        let size: Int64 = 200 << 30
        #expect(FileManager.default.createFile(atPath: target + ".part", contents: nil))
        #expect(truncate(target + ".part", off_t(size)) == 0)
        var journal = DownloadJournal(identity: server.url, validator: .entityTag("\"v1\"", modified: nil))
        (journal.total, journal.done) = (size, ByteRanges([0..<size]))
        try DownloadFiles.write(try journal.encoded(), to: target + ".part.journal")
        var options = DownloadOptions()
        options.digest = .sha256(String(repeating: "0", count: 64))
        let download = manager.download(server.url, to: target, options: options)
        for await progress in download.progress where progress.completed == size { break }
        download.cancel(keepingProgress: true)
        #expect(await failure { try await download.value }?.kind == .cancelled)
        #expect(directory.contents.count == 2 && server.mock.requestCount == 0)
    }
}

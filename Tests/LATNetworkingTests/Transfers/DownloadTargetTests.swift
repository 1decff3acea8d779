import Dispatch
import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// The target of a download: folders, names, existing files, digests and locks.
@Suite(.timeLimit(.minutes(2))) struct DownloadTargetTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager
    private let server: RangeServer
    private static let bytes = content(700_000)

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make()
        server = try RangeServer(Self.bytes)
    }

    private var target: String { directory.path(of: "f") }

    private func options(_ change: (inout DownloadOptions) -> Void) -> DownloadOptions {
        var options = DownloadOptions()
        change(&options)
        return options
    }

    private static func digest(_ data: Data) throws -> String {
        let directory = try TemporaryDirectory()
        return try FileDigest.hexadecimal(try directory.write(data, to: "x"), .sha256) {
            DownloadFiles.system("read", $0)
        }
    }

    // MARK: Files of other users

    @Test(.enabled(if: geteuid() == 0, "only root may give files away"), arguments: ["f.part", "f"])
    func filesOfAnotherUserAreNotUsed(name: String) async throws {
        let victim = try directory.write(Data("kept".utf8), to: "victim")
        if name == "f" {
            #expect(symlink(victim, target) == 0 && lchown(target, 12_345, 12_345) == 0)
        } else {
            #expect(chown(try directory.write(Data(), to: name), 12_345, 12_345) == 0)
        }
        let error = await failure { try await manager.download(server.url, to: target).value }
        #expect(
            error?.kind == .storage && error?.message.contains("another user") == true, "\(String(describing: error))")
        #expect(directory.read("victim") == Data("kept".utf8) && server.mock.requestCount == 0)
    }

    /// As on a file system of a network that makes one user of all.
    @Test(.enabled(if: geteuid() == 0, "only root may make files of others"))
    func newFileMayShowAnotherOwner() throws {
        #expect(chmod(directory.path, 0o777) == 0)
        let part = try asUser(12_345) { try PartFile(path: target + ".part", target: target) }
        var status = stat()
        #expect(lstat(part.path, &status) == 0 && status.st_uid == 12_345)
    }

    // MARK: Checks before the transfer

    @Test func nameThatIsTooLongFailsUnsent() async throws {
        let path = directory.path(of: String(repeating: "n", count: 256))
        let error = await failure { try await manager.download(server.url, to: path).value }
        #expect(error?.kind == .storage && error?.message.contains("shorter name") == true)
        #expect(server.mock.requestCount == 0)
    }

    @Test func invalidTargetFailsUnsent() async throws {
        try directory.write(Data(), to: "file")
        mkfifo(directory.path(of: "pipe"), 0o600)
        for (path, word) in [("no/where", "does not exist"), ("file/x", "not a folder"), ("pipe", "not a regular")] {
            let error = try #require(
                await failure { try await manager.download(server.url, to: directory.path(of: path)).value })
            #expect(error.kind == .storage && error.message.contains(word), "\(error)")
        }
        #expect(await failure { try await manager.download(server.url, to: "").value }?.kind == .invalidRequest)
        #expect(server.mock.requestCount == 0)
    }

    @Test(.enabled(if: getuid() != 0, "root may write to every folder")) func unwritableFolderFailsUnsent() async throws
    {
        chmod(directory.path, 0o500)
        defer { chmod(directory.path, 0o700) }
        let error = try #require(await failure { try await manager.download(server.url, to: target).value })
        #expect(error.kind == .storage && server.mock.requestCount == 0)
    }

    @Test func invalidRequestFailsUnsent() async throws {
        let digest = options { $0.digest = .sha256("abc") }
        #expect(
            await failure { try await manager.download(server.url, to: target, options: digest).value }?.kind
                == .invalidRequest)
        for name in ["Range", "If-Range"] {
            let download = manager.download(server.url, to: target, headers: [name: "bytes=0-1"])
            #expect(await failure { try await download.value }?.kind == .invalidRequest)
        }
        #expect(
            await failure { try await manager.download(HTTPRequest("HEAD", server.url), to: target).value }?.kind
                == .invalidRequest)
        #expect(
            await failure { try await manager.download(server.url, to: target, segments: 0).value }?.kind
                == .invalidRequest)
        #expect(server.mock.requestCount == 0 && directory.contents.isEmpty)
    }

    @Test func fileLargerThanTheDiskFailsEarly() async throws {
        let huge = try RangeServer(Self.bytes) { _, _, honest in honest.announcingLength(1 << 60) }
        let error = try #require(await failure { try await manager.download(huge.url, to: target).value })
        #expect(error.kind == .storage && error.message.contains("make room"))
        #expect(directory.contents.isEmpty)
    }

    @Test func downloadWithReservedSpaceIsWhole() async throws {
        let file = try await manager.download(server.url, to: target, options: options { $0.reservesSpace = true })
            .value
        #expect(file.byteCount == 700_000 && directory.read("f") == Self.bytes)
    }

    @Test func secondDownloadToOneTargetIsRefused() async throws {
        let slow = try RangeServer(Self.bytes) { $1 == 1 ? $2.stalling(.afterBodyBytes(300_000)) : $2 }
        let first = manager.download(slow.url, to: target)
        for await progress in first.progress where progress.completed > 0 { break }
        let error = try #require(await failure { try await manager.download(server.url, to: target).value })
        #expect(error.kind == .storage && error.message.contains("another download"))
        // Continues after the stall.
        first.pause()
        first.resume()
        #expect(try await first.value.byteCount == 700_000)
        // The lock is released with the download.
        for _ in 0..<20 { _ = try await manager.download(server.url, to: target).value }
    }

    // MARK: Existing files

    @Test func replacedFileKeepsItsPermissions() async throws {
        let path = try directory.write(Data("old".utf8), to: "f")
        // Nobody is to run what was downloaded with the rights of its owner.
        chmod(path, 0o4750)
        _ = try await manager.download(server.url, to: target).value
        var status = stat()
        stat(path, &status)
        #expect(directory.read("f") == Self.bytes && status.st_mode & 0o7777 == 0o750)
    }

    @Test func symbolicLinkIsKept() async throws {
        try directory.write(Data("old".utf8), to: "real")
        symlink("real", target)
        _ = try await manager.download(server.url, to: target).value
        var status = stat()
        lstat(target, &status)
        #expect(status.st_mode & S_IFMT == S_IFLNK && directory.read("real") == Self.bytes)
    }

    @Test func existingFileIsSkippedIfItsDigestMatches() async throws {
        try directory.write(Data("old".utf8), to: "f")
        let download = manager.download(server.url, to: target, options: options { $0.existingFile = .skip })
        let file = try await download.value
        #expect(file.isSkipped && file.byteCount == 3 && server.mock.requestCount == 0)
        #expect(download.currentProgress.completed == 3 && download.state == .finished)
        let digest = try Self.digest(Self.bytes)
        let checked = options {
            $0.existingFile = .skip
            $0.digest = .sha256(digest.uppercased())
        }
        let fetched = try await manager.download(server.url, to: target, options: checked).value
        #expect(!fetched.isSkipped && fetched.digest == digest && directory.read("f") == Self.bytes)
        #expect(try await manager.download(server.url, to: target, options: checked).value.isSkipped)
    }

    @Test func fileCreatedDuringTheDownloadFailsIt() async throws {
        let fail = options { $0.existingFile = .fail }
        // The rest of the file comes when the target exists.
        let exists = DispatchSemaphore(value: 0)
        let slow = try RangeServer(Self.bytes) { _, number, honest in
            if number == 2 { exists.wait() }
            return number == 1 ? honest.closing(afterBytes: 300_000) : honest
        }
        let manager = try CentralRequestManager.make { $0.retries = 1 }
        let download = manager.download(slow.url, to: target, options: fail)
        for await progress in download.progress where progress.completed > 0 { break }
        try directory.write(Data("old".utf8), to: "f")
        exists.signal()
        #expect(await failure { try await download.value }?.kind == .storage)
        #expect(directory.read("f") == Data("old".utf8))
        let count = slow.mock.requestCount
        #expect(
            await failure { try await manager.download(slow.url, to: target, options: fail).value }?.kind == .storage)
        #expect(slow.mock.requestCount == count)
        // The finished part is kept. Once the target is free, its last byte confirms it.
        unlink(target)
        let file = try await manager.download(slow.url, to: target, options: fail).value
        #expect(file.resumedByteCount == 699_999 && slow.ranges.last == "bytes=699999-" && directory.contents == ["f"])
        #expect(slow.mock.requestCount == count + 1)
    }

    /// A process died after it had given the file its name, and before it removed that of the part.
    @Test(arguments: [false, true]) func finishedFileIsNotWrittenThroughItsPart(hasJournal: Bool) async throws {
        try directory.write(Self.bytes, to: "f")
        if hasJournal { try leaveComplete("x") }
        unlink(target + ".part")
        #expect(link(target, target + ".part") == 0)
        let named = options { $0.identity = "x" }
        let other = content(700_000, seed: 1)
        let broken = try RangeServer(other, headers: ["ETag": "\"v2\""]) {
            $1 == 1 ? $2.closing(afterBytes: 300_000) : $2
        }
        let manager = try CentralRequestManager.make { $0.retries = 0 }
        let error = await failure { try await manager.download(broken.url, to: target, options: named).value }
        #expect(error?.kind == .connectionLost && directory.read("f") == Self.bytes)
        #expect(try await manager.download(broken.url, to: target, options: named).value.byteCount == 700_000)
        #expect(directory.read("f") == other && directory.contents == ["f"])
    }

    // MARK: Digests

    @Test(arguments: [1, 4]) func digestCoversResumedData(segments: Int) async throws {
        let bytes = content(5 << 20)
        let share = Int64(2 << 20) / Int64(segments)
        let server = try RangeServer(bytes) { $1 <= segments ? $2.stalling(.afterBodyBytes(share)) : $2 }
        let right = options { $0.digest = .sha256((try? Self.digest(bytes)) ?? "") }
        let first = manager.download(server.url, to: target, segments: segments, options: right)
        try await server.mock.waitForRequests(segments)
        for await progress in first.progress where progress.completed > 1 << 20 { break }
        first.cancel(keepingProgress: true)
        _ = await failure { try await first.value }
        let file = try await manager.download(server.url, to: target, segments: segments, options: right).value
        #expect(file.resumedByteCount > 0 && file.digest == right.digest?.hexadecimal)
        #expect(directory.read("f") == bytes)
    }

    @Test func digestCoversBytesThatCameTwice() async throws {
        let bytes = content(1 << 20)
        var other = bytes
        for index in 0..<1_000 { other[index] ^= 0xFF }
        // The body breaks off. The request for the rest gets the whole of another content with the same entity tag.
        let server = try RangeServer(bytes) { [other] _, number, honest in
            guard number > 1 else { return honest.closing(afterBytes: 300_000) }
            return .data(other).header("ETag", honest.headers["ETag"] ?? "")
        }
        let manager = try CentralRequestManager.make { $0.retries = 1 }
        let right = options { $0.digest = .sha256((try? Self.digest(bytes)) ?? "") }
        let error = await failure { try await manager.download(server.url, to: target, options: right).value }
        #expect(error?.kind == .integrity)
        #expect(server.mock.requestCount == 2 && directory.contents.isEmpty)
    }

    @Test func wrongDigestKeepsTheOldFile() async throws {
        try directory.write(Data("old".utf8), to: "f")
        let wrong = options { $0.digest = DownloadDigest(.sha512, String(repeating: "0", count: 128)) }
        let error = try #require(
            await failure { try await manager.download(server.url, to: target, options: wrong).value })
        #expect(error.kind == .integrity && directory.contents == ["f"] && directory.read("f") == Data("old".utf8))
    }

    // MARK: Journals

    /// Leaves a partial download and its journal beside the target.
    private func leaveBehind(_ server: RangeServer) async throws {
        let download = manager.download(server.url, to: target)
        for await progress in download.progress where progress.completed > 100_000 { break }
        download.cancel(keepingProgress: true)
        _ = await failure { try await download.value }
        #expect(directory.contents == ["f.part", "f.part.journal"])
    }

    /// Leaves all bytes of an earlier run, whose process died before it gave the file its name.
    private func leaveComplete(_ identity: String, _ bytes: Data = Self.bytes) throws {
        var journal = DownloadJournal(identity: identity)
        journal.validator = .entityTag("\"v1\"", modified: nil)
        journal.total = Int64(bytes.count)
        journal.done.insert(0..<Int64(bytes.count))
        try directory.write(bytes, to: "f.part")
        try directory.write(journal.encoded(), to: "f.part.journal")
    }

    @Test func completePartIsConfirmedByItsLastByte() async throws {
        try leaveComplete(server.url)
        let file = try await manager.download(server.url, to: target).value
        #expect(file.resumedByteCount == 699_999 && file.receivedByteCount == 1)
        #expect(server.ranges == ["bytes=699999-"] && server.mock.requests[0].headers["If-Range"] == "\"v1\"")
        #expect(directory.read("f") == Self.bytes && directory.contents == ["f"])
    }

    /// With `If-Range` the server sends the new version; one that ignores the field may find the range unsatisfiable.
    @Test(arguments: [700_000, 699_999, 10, 0], [false, true])
    func completePartOfAnotherVersionIsReplaced(count: Int, refuses: Bool) async throws {
        let other = content(count, seed: 1)
        let server = try RangeServer(other, headers: ["ETag": "\"v2\""]) { request, _, honest in
            guard refuses, request.headers["Range"] != nil, count < 700_000 else { return honest }
            return MockReply(status: 416, headers: ["Content-Range": "bytes */\(count)"])
        }
        try leaveComplete(server.url)
        let file = try await manager.download(server.url, to: target).value
        #expect(server.ranges.first == "bytes=699999-" && file.resumedByteCount == 0)
        #expect(directory.read("f") == other && directory.contents == ["f"])
    }

    @Test func emptyPartIsAskedFor() async throws {
        try leaveComplete(server.url, Data())
        _ = try await manager.download(server.url, to: target).value
        #expect(server.ranges == ["-"] && directory.read("f") == Self.bytes)
    }

    @Test(arguments: [nil, 304, 403, 503] as [Int?]) func unconfirmedPartIsKept(status: Int?) async throws {
        let refusing = try RangeServer(Self.bytes) { _, _, _ in .status(status ?? 500) }
        // Nothing listens on port 1.
        let url = status == nil ? "http://127.0.0.1:1/f" : refusing.url
        let named = options { $0.identity = "x" }
        let manager = try CentralRequestManager.make { $0.retries = 0 }
        try leaveComplete("x")
        for _ in 0..<2 {
            let error = await failure { try await manager.download(url, to: target, options: named).value }
            #expect(error?.kind == (status == nil ? .connect : .httpStatus) && error?.response?.status == status)
            #expect(directory.contents == ["f.part", "f.part.journal"] && directory.read("f.part") == Self.bytes)
        }
        let file = try await manager.download(server.url, to: target, options: named).value
        #expect(file.receivedByteCount == 1 && server.ranges == ["bytes=699999-"] && directory.read("f") == Self.bytes)
    }

    @Test func ownDigestConfirmsACompletePart() async throws {
        try leaveComplete(server.url)
        let right = options { $0.digest = .sha256((try? Self.digest(Self.bytes)) ?? "") }
        let file = try await manager.download(server.url, to: target, options: right).value
        #expect(file.resumedByteCount == 700_000 && server.mock.requestCount == 0 && directory.contents == ["f"])
    }

    @Test(arguments: 0..<3) func partOfAnotherUserIsNotContinued(kind: Int) async throws {
        let slow = try RangeServer(Self.bytes) { $1 == 1 || $1 == 3 ? $2.stalling(.afterBodyBytes(300_000)) : $2 }
        var request = HTTPRequest("GET", slow.url)
        switch kind {
        case 0: request.cachePartition = "a"
        case 1: request.authentication = .basic(user: "a", password: "p")
        default: manager.cache.partition = "a"
        }
        for isSame in [true, false] {
            let first = manager.download(request, to: target)
            for await progress in first.progress where progress.completed > 100_000 { break }
            first.cancel(keepingProgress: true)
            _ = await failure { try await first.value }
            if !isSame {
                if kind == 2 { manager.cache.partition = "b" }
                request = HTTPRequest("GET", slow.url)
            }
            let file = try await manager.download(request, to: target).value
            #expect((file.resumedByteCount > 0) == isSame && directory.read("f") == Self.bytes)
        }
    }

    @Test func damagedPartOrJournalStartsOver() async throws {
        let slow = try RangeServer(Self.bytes) { $1 % 2 == 1 ? $2.stalling(.afterBodyBytes(300_000)) : $2 }
        let breakages: [() throws -> Void] = [
            { try directory.write(Data("nonsense".utf8), to: "f.part.journal") },
            { truncate(directory.path(of: "f.part.journal"), 60) },
            { truncate(directory.path(of: "f.part"), 10) },
            { try directory.write(Data(), to: "f.part.journal") },
            { unlink(directory.path(of: "f.part")) },
        ]
        for breakage in breakages {
            try await leaveBehind(slow)
            try breakage()
            let file = try await manager.download(slow.url, to: target).value
            #expect(file.resumedByteCount == 0 && directory.read("f") == Self.bytes && directory.contents == ["f"])
            unlink(target)
        }
    }

    @Test func otherURLOrOptionStartsOver() async throws {
        let slow = try RangeServer(Self.bytes) { $1 == 1 || $1 == 3 ? $2.stalling(.afterBodyBytes(300_000)) : $2 }
        try await leaveBehind(slow)
        let other = try await manager.download(slow.url + "?other", to: target).value
        #expect(other.resumedByteCount == 0)
        unlink(target)
        try await leaveBehind(slow)
        let fresh = try await manager.download(slow.url, to: target, options: options { $0.resumesEarlierRun = false })
            .value
        #expect(fresh.resumedByteCount == 0 && directory.contents == ["f"])
    }

    @Test func identityResumesUnderAnotherURL() async throws {
        let slow = try RangeServer(Self.bytes) { $1 == 1 ? $2.stalling(.afterBodyBytes(300_000)) : $2 }
        let named = options { $0.identity = "release 7" }
        let first = manager.download(slow.url + "?signature=1", to: target, options: named)
        for await progress in first.progress where progress.completed > 100_000 { break }
        first.cancel(keepingProgress: true)
        _ = await failure { try await first.value }
        let file = try await manager.download(slow.url + "?signature=2", to: target, options: named).value
        #expect(file.resumedByteCount > 0 && directory.read("f") == Self.bytes)
    }

    // MARK: Folders

    @Test func serverNamesTheFileInAFolder() async throws {
        let named = try RangeServer(
            Self.bytes,
            headers: ["ETag": "\"v1\"", "Content-Disposition": "attachment; filename=\"../../re port.pdf\""])
        let file = try await manager.download(named.url, to: directory.path).value
        #expect(file.path == directory.path(of: "re port.pdf") && directory.contents == ["re port.pdf"])
        let skip = options { $0.existingFile = .skip }
        #expect(try await manager.download(named.url, to: directory.path + "/", options: skip).value.isSkipped)
        #expect(directory.contents == ["re port.pdf"])
        let plain = try await manager.download(server.url + "?x=/y", to: directory.path).value
        #expect(plain.path == directory.path(of: "big.bin"))
    }

    @Test func fileSkippedInAFolderHasItsDigest() async throws {
        let digest = try Self.digest(Self.bytes)
        let checked = options {
            $0.existingFile = .skip
            $0.digest = .sha256(digest.uppercased())
        }
        for isSkipped in [false, true] {
            let file = try await manager.download(server.url, to: directory.path, options: checked).value
            #expect(file.isSkipped == isSkipped && file.digest == digest)
        }
    }

    @Test func equalFileNamesDoNotCollideInAFolder() async throws {
        let slow = try RangeServer(Self.bytes) { $2.throttled(bytesPerSecond: 700_000) }
        let first = manager.download(slow.url + "?id=1", to: directory.path)
        let second = manager.download(slow.url + "?id=2", to: directory.path)
        _ = try await (first.value, second.value)
        #expect(directory.contents == ["big.bin"] && directory.read("big.bin") == Self.bytes)
    }

    @Test func longestFileNameHasRoomForThePart() async throws {
        let name = String(repeating: "n", count: 255)
        _ = try await manager.download(server.url, to: directory.path(of: name)).value
        #expect(directory.contents == [name])
    }
}

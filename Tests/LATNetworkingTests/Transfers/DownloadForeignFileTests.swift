import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Files of the user and of other programs where a download wants to write.
@Suite(.timeLimit(.minutes(1))) struct DownloadForeignFileTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager
    private let bytes = content(300_000)
    private let other = Data("of another program".utf8)

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make()
    }

    private var target: String { directory.path(of: "f") }

    // MARK: Names of the server

    private func server(naming name: String) throws -> RangeServer {
        try RangeServer(
            bytes, headers: ["ETag": "\"v1\"", "Content-Disposition": "attachment; filename=\"\(name)\""])
    }

    @Test func nameOfTheServerReplacesNoFile() async throws {
        let server = try server(naming: "Makefile")
        try directory.write(other, to: "Makefile")
        let error = await failure { try await manager.download(server.url, to: directory.path).value }
        #expect(error?.kind == .storage && error?.message.contains("Makefile exists already") == true)
        #expect(directory.contents == ["Makefile"] && directory.read("Makefile") == other)
        // Who wants it says so, in the options or by the path.
        var options = DownloadOptions()
        options.existingFile = .overwrite
        _ = try await manager.download(server.url, to: directory.path, options: options).value
        #expect(directory.contents == ["Makefile"] && directory.read("Makefile") == bytes)
        try directory.write(other, to: "Makefile")
        _ = try await manager.download(server.url, to: directory.path(of: "Makefile")).value
        #expect(directory.contents == ["Makefile"] && directory.read("Makefile") == bytes)
    }

    /// The caller knows the name at the end of the URL.
    @Test(arguments: [nil, "big.bin"]) func nameOfTheURLReplacesAFile(_ name: String?) async throws {
        let server = try name.map { try self.server(naming: $0) } ?? RangeServer(bytes)
        try directory.write(other, to: "big.bin")
        _ = try await manager.download(server.url, to: directory.path).value
        #expect(directory.contents == ["big.bin"] && directory.read("big.bin") == bytes)
    }

    /// Another program makes the file while the content is received.
    @Test func fileThatAppearsMeanwhileIsNotReplaced() async throws {
        let name = "attachment; filename=\"Makefile\""
        let server = try RangeServer(bytes, headers: ["ETag": "\"v1\"", "Content-Disposition": name]) {
            $1 == 1 ? $2.stalling(.afterBodyBytes(1_000)) : $2
        }
        let download = manager.download(server.url, to: directory.path)
        for await progress in download.progress where progress.completed > 0 { break }
        try directory.write(other, to: "Makefile")
        download.pause()
        download.resume()
        let error = await failure { try await download.value }
        #expect(error?.kind == .storage && directory.read("Makefile") == other)
    }

    // MARK: The partial file

    @Test func partOfAnotherProgramStays() async throws {
        let server = try RangeServer(bytes)
        try directory.write(other, to: "f.part")
        for resumes in [true, false] {
            var options = DownloadOptions()
            options.resumesEarlierRun = resumes
            let download = manager.download(server.url, to: target, options: options)
            let error = await failure { try await download.value }
            #expect(error?.kind == .storage && error?.message.contains("f.part exists and is not") == true)
        }
        #expect(server.mock.requestCount == 0)
        #expect(directory.contents == ["f.part"] && directory.read("f.part") == other)
    }

    @Test func emptyPartIsUsed() async throws {
        let server = try RangeServer(bytes)
        try directory.write(Data(), to: "f.part")
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.contents == ["f"] && directory.read("f") == bytes)
    }

    /// Also where the content cannot be resumed, so that a later run knows the file after `kill -9`.
    @Test(arguments: [[:], ["ETag": "\"v1\""]] as [HTTPHeaders])
    func runningDownloadHasAJournalFromTheStart(_ headers: HTTPHeaders) async throws {
        let server = try RangeServer(bytes, headers: headers) { $2.stalling(.afterBodyBytes(1_000)) }
        let download = manager.download(server.url, to: target)
        for await progress in download.progress where progress.completed > 0 { break }
        #expect(directory.contents == ["f.part", "f.part.journal"])
        download.cancel()
        _ = await failure { try await download.value }
        #expect(directory.contents.isEmpty)
    }

    @Test func removalOfADownloadLeavesAForeignPart() async throws {
        let server = try RangeServer(bytes)
        try directory.write(other, to: "f.part")
        let downloads = try DownloadManager(manager, folder: directory.path(of: "queue"))
        let id = try downloads.add(server.url, to: target)
        let error = await failure { try await downloads.value(of: id) }
        #expect(error?.kind == .storage)
        downloads.remove(id)
        #expect(directory.read("f.part") == other && !directory.contents.contains("f.part.journal"))
        await downloads.close()
    }
}

import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// The records of a download manager after a crash, and those of other versions.
@Suite(.timeLimit(.minutes(2))) struct DownloadRecordTests {
    private let directory: TemporaryDirectory
    private let central: CentralRequestManager
    private static let bytes = content(600_000)

    init() throws {
        directory = try TemporaryDirectory()
        central = try .make()
    }

    private var folder: String { directory.path(of: "queue") }

    /// Keeps the record of a download whose file has got its name, as a crash at that moment does.
    private final class Crashing: RequestAccessory {
        let record = Box<Data?>(nil)
        private let directory: TemporaryDirectory

        init(_ directory: TemporaryDirectory) { self.directory = directory }

        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
            record.change { $0 = directory.read("queue/1.download") }
        }
    }

    /// - Parameter existing: With `.fail`, the download would otherwise be refused because of its own file.
    @Test(arguments: [DownloadOptions.ExistingFile.overwrite, .fail])
    func finishedFileIsNotFetchedAgainAfterACrash(_ existing: DownloadOptions.ExistingFile) async throws {
        let server = try RangeServer(Self.bytes)
        let crashing = Crashing(directory)
        let manager = try DownloadManager(try .make { $0.accessories = [crashing] }, folder: folder)
        var options = DownloadOptions()
        options.existingFile = existing
        let id = try manager.add(server.url, to: directory.path(of: "f"), options: options)
        _ = try await manager.value(of: id)
        await manager.close()
        #expect(directory.contents == ["f", "queue", "queue/.lock"])
        let record = try #require(crashing.record.value)

        // The file is there, so it is the result.
        try directory.write(record, to: "queue/1.download")
        try directory.write(Data(), to: "f.part.journal")
        let count = server.mock.requestCount
        let later = try DownloadManager(central, folder: folder)
        #expect(later.item(id)?.state == .finished && later.item(id)?.progress.total == 600_000)
        let file = try await later.value(of: id)
        #expect(file.byteCount == 600_000 && file.path == directory.path(of: "f") && server.mock.requestCount == count)
        #expect(directory.contents == ["f", "queue", "queue/.lock"])
        await later.close()

        // Another file is there, or none.
        unlink(directory.path(of: "f"))
        try directory.write(record, to: "queue/1.download")
        let last = try DownloadManager(central, folder: folder)
        #expect(try await last.value(of: id).receivedByteCount == 600_000)
        #expect(server.mock.requestCount > count && directory.read("f") == Self.bytes)
        await last.close()
    }

    /// A record of a later version is one that this version cannot read.
    @Test func newRecordDoesNotReplaceAnUnreadableOne() async throws {
        let server = try RangeServer(Self.bytes)
        let old = Data("LATNetworking-download 2 sha256:0\n{}".utf8)
        for name in ["1", "2", "18446744073709551615"] { try directory.write(old, to: "queue/\(name).download") }
        let manager = try DownloadManager(central, folder: folder)
        let later = Data("later".utf8)
        try directory.write(later, to: "queue/4.download")
        let id = try manager.add(server.url, to: directory.path(of: "f"))
        #expect(id.description == "3")
        // The file that would be replaced was put there after the start.
        let error = #expect(throws: NetworkError.self) { try manager.add(server.url, to: directory.path(of: "g")) }
        #expect(error?.kind == .storage && error?.message.contains("4.download") == true)
        #expect(manager.items.count == 1)
        _ = try await manager.value(of: id)
        manager.remove(id)
        for name in ["1", "2", "18446744073709551615"] { #expect(directory.read("queue/\(name).download") == old) }
        #expect(directory.read("queue/4.download") == later && directory.read("queue/4.download.new") == nil)
        await manager.close()
    }
}

import Dispatch
import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Many downloads: limit, order, pauses, and their continuation in a later process.
@Suite(.timeLimit(.minutes(2))) struct DownloadManagerTests {
    private let directory: TemporaryDirectory
    private let central: CentralRequestManager
    private static let bytes = content(600_000)

    init() throws {
        directory = try TemporaryDirectory()
        central = try .make { $0.maxConnectionsPerHost = 20 }
    }

    private var folder: String { directory.path(of: "queue") }

    /// - Parameter holds: Whether a request for `?held` stalls.
    private func slowServer(holds: @escaping @Sendable () -> Bool = { true }) throws -> RangeServer {
        try RangeServer(Self.bytes) { request, _, honest in
            if request.query == "held", holds() { return honest.stalling(.start) }
            return request.query == "slow" && request.headers["Range"] == nil
                ? honest.stalling(.afterBodyBytes(300_000)) : honest
        }
    }

    /// Waits until a download meets a condition.
    private func wait(
        _ manager: DownloadManager, _ id: DownloadManager.Item.ID, until isReached: (DownloadManager.Item) -> Bool
    ) async throws {
        try await eventually { manager.item(id).map(isReached) ?? false }
    }

    @Test func allDownloadsFinishWithEvents() async throws {
        let allAreAdded = DispatchSemaphore(value: 0)
        let server = try RangeServer(Self.bytes) { _, number, honest in
            // The other requests wait too, because the server has one thread.
            if number == 1 { allAreAdded.wait() }
            return honest
        }
        let manager = try DownloadManager(central, folder: folder, limit: 2)
        let events = manager.events
        var ids: [DownloadManager.Item.ID] = []
        for number in 0..<6 { ids.append(try manager.add(server.url, to: directory.path(of: "f\(number)"))) }
        allAreAdded.signal()
        for id in ids { #expect(try await manager.value(of: id).byteCount == 600_000) }
        #expect(manager.items.allSatisfy { $0.state == .finished && $0.progress.fraction == 1 })
        #expect(directory.contents.filter { $0.hasPrefix("queue/") } == ["queue/.lock"])
        var running = Set<DownloadManager.Item.ID>()
        var finished = 0
        for await event in events {
            switch event {
            case .changed(let item) where item.state == .running: running.insert(item.id)
            case .finished(let item, let file):
                #expect(running.remove(item.id) != nil && file.byteCount == 600_000)
                finished += 1
            default: break
            }
            #expect(running.count <= 2)
            if finished == 6 { break }
        }
    }

    @Test func laterManagerContinuesEarlierDownloads() async throws {
        let mayEnd = Event()
        let server = try slowServer { !mayEnd.hasHappened }
        let manager = try DownloadManager(central, folder: folder, limit: 2)
        let slow = try manager.add(server.url + "?slow", to: directory.path(of: "slow"), priority: .high)
        let held = try manager.add(server.url + "?held", to: directory.path(of: "held"))
        manager.pause(held)
        #expect(directory.contents.contains { $0.hasPrefix("queue/") && $0.hasSuffix(".download") })
        try await wait(manager, slow) { $0.progress.completed >= 300_000 }
        #expect(throws: NetworkError.self) { try DownloadManager(central, folder: folder) }
        async let waiting = failure { try await manager.value(of: slow) }
        await manager.close()
        #expect(await waiting?.kind == .shutDown)
        #expect(throws: NetworkError.self) { try manager.add(server.url, to: directory.path(of: "late")) }

        mayEnd.happen()
        let later = try DownloadManager(central, folder: folder, limit: 2)
        #expect(later.unreadableFiles.isEmpty && later.item(held)?.state == .paused)
        #expect(later.item(slow)?.priority == .high)
        let file = try await later.value(of: slow)
        #expect(directory.read("slow") == Self.bytes && file.resumedByteCount > 0)
        later.resumeAll()
        _ = try await later.value(of: held)
        #expect(directory.read("held") == Self.bytes)
        // The ID of a listed download is not used again.
        #expect(try later.add(server.url, to: directory.path(of: "more")) != slow)
    }

    /// A removal keeps the manager's token from a third party, in a later process too.
    @Test func removedHeaderStaysRemovedAfterARestart() async throws {
        let server = try slowServer()
        let central = try CentralRequestManager.make { $0.headers = ["Authorization": "Bearer t", "X-Plain": "p"] }
        var options = DownloadOptions()
        options.startsPaused = true
        let manager = try DownloadManager(central, folder: folder)
        let id = try manager.add(
            server.url, to: directory.path(of: "f"), headers: ["Authorization": nil, "X-Own": "1"], options: options)
        await manager.close()
        let later = try DownloadManager(central, folder: folder)
        later.resume(id)
        _ = try await later.value(of: id)
        let headers = try #require(server.mock.requests.first?.headers)
        #expect(headers["Authorization"] == nil && headers["X-Own"] == "1" && headers["X-Plain"] == "p")
    }

    @Test func allDownloadsPauseAndResume() async throws {
        let server = try slowServer()
        let manager = try DownloadManager(central, folder: folder, limit: 2)
        let ids = try (0..<4).map { try manager.add(server.url + "?slow", to: directory.path(of: "p\($0)")) }
        for id in ids.prefix(2) { try await wait(manager, id) { $0.progress.completed >= 300_000 } }
        manager.pauseAll()
        #expect(manager.items.allSatisfy { $0.state == .paused })
        try await server.mock.waitUntilDisconnected()
        manager.resumeAll()
        // The third and fourth download start only now, so they stall.
        for id in ids.prefix(2) { _ = try await manager.value(of: id) }
        manager.pauseAll()
        manager.remove(ids[2])
        manager.remove(ids[3])
        #expect(manager.items.count == 2 && directory.read("p1") == Self.bytes)
    }

    @Test func failedDownloadStaysUntilResumedOrRemoved() async throws {
        let server = try RangeServer(Self.bytes) { _, number, honest in number == 1 ? .status(500) : honest }
        let manager = try DownloadManager(central, folder: folder)
        let id = try manager.add(server.url, to: directory.path(of: "f"))
        #expect(await failure { try await manager.value(of: id) }?.response?.status == 500)
        guard case .failed(let message)? = manager.item(id)?.state else {
            Issue.record("the download did not fail")
            return
        }
        #expect(message.contains("500"))
        manager.resume(id)
        try await wait(manager, id) { $0.state == .finished }
        #expect(directory.read("f") == Self.bytes)
        manager.remove(id)
        #expect(manager.item(id) == nil && directory.read("f") == Self.bytes)
        #expect(await failure { try await manager.value(of: id) }?.kind == .unknownName)
    }

    @Test func releaseEndsTheProgress() async throws {
        let server = try slowServer()
        var manager: DownloadManager? = try DownloadManager(central, folder: folder)
        let id = try #require(try manager?.add(server.url + "?slow", to: directory.path(of: "f")))
        let progress = try #require(manager?.progress(of: id))
        manager = nil
        for await _ in progress {}
    }

    @Test func removedDownloadLeavesNoFiles() async throws {
        let server = try slowServer()
        let manager = try DownloadManager(central, folder: folder)
        let id = try manager.add(server.url + "?slow", to: directory.path(of: "f"))
        let progress = try #require(manager.progress(of: id))
        try await wait(manager, id) { $0.progress.completed >= 300_000 }
        manager.remove(id)
        for await _ in progress {}
        try await server.mock.waitUntilDisconnected()
        try await eventually { !directory.contents.contains("f.part") }
        #expect(directory.contents == ["queue", "queue/.lock"])
    }

    /// Removes the download that is about to start, just when its `.part` file is in use.
    private final class Removing: RequestAccessory {
        let manager = Box<DownloadManager?>(nil)
        let hasEnded = Event()
        private let path: String

        init(_ path: String) { self.path = path }

        func willStart(_ call: ObservedCall) {
            guard let manager = manager.value, let item = manager.items.first else { return }
            let file = try? PartFile(path: path + ".part", target: path)
            manager.remove(item.id)
            file?.unlock()
        }

        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { hasEnded.happen() }
    }

    @Test func removalOfAStartingDownloadLeavesNoFiles() async throws {
        let server = try RangeServer(Self.bytes) { $2.stalling(.afterBodyBytes(100_000)) }
        let earlier = try DownloadManager(central, folder: folder)
        let id = try earlier.add(server.url, to: directory.path(of: "f"))
        try await wait(earlier, id) { $0.progress.completed >= 100_000 }
        earlier.pause(id)
        await earlier.close()
        #expect(directory.contents.contains("f.part"))
        let removing = Removing(directory.path(of: "f"))
        let later = try DownloadManager(try .make { $0.accessories = [removing] }, folder: folder)
        removing.manager.change { $0 = later }
        later.resume(id)
        await removing.hasEnded.wait()
        #expect(directory.contents == ["queue", "queue/.lock"])
        removing.manager.change { $0 = nil }
    }

    /// In a folder, the name of the partial file depends on the user.
    @Test(arguments: [false, true]) func removalFindsTheFilesOfTheUser(_ isRestarted: Bool) async throws {
        try directory.write(Data(), to: "target/.keep")
        let server = try RangeServer(Self.bytes) { $2.stalling(.afterBodyBytes(100_000)) }
        let central = try CentralRequestManager.make { $0.cachePartition = "ada" }
        var manager = try DownloadManager(central, folder: folder)
        let id = try manager.add(server.url, to: directory.path(of: "target"))
        try await wait(manager, id) { $0.progress.completed >= 100_000 }
        manager.pause(id)
        if isRestarted {
            await manager.close()
            manager = try DownloadManager(central, folder: folder)
        }
        let left = { [directory] in directory.contents.filter { $0.hasPrefix("target/") && $0 != "target/.keep" } }
        try await eventually { left().contains { $0.hasSuffix(".part") } }
        manager.remove(id)
        try await eventually { left().isEmpty }
        await manager.close()
    }

    /// The user of the manager has signed out when the failed download is removed.
    @Test func removalFindsTheFilesOfAnEarlierUser() async throws {
        try directory.write(Data(), to: "target/.keep")
        let server = try RangeServer(Self.bytes) { _, number, honest in
            number == 1 ? honest.closing(afterBytes: 100_000) : .status(404)
        }
        let central = try CentralRequestManager.make { $0.cachePartition = "ada" }
        let manager = try DownloadManager(central, folder: folder)
        let id = try manager.add(server.url, to: directory.path(of: "target"))
        await #expect(throws: NetworkError.self) { try await manager.value(of: id) }
        #expect(directory.contents.contains { $0.hasPrefix("target/") && $0.hasSuffix(".part") })
        central.cache.partition = "bob"
        manager.remove(id)
        #expect(directory.contents.filter { $0.hasPrefix("target/") } == ["target/.keep"])
        await manager.close()
    }

    /// Each download is paused as soon as it starts, often before its connection is there.
    @Test func downloadsThatArePausedWhileTheyStartStop() async throws {
        let server = try slowServer()
        let manager = try DownloadManager(central, folder: folder, limit: 100)
        let events = manager.events
        let pausing = Task {
            for await event in events {
                if case .changed(let item) = event, item.state == .running { manager.pause(item.id) }
            }
        }
        for index in 0..<100 { try manager.add(server.url + "?held", to: directory.path(of: "f\(index)")) }
        try await eventually { manager.items.allSatisfy { $0.state == .paused } }
        try await eventually { server.mock.openConnections == 0 }
        await manager.close()
        await pausing.value
        #expect(manager.items.count == 100)
    }

    @Test func closeWaitsForADownloadThatIsStarting() async throws {
        let server = try slowServer()
        for round in 0..<40 {
            let manager = try DownloadManager(central, folder: folder, limit: 100)
            let path = directory.path(of: "f\(round)")
            let adding = Task.detached { [url = server.url] in
                for index in 0..<5 { _ = try? manager.add(url + "?held", to: path + "-\(index)") }
            }
            await manager.close()
            // Nobody uses the files any more.
            for index in 0..<5 { try PartFile(path: path + "-\(index).part", target: path).unlock() }
            await adding.value
        }
    }

    /// A child process holds copies of all descriptors until it starts its program.
    @Test func releasedFolderIsUnlockedWhileACopyOfItsLockIsOpen() throws {
        var released: DownloadFolder? = try DownloadFolder(folder)
        let copy = try CopiedDescriptor(path: folder + "/.lock")
        #expect(throws: NetworkError.self) { try DownloadFolder(folder) }
        released = nil
        #expect(throws: Never.self) { try DownloadFolder(folder) }
        withExtendedLifetime((released, copy)) {}
    }

    /// The hook for new links does not end when it is cancelled, so neither does the download.
    @Test func everyCloseWaitsForTheDownloads() async throws {
        let server = try RangeServer(Self.bytes) { _, _, _ in .status(403) }
        let (isAsked, mayAnswer) = (Event(), Event())
        let manager = try DownloadManager(central, folder: folder) { [url = server.url] _ in
            isAsked.happen()
            await mayAnswer.wait()
            return url
        }
        try manager.add(server.url, to: directory.path(of: "f"))
        await isAsked.wait()
        let closings = (0..<3).map { number in
            Task {
                // A cancelled task waits too.
                if number == 0 { withUnsafeCurrentTask { $0?.cancel() } }
                await manager.close()
                return mayAnswer.hasHappened
            }
        }
        for _ in 0..<1_000 { await Task.yield() }
        #expect(throws: NetworkError.self) { try DownloadManager(central, folder: folder) }
        mayAnswer.happen()
        for closing in closings { #expect(await closing.value) }
    }

    @Test func closedManagerLeavesItsRecordsAlone() async throws {
        let server = try slowServer()
        let manager = try DownloadManager(central, folder: folder)
        let id = try manager.add(server.url + "?slow", to: directory.path(of: "f"))
        try await wait(manager, id) { $0.progress.completed >= 300_000 }
        await manager.close()
        let name = "queue/\(id).download"
        let (record, state) = (try #require(directory.read(name)), manager.item(id)?.state)
        manager.pause(id)
        manager.resume(id)
        manager.setPriority(.high, of: id)
        manager.remove(id)
        #expect(directory.read(name) == record && directory.contents.contains("f.part"))
        #expect(manager.item(id)?.state == state && manager.item(id)?.priority == .normal)
    }

    @Test func damagedRecordIsReportedAndSkipped() async throws {
        let server = try slowServer()
        try directory.write(Data("nonsense".utf8), to: "queue/9.download")
        let manager = try DownloadManager(central, folder: folder)
        #expect(manager.unreadableFiles == ["9.download"])
        let id = try manager.add(server.url, to: directory.path(of: "f"))
        #expect(try await manager.value(of: id).byteCount == 600_000)
        #expect(directory.read("queue/9.download") != nil)
    }

    /// A later process may have another current directory.
    @Test func relativeTargetIsThatOfTheFirstProcess() async throws {
        var options = DownloadOptions()
        options.startsPaused = true
        let manager = try DownloadManager(central, folder: folder)
        let id = try manager.add("http://127.0.0.1:1/f", to: "images/", options: options)
        await manager.close()
        let next = try DownloadManager(central, folder: folder)
        #expect(next.item(id)?.path == FileManager.default.currentDirectoryPath + "/images/")
        await next.close()
    }

    @Test func expiredLinkIsRefreshedByTheManager() async throws {
        let server = try RangeServer(Self.bytes) { request, _, honest in request.query == "new" ? honest : .status(403)
        }
        let manager = try DownloadManager(central, folder: folder) { [url = server.url] _ in url + "?new" }
        let id = try manager.add(server.url, to: directory.path(of: "f"))
        #expect(try await manager.value(of: id).byteCount == 600_000)
    }
}

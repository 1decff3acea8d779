import Foundation
import Glibc
import LATNetworking
import LATTesting
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATClient

@Suite("DomainTableWatcher", .timeLimit(.minutes(1)))
struct WatcherTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func text(_ port: Int) -> String { "{ domains: { a: { baseURL: \"http://127.0.0.1:\(port)\" } } }\n" }

    /// Truncates the file and writes it in chunks, as `echo >` and some editors do.
    private func overwrite(_ path: String, _ text: String) throws {
        let file = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0o600)
        try #require(file >= 0)
        defer { close(file) }
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: 500) {
            let piece = bytes[start..<min(start + 500, bytes.count)]
            #expect(piece.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) } == piece.count)
        }
    }

    /// Replaces the file at once.
    @discardableResult
    private func write(_ text: String, to name: String = "d.json5") throws -> String {
        let part = try directory.write(Data(text.utf8), to: name + ".part")
        let path = directory.path(of: name)
        try #require(rename(part, path) == 0)
        return path
    }

    /// The port of the table, which identifies its version.
    private func port(_ table: DomainTable) throws -> Int {
        let url = try table.resolve(domain: "a", path: "").baseURLs[0]
        return try #require(url.split(separator: ":").last.flatMap { Int($0) })
    }

    /// Waits until this version is loaded. Fails when a version is rejected.
    private func expect(
        _ wanted: Int, _ events: inout AsyncStream<DomainTable.FileEvent>.Iterator,
        _ location: SourceLocation = #_sourceLocation
    ) async throws {
        while let event = await events.next() {
            switch event {
            case .reloaded(let table) where try port(table) == wanted: return
            case .reloaded: continue
            case .rejected(let error): Issue.record("rejected: \(error.message)", sourceLocation: location)
            }
        }
        Issue.record("the watcher has ended", sourceLocation: location)
    }

    private func expectRejection(_ events: inout AsyncStream<DomainTable.FileEvent>.Iterator) async -> String {
        while let event = await events.next() {
            if case .rejected(let error) = event { return error.message }
        }
        return "the watcher has ended"
    }

    @Test func editInPlaceIsLoaded() async throws {
        let path = try write(text(1))
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()
        #expect(try port(watcher.current) == 1)
        let file = try #require(FileHandle(forWritingAtPath: path))
        try file.truncate(atOffset: 0)
        for byte in text(2).utf8 { try file.write(contentsOf: [byte]) }
        try file.close()
        try await expect(2, &events)
        #expect(try port(watcher.current) == 2)
    }

    @Test func fileRenamedOverIsLoaded() async throws {
        let path = try write(text(1))
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()
        for version in 2...5 {
            let other = try write(text(version), to: "new-\(version)")
            #expect(rename(other, path) == 0)
            try await expect(version, &events)
        }
    }

    @Test func switchedConfigMapLinkIsLoaded() async throws {
        try write(text(1), to: "..v1/d.json5")
        try write(text(2), to: "..v2/d.json5")
        try FileManager.default.createSymbolicLink(atPath: directory.path(of: "..data"), withDestinationPath: "..v1")
        let path = directory.path(of: "d.json5")
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "..data/d.json5")
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()

        for version in 2...4 {
            try write(text(version), to: "..v\(version)/d.json5")
            let link = directory.path(of: "..data_tmp")
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "..v\(version)")
            #expect(rename(link, directory.path(of: "..data")) == 0)
            try await expect(version, &events)
            try FileManager.default.removeItem(atPath: directory.path(of: "..v\(version - 1)"))
        }
        // A change in the folder that the link now leads to.
        try overwrite(directory.path(of: "..v4/d.json5"), text(9))
        try await expect(9, &events)
    }

    @Test func deletedFileIsReportedAndLoadedWhenBack() async throws {
        let path = try write(text(1))
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()
        try FileManager.default.removeItem(atPath: path)
        #expect(await expectRejection(&events) == "the table \(path) is not there; check the path")
        #expect(try port(watcher.current) == 1)
        try overwrite(path, text(2))
        try await expect(2, &events)
    }

    @Test func restoredFolderIsLoaded() async throws {
        let path = try write(text(1), to: "Config/d.json5")
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()
        #expect(rename(directory.path(of: "Config"), directory.path(of: "Old")) == 0)
        _ = await expectRejection(&events)
        try write(text(2), to: "Config/d.json5")
        try await expect(2, &events)
    }

    // MARK: Volumes

    /// Waits for events on the test's own thread, because a mount namespace belongs to it.
    private final class Events: Sendable {
        private let received = Mutex<[DomainTable.FileEvent]>([])
        private let hasMore = DispatchSemaphore(value: 0)

        func add(_ event: DomainTable.FileEvent) {
            received.withLock { $0.append(event) }
            hasMore.signal()
        }

        /// Ignores the events before the one that is waited for.
        func wait(for what: String, _ isWanted: (DomainTable.FileEvent) throws -> Bool) throws {
            while hasMore.wait(timeout: .now() + .seconds(30)) == .success {
                if try isWanted(received.withLock { $0.removeFirst() }) { return }
            }
            throw MountNamespace.Failure(description: "waited for \(what)")
        }
    }

    private func expect(_ wanted: Int, _ events: Events) throws {
        try events.wait(for: "version \(wanted)") { event in
            if case .reloaded(let table) = event { try port(table) == wanted } else { false }
        }
    }

    @Test(.needsMountNamespaces) func remountedVolumeIsFollowed() throws {
        let folder = directory.path(of: "volume")
        try write(text(1), to: "volume/below/d.json5")
        try MountNamespace.run { [self] in
            try MountNamespace.mount(on: folder)
            let path = try write(text(2), to: "volume/below/d.json5")
            let events = Events()
            let watcher = try DomainTableWatcher(contentsOf: path, environment: nil) { events.add($0) }
            #expect(try port(watcher.current) == 2)
            // The file below the volume is another one.
            try MountNamespace.unmount(folder)
            try expect(1, events)
            try MountNamespace.mount(on: folder)
            try events.wait(for: "the missing file") { if case .rejected = $0 { true } else { false } }
            for version in 3...4 {
                try write(text(version), to: "volume/below/d.json5")
                try expect(version, events)
            }
            // Mounted over, and only over the folder of the file.
            try MountNamespace.mount(on: folder + "/below")
            try write(text(5), to: "volume/below/d.json5")
            try expect(5, events)
            try MountNamespace.unmount(folder + "/below")
            try expect(4, events)
            // Mounted over the file itself.
            let other = try write(text(6), to: "other.json5")
            try ChildProcess.run("mount", ["--bind", other, path], in: "/")
            try expect(6, events)
            try MountNamespace.unmount(path)
            try expect(4, events)
            try overwrite(path, text(7))
            try expect(7, events)
        }
    }

    /// No event tells when the process has descriptors again.
    @Test func fileThatCouldNotBeReadIsReadAgain() async throws {
        var schedule = ReloadSchedule()
        let now = ContinuousClock.now
        for pause in [1, 2, 4] {
            schedule.noteUnreadable(at: now)
            #expect(schedule.due == now + .seconds(pause))
        }
        schedule.note(.changed, at: now)
        #expect(schedule.due == now + ReloadSchedule.quiet)
        schedule.didRead()
        #expect(schedule.due == nil)

        let path = try write(text(2))
        let over = try #require(WakeUp())
        let state = WatchState(try DomainTable(json5: text(1), environment: nil), onEvent: nil) {}
        var events = state.events().makeAsyncIterator()
        let loop = WatchLoop(
            path: path, bytes: [], "too many open files", watch: try FileWatch(path: path), over: over, state: state)
        try #require(BackgroundThread.start("lat-table") { loop.run() })
        try await expect(2, &events)
        state.stop()
        over.signal()
    }

    @Test func brokenFileKeepsTheOldTable() async throws {
        let path = try write(text(1))
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()
        try write("{ domains: { a: { basURL: \"http://h\" } } }")
        #expect(
            await expectRejection(&events) == "\(path):1:19: error: unknown key \"basURL\"; did you mean \"baseURL\"?")
        #expect(try port(watcher.current) == 1)
        try write(text(2))
        try await expect(2, &events)
    }

    @Test func fileWithoutTheCurrentEnvironmentIsRejected() async throws {
        let path = try write("{ domains: { a: { baseURL: 'http://h:1', environments: { dev: 'http://h:2' } } } }")
        let watcher = try DomainTableWatcher(contentsOf: path, environment: "dev")
        var events = watcher.events.makeAsyncIterator()
        try write(text(3))
        #expect(await expectRejection(&events) == "unknown environment \"dev\" in \(path); there are no environments")
        #expect(try port(watcher.current) == 2)
    }

    @Test func refusedFileIsLoadedWhenTheEnvironmentIsTakenBack() async throws {
        let path = try write("{ domains: { a: { baseURL: 'http://h:1', environments: { dev: 'http://h:2' } } } }")
        let watcher = try DomainTableWatcher(contentsOf: path, environment: "dev")
        var events = watcher.events.makeAsyncIterator()
        try write(text(3))
        _ = await expectRejection(&events)
        // Another change is no reason to refuse it once more.
        try watcher.update { table throws(NetworkError) in try table.setBaseURL("http://h:9", forDomain: "a") }
        try watcher.update { table throws(NetworkError) in try table.setBaseURL(nil, forDomain: "a") }
        watcher.update { $0.environment = nil }
        try await expect(3, &events)
        #expect(try port(watcher.current) == 3)
    }

    @Test func changesInCodeSurviveAReload() async throws {
        let path = try write(text(1))
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        var events = watcher.events.makeAsyncIterator()
        try watcher.update { table throws(NetworkError) in
            try table.setBaseURL("http://127.0.0.1:99", forDomain: "a")
        }
        #expect(try port(watcher.current) == 99)
        try write("{ domains: { a: { baseURL: \"http://127.0.0.1:1\", timeout: \"5s\" } } }")
        try await expect(99, &events)
        #expect(try watcher.current.domain("a").settings.timeout == .seconds(5))
        try watcher.update { table throws(NetworkError) in try table.setBaseURL(nil, forDomain: "a") }
        #expect(try port(watcher.current) == 1)
    }

    /// A writer changes the file as fast as it can, in place or by rename, while another task reads the table. Every
    /// look-up gets a whole table, no version is rejected as broken, and the last version stays.
    @Test(arguments: [false, true])
    func rapidEditsAreNeverHalfRead(_ byRename: Bool) async throws {
        let path = try write(text(1))
        let rejections = Messages()
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil) { event in
            if case .rejected(let error) = event { rejections.all.withLock { $0.append(error.message) } }
        }
        var events = watcher.events.makeAsyncIterator()
        let flag = Flag()
        let reader = Task {
            var lookUps = 0
            while !flag.isUp.load(ordering: .relaxed) {
                let port = try self.port(watcher.current)
                #expect((1...101).contains(port))
                lookUps += 1
                await Task.yield()
            }
            return lookUps
        }
        for version in 2...101 {
            let padding = String(repeating: "// \(version)\n", count: version * 20)
            let text = padding + text(version)
            if byRename {
                #expect(rename(try write(text, to: "new"), path) == 0)
            } else {
                try overwrite(path, text)
            }
        }
        try await expect(101, &events)
        flag.isUp.store(true, ordering: .relaxed)
        #expect(try await reader.value > 0)
        #expect(rejections.all.withLock { $0 } == [])
        #expect(try port(watcher.current) == 101)
    }

    @Test func releaseEndsTheThreadAndClosesDescriptors() async throws {
        let path = try write(text(1))
        var status = stat()
        #expect(stat(directory.path, &status) == 0)
        let inode = "ino:" + String(status.st_ino, radix: 16) + " "
        var watcher: DomainTableWatcher? = try DomainTableWatcher(contentsOf: path, environment: nil)
        let events = try #require(watcher?.events)
        #expect(Self.watches(of: inode) == 1)
        watcher = nil
        for await _ in events {}
        // The thread ends the events, then closes its descriptors.
        try await eventually("no watch") { Self.watches(of: inode) == 0 }
    }

    @Test func stoppedWatcherKeepsItsTable() async throws {
        let path = try write(text(1))
        let watcher = try DomainTableWatcher(contentsOf: path, environment: nil)
        let events = watcher.events
        watcher.stop()
        watcher.stop()
        for await _ in events {}
        #expect(try port(watcher.current) == 1)
        for await _ in watcher.events {}
    }

    @Test func brokenFileIsRejectedAtTheStart() throws {
        let path = try write("{")
        #expect(throws: NetworkError.self) { try DomainTableWatcher(contentsOf: path, environment: nil) }
    }

    @Test func relativePathIsKeptWhenTheDirectoryChanges() async {
        await #expect(processExitsWith: .success) {
            let tests = try WatcherTests()
            try tests.write(tests.text(1), to: "a/d.json5")
            try tests.write(tests.text(9), to: "b/d.json5")
            #expect(chdir(tests.directory.path(of: "a")) == 0)
            let watcher = try DomainTableWatcher(contentsOf: "d.json5", environment: nil)
            var events = watcher.events.makeAsyncIterator()
            #expect(chdir(tests.directory.path(of: "b")) == 0)
            try tests.write(tests.text(2), to: "a/d.json5")
            guard case .reloaded(let table)? = await events.next() else {
                Issue.record("the change was not loaded")
                return
            }
            #expect(try tests.port(table) == 2)
        }
    }

    @Test func unwatchableFolderIsReportedAtTheStart() async {
        await #expect(processExitsWith: .success) {
            let directory = try TemporaryDirectory()
            let path = try directory.write(Data("{ domains: {} }".utf8), to: "d.json5")
            // The folder may be passed through, but not read. Root could read it.
            #expect(chmod(directory.path, 0o311) == 0)
            let isRoot = geteuid() == 0
            if isRoot { #expect(seteuid(65_534) == 0) }
            let error = #expect(throws: NetworkError.self) {
                try DomainTableWatcher(contentsOf: path, environment: nil)
            }
            if isRoot { #expect(seteuid(0) == 0) }
            #expect(chmod(directory.path, 0o700) == 0)
            #expect(error?.message.contains("inotify_add_watch failed: Permission denied;") == true, "\(error as Any)")
        }
    }

    /// The number of inotify descriptors of this process that watch a folder.
    private static func watches(of inode: String) -> Int {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fdinfo")) ?? []
        return names.count { name in
            let text = try? String(contentsOfFile: "/proc/self/fdinfo/" + name, encoding: .utf8)
            return text?.contains("inotify") == true && text?.contains(inode) == true
        }
    }
}

private final class Flag: Sendable {
    let isUp = Atomic(false)
}

private final class Messages: Sendable {
    let all = Mutex<[String]>([])
}

import Foundation
import HTTPCore
import LATTesting
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATStorage

private struct Window: Codable, Sendable, Equatable { var width: Double; var title: String? }
extension PreferenceKey<Int> { fileprivate static var fontSize: Self { Self("fontSize", default: 12) } }
extension PreferenceKey<String> { fileprivate static var theme: Self { Self("theme", default: "light") } }
extension PreferenceKey<Date?> { fileprivate static var last: Self { Self("last", default: nil) } }
extension PreferenceKey<Window> {
    fileprivate static var window: Self { Self("window", default: Window(width: 1, title: nil)) }
}
extension PreferenceKey<Double> { fileprivate static var ratio: Self { Self("ratio", default: 1) } }

@Suite struct PreferenceTests {
    let directory: TemporaryDirectory
    var path: String { directory.path(of: "sub/preferences.json") }
    let problems = Problems()

    final class Problems: Sendable {
        let list = Mutex<[NetworkError]>([])
        var count: Int { list.withLock { $0.count } }
    }

    init() throws { directory = try TemporaryDirectory() }

    private func make() -> Preferences {
        Preferences(path: path) { [problems] problem in problems.list.withLock { $0.append(problem) } }
    }

    /// As behind a process that was stopped.
    @Test func heldLockIsNotWaitedForForEver() throws {
        try make().set(.fontSize, to: 14)
        let file = PreferenceFile(path: path)
        let lock = try FileLock(beside: file.path, patience: .zero)
        let error = #expect(throws: NetworkError.self) { try file.locked(patience: .milliseconds(30)) {} }
        #expect(error?.storageFailure?.reason == .busy && error?.message.contains("preferences.json.lock") == true)
        withExtendedLifetime(lock) {}
    }

    @Test func defaultsApplyUntilAValueIsSet() throws {
        let preferences = make()
        #expect(preferences[.fontSize] == 12 && !preferences.contains(.fontSize))
        #expect(directory.contents.isEmpty)
        try preferences.set(.fontSize, to: 14)
        try preferences.set(.window, to: Window(width: 0.1, title: "a\"\n\0"))
        let date = Date()
        try preferences.set(.last, to: date)
        let other = make()
        #expect(
            other[.fontSize] == 14 && other[.window] == Window(width: 0.1, title: "a\"\n\0") && other[.last] == date)
        try other.remove(.fontSize)
        #expect(preferences[.fontSize] == 12)
        #expect(preferences.names == ["last", "window"])
        #expect(problems.count == 0)
        #expect(directory.contents == ["sub", "sub/preferences.json", "sub/preferences.json.lock"])
    }

    @Test(arguments: ["", "{", "[1]", "{\"a\": 1", "nonsense", "\0\0\0\0"])
    func damagedFileIsSetAsideAndReported(content: String) throws {
        try directory.write(Data(content.utf8), to: "sub/preferences.json")
        let preferences = make()
        #expect(preferences[.fontSize] == 12)
        #expect(problems.count == 1)
        #expect(problems.list.withLock { $0.first?.storageFailure?.reason } == .corrupt)
        try preferences.set(.theme, to: "dark")
        #expect(make()[.theme] == "dark")
        let aside = try #require(directory.contents.first { $0.contains(".corrupt-") })
        #expect(directory.read(aside) == Data(content.utf8))
        #expect(problems.count == 1)
    }

    @Test func damagedFileIsSetAsideByTheFirstWrite() throws {
        try directory.write(Data("{".utf8), to: "sub/preferences.json")
        try make().set(.theme, to: "dark")
        #expect(directory.contents.contains { $0.contains(".corrupt-") })
    }

    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func handlerOfADamagedFileMayWrite(writes: Bool) async throws {
        try directory.write(Data("{".utf8), to: "sub/preferences.json")
        let other = Preferences(path: path)
        let preferences = Preferences(path: path) { _ in try? other.set(.fontSize, to: 20) }
        // On a thread of its own, so that the time limit holds.
        try await withCheckedThrowingContinuation { done in
            Thread.detachNewThread {
                done.resume(
                    with: Result {
                        if writes { try preferences.set(.theme, to: "dark") } else { _ = preferences[.theme] }
                    })
            }
        }
        #expect(preferences[.fontSize] == 20)
        #expect(preferences[.theme] == (writes ? "dark" : "light"))
    }

    @Test func mistypedValueIsDefaultAndReportedOnce() throws {
        try directory.write(Data(#"{"fontSize": "big", "unknown": [1.50]}"#.utf8), to: "sub/preferences.json")
        let preferences = make()
        #expect(preferences[.fontSize] == 12 && preferences[.fontSize] == 12)
        #expect(problems.count == 1)
        try preferences.set(.theme, to: "x")
        #expect(try JSONValue(parsing: #require(directory.read("sub/preferences.json")))["unknown"][0].double == 1.5)
    }

    @Test func updateOfAMistypedValueIsReported() throws {
        try directory.write(Data(#"{"fontSize": "big"}"#.utf8), to: "sub/preferences.json")
        try make().update { $0[.fontSize] += 1 }
        #expect(problems.list.withLock { $0.first?.message.contains("\"fontSize\"") } == true && problems.count == 1)
        #expect(make()[.fontSize] == 13 && problems.count == 1)
    }

    /// An editor empties a file before it writes it.
    @Test func fileThatIsBeingWrittenIsNotDamaged() async throws {
        try directory.write(Data(), to: "sub/preferences.json")
        let hasty = PreferenceFile(path: path, settling: .zero)
        guard case .damaged = try hasty.read().0 else { return #expect(Bool(false), "an empty file is whole") }
        let file = PreferenceFile(path: path, settling: .seconds(60))
        let text = try await withCheckedThrowingContinuation { done in
            Thread.detachNewThread { done.resume(with: Result { "\(try file.read().0)" }) }
            try? Data(#"{"fontSize": 20}"#.utf8).write(to: URL(filePath: path))
        }
        #expect(text.hasPrefix("values"))
    }

    @Test func removedFileMeansDefaults() throws {
        let preferences = make()
        try preferences.set(.fontSize, to: 14)
        #expect(unlink(path) == 0)
        #expect(preferences[.fontSize] == 12)
    }

    /// The clock of files stands still between two writes, and the file has its old size.
    @Test func writeWithTheSameTimeIsSeen() throws {
        let time = timespec(tv_sec: time(nil) + 3_600, tv_nsec: 0)
        let preferences = make()
        for number in [14, 15] {
            try directory.write(Data("{\"fontSize\": \(number)}".utf8), to: "sub/preferences.json")
            #expect(utimensat(AT_FDCWD, path, [time, time], 0) == 0)
            #expect(preferences[.fontSize] == number)
        }
    }

    @Test func eachFaultIsReportedOnceUntilItIsMended() throws {
        try directory.write(Data(#"{"fontSize": "big", "theme": 1}"#.utf8), to: "sub/preferences.json")
        let preferences = make()
        for _ in 0..<3 { #expect(preferences[.fontSize] == 12 && preferences[.theme] == "light") }
        #expect(problems.count == 2)
        try preferences.set(.theme, to: "dark")
        #expect(preferences[.theme] == "dark" && preferences[.fontSize] == 12)
        #expect(problems.count == 2)
        try preferences.set(PreferenceKey("theme", default: 0), to: 1)
        for _ in 0..<2 { #expect(preferences[.fontSize] == 12 && preferences[.theme] == "light") }
        #expect(problems.count == 3)
    }

    @Test func failedUpdateWritesNothing() throws {
        struct Stop: Error {}
        let preferences = make()
        try preferences.set(.fontSize, to: 1)
        #expect(throws: Stop.self) {
            try preferences.update { editor in
                editor[.fontSize] = 2
                throw Stop()
            }
        }
        let error = #expect(throws: NetworkError.self) { try preferences.set(.ratio, to: .nan) }
        #expect(error?.kind == .storage)
        #expect(preferences[.fontSize] == 1 && preferences[.ratio] == 1)
    }

    @Test func writeKeepsLinksAndPermissions() throws {
        let real = try directory.write(Data("{}".utf8), to: "real.json")
        try FileManager.default.createDirectory(atPath: directory.path(of: "sub"), withIntermediateDirectories: true)
        #expect(symlink(real, path) == 0 && chmod(real, 0o640) == 0)
        try make().set(.fontSize, to: 3)
        var status = stat()
        #expect(lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
        #expect(stat(real, &status) == 0 && status.st_mode & 0o777 == 0o640)
        #expect(make()[.fontSize] == 3)
    }

    @Test func unwritableFileThrowsAndDefaultsApply() throws {
        let preferences = Preferences(path: "/proc/nowhere/preferences.json")
        #expect(preferences[.fontSize] == 12)
        let error = #expect(throws: NetworkError.self) { try preferences.set(.fontSize, to: 1) }
        #expect(error?.kind == .storage)
    }

    @Test func observerWithoutAWatchIsReported() throws {
        let preferences = Preferences(path: "/proc/nowhere/preferences.json") { [problems] problem in
            problems.list.withLock { $0.append(problem) }
        }
        preferences.observe(.fontSize) { _ in }.cancel()
        #expect(problems.list.withLock { $0.map(\.message) }.contains { $0.contains("inotify") })
    }

    @Test func concurrentThreadsLoseNoUpdate() async throws {
        let path = path
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let preferences = Preferences(path: path)
                    for _ in 0..<25 { try preferences.update { $0[.fontSize] += 1 } }
                }
            }
            try await group.waitForAll()
        }
        #expect(make()[.fontSize] == 112)
    }

    @Test func watchStaysForAnObserverThatIsAdded() throws {
        let hub = PreferenceHub()
        func add() -> Int { hub.add("a", current: nil, end: {}) {} }
        hub.prepare()
        hub.start(try #require(FolderWatch(folder: directory.path, names: ["a"]) { _ in nil }))
        let first = add()
        hub.prepare()
        // The last observer ends after the new one has found the watch.
        hub.remove(first)
        #expect(!hub.needsWatch)
        hub.remove(add())
        #expect(hub.needsWatch)
    }

    @Test func lastValueThatObserversReceiveIsTheNewest() async throws {
        let preferences = make()
        for round in 0..<20 {
            let heard = Mutex(-1)
            let observation = preferences.observe(.fontSize) { value in heard.withLock { $0 = value } }
            DispatchQueue.concurrentPerform(iterations: 8) { try? preferences.set(.fontSize, to: round * 100 + $0) }
            // The thread that watches the file may make the last call.
            try await eventually { heard.withLock { $0 } == preferences[.fontSize] }
            observation.cancel()
        }
    }

    @Test func observersReceiveOnlyChangesAndAreReleased() async throws {
        let preferences = make()
        let heard = Mutex<[Int]>([])
        let observation = preferences.observe(.fontSize) { value in heard.withLock { $0.append(value) } }
        try preferences.set(.fontSize, to: 13)
        try preferences.set(.theme, to: "x")
        try preferences.set(.fontSize, to: 13)
        try preferences.remove(.fontSize)
        // The thread that watches the file may make the last call.
        try await eventually { heard.withLock { $0 } == [12, 13, 12] }
        observation.cancel()
        try preferences.set(.fontSize, to: 15)
        #expect(heard.withLock { $0 } == [12, 13, 12])
        var values: AsyncStream<Int>.Iterator
        do {
            let short = make()
            values = short.values(of: .fontSize).makeAsyncIterator()
            #expect(await values.next() == 15)
        }
        #expect(await values.next() == nil)
    }
}

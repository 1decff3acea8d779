import Dispatch
import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Synchronization
import TestSupport
import Testing

@Suite struct StoreFaultTests {
    let directory: TemporaryDirectory
    var path: String { directory.path(of: "objects.sqlite") }

    init() throws { directory = try TemporaryDirectory() }

    @Test func foreignFileIsRefusedAndUnchanged() throws {
        let junk = Data(repeating: 0x41, count: 5_000)
        try directory.write(junk, to: "objects.sqlite")
        let error = #expect(throws: NetworkError.self) { try ObjectStore(path: path) }
        #expect(error?.kind == .storage && error?.storageFailure?.reason == .corrupt)
        #expect(directory.read("objects.sqlite") == junk)
        let store = try ObjectStore(path: path, corruption: .setAside)
        try store.insert(User(1))
        let aside = try #require(store.asidePath)
        #expect(FileManager.default.contents(atPath: aside) == junk)
        #expect(try ObjectStore(path: path, corruption: .setAside).asidePath == nil)
    }

    /// As behind a process that was stopped while it set the file aside.
    @Test func heldLockIsWaitedForAsLongAsTheBusyTimeout() throws {
        let lock = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(lock) }
        #expect(flock(lock, LOCK_EX) == 0)
        let error = #expect(throws: NetworkError.self) { try ObjectStore(path: path, busyTimeout: .milliseconds(30)) }
        #expect(error?.storageFailure?.reason == .busy && error?.message.contains("objects.sqlite.lock") == true)
        #expect(flock(lock, LOCK_UN) == 0)
        try ObjectStore(path: path, busyTimeout: .milliseconds(30)).insert(User(1))
    }

    @Test func damagedFileIsSetAsideOnce() throws {
        for _ in 0..<20 {
            try directory.write(Data(repeating: 0x41, count: 5_000), to: "objects.sqlite")
            let asides = Mutex<[String]>([])
            DispatchQueue.concurrentPerform(iterations: 8) { number in
                do {
                    let store = try ObjectStore(path: path, corruption: .setAside)
                    if let aside = store.asidePath { asides.withLock { $0.append(aside) } }
                    try store.insert(User(number))
                } catch {
                    Issue.record(error)
                }
            }
            #expect(asides.withLock(\.count) == 1)
            #expect(try ObjectStore(path: path).count(User.self) == 8)
            for name in directory.contents { try FileManager.default.removeItem(atPath: directory.path(of: name)) }
        }
    }

    /// Opening waits while another process replaces a damaged file. Otherwise it would open the damaged one, and use it
    /// with the log of the new one.
    @Test func openingWaitsForTheReplacement() async throws {
        do {
            let store = try ObjectStore(path: directory.path(of: "new.sqlite"))
            try store.insert(User(1))
        }
        try directory.write(Data(repeating: 0x41, count: 5_000), to: "objects.sqlite")
        let lockPath = path + ".lock"
        let lock = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        #expect(flock(lock, LOCK_EX) == 0)
        let count = Box<Result<Int, any Error>?>(nil)
        DispatchQueue.global().async { [path] in
            let result = Result { try ObjectStore(path: path, busyTimeout: .seconds(60)).count(User.self) }
            count.change { $0 = result }
        }
        try await eventually("an opening that waits") {
            count.value != nil || ProcessFacts.descriptors.count { $0.hasSuffix("=\(lockPath)") } == 2
        }
        #expect(count.value == nil)
        #expect(rename(directory.path(of: "new.sqlite"), path) == 0)
        close(lock)
        try await eventually("the end of the opening") { count.value != nil }
        #expect(try count.value?.get() == 1)
    }

    @Test(arguments: 0..<24) func damagedFileNeverCrashes(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        do {
            let store = try ObjectStore(path: path)
            try store.insert(contentsOf: (0..<400).map { User($0, tags: ["a", "b"]) })
            store.close()
        }
        var bytes = try #require(directory.read("objects.sqlite"))
        if seed % 3 == 0 { bytes = bytes.prefix(.random(in: 1..<bytes.count, using: &random)) }
        for _ in 0..<(seed % 3 == 1 ? 300 : 1) {
            bytes[.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
        }
        if seed % 3 == 2 {
            let start = Int.random(in: 0..<bytes.count, using: &random)
            let end = min(bytes.count, start + 4_096)
            bytes.replaceSubrange(start..<end, with: Data(repeating: 0xFF, count: end - start))
        }
        try directory.write(bytes, to: "objects.sqlite")
        do {
            let store = try ObjectStore(path: path)
            _ = try store.fetch(User.self, where: \.age > 3, sortedBy: [.ascending(\.name)])
            for id in 0..<400 { _ = try store.fetch(User.self, id: id) }
            try store.upsert(User(5))
            try store.verify()
        } catch let error as NetworkError {
            #expect(error.kind == .storage)
            #expect(error.storageFailure != nil)
        }
    }

    /// What is written to a file that has no name any more is lost.
    @Test(arguments: [true, false]) func fileThatIsNoLongerThereIsNotUsed(isReplaced: Bool) throws {
        let store = try ObjectStore(path: path)
        try store.insert(User(1))
        if isReplaced {
            let other = try ObjectStore(path: directory.path(of: "other.sqlite"))
            try other.insert(User(7))
            other.close()
            #expect(rename(other.path, path) == 0)
        } else {
            #expect(unlink(path) == 0)
        }
        for use in [{ try store.insert(User(2)) }, { _ = try store.fetch(User.self) }] as [() throws -> Void] {
            let error = #expect(throws: NetworkError.self) { try use() }
            #expect(error?.storageFailure?.reason == .unreadable && error?.message.contains("replaced") == true)
        }
        #expect((directory.read("objects.sqlite") != nil) == isReplaced)
    }

    @Test func soundFilePassesVerification() throws {
        let store = try ObjectStore(path: path)
        try store.insert(User(1))
        try store.verify()
    }

    @Test func closedStoreThrows() async throws {
        let store = try ObjectStore(path: path)
        try store.insert(User(1))
        store.close()
        store.close()
        for use in [{ try store.insert(User(2)) }, { _ = try store.fetch(User.self) }] as [() throws -> Void] {
            let error = #expect(throws: NetworkError.self) { try use() }
            #expect(error?.storageFailure?.reason == .closed)
        }
        #expect(try ObjectStore(path: path).count(User.self) == 1)
    }

    @Test func closeInsideTransactionRollsItBack() throws {
        let store = try ObjectStore(path: path)
        try store.insert(User(1))
        #expect(throws: NetworkError.self) {
            try store.transaction { transaction in
                try transaction.insert(User(2))
                store.close()
                try transaction.insert(User(3))
            }
        }
        #expect(try ObjectStore(path: path).fetch(User.self).map(\.id) == [1])
    }

    @Test func closeDuringReadEndsCleanly() throws {
        for store in [try ObjectStore(path: path), try ObjectStore.inMemory()] {
            try store.insert(contentsOf: (0..<200).map { User($0) })
            try? store.forEach(Query<User>()) { _ in store.close() }
            let error = #expect(throws: NetworkError.self) { try store.count(User.self) }
            #expect(error?.storageFailure?.reason == .closed)
        }
        #expect(try ObjectStore(path: path).count(User.self) == 200)
    }

    @Test func nestedReadsSeeEveryRow() throws {
        let store = try ObjectStore(path: path)
        try store.insert(contentsOf: (0..<5).map { User($0) })
        let count = try store.transaction { transaction in
            var count = 0
            try transaction.forEach(Query<User>()) { _ in
                try transaction.forEach(Query<User>()) { _ in count += 1 }
            }
            // More statements than the cache keeps.
            for number in 0..<200 {
                count += try transaction.count(User.self, where: .in(\.id, Array(1_000...1_000 + number)))
            }
            return count
        }
        #expect(count == 25)
    }

    @Test func fullStoreKeepsItsRowsAndStaysUsable() throws {
        let store = try ObjectStore(path: path, maximumByteCount: 400_000)
        try store.insert(User(1))
        let error = #expect(throws: NetworkError.self) {
            try store.insert(contentsOf: (2..<20_000).map { User($0, String(repeating: "x", count: 200)) })
        }
        #expect(error?.storageFailure?.reason == .full)
        #expect(try store.fetch(User.self) == [User(1)])
        try store.insert(User(2))
        #expect(try store.count(User.self) == 2)
    }

    /// The log must not keep the room that is needed to empty it.
    @Test(.needsMountNamespaces) func logLeavesRoomOnASmallDisk() throws {
        let (path, folder) = (path, directory.path)
        try MountNamespace.run {
            try MountNamespace.mount(on: folder, size: "3m")
            let text = String(repeating: "x", count: 200)
            let store = try ObjectStore(path: path)
            for number in 0..<2_000 { try store.upsert(User(number % 50, text + "\(number)")) }
            // What is too large for the disk leaves it full, but for the log.
            let error = #expect(throws: NetworkError.self) {
                try store.insert(contentsOf: (50..<30_000).map { User($0, text) })
            }
            #expect(error?.storageFailure?.reason == .full)
            for number in 0..<100 { try store.upsert(User(number, text + "new")) }
            try store.delete(User.self, where: \.id >= 50)
            store.close()
            #expect(try ObjectStore(path: path).count(User.self) == 50)
        }
    }

    @Test func ignoredErrorRollsBackTheTransaction() throws {
        let store = try ObjectStore(path: path, maximumByteCount: 400_000)
        try store.insert(User(1))
        #expect(throws: NetworkError.self) {
            try store.transaction { transaction in
                try transaction.insert(User(2))
                try? transaction.insert(contentsOf: (3..<20_000).map { User($0, String(repeating: "x", count: 200)) })
                try transaction.insert(User(30_000))
            }
        }
        #expect(try store.fetch(User.self).map(\.id) == [1])
    }

    @Test func impossiblePathsAreRefused() throws {
        for path in ["", "a\0b", directory.path, "/proc/nowhere/objects.sqlite", "/dev/null/x"] {
            let error = #expect(throws: NetworkError.self) { try ObjectStore(path: path) }
            #expect(error?.kind == .storage, "\(path)")
        }
    }

    @Test func busyTimeoutIsReportedAsBusy() throws {
        let first = try ObjectStore(path: path)
        let second = try ObjectStore(path: path, busyTimeout: .milliseconds(30))
        try first.transaction { transaction in
            try transaction.insert(User(1))
            let error = #expect(throws: NetworkError.self) { try second.insert(User(2)) }
            #expect(error?.storageFailure?.reason == .busy)
            #expect(try second.count(User.self) == 0)
        }
        try second.insert(User(2))
    }
}

import Foundation
import Glibc
import HTTPCore
import LATTesting
import SQLite
import TestSupport
import Testing

@testable import ResponseCache

/// Damage to a cache folder, and how the store recovers.
@Suite(.timeLimit(.minutes(3))) struct DiskFaultTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var folder: String { directory.path(of: "cache") }
    private var index: String { folder + "/index-4.sqlite" }

    private func store(_ key: Data? = nil) throws -> DiskStore { try .plain(folder, key: key) }

    private var bodyFiles: [String] { directory.bodyFiles("cache") }

    /// Changes files in another process, so that this process keeps its locks on them.
    private func run(_ script: String) throws {
        let process = try ChildProcess(["/bin/sh", "-c", script], environment: ["INDEX": index, "CACHE": folder])
        try #require(process.wait() == 0)
    }

    // MARK: The folder

    /// A child process holds copies of all descriptors until it starts its program.
    @Test func orphanIsRemovedWhileACopyOfItsLockIsOpen() throws {
        let layout = DiskLayout(folder)
        var writer: BodyFile? = try BodyFile.make(layout, name: "orphan")
        var bytes = Data("abc".utf8)
        try writer?.write(&bytes)
        try writer?.publish()
        writer?.keep()
        let copy = try CopiedDescriptor(path: layout.path(ofBody: "orphan"))
        #expect(try layout.removeOrphans { _ in false } == 0)
        writer = nil
        #expect(try layout.removeOrphans { _ in false } == 3)
        withExtendedLifetime((writer, copy)) {}
    }

    @Test func nothingIsCreatedBeforeTheFirstWrite() async throws {
        let store = try store()
        #expect(try await store.entries(for: "a").isEmpty)
        #expect(try await store.usage() == CacheUsage())
        try await store.touch(CacheKey(primary: "a"), at: Make.start)
        try await store.update(Make.entry("a"))
        #expect(try await store.remove(.all) == CacheUsage())
        #expect(try await store.collectGarbage() == CacheUsage())
        #expect(try await store.entries(.all).isEmpty)
        #expect(directory.contents == [])
        try await store.put(Make.entry("a"))
        #expect(directory.contents.contains("cache/index-4.sqlite"))
        var facts = stat()
        for name in ["", "/bodies-4"] {
            stat(folder + name, &facts)
            #expect(facts.st_mode & 0o777 == 0o700)
        }
    }

    @Test func wrongKeyLengthIsRefused() throws {
        let error = #expect(throws: NetworkError.self) { try self.store(Data(count: 16)) }
        #expect(error?.kind == .cache && error?.message.contains("32") == true)
    }

    @Test(arguments: ["", "/tmp/a\0b"]) func directoryThatIsNoPathIsRefused(_ directory: String) throws {
        let error = #expect(throws: NetworkError.self) { try DiskStore(directory: directory) }
        #expect(error?.kind == .cache && error?.message.contains("cacheDirectory") == true)
    }

    @Test func leasesHoldInARecreatedFolder() async throws {
        // Each store has a descriptor of its own, as two processes have.
        let (first, second) = (try store(), try store())
        try await first.put(Make.entry("a"))
        let kept = try #require(try await first.lease("kept", for: .seconds(60)))
        try FileManager.default.removeItem(atPath: folder)
        try await second.put(Make.entry("a"))
        let new = try #require(try await second.lease("new", for: .seconds(60)))
        #expect(try await first.lease("new", for: .seconds(60)) == nil)
        // The first store holds its older lease in the new folder, too.
        #expect(try await second.lease("kept", for: .seconds(60)) == nil)
        kept.end()
        try #require(try await second.lease("kept", for: .seconds(60))).end()
        new.end()
        try #require(try await first.lease("new", for: .seconds(60))).end()
    }

    @Test func removedFolderIsRecreated() async throws {
        let store = try store()
        try await store.put(Make.entry("a"), Make.body(50_000))
        let held = try #require(try await store.first("a"))
        try FileManager.default.removeItem(atPath: folder)
        #expect(try await store.entries(for: "a").isEmpty)
        #expect(try await store.body(of: held) == nil)
        #expect(try await store.usage() == CacheUsage())
        for name in ["a", "b"] { try await store.put(Make.entry(name), Make.body(50_000)) }
        #expect(try await store.data("a") == Make.body(50_000))
        // The folder is also removed during a write.
        let writer = try await store.writer(for: Make.entry("c"))
        try await writer.append(Make.body(300_000))
        try FileManager.default.removeItem(atPath: folder)
        let error = await #expect(throws: NetworkError.self) { try await writer.commit() }
        #expect(error?.kind == .cache && error?.message.contains(folder) == true)
        try await store.put(Make.entry("d"))
        #expect(try await store.has("d"))
        #expect(try await store.usage().entryCount == 1)
    }

    // MARK: Bodies

    @Test(arguments: ["flip", "truncate", "lengthen", "delete", "empty"], [false, true])
    func damagedBodyIsAMissAndRemoved(_ damage: String, _ isSealed: Bool) async throws {
        let store = try store(isSealed ? Data(repeating: 1, count: 32) : nil)
        for byteCount in [100_000, 3_000_000] {
            try await store.put(Make.entry("good"), Make.body(byteCount, seed: 9))
            let good = Set(bodyFiles)
            try await store.put(Make.entry("bad"), Make.body(byteCount))
            let file = directory.path(of: try #require(Set(bodyFiles).subtracting(good).first))
            switch damage {
            case "delete": unlink(file)
            case "truncate": truncate(file, off_t(byteCount - 1))
            case "lengthen": truncate(file, off_t(byteCount + 100))
            case "empty": truncate(file, 0)
            default:
                let descriptor = open(file, O_RDWR)
                var byte: UInt8 = 0
                pread(descriptor, &byte, 1, off_t(byteCount - 7))
                byte ^= 4
                pwrite(descriptor, &byte, 1, off_t(byteCount - 7))
                close(descriptor)
            }
            let entry = try #require(try await store.first("bad"))
            #expect(try await store.body(of: entry) == nil)
            // This removal waits for the removal of the damaged row, since both use one queue.
            try await store.remove(.key(CacheKey(primary: "nothing")))
            #expect(try await store.first("bad") == nil)
            #expect(try await store.data("good") == Make.body(byteCount, seed: 9))
            #expect(Set(bodyFiles) == good)
        }
    }

    @Test(arguments: [false, true]) func damagedRowIsAMissAndRemoved(_ isSealed: Bool) async throws {
        let store = try store(isSealed ? Data(repeating: 1, count: 32) : nil)
        for column in ["head", "body"] {
            try await store.put(Make.entry("a", headers: ["X": "y"]), Make.body(1_000))
            let sql =
                column == "head"
                ? "UPDATE entries SET head = head || x'00'" : "UPDATE bodies SET bytes = zeroblob(length(bytes))"
            let connection = try SQLiteConnection(path: index, mode: .creating, busyTimeout: .seconds(5))
            try connection.execute(sql)
            #expect(try await store.data("a") == nil)
            try await store.remove(.key(CacheKey(primary: "nothing")))
            #expect(try await store.usage() == CacheUsage())
        }
    }

    @Test func openBodyOutlivesItsEntry() async throws {
        let store = try store()
        try await store.put(Make.entry("a"), Make.body(3_000_000))
        let entry = try #require(try await store.first("a"))
        let body = try #require(try await store.body(of: entry))
        #expect(body.isStream)
        try await store.remove(.all)
        #expect(bodyFiles == [])
        #expect(try await body.collect(upTo: .max) == Make.body(3_000_000))
    }

    // MARK: The index

    @Test(arguments: [
        "head -c 100000 /dev/urandom > $INDEX", "head -c 100000 /dev/zero > $INDEX", ": > $INDEX",
        "truncate -s 5000 $INDEX", "head -c 50000 /dev/urandom > $CACHE/x && mv $CACHE/x $INDEX",
        "rm $INDEX $INDEX-wal $INDEX-shm", "rm $INDEX",
        "head -c 4096 /dev/urandom | dd of=$INDEX bs=4096 seek=2 conv=notrunc 2>&1",
        "for i in 1 2 3 4 5 6 7 8 9; do head -c 4096 /dev/urandom | dd of=$INDEX bs=4096 seek=$i conv=notrunc 2>&1; done",
    ])
    func damagedIndexIsReplaced(_ script: String) async throws {
        for isOpen in [true, false] {
            var store = try store()
            for number in 0..<200 {
                try await store.put(Make.entry("k\(number)"), Make.body(number == 0 ? 50_000 : 1_000))
            }
            // Garbage collection checkpoints the log, so that the damage hits the rows.
            try await store.collectGarbage()
            try run(script)
            if !isOpen { store = try self.store() }
            for number in 0..<200 {
                let found = try await store.data("k\(number)")
                #expect(found == nil || found == Make.body(number == 0 ? 50_000 : 1_000))
            }
            for number in 0..<200 { try await store.put(Make.entry("k\(number)"), Make.body(2_000, seed: 3)) }
            for number in 0..<200 { #expect(try await store.data("k\(number)") == Make.body(2_000, seed: 3)) }
            #expect(try await store.usage().entryCount == 200)
            try await store.collectGarbage()
            #expect(bodyFiles == [])
            try await store.remove(.all)
        }
    }

    @Test func indexOfAnotherVersionIsSetAside() async throws {
        try await store().put(Make.entry("a"))
        do {
            let connection = try SQLiteConnection(path: index, mode: .creating, busyTimeout: .seconds(5))
            try connection.execute("PRAGMA user_version = 99")
        }
        let store = try store()
        #expect(try await store.entries(for: "a").isEmpty)
        try await store.put(Make.entry("b"))
        #expect(try await store.has("b"))
        #expect(directory.contents.contains("cache/index-4.sqlite.damaged"))
        try await store.remove(.all)
        #expect(!directory.contents.contains("cache/index-4.sqlite.damaged"))
    }

    // MARK: Disks

    @Test(
        .enabled(if: SmallDisk.isPermitted, SmallDisk.reason),
        arguments: ["a log in use", "a log left behind", "no log"])
    func readOnlyFolderIsReadAndNotWritten(_ state: String) async throws {
        let disk = try #require(try SmallDisk(byteCount: 8 << 20))
        var writing: DiskStore? = try DiskStore.plain(disk.path + "/cache")
        try await writing?.put(Make.entry("small"))
        try await writing?.put(Make.entry("large"), Make.body(50_000))
        if state != "a log in use" {
            try await writing?.collectGarbage()
            writing = nil
        }
        if state == "no log" { try run("rm -f \(disk.path)/cache/index-4.sqlite-*") }
        let view = try #require(try disk.readOnlyView())
        let path = view.path + "/cache"
        let store = try DiskStore.plain(path)
        #expect(try await store.data("small") == Data("hello".utf8))
        #expect(try await store.data("large") == Make.body(50_000))
        for byteCount in [10, 300_000] {
            let error = await #expect(throws: NetworkError.self) {
                try await store.put(Make.entry("new"), Make.body(byteCount))
            }
            #expect(error?.kind == .cache && error?.message.contains(path) == true)
            #expect(error?.message.contains("writable") == true, "\(error?.message ?? "")")
        }
        await #expect(throws: NetworkError.self) { try await store.remove(.all) }
        #expect(try await store.has("small"))
        // Memory keeps the entries that the disk refuses.
        let tiered = TieredStore(memory: MemoryStore(), disk: store)
        await #expect(throws: NetworkError.self) { try await tiered.put(Make.entry("new"), Make.body(300_000)) }
        #expect(try await tiered.data("new") == Make.body(300_000))
        #expect(try await tiered.data("small") == Data("hello".utf8))
        await #expect(throws: NetworkError.self) { try await tiered.remove(.all) }
        #expect(try await tiered.first("new") == nil)
    }

    @Test(.enabled(if: SmallDisk.isPermitted, SmallDisk.reason), arguments: [1_000, 100_000])
    func fullDiskFailsOnlyTheWrite(_ byteCount: Int) async throws {
        let disk = try #require(try SmallDisk(byteCount: 6 << 20))
        let body = Make.body(byteCount)
        let store = try DiskStore.plain(disk.path + "/cache", limit: 1 << 30)
        for number in 0..<10 { try await store.put(Make.entry("k\(number)"), body) }
        var pinned = try #require(try await store.first("k0"))
        pinned.isPinned = true
        try await store.update(pinned)
        // Eviction makes room: the disk holds about sixty bodies, and two hundred are stored.
        for number in 10..<200 where byteCount > 50_000 {
            try await store.put(Make.entry("k\(number)"), body)
            #expect(try await store.data("k\(number)") == body)
        }
        #expect(try await store.data("k0") == body)
        // If no room can be made, the write fails and the rest stays readable.
        disk.fill()
        let error = await #expect(throws: NetworkError.self) {
            try await store.put(Make.entry("x"), Make.body(8 << 20))
        }
        #expect(error?.kind == .cache && error?.message.contains("free space") == true)
        #expect(try await store.data("k0") == body)
        disk.removeFiller()
        try await store.put(Make.entry("after"), body)
        #expect(try await store.data("after") == body)
    }

    @Test(.enabled(if: SmallDisk.isPermitted, SmallDisk.reason)) func minimumFreeBytesStayFree() async throws {
        let disk = try #require(try SmallDisk(byteCount: 8 << 20))
        var options = DiskStore.Options()
        options.minimumFreeBytes = 4 << 20
        options.collectionInterval = nil
        let store = try DiskStore(directory: disk.path + "/cache", options: options)
        for number in 0..<100 { try await store.put(Make.entry("k\(number)"), Make.body(100_000)) }
        var facts = statvfs()
        statvfs(disk.path, &facts)
        #expect(Int(facts.f_bavail) * Int(facts.f_frsize) >= 4 << 20)
        #expect(try await store.has("k99"))
        #expect(try await store.usage().entryCount > 5)
    }

    // MARK: Garbage

    @Test func unreferencedBodiesAreRemoved() async throws {
        let store = try store()
        for number in 0..<3 { try await store.put(Make.entry("k\(number)"), Make.body(50_000)) }
        let kept = bodyFiles
        // A body that another store on the folder is writing must stay.
        let other = try self.store()
        let writer = try await other.writer(for: Make.entry("k3"))
        for _ in 0..<5 { try await writer.append(Make.body(100_000)) }
        // The stores have removed what killed processes left before the following is left.
        for store in [store, other] { try await store.collectGarbage() }
        try directory.write(Make.body(700), to: "cache/bodies-4/0123")
        try directory.write(Make.body(70), to: "cache/bodies-4/4567.part")
        #expect(try await store.collectGarbage() == CacheUsage(entryCount: 0, byteCount: 770))
        try await writer.commit()
        try await store.collectGarbage()
        #expect(bodyFiles.count == 4 && Set(bodyFiles).isSuperset(of: kept))
        #expect(try await store.data("k3")?.count == 500_000)
        // A row without its body is removed too.
        unlink(directory.path(of: kept[0]))
        try await store.collectGarbage()
        try await store.remove(.key(CacheKey(primary: "nothing")))
        #expect(try await store.usage().entryCount == 3)
    }

    @Test func indexFileShrinksAfterRemoval() async throws {
        let store = try store()
        for number in 0..<300 { try await store.put(Make.entry("k\(number)"), Make.body(10_000)) }
        try await store.collectGarbage()
        func size() -> Int { (try? FileManager.default.attributesOfItem(atPath: index)[.size] as? Int) ?? 0 }
        let full = size()
        try await store.remove(.all)
        try await store.collectGarbage()
        #expect(full > 3_000_000 && size() < full / 10)
    }

    @Test(.timeLimit(.minutes(1))) func garbageIsCollectedByItself() async throws {
        var options = DiskStore.Options()
        options.collectionInterval = .milliseconds(50)
        options.minimumFreeBytes = 0
        let store = try DiskStore(directory: folder, options: options)
        try await store.put(Make.entry("a"))
        try directory.write(Make.body(70), to: "cache/bodies-4/0123")
        try await eventually { bodyFiles.isEmpty }
        #expect(try await store.has("a"))
    }
}

import Foundation
import Glibc
import HTTPCore
import LATTesting
import SQLite
import Testing

@testable import ResponseCache

/// Access to the files of a cache folder, and their confidentiality.
@Suite(.timeLimit(.minutes(3))) struct DiskPrivacyTests {
    private let directory: TemporaryDirectory
    private var folder: String { directory.path(of: "cache") }

    init() throws { directory = try TemporaryDirectory() }

    private func mode(_ name: String) -> mode_t {
        var facts = stat()
        return lstat(folder + "/" + name, &facts) == 0 ? facts.st_mode & 0o777 : 0
    }

    private func run(_ script: String) throws {
        let process = try ChildProcess(["/bin/sh", "-c", script], environment: ["CACHE": folder])
        try #require(process.wait() == 0)
    }

    /// An administrator may have created the folder with access for everybody.
    @Test(arguments: [false, true]) func filesAreReadableByOwnerOnly(wasThere: Bool) async throws {
        if wasThere {
            try run("umask 0; mkdir -p $CACHE; : > $CACHE/index-4.sqlite; chmod 666 $CACHE/index-4.sqlite")
        }
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("a"), Make.body(50_000))
        try await store.put(Make.entry("b"), Make.body(50))
        for name in ["index-4.sqlite", "index-4.sqlite-wal", "index-4.sqlite-shm", "lock"] {
            #expect(mode(name) == 0o600, "\(name)")
        }
        #expect(mode("bodies-4") == 0o700)
        let files = directory.bodyFiles("cache")
        #expect(files.count == 1)
        for file in files { #expect(mode(String(file.dropFirst("cache/".count))) == 0o600) }
    }

    /// Makes a database whose settings are in the log alone.
    private func makeDatabase(_ name: String, applicationID: Int64) throws {
        let connection = try SQLiteConnection(path: folder + "/" + name, mode: .creating, busyTimeout: .seconds(5))
        connection.keepLogOnClose()
        _ = try connection.number("PRAGMA journal_mode = WAL")
        try connection.execute("BEGIN; PRAGMA application_id = \(applicationID); CREATE TABLE entries(id); COMMIT")
    }

    /// Two releases share a folder during a deployment.
    @Test func otherFormatVersionIsKeptForAWeek() async throws {
        try run("mkdir -p $CACHE/bodies $CACHE/bodies-9; echo x > $CACHE/bodies/a; echo x > $CACHE/bodies-9/a")
        for name in ["index.sqlite", "index-9.sqlite"] {
            try makeDatabase(name, applicationID: CacheIndex.applicationID)
        }
        try run("touch -d '8 days ago' $CACHE/index.sqlite*; touch -d '6 days ago' $CACHE/index-9.sqlite*")
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("a"), Make.body(50_000))
        _ = try await store.collectGarbage()
        let left = directory.contents
        #expect(left.contains("cache/index-9.sqlite") && left.contains("cache/bodies-9/a"))
        #expect(!left.contains("cache/index.sqlite") && !left.contains("cache/bodies/a"))
        #expect(try await store.first("a") != nil)
    }

    /// The app's own files in the folder may have the names of an old version.
    @Test(arguments: [false, true]) func filesOfOthersAreKept(isDatabase: Bool) async throws {
        try run(
            "mkdir -p $CACHE/bodies; echo x > $CACHE/bodies/a; echo x > $CACHE/leases; echo x > $CACHE/index.sqlite")
        if isDatabase {
            try run("rm $CACHE/index.sqlite")
            try makeDatabase("index.sqlite", applicationID: 7)
        }
        try run("touch -d '8 days ago' $CACHE/index.sqlite*")
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("a"), Make.body(50_000))
        _ = try await store.collectGarbage()
        let left = directory.contents
        for name in ["index.sqlite", "bodies/a", "leases"] { #expect(left.contains("cache/" + name), "\(name)") }
    }

    /// A sealed entry opens only in its own row with its own columns.
    @Test(arguments: ["url", "key", "partition", "domain"])
    func sealedEntryIsBoundToItsColumns(column: String) async throws {
        let key = Data(repeating: 7, count: 32)
        var first: DiskStore? = try .plain(folder, key: key)
        var entries = [Make.entry("a", domain: "d", partition: "p"), Make.entry("b", domain: "e", partition: "q")]
        entries[1].url += "/other"
        for entry in entries { try await first?.put(entry, Make.body(10)) }
        try await first?.flush()
        first = nil
        let connection = try SQLiteConnection(
            path: folder + "/index-4.sqlite", mode: .creating, busyTimeout: .seconds(5))
        // A column of `b` no longer matches its sealed entry.
        try connection.execute("DELETE FROM entries WHERE id = 1")
        try connection.execute("UPDATE entries SET \(column) = x'0102' WHERE id = 2")
        let second = try DiskStore.plain(folder, key: key)
        #expect(try await second.entries(.all).isEmpty)
    }

    @Test func flushedEntryIsInTheMainFile() async throws {
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("a"), Make.body(50))
        try await store.flush()
        try run("cp $CACHE/index-4.sqlite $CACHE/copy; rm -f $CACHE/copy-*")
        let copy = try SQLiteConnection(path: folder + "/copy", mode: .immutable, busyTimeout: .seconds(5))
        #expect(try copy.number("SELECT count(*) FROM entries") == 1)
    }
}

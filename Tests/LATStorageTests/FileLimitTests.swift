import Foundation
import HTTPCore
import LATTesting
import Platform
import SQLite
import Testing

@testable import LATStorage

/// A file that SQLite cannot open because the process has too many open.
@Suite struct FileLimitTests {
    /// `SQLITE_CANTOPEN`, whose text names no cause.
    private static let cannotOpen: Int32 = 14

    @Test(arguments: [EMFILE, ENFILE]) func limitIsNamedWithTheNextStep(code: Int32) {
        let failure = SQLiteError(
            code: Self.cannotOpen, message: "unable to open database file", attempt: "x", systemCode: code)
        let error = NetworkError.sqlite(failure, path: "/a/b.sqlite", operation: "open /a/b.sqlite")
        #expect(error.kind == .storage && error.storageFailure?.reason == .unreadable)
        #expect(error.message.contains(code == EMFILE ? "ulimit -n" : "fs.file-max"))
        #expect(!error.message.contains("permissions"))
    }

    @Test func sqliteReportsTheCauseOfTheSystem() throws {
        let directory = try TemporaryDirectory()
        let error = #expect(throws: SQLiteError.self) {
            try SQLiteConnection(path: directory.path(of: "none/a"), mode: .creating, busyTimeout: .zero)
        }
        #expect(error?.primaryCode == Self.cannotOpen && error?.systemCode == ENOENT)
    }

    @Test func limitOfTheProcessIsInTheText() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let text = SystemError(code: EMFILE).text
        #expect(text.contains(" \(limit.rlim_cur) files") && text.contains("ulimit -n"))
        #expect(SystemError(code: ENOENT).text == String(cString: strerror(ENOENT)))
        #expect(SystemError.fileLimit == nil)
    }
}

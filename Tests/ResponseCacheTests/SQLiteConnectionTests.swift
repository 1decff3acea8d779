import LATTesting
import SQLite
import Testing

@Suite struct SQLiteConnectionTests {
    @Test(arguments: ["a.sqlite", "a b%41?c#d.sqlite"], ["", "/", "//"])
    func immutableFileIsOpenedByAnyPath(name: String, slashes: String) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: name)
        try SQLiteConnection(path: path, mode: .creating, busyTimeout: .zero).execute("CREATE TABLE a AS SELECT 7 AS b")
        let connection = try SQLiteConnection(path: slashes + path, mode: .immutable, busyTimeout: .zero)
        #expect(try connection.number("SELECT b FROM a") == 7)
    }

    private func numbers() throws -> SQLiteConnection {
        let connection = try SQLiteConnection(path: ":memory:", mode: .creating, busyTimeout: .zero)
        try connection.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, b, c)")
        return connection
    }

    private static let insert = "INSERT INTO a VALUES(?1, ?2, ?3)"

    private struct Stop: Error {}

    /// Parameters that a failed use has bound, also after a row that succeeded, are NULL in the next use.
    @Test func failedUseLeavesNoValue() throws {
        let connection = try numbers()
        #expect(throws: SQLiteError.self) {
            try connection.use(Self.insert) { statement in
                statement.bind(1, 1 as Int64)
                _ = try statement.step()
                statement.reset()
                statement.bind(1, 1 as Int64)
                statement.bind(2, text: "of another row")
                _ = try statement.step()
            }
        }
        #expect(throws: Stop.self) {
            try connection.run(Self.insert) { statement in
                statement.bind(3, 9 as Int64)
                throw Stop()
            }
        }
        try connection.run(Self.insert) { $0.bind(1, 2 as Int64) }
        #expect(try connection.number("SELECT count(*) FROM a WHERE b IS NULL AND c IS NULL") == 2)
    }

    @Test func failedStepLeavesNoValueInItsUse() throws {
        let connection = try numbers()
        try connection.run(Self.insert) { $0.bind(1, 1 as Int64) }
        try connection.use(Self.insert) { statement in
            statement.bind(1, 1 as Int64)
            statement.bind(2, 7 as Int64)
            #expect(throws: SQLiteError.self) { try statement.step() }
            statement.bind(1, 2 as Int64)
            _ = try statement.step()
        }
        #expect(try connection.number("SELECT count(*) FROM a WHERE b IS NULL") == 2)
    }

    @Test func useInsideAUseHasItsOwnStatement() throws {
        let connection = try numbers()
        try connection.run(Self.insert) { outer in
            outer.bind(1, 1 as Int64)
            outer.bind(2, 7 as Int64)
            try connection.run(Self.insert) { $0.bind(1, 2 as Int64) }
        }
        #expect(try connection.number("SELECT sum(id * b) FROM a") == 7)
        #expect(try connection.number("SELECT count(b) FROM a") == 1)
    }
}

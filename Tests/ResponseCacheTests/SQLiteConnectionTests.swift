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
}

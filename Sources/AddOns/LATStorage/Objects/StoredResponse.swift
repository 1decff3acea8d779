public import FoundationEssentials
public import HTTPCore
import SQLite

/// A stored response with its time.
///
/// ```swift
/// try store.keep(response, forKey: "users?page=2")
/// if let kept = try store.response(forKey: "users?page=2"), kept.time > Date(timeIntervalSinceNow: -3600) {
///     show(try kept.json())
/// }
/// ```
///
/// This is not a cache: nothing expires and nothing is revalidated. The caller decides what to keep.
public struct StoredResponse: Hashable, Sendable {
    /// The key of the response.
    public let key: String
    /// The time of the response; by default, when it was stored.
    public let time: Date
    /// The status code; `nil` when only bytes were stored.
    public let status: Int?
    /// The URL that responded; `nil` when only bytes were stored.
    public let url: String?
    /// The header fields in the order received, with repeated ones.
    public let headers: [Header]
    /// The body.
    public let data: Data

    /// One header field.
    public struct Header: Hashable, Codable, Sendable {
        /// The name as received.
        public let name: String
        /// The value.
        public let value: String
    }

    /// Parses the body as JSON.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.decoding`.
    public func json() throws -> JSONValue {
        try HTTPResponse(status: status ?? 200, body: ResponseBody(data), url: url ?? "").json()
    }

    /// Decodes the body as a value from JSON.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.decoding`.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try HTTPResponse(status: status ?? 200, body: ResponseBody(data), url: url ?? "").decode(type)
    }
}

extension Transaction {
    private static let responseTable = """
        CREATE TABLE IF NOT EXISTS lat_store_responses
        (key TEXT PRIMARY KEY NOT NULL, time REAL NOT NULL, status INTEGER, url TEXT, headers TEXT NOT NULL,
        body BLOB NOT NULL)
        """

    func keep(_ response: StoredResponse) throws {
        let operation = "keep a response"
        try check(operation)
        try refuseWhenFailed()
        try connection.execute(Self.responseTable, operation: operation)
        try connection.run(
            "INSERT OR REPLACE INTO lat_store_responses (key, time, status, url, headers, body) "
                + "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            [
                .text(response.key), .real(response.time.timeIntervalSinceReferenceDate),
                response.status.map { .integer(Int64($0)) } ?? .null, response.url.map { .text($0) } ?? .null,
                .text(ColumnCoding.json(response.headers)), .blob(response.data),
            ], operation: operation)
    }

    /// Runs a statement on the table of responses, and reads its rows. Does nothing when the table does not exist.
    func responses<Value>(
        _ sql: String, _ values: [StoredValue], _ operation: String, _ row: (SQLiteStatement) throws -> Value
    ) throws -> [Value] {
        try check(operation)
        let isThere = try connection.scalar(
            "SELECT count(*) FROM sqlite_master WHERE name = 'lat_store_responses'", operation: operation)
        guard isThere > 0 else { return [] }
        var rows: [Value] = []
        try connection.run(sql, values, operation: operation) { rows.append(try row($0)) }
        return rows
    }
}

extension ObjectStore {
    /// Stores a collected response, and replaces the one under the same key.
    ///
    /// - Parameters:
    ///   - response: the response, whose body has been collected.
    ///   - key: the name under which it is found again.
    ///   - time: the time of the response. Default: now.
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage`, with the reason ``StorageFailure/Reason/value`` for a
    ///   stream, whose body is not there yet.
    public func keep(_ response: HTTPResponse, forKey key: String, at time: Date = Date()) throws {
        guard let data = response.body.data else {
            throw NetworkError.storage(
                .value, "keep a response", "its body is a stream; collect it, or keep the bytes themselves")
        }
        let headers = response.headers.map { StoredResponse.Header(name: $0.name, value: $0.value) }
        let stored = StoredResponse(
            key: key, time: time, status: response.status, url: response.url, headers: headers, data: data)
        try transaction { try $0.keep(stored) }
    }

    /// Stores bytes, and replaces what is stored under the same key.
    ///
    /// - Parameters:
    ///   - data: the bytes.
    ///   - key: the name under which they are found again.
    ///   - time: the time of the bytes. Default: now.
    public func keep(_ data: Data, forKey key: String, at time: Date = Date()) throws {
        let stored = StoredResponse(key: key, time: time, status: nil, url: nil, headers: [], data: data)
        try transaction { try $0.keep(stored) }
    }

    /// Returns what is stored under a key, `nil` when nothing is.
    public func response(forKey key: String) throws -> StoredResponse? {
        try core.read { transaction in
            try transaction.responses(
                "SELECT key, time, status, url, headers, body FROM lat_store_responses WHERE key = ?1", [.text(key)],
                "read a stored response"
            ) { row in
                let headers: [StoredResponse.Header]
                do {
                    headers = try ColumnCoding.decoder.decode(
                        [StoredResponse.Header].self, from: Data((row.value(4).text ?? "[]").utf8))
                } catch {
                    throw NetworkError.storage(
                        .value, "read a stored response", "the header fields of \"\(key)\" are damaged; remove it")
                }
                let status: Int? = if case .integer(let status) = row.value(2) { Int(status) } else { nil }
                return StoredResponse(
                    key: row.value(0).text ?? "", time: Date(timeIntervalSinceReferenceDate: row.value(1).real ?? 0),
                    status: status, url: row.value(3).text, headers: headers, data: row.value(5).blob ?? Data())
            }.first
        }
    }

    /// Returns the keys of all stored responses, sorted.
    ///
    /// - Parameter prefix: the prefix of the keys. Default: any.
    public func responseKeys(withPrefix prefix: String = "") throws -> [String] {
        try core.read { transaction in
            try transaction.responses(
                // Compared as bytes, since a text ends at its first NUL for `length`.
                "SELECT key FROM lat_store_responses "
                    + "WHERE substr(CAST(key AS BLOB), 1, length(CAST(?1 AS BLOB))) = CAST(?1 AS BLOB) ORDER BY key",
                [.text(prefix)], "list stored responses"
            ) { $0.value(0).text ?? "" }
        }
    }

    /// Removes what is stored under a key.
    public func removeResponse(forKey key: String) throws {
        try transaction { transaction in
            _ = try transaction.responses(
                "DELETE FROM lat_store_responses WHERE key = ?1", [.text(key)], "remove a stored response"
            ) { _ in }
        }
    }

    /// Removes what is older than a time. Default `nil`: everything.
    public func removeResponses(before time: Date? = nil) throws {
        try transaction { transaction in
            _ = try transaction.responses(
                "DELETE FROM lat_store_responses WHERE ?1 IS NULL OR time < ?1",
                [time.map { .real($0.timeIntervalSinceReferenceDate) } ?? .null], "remove stored responses"
            ) { _ in }
        }
    }
}

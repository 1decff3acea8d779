import HTTPCore

/// What the next import needs to know of the last one: the choice, and the rows as they were written. It is a file beside the
/// Swift files and is committed with them.
package struct ImportState {
    package var tags: [String] = []
    package var operations: [String] = []
    package var isAll = false
    package var isPublic = false
    /// The title of the document.
    package var title: String?
    /// The file of overrides.
    package var overrides: String?
    /// ``OpenAPIImporter/Result/keepsAdditional`` of the first import; `nil` before it.
    package var keepsAdditional: Bool?
    /// ``ImportedTable/json``.
    package var table: JSONValue?
    /// The names of the Swift files.
    package var files: [String] = []
    /// The digests of their texts, by which an edited one is known.
    package var digests: [String: String] = [:]

    package init() {}

    /// Reads the text of a state file.
    package init(_ text: String, file: String) throws(ImportProblem) {
        guard let json = try? JSONValue(parsing: text), let table = json["table"], json["format"].int == 1 else {
            throw ImportProblem(
                "\(file) is not what an import wrote; delete it to import anew, and the table stays as it is"
            )
        }
        func texts(_ name: String) -> [String] { json[name].array?.compactMap(\.string) ?? [] }
        (tags, operations, files) = (texts("tags"), texts("operations"), texts("files"))
        (isAll, isPublic) = (json["all"].bool ?? false, json["public"].bool ?? false)
        (title, overrides, keepsAdditional) = (json["title"].string, json["overrides"].string, json["additional"].bool)
        digests = (json["digests"].object ?? [:]).compactMapValues(\.string)
        self.table = table
    }

    package var text: String {
        let json: JSONValue = [
            "format": 1, "all": .bool(isAll), "public": .bool(isPublic), "tags": .array(tags.map(JSONValue.string)),
            "operations": .array(operations.map(JSONValue.string)), "files": .array(files.map(JSONValue.string)),
            "digests": .object(digests.mapValues(JSONValue.string)), "table": table ?? .null,
            "additional": keepsAdditional.map(JSONValue.bool) ?? .null,
            "title": title.map(JSONValue.string) ?? .null, "overrides": overrides.map(JSONValue.string) ?? .null,
        ]
        return ((try? json.data(prettyPrinted: true)).map { String(decoding: $0, as: UTF8.self) } ?? "") + "\n"
    }

    /// Takes out of the choice what a new version of the document does not have, and returns it.
    package mutating func forget(missingIn importer: OpenAPIImporter) -> [String] {
        let missing = importer.missing(tags, operations)
        tags.removeAll(where: missing.tags.contains)
        operations.removeAll(where: missing.operations.contains)
        return isAll ? [] : missing.tags.map { "tag \($0)" } + missing.operations.map { "operation \($0)" }
    }

    /// Adds a choice to those before, or replaces them. `nil` if nothing is chosen.
    package mutating func choose(
        all: Bool, tags: [String], operations: [String], only: Bool = false
    ) -> OpenAPIImporter.Choice? {
        if only { (isAll, self.tags, self.operations) = (false, [], []) }
        if all { isAll = true }
        self.tags += tags.filter { !self.tags.contains($0) }
        self.operations += operations.filter { !self.operations.contains($0) }
        if isAll { return .all }
        if self.tags.isEmpty, self.operations.isEmpty { return nil }
        return .some(tags: self.tags, operations: self.operations)
    }
}

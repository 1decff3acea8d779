import FoundationEssentials

@testable import OpenAPIImport

extension OpenAPIImporter {
    /// An importer of a text, with other files by name.
    static func of(
        _ text: String, name: String = "api.yaml", files: [String: String] = [:], overrides: String? = nil
    ) throws(ImportProblem) -> OpenAPIImporter {
        try OpenAPIImporter(
            Array(text.utf8), name: name, overrides: overrides.map { (Array($0.utf8), "overrides.json5") }
        ) { path throws(ImportProblem) in
            guard let file = files[path] else { throw ImportProblem("\(path) is not there") }
            return Array(file.utf8)
        }
    }

    /// The Swift of everything in a document.
    static func swift(_ text: String, files: [String: String] = [:], overrides: String? = nil) throws -> String {
        try of(text, files: files, overrides: overrides).run(choosing: .all).files.map(\.text).joined()
    }

    /// The first problem of a document.
    static func problem(_ text: String, name: String = "api.yaml", files: [String: String] = [:]) -> String {
        do throws(ImportProblem) {
            _ = try of(text, name: name, files: files).run(choosing: .all)
            return ""
        } catch {
            return error.message
        }
    }
}

/// A document with one operation, whose reply has a schema.
func document(_ schema: String, more: String = "") -> String {
    """
    {"openapi": "3.1.0", "info": {"title": "Zoo", "version": "1"}, "servers": [{"url": "https://zoo.example.org"}],
    "paths": {"/x": {"get": {"operationId": "getX", "responses": {"200": {"description": "",
    "content": {"application/json": {"schema": \(schema)}}}}}}}, "components": {"schemas": {\(more)}}}
    """
}

/// The text of a file of the tests.
func testFile(_ name: String) throws -> String {
    let folder = #filePath.split(separator: "/").dropLast().joined(separator: "/")
    return try String(contentsOfFile: "/\(folder)/\(name)", encoding: .utf8)
}

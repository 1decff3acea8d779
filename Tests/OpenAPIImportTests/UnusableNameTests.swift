import DomainTables
import Testing

@testable import OpenAPIImport

/// What a document says and a table cannot have: it is left out with a warning, and the table is valid.
@Suite struct UnusableNameTests {
    /// A document with one call, `GET /a`.
    private func document(
        servers: String = #"[{"url": "https://a.example.org"}]"#, operation: String = "", schemes: String = "",
        security: String = "[]", path: String = "/a", more: String = ""
    ) -> String {
        """
        {"openapi": "3.2.0", "info": {"title": "Zoo"}, "security": \(security),
        "servers": \(servers), "components": {"securitySchemes": {\(schemes)}},
        "paths": {"\(path)": {"get": {"operationId": "getA", \(operation)
        "responses": {"200": {"description": ""}}}\(more)}}}
        """
    }

    private func imported(_ document: String) throws -> (table: DomainTable, text: String, warnings: [String]) {
        let result = try OpenAPIImporter.of(document, name: "zoo.json").run(choosing: .all)
        let text = try TableEditor(nil, file: "t.json5", base: nil, new: result.table).text
        return (try DomainTable(json5: text, environment: nil), text, result.warnings.map { "\($0)" })
    }

    @Test(arguments: [
        ("https://{region}.example.org", "has a variable without a value"),
        ("https://a.example.org/#/v1", "has a fragment (#), which is never sent"),
        ("https://a.example.org/v 1", "contains a space"),
        ("https://a.example.org/v1/../v2", #"has the segment ".." or "." in its path"#),
        ("/v1/../v2", #"has the segment ".." or "." in its path"#),
        ("https://a.example.org:{port}", "has the port \"\""),
        ("ftp://a.example.org", "has the scheme \"ftp\""),
    ]) func addressIsLeftOut(_ url: String, _ reason: String) throws {
        let server = #"{"url": "\#(url)", "variables": {"port": {"default": ""}}}"#
        let (table, _, warnings) = try imported(document(servers: "[\(server)]"))
        #expect(try table.domain("zoo").baseURL == "http://localhost")
        #expect(warnings.contains { $0.hasPrefix("zoo.json:2") && $0.contains(reason) }, "\(warnings)")
        // The others stay, and an operation has that of the document.
        let good = #"{"url": " https://b.example.org/v1 "}, {"url": "https://c.example.org", "description": "test"}"#
        let others = try imported(document(servers: "[\(server), \(good)]", operation: #""servers": [\#(server)],"#))
        #expect(try others.table.domain("zoo").baseURL == "https://b.example.org/v1")
        #expect(others.table.environmentNames == ["test"] && others.text.contains(#"path: "/a""#))
        #expect(others.warnings.contains { $0.hasPrefix("zoo.json:3") && $0.contains(reason) }, "\(others.warnings)")
    }

    /// They would end the line, or show the code in another order than it is.
    @Test(arguments: ["\\u2028", "\\u202e", "\\u001b", "\\u0000", "\\n", "\\u0085"])
    func commentsHaveNoSuchCharacter(_ character: String) throws {
        let text = document(operation: #""summary": "Gets\#(character)all", "#).replacing(
            "Zoo", with: "Zoo\(character)API")
        let files = try OpenAPIImporter.of(text, name: "zoo.json").run(choosing: .all).files
        #expect(files[0].text.hasPrefix("// Made by lat openapi import from Zoo API (zoo.json). "))
        #expect(files[0].text.contains("/// Gets all.\n"))
    }

    @Test func variableWithoutADefaultHasItsFirstValue() throws {
        let server = #"{"url": "https://{r}.example.org", "variables": {"r": {"enum": ["eu", "us"]}}}"#
        let (table, _, warnings) = try imported(document(servers: "[\(server)]"))
        #expect(try table.domain("zoo").baseURL == "https://eu.example.org" && warnings.isEmpty)
    }

    @Test func headerFieldOfAKeyIsLeftOut() throws {
        let schemes = #""k": {"type": "apiKey", "in": "header", "name": "X Key:"}"#
        let (_, text, warnings) = try imported(document(schemes: schemes, security: #"[{"k": []}]"#))
        #expect(text.contains(#"authenticator: "k""#) && !text.contains("secretHeaders"))
        #expect(warnings.contains { $0.contains("X Key: is no name of a header field") }, "\(warnings)")
    }

    @Test(arguments: [#"{"": []}"#, #"{"": []}, {"k": []}"#]) func schemeWithoutANameIsLeftOut(_ list: String) throws {
        let (_, text, warnings) = try imported(document(security: "[\(list)]"))
        #expect(text.contains(#"authenticator: "k""#) == list.contains("k") && !text.contains(#"authenticator: """#))
        #expect(warnings.contains { $0.contains("a security scheme needs a name") }, "\(warnings)")
    }

    @Test(arguments: [("", "query"), (" ", "query"), ("[]", "query"), ("X Y", "header")])
    func parameterWithoutANameIsLeftOut(_ name: String, _ place: String) throws {
        let parameter = #"{"name": "\#(name)", "in": "\#(place)", "schema": {"type": "array"}}"#
        let (_, text, warnings) = try imported(document(operation: #""parameters": [\#(parameter)],"#))
        #expect(!text.contains("parameters") && !text.contains("styles"))
        #expect(warnings.contains { $0.contains("a parameter needs a name") }, "\(warnings)")
    }

    @Test func memberWithoutANameIsNotDocumented() throws {
        let post = """
            , "post": {"operationId": "add", "requestBody": {"content": {"application/json": {"schema": {"type": "object",
            "properties": {"": {"type": "string"}, "b": {"type": "string"}}}}}}, "responses": {}}
            """
        #expect(try imported(document(more: post)).text.contains(#"parameters: { b: "string?" }"#))
    }

    @Test(arguments: ["LO CK", "connect", ""]) func methodIsLeftOut(_ method: String) throws {
        let more = #", "additionalOperations": {"\#(method)": {"operationId": "lock", "responses": {}}}"#
        let (table, _, warnings) = try imported(document(more: more))
        #expect(table.serverNames.map(\.rawValue) == ["zoo.getA"])
        #expect(warnings.contains { $0.contains("a request cannot have the method \(method)") }, "\(warnings)")
    }

    @Test(arguments: ["https://b.example.org/a", "//b"]) func pathThatIsAnAddressIsLeftOut(_ path: String) throws {
        let (table, _, warnings) = try imported(document(path: path))
        #expect(table.serverNames.isEmpty)
        #expect(warnings.contains { $0.contains("is left out: it is an address of its own") }, "\(warnings)")
    }

    @Test(arguments: [nil, "{ domains: {} }"]) func tableThatWouldNotBeValidIsAnError(_ old: String?) {
        let row = Node.object([("baseURL", .text("nowhere"))])
        let table = ImportedTable(domain: "zoo", domainRow: row, rows: [], comment: "")
        do throws(ImportProblem) {
            _ = try TableEditor(old, file: "t.json5", base: nil, new: table)
            Issue.record("an invalid table was written")
        } catch {
            #expect(error.message.hasPrefix("t.json5 would not be valid with the new rows: "), "\(error.message)")
            #expect(error.message.hasSuffix("; correct the document, or choose without what it names"))
        }
    }
}

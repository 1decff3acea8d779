import HTTPCore
import Testing

@testable import OpenAPIImport

/// Documents that are read although they are defective, and those that are not.
@Suite struct DocumentTests {
    @Test(arguments: [
        (
            "a: [1, 2",
            "api.yaml:1: this is not YAML: did not find expected ',' or ']'; a document is JSON or YAML in UTF-8"
        ),
        ("", "api.yaml is empty; expected a document of the OpenAPI"),
        ("hello", "api.yaml is a text, not a document of the OpenAPI; it begins with openapi or swagger"),
        ("a: 1", "api.yaml has no openapi and no swagger; 2.0 and 3.0 to 3.2 are read"),
        (
            "openapi: 4.0.0",
            "api.yaml has version 4.0.0 of the OpenAPI, which is not known; 2.0 and 3.0 to 3.2 are read"
        ),
        ("openapi: 3.1.0", "api.yaml has no paths, so it describes no operations"),
        ("a: *b", "api.yaml:1: no anchor before this line has the name b"),
        ("? {a: 1}\n: 2", "api.yaml:1: a name must be a text; write it in quotes"),
    ]) func unusableDocumentIsOneSentence(_ text: String, _ message: String) {
        #expect(OpenAPIImporter.problem(text) == message)
    }

    @Test func unusableJSONHasItsLine() {
        let problem = OpenAPIImporter.problem("{\n\"openapi\": \"3.1.0\",\n\"paths\": {", name: "api.json")
        #expect(problem == "api.json:3: the text ends before its }; a document is JSON or YAML in UTF-8")
    }

    @Test(arguments: [
        (
            ##"{"$ref": "#/components/schemas/B"}"##,
            "the reference #/components/schemas/B leads nowhere: there is no B; correct its name"
        ),
        (##"{"$ref": "#/components/schemas/A"}"##, "leads back to itself"),
        (##"{"$ref": "#/components/schemas/A/x"}"##, "leads back to itself"),
        (
            ##"{"$ref": "../b.yaml#/X"}"##,
            "the reference ../b.yaml#/X leads out of the folder of the document; import a document above both"
        ),
        (##"{"$ref": "/etc/passwd"}"##, "leads out of the folder"),
        (##"{"$ref": "a/../../b.yaml"}"##, "leads out of the folder"),
        (##"{"$ref": "a/%2e%2e/%2e%2e/b.yaml"}"##, "leads out of the folder"),
        (##"{"$ref": "https://h.example/a.yaml"}"##, "leads to the network, which is not read"),
        (##"{"$ref": "b.yaml#/X"}"##, "the reference b.yaml#/X cannot be read: b.yaml is not there"),
        (##"{"$ref": "#/components/schemas/C"}"##, "contains itself by allOf or $ref"),
    ]) func uselessReferenceHasItsPlace(_ schema: String, _ message: String) {
        let more =
            ##""A": {"$ref": "#/components/schemas/A"}, "C": {"allOf": [{"$ref": "#/components/schemas/C"}, {"properties": {"a": {}}}]}"##
        let problem = OpenAPIImporter.problem(document(schema, more: more))
        #expect(problem.contains(message) && problem.hasPrefix("api.yaml:3: #/"))
    }

    @Test func aliasesThatExpandWithoutEndAreRefused() {
        let bomb = (1...12).map {
            "a\($0): &a\($0) [\(Array(repeating: "*a\($0 - 1)", count: 10).joined(separator: ", "))]"
        }
        let text = "openapi: 3.1.0\na0: &a0 [x, x]\n" + bomb.joined(separator: "\n")
        #expect(
            OpenAPIImporter.problem(text)
                == "api.yaml: its aliases expand to more than 20 million values; write them out")
    }

    @Test func deepDocumentIsRefused() {
        let deep = String(repeating: "[", count: 5_000)
        #expect(OpenAPIImporter.problem("openapi: " + deep).contains("more than 200 levels within each other"))
        #expect(OpenAPIImporter.problem("{\"openapi\": " + deep).contains("more than 200 nested"))
    }

    @Test func hugeDocumentIsRefused() {
        let text = "openapi: 3.1.0\n#" + String(repeating: "x", count: Documents.byteLimit)
        #expect(
            OpenAPIImporter.problem(text)
                == "api.yaml has 64 MiB, and at most 64 MiB are read; split it into files that refer to each other")
    }

    @Test func uselessReferenceElsewhereDisturbsNothing() throws {
        let text = document(#"{"type": "string"}"#, more: ##""B": {"$ref": "#/nowhere"}"##)
        #expect(OpenAPIImporter.problem(text) == "")
    }

    @Test func otherFilesAreReadWhenNeeded() throws {
        let text = document(##"{"$ref": "schemas/a.yaml#/A"}"##)
        let files = [
            "schemas/a.yaml":
                ##"A: { type: object, properties: { b: { $ref: "b.yaml" }, c: { $ref: "#/C" } } }\##nC: { type: integer }"##,
            "schemas/b.yaml": "type: object\nproperties: { x: { type: string } }",
        ]
        let swift = try OpenAPIImporter.swift(text, files: files)
        #expect(swift.contains("var c: Int?") && swift.contains("struct B:") && swift.contains("var x: String?"))
    }

    @Test func defectsAreWarningsWithPlaces() throws {
        let result = try OpenAPIImporter.of(
            """
            openapi: 3.0.0
            info: { title: Zoo }
            paths:
              /a/{id}/{odd name}:
                get:
                  responses: { 4xx: { description: no } }
              /b:
                get: { operationId: getA, responses: { "200": { description: "" } } }
                put: { operationId: geta, responses: {} }
            """
        ).run(choosing: .all)
        let warnings = result.warnings.map(\.description)
        #expect(result.calls == 3 && result.skipped.isEmpty)
        for text in [
            "api.yaml:6: #/paths/~1a~1{id}~1{odd name}/get: there is no operationId; the name is made from method and path",
            "the parameter id of the path is not declared; it is made as a text",
            "the status 4xx is written in lower case; it is read as 4XX",
            "something else has the name Geta, or in another case; this call is Geta2",
        ] { #expect(warnings.contains { $0.contains(text) }, "\(text)") }
        let rows = result.table.rows
        #expect(rows.first?.row["path"]?.string == "/a/{id}/{odd_name}")
    }

    @Test func swaggerBodiesAndFormsAreRead() throws {
        let swift = try OpenAPIImporter.swift(
            """
            swagger: "2.0"
            info: { title: Zoo }
            host: zoo.example.org
            paths:
              /a:
                post:
                  operationId: makeA
                  parameters:
                    - { name: a, in: body, schema: { $ref: "#/definitions/A" } }
                  responses: { 200: { description: "", schema: { type: file } } }
                put:
                  operationId: sendA
                  consumes: [multipart/form-data]
                  parameters:
                    - { name: picture, in: formData, type: file, required: true }
                    - { name: words, in: formData, type: array, items: { type: string } }
                  responses: {}
            definitions: { A: { type: object, required: [x], properties: { x: { type: integer, x-nullable: true } } } }
            """)
        #expect(swift.contains("struct MakeA: RequestEntity, Encodable {\n    typealias Model = Data"))
        #expect(swift.contains("    var x: Int?\n") && swift.contains("var picture: UploadFile\n"))
        #expect(swift.contains("var words: [String]?") && swift.contains(#".multipart([picture.named("picture")])"#))
    }

    @Test func newWordsOfTheNextVersionAreRead() throws {
        let result = try OpenAPIImporter.of(
            """
            openapi: 3.2.0
            info: { title: Zoo }
            paths:
              /a:
                query: { operationId: ask, responses: { "200": { description: "" } } }
                additionalOperations:
                  PURGE: { operationId: purge, responses: { "200": { description: "" } } }
                get:
                  operationId: watch
                  responses:
                    "200":
                      content: { text/event-stream: { itemSchema: { type: object, properties: { n: { type: integer } } } } }
            """
        ).run(choosing: .all)
        #expect(result.table.rows.map { $0.row["method"]?.string } == ["QUERY", "GET", "PURGE"])
        #expect(result.files.map(\.text).joined().contains("struct WatchItem"))
    }

    /// The rows of a document with one operation.
    private func row(_ method: String, _ operation: String) throws -> String {
        let text = """
            {"openapi": "3.1.0", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example"}],
            "paths": {"/jobs": {"\(method)": {"operationId": "job", \(operation)}}}}
            """
        let table = try OpenAPIImporter.of(text).run(choosing: .all).table
        let row = try #require(table.rows.first?.row.members)
        let own = zip(row.names, row.values).filter { !["domain", "path", "method"].contains($0.0) }
        return own.map { "\($0.0): \(JSON5Text.inline($0.1))" }.joined(separator: ", ")
    }

    @Test func rowHasWhatTheDocumentSaysOfTheCall() throws {
        let rows = try row(
            "post",
            #"""
            "parameters": [{"name": "q", "in": "query", "required": true, "schema": {"type": "integer"}},
            {"name": "X-A", "in": "header", "schema": {"type": "string"}}],
            "requestBody": {"content": {"application/json": {"schema": {"type": "object", "required": ["n", "k"],
            "properties": {"n": {"type": ["string", "null"]}, "k": {"const": "job"}, "l": {"type": "array", "items": {}}, "x": {}}}}}},
            "responses": {"200": {}, "4xx": {}}
            """#)
        #expect(
            rows
                == #"query: { names: ["q"] }, documented: { statuses: [200, "4XX"], parameters: { q: "integer", k: "string?", "#
                + #"n: "any", l: "array?", x: "any?" } }"#)
        // A table has no such status and no such class.
        for status in ["7XX", "99"] {
            #expect(try !row("get", #""responses": {"200": {}, "\#(status)": {}}"#).contains("statuses"))
        }
        // With `default`, every status is documented.
        #expect(try row("get", #""responses": {"200": {}, "default": {}}"#) == "")
    }

    @Test(arguments: [
        ("post", #""202": {"headers": {"location": {}}}"#, #"poll: "location""#),
        ("post", #""202": {"headers": {"Operation-Location": {}}}"#, #"poll: { header: "Operation-Location" }"#),
        ("get", #""200": {}, "202": {}"#, #"poll: "location""#), ("post", #""200": {}, "202": {}"#, ""),
        ("post", #""201": {"headers": {"Location": {}}}"#, ""),
        (
            "post",
            #"""
            "202": {"content": {"application/json": {"schema": {"type": "object", "properties": {
            "status_url": {"type": "string"}, "state": {"enum": ["queued", "succeeded"]}}}}}}
            """#, #"poll: { status: "state", address: "status_url" }"#
        ),
        (
            // Of states whose end nobody knows, only the address is used.
            "post",
            #"""
            "202": {"content": {"application/json": {"schema": {"type": "object", "properties": {
            "statusUrl": {"type": "string", "format": "uri"}, "status": {"enum": ["a", "b"]}}}}}}
            """#, #"poll: { address: "statusUrl" }"#
        ),
    ]) func jobIsFollowedWhereTheDocumentSaysSo(_ method: String, _ responses: String, _ expected: String) throws {
        let row = try row(method, #""responses": {\#(responses)}"#)
        let poll = row.firstRange(of: ", documented").map { String(row[..<$0.lowerBound]) } ?? ""
        #expect(expected.isEmpty ? !row.contains("poll") : poll == expected)
    }

    @Test(arguments: [
        ("OpenAI API", "openai"), ("The DigitalOcean REST API", "digitalocean"), ("v1", "api"), ("Pet-Store", "pet"),
    ]) func domainIsAWordOfTheTitle(_ title: String, _ domain: String) throws {
        let importer = try OpenAPIImporter.of(#"{"openapi": "3.1.0", "info": {"title": "\#(title)"}, "paths": {}}"#)
        #expect(importer.domain == domain)
    }

    @Test func longRowHasALineForEachLongMember() throws {
        let names = (1...12).map { "parameter\($0)" }
        let parameters = names.map { #"{"name": "\#($0)", "in": "query", "schema": {"type": "string"}}"# }
        let text = """
            {"openapi": "3.1.0", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example"}], "paths": {"/a": {"get": {
            "operationId": "a", "parameters": [\(parameters.joined(separator: ", "))], "responses": {"200": {}}}}}}
            """
        let result = try OpenAPIImporter.of(text).run(choosing: .all)
        let table = try TableEditor(nil, file: "t", base: nil, new: result.table).text
        #expect(table.split(separator: "\n").allSatisfy { $0.count <= 120 })
        #expect(
            table.contains(
                """
                    "zoo.a": {
                      domain: "zoo", path: "/a", method: "GET",
                      documented: {
                        statuses: [200],
                        parameters: {
                          parameter1: "string?", parameter2: "string?",
                """))
        // What is written is what the next import finds again.
        let again = try TableEditor(table, file: "t", base: result.table.json, new: result.table)
        #expect(again.text == table && again.kept.isEmpty && again.changed.isEmpty)
    }

    @Test func exampleMayBeATextOfJSON() throws {
        let result = try OpenAPIImporter.of(
            ##"""
            {"openapi": "3.1.0", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example"}], "paths": {"/a": {"get": {
            "operationId": "getA", "responses": {"200": {"content": {"application/json": {
            "schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
            "examples": {"a": {"value": "{\"n\": 7}"}, "b": {"value": "event: n"}}}}}}}}}}
            """##
        ).run(choosing: .all)
        let text = result.files.map(\.text).joined()
        #expect(text.contains("typealias Model = GetAReply") && text.contains("var n: Int\n"))
        #expect(try JSONValue(parsing: #require(result.examples.first).text) == ["n": 7])
        #expect(result.warnings.map(\.message) == ["the example is a text that is no JSON; it is left out"])
        #expect(result.warnings.first?.place.line == 4)
    }

    @Test func exampleInAFileOfItsOwnIsRead() throws {
        let text = """
            {"openapi": "3.1.0", "info": {"title": "Zoo"}, "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {
            "content": {"application/json": {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "example": {"$ref": "ada.json"}}}}}}}}}
            """
        let result = try OpenAPIImporter.of(text, files: ["ada.json": #"{"n": 7}"#]).run(choosing: .all)
        #expect(!result.warnings.contains { $0.message.contains("$ref") })
        #expect(result.examples.map(\.name) == ["a.GET.json"])
        #expect(try JSONValue(parsing: #require(result.examples.first).text) == ["n": 7])
    }

    @Test func overridesNameAndType() throws {
        let text = document(
            #"{"type": "object", "properties": {"a": {"type": "string", "format": "odd"}, "b": {"type": "integer"}}}"#)
        let swift = try OpenAPIImporter.swift(
            text,
            overrides: #"""
                { formats: { odd: "Money" },
                  "#/paths/~1x/get/responses/200/content/application~1json/schema/properties/b": { type: "Timestamp.Unix", name: "made" } }
                """#)
        #expect(swift.contains("var a: Money?") && swift.contains("var made: Timestamp.Unix?"))
        #expect(
            throws: ImportProblem("overrides.json5:1:3: x is neither formats nor a JSON pointer such as #/components")
        ) {
            try OpenAPIImporter.of(text, overrides: "{ x: {} }")
        }
    }

    @Test func overrideThatLeadsNowhereIsNamed() throws {
        let text = document(#"{"type": "string"}"#)
        let importer = try OpenAPIImporter.of(
            text, overrides: ##"{"#/paths/~1x/git": { name: "A" }, "#/paths/~1x/get": { name: "B" }}"##)
        let warnings = try importer.run(choosing: .all).warnings.map(\.description)
        #expect(
            warnings == [
                "overrides.json5:1: there is no git at #/paths/~1x in the document, so #/paths/~1x/git changes nothing; did "
                    + "you mean get?"
            ])
    }

    @Test func plainScalarsFollowTheCoreSchema() throws {
        let text =
            "{a: yes, b: 012, c: 1.5, d: ~, e: 0x10, f: 2024-01-01, g: 1e3, h: '1', i: -, j: .5, k: True, 200: x}"
        let node = try YAMLReader.node(Array(text.utf8), file: "")
        #expect(
            node.json == [
                "a": "yes", "b": 12, "c": 1.5, "d": nil, "e": 16, "f": "2024-01-01", "g": 1000, "h": "1", "i": "-",
                "j": 0.5,
                "k": true, "200": "x",
            ])
    }

    @Test func mergedMembersAreReplaced() throws {
        let text = "base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}"
        let node = try YAMLReader.node(Array(text.utf8), file: "")
        #expect(node["use"]?.json == ["x": 1, "y": 3])
        let several = try YAMLReader.node(Array("a: &a {x: 1}\nb: &b {x: 2, y: 3}\nuse: {<<: [*a, *b]}".utf8), file: "")
        #expect(several["use"]?.json == ["x": 1, "y": 3])
    }

    @Test func importIsTheSameEveryTime() throws {
        let text = try testFile("Documents/library.yaml")
        let results = try (0..<3).map { _ in try OpenAPIImporter.swift(text) }
        #expect(results[0] == results[1] && results[1] == results[2])
    }

    @Test func choiceKeepsNamesAndTakesOnlyWhatItNeeds() throws {
        let importer = try OpenAPIImporter.of(testFile("Documents/library.yaml"), name: "library.yaml")
        let result = try importer.run(choosing: .some(tags: ["Loans"], operations: []))
        let all = try importer.run(choosing: .all)
        #expect(result.table.rows.map(\.name) == ["library.lend", "library.shelves", "library.rooms"])
        let loans = try #require(result.files.first { $0.name == "LibraryLoans.swift" })
        #expect(all.files.contains { $0 == loans })
        #expect(!result.files.contains { $0.text.contains("struct Book") })
        #expect(
            throws: ImportProblem(
                "no operation has the tag Loan; did you mean Loans?; without a choice, the tags are listed")
        ) {
            try importer.run(choosing: .some(tags: ["Loan"], operations: []))
        }
    }

    @Test(arguments: ["api.yaml", "api.json"])
    func nameThatStandsTwiceIsAWarning(_ name: String) throws {
        let text = """
            {"openapi": "3.1.0", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example.org"}], "paths": {
            "/x": {"get": {"operationId": "a", "responses": {}},
            "get": {"operationId": "b", "responses": {}}}}}
            """
        let result = try OpenAPIImporter.of(text, name: name).run(choosing: .all)
        #expect(result.calls == 1)
        #expect(
            result.warnings.map(\.description) == [
                "\(name):3: get stands twice in the same object; what comes last is read"
            ])
    }

    @Test func schemasWithinEachOtherNeedNoStack() throws {
        let count = 3000
        let schemas = (0..<count).map { number in
            ##""S\##(number)": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/S\##(number + 1)"}}}"##
        }
        let last = #""S\#(count)": {"type": "object", "properties": {"id": {"type": "integer", "readOnly": true}}}"#
        let text = document(
            ##"{"$ref": "#/components/schemas/S0"}"##, more: (schemas + [last]).joined(separator: ",\n"))
        let swift = try OpenAPIImporter.swift(text)
        #expect(swift.contains("struct S\(count): ") && swift.contains("var next: S\(count)?"))
    }
}

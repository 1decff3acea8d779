import DomainTables
import HTTPCore
import Testing

@testable import OpenAPIImport

/// What an import does to a table that people edit.
@Suite struct TableEditorTests {
    private func table(_ rows: [(String, [(String, String)])], base: String = "https://zoo.example.org")
        -> ImportedTable
    {
        ImportedTable(
            domain: "zoo", domainRow: .object([("baseURL", .text(base))]),
            rows: rows.map { name, members in
                (name, .object([("domain", .text("zoo"))] + members.map { ($0.0, .text($0.1)) }))
            }, comment: "")
    }

    private func edited(_ text: String?, _ base: ImportedTable?, _ new: ImportedTable) throws(ImportProblem)
        -> TableEditor
    {
        try TableEditor(text, file: "t.json5", base: base?.json, new: new)
    }

    private var first: ImportedTable { table([("zoo.a", [("path", "/a")]), ("zoo.b", [("path", "/b")])]) }

    @Test func newTableIsValidAndReadable() throws {
        let text = try edited(nil, nil, first).text
        #expect(
            text == """
                {
                  domains: {
                    zoo: { baseURL: "https://zoo.example.org" },
                  },
                  servers: {
                    "zoo.a": { domain: "zoo", path: "/a" },
                    "zoo.b": { domain: "zoo", path: "/b" },
                  },
                }

                """)
        #expect(try DomainTable(json5: text, environment: nil).serverNames.count == 2)
    }

    @Test func sameImportChangesNothing() throws {
        let text = try edited(nil, nil, first).text
        let again = try edited(text, first, first)
        #expect(again.text == text && again.added.isEmpty && again.changed.isEmpty && again.kept.isEmpty)
    }

    /// Rows that a person has commented out begin in the line of the last one.
    @Test(arguments: [
        "/* old:\n    \"zoo.x\": { domain: \"zoo\" }\n    */", "// b /* c", "/* 1 */ /* 2\n*/ // 3",
    ])
    func newRowsAreInNoComment(_ comment: String) throws {
        let text = try edited(nil, nil, first).text.replacing("\"/b\" },\n", with: "\"/b\" }, \(comment)\n")
        let new = table([("zoo.a", [("path", "/a")]), ("zoo.b", [("path", "/b")]), ("zoo.c", [("path", "/c")])])
        let result = try edited(text, first, new).text
        #expect(result.contains(comment))
        #expect(try DomainTable(json5: result, environment: nil).serverNames.map(\.rawValue).contains("zoo.c"))
    }

    @Test func onlyWhatChangedIsChanged() throws {
        let text = try edited(nil, nil, first).text
            .replacing("zoo.a\": { domain: \"zoo\",", with: "zoo.a\": { /* mine */ domain: \"zoo\", timeout: \"3s\",")
        let new = table([("zoo.a", [("path", "/aa"), ("method", "PUT")]), ("zoo.c", [("path", "/c")])])
        let editor = try edited(text, first, new)
        #expect(
            editor.text == """
                {
                  domains: {
                    zoo: { baseURL: "https://zoo.example.org" },
                  },
                  servers: {
                    "zoo.a": { /* mine */ domain: "zoo", timeout: "3s", path: "/aa", method: "PUT" },
                    "zoo.c": { domain: "zoo", path: "/c" },
                  },
                }

                """)
        #expect(
            editor.added == ["zoo.c"] && editor.changed == ["zoo.a"] && editor.removed == ["zoo.b"]
                && editor.kept.isEmpty)
    }

    @Test func editsOfPeopleStay() throws {
        let text = try edited(nil, nil, first).text
            .replacing("https://zoo.example.org", with: "https://other.example.org")
            .replacing("    \"zoo.a\": { domain: \"zoo\", path: \"/a\" },\n", with: "")
            .replacing("path: \"/b\"", with: "path: \"/mine\"")
        let new = table([("zoo.a", [("path", "/a")]), ("zoo.b", [("path", "/bb")])], base: "https://new.example.org")
        let editor = try edited(text, first, new)
        #expect(editor.text == text)
        #expect(
            editor.kept == [
                "zoo: the document says baseURL: \"https://new.example.org\", and the table has been edited",
                "zoo.a was removed from the table and stays out, so calls of its type fail; name its operation with "
                    + "--operations to have it back",
                "zoo.b: the document says path: \"/bb\", and the table has been edited",
            ])
    }

    @Test(
        arguments: [
            ("    \"zoo.b\"", "    // Slow.\n    \"zoo.b\""), ("\"/b\" },", "\"/b\" },   // slow"),
            ("path: \"/b\"", "/* slow */ path: \"/b\""), ("path: \"/b\" }", "path: \"/b\",\n  // slow\n }"),
            ("\"zoo.b\": {", "\"zoo.b\": /* slow */ {"),
        ])
    func rowWithACommentStays(_ old: String, _ new: String) throws {
        let text = try edited(nil, nil, first).text.replacing(old, with: new)
        let editor = try edited(text, first, table([("zoo.a", [("path", "/a")])]))
        #expect(editor.text == text)
        #expect(editor.kept == ["zoo.b is not in the document any more; it has a comment, and stays"])
    }

    @Test func commentsInAValueStay() throws {
        func zoo(_ environments: [(String, String)], _ statuses: [Int]) -> ImportedTable {
            let domain: [(String, Node)] = [
                ("baseURL", .text("https://zoo.example.org")),
                ("environments", .object(environments.map { ($0.0, .text($0.1)) })),
            ]
            let documented = Node.object([("statuses", .array(statuses.map { Node(.number("\($0)")) }))])
            let row: [(String, Node)] = [
                ("domain", .text("zoo")), ("path", .text("/a")), ("documented", documented),
            ]
            return ImportedTable(
                domain: "zoo", domainRow: .object(domain), rows: [("zoo.a", .object(row))], comment: "")
        }
        let old = zoo(
            [("staging", "https://s.example.org"), ("dev", "https://d.example.org"), ("qa", "https://q.example.org")],
            [200, 404])
        let text = """
            {
              domains: {
                zoo: {
                  baseURL: "https://zoo.example.org",
                  environments: {
                    // Ask Ada before you use it.
                    staging: "https://s.example.org", // VPN only
                    dev: "https://d.example.org",
                    qa: "https://q.example.org",
                  },
                },
              },
              servers: {
                "zoo.a": { domain: "zoo", path: "/a", documented: { statuses: [200, /* ticket 7 */ 404] } },
              },
            }

            """
        let new = zoo(
            [
                ("staging", "https://s2.example.org"), ("dev", "https://d2.example.org"),
                ("new", "https://n.example.org"),
            ],
            [200, 404, 409])
        let editor = try edited(text, old, new)
        #expect(
            editor.text
                == text.replacing("https://s.", with: "https://s2.").replacing("https://d.", with: "https://d2.")
                .replacing("qa: \"https://q", with: "new: \"https://n"))
        #expect(editor.changed == ["zoo"] && editor.removed.isEmpty)
        #expect(
            editor.kept == [
                "zoo.a.documented: the document says statuses: [200, 404, 409], and the table has a comment there"
            ])
    }

    @Test func rowsJoinTableOfSomebodyElse() throws {
        let text = """
            // Ours.
            {
              defaults: { timeout: "9s" },
              domains: { shop: { baseURL: "https://shop.example.org" } },   // one line
              servers: {
                "shop.x": { domain: "shop", path: "x" }   // the last, without a comma
              }
            }
            """
        let editor = try edited(text, nil, first)
        #expect(
            editor.text == """
                // Ours.
                {
                  defaults: { timeout: "9s" },
                  domains: { shop: { baseURL: "https://shop.example.org" }, zoo: { baseURL: "https://zoo.example.org" } },   // one line
                  servers: {
                    "shop.x": { domain: "shop", path: "x" },   // the last, without a comma
                    "zoo.a": { domain: "zoo", path: "/a" },
                    "zoo.b": { domain: "zoo", path: "/b" },
                  }
                }
                """)
    }

    @Test(arguments: ["{}", "{ domains: {} }", "{\n}\n", "{\n  domains: {},\n  servers: {},\n}"])
    func rowsJoinEmptyTable(_ text: String) throws {
        let editor = try edited(text, nil, first)
        #expect(try DomainTable(json5: editor.text, environment: nil).serverNames.count == 2)
        #expect(try edited(editor.text, first, first).text == editor.text)
    }

    @Test func rowThatWasThereStays() throws {
        let text =
            #"{ domains: { zoo: { baseURL: "https://a.example" } }, servers: { "zoo.a": { domain: "zoo", path: "/own" } } }"#
        let editor = try edited(text, nil, table([("zoo.a", [("path", "/a")])]))
        #expect(editor.text == text)
        #expect(
            editor.kept == [
                "zoo is in the table already, and stays as it is; the document says baseURL: \"https://zoo.example.org\"",
                "zoo.a is in the table already, and stays as it is; the document says path: \"/a\"",
            ])
    }

    @Test func rowsSayWhatAnotherRowOfTheirDomainDoesNot() throws {
        func query(_ parameter: String) -> String {
            """
            {"parameters": [{"name": "ids", "in": "query", "schema": {"type": "\(parameter)"}}], "security": [{"k": []}],
            "responses": {"200": {"description": ""}}, "operationId":
            """
        }
        let document = """
            {"openapi": "3.1.0", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example.org"}], "paths": {
            "/a": {"get": \(query("array")) "a"}}, "/b": {"get": \(query("string")) "b"}}},
            "security": [{"k": []}],
            "components": {"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X-Zoo"}}}}
            """
        let new = try OpenAPIImporter.of(document).run(choosing: .all).table
        let bare = "{ domains: { zoo: { baseURL: \"http://mine\" } } }"
        let editor = try edited(bare, nil, new)
        let words = editor.text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(words.contains(#"zoo: { baseURL: "http://mine" }"#), "\(words)")
        let added = #"authenticator: "k", secretHeaders: ["X-Zoo"]"#
        #expect(
            words.contains(#"parameters: { ids: "array?" } }, \#(added), query: { arrays: "repeated" }"#), "\(words)")
        #expect(words.contains(#"parameters: { ids: "string?" } }, \#(added) }"#), "\(words)")
        #expect(try DomainTable(json5: editor.text, environment: nil).serverNames.count == 2)
        #expect(
            editor.kept == [
                "zoo is in the table already, and stays as it is; the document says baseURL: \"https://zoo.example.org\", "
                    + "authenticator: \"k\", secretHeaders: [\"X-Zoo\"], query: { arrays: \"repeated\" }"
            ])
        // The next import does the same, and what the row of the domain says itself is not said again.
        let again = try TableEditor(editor.text, file: "t.json5", base: editor.table.json, new: new)
        #expect(again.text == editor.text && again.kept.isEmpty && again.table.json == editor.table.json)
        let own = "baseURL: \"http://mine\", authenticator: \"mine\", query: { arrays: \"repeated\" }"
        let beside = try edited("{ domains: { zoo: { \(own) } } }", nil, new)
        #expect(!beside.text.contains("\"k\"") && !beside.text.contains("ids: \"array?\" }, query"))
    }

    @Test(arguments: ["{ domains: ", "[]", #"{ servers: { "x": { domain: "nowhere", path: "x" } } }"#])
    func brokenTableIsNotTouched(_ text: String) {
        #expect(throws: ImportProblem.self) { try edited(text, nil, first) }
    }

    @Test(arguments: [
        (#"{ domains: { d: { baseURL: "https://d.example", methud: "GET" } } }"#, "unknown key \"methud\""),
        ("{ domains {} }", "expected \":\" after the key \"domains\""),
    ])
    func messageOfABrokenTableNamesItsPlace(_ text: String, _ reason: String) {
        do throws(ImportProblem) {
            _ = try edited(text, nil, first)
            Issue.record("a broken table was taken")
        } catch {
            #expect(error.message.contains(":1:") && error.message.contains(reason), "\(error.message)")
            #expect(!error.message.contains("inline") && !error.message.contains("\n"), "\(error.message)")
            #expect(error.message.hasSuffix("; correct the table, and import again"), "\(error.message)")
        }
    }

    @Test func stateIsReadAsItWasWritten() throws {
        var state = ImportState()
        #expect(state.choose(all: false, tags: [], operations: []) == nil)
        #expect(state.choose(all: false, tags: ["A"], operations: []) == .some(tags: ["A"], operations: []))
        state.table = first.json
        state.files = ["A.swift"]
        (state.keepsAdditional, state.title, state.overrides) = (false, "Zoo", "o.json5")
        var again = try ImportState(state.text, file: "s")
        #expect(again.text == state.text && again.keepsAdditional == false)
        #expect(again.choose(all: false, tags: ["B"], operations: ["x"]) == .some(tags: ["A", "B"], operations: ["x"]))
        #expect(again.choose(all: true, tags: [], operations: []) == .all)
        #expect(throws: ImportProblem.self) { try ImportState("{}", file: "s") }
    }
}

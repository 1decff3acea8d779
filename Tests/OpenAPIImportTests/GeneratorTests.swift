import Testing

@testable import OpenAPIImport

/// What the generators of documents write in ways of their own: Springdoc, ASP.NET, NestJS, FastAPI, drf-spectacular, and the
/// documents of Azure, Kubernetes, Datadog and Stripe.
@Suite struct GeneratorTests {
    /// A document with one call.
    private func call(_ operation: String, method: String = "post", more: String = "") -> String {
        #"{"openapi": "3.0.3", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example"}], "paths": {"/x": {"#
            + #""\#(method)": {"operationId": "x", \#(operation)}}}\#(more)}"#
    }

    private func body(_ contents: String...) -> String {
        #""requestBody": {"content": {\#(contents.joined(separator: ", "))}}, "responses": {"204": {}}"#
    }

    private func row(_ document: String) throws -> Node {
        try #require(try OpenAPIImporter.of(document).run(choosing: .all).table.rows.first).row
    }

    // MARK: Types

    /// As drf-spectacular writes enums that may be null.
    @Test(arguments: [
        ##"[{"$ref": "#/components/schemas/Kind"}, {"$ref": "#/components/schemas/NullEnum"}]"##,
        ##"[{"$ref": "#/components/schemas/Kind"}, {"$ref": "#/components/schemas/BlankEnum"}, {"$ref": "#/components/schemas/NullEnum"}]"##,
        ##"[{"$ref": "#/components/schemas/Kind"}, {"enum": ["c", null]}]"##,
    ]) func enumWithANullElsewhereIsOptional(_ choices: String) throws {
        let text = try OpenAPIImporter.swift(
            document(
                #"{"type": "object", "required": ["kind"], "properties": {"kind": {"oneOf": \#(choices)}}}"#,
                more: #""Kind": {"enum": ["a", "b"]}, "BlankEnum": {"enum": [""]}, "NullEnum": {"enum": [null]}"#))
        let line = try #require(text.split(separator: "\n").first { $0.contains("var kind: ") })
        #expect(line.hasSuffix("?"), "\(line)")
        #expect(text.contains(#"Self(rawValue: "b")"#))
    }

    @Test func objectOrANullElsewhereIsOptional() throws {
        let text = try OpenAPIImporter.swift(
            document(
                ##"{"type": "object", "properties": {"owner": {"anyOf": [{"$ref": "#/components/schemas/Owner"}, {"$ref": "#/components/schemas/Null"}]}}}"##,
                more: #""Owner": {"type": "object", "properties": {"a": {}}}, "Null": {"enum": [null]}"#))
        #expect(text.contains("var owner: Owner?"))
    }

    /// NestJS and Twilio write `type` beside the schema that they name.
    @Test func typeBesideAReferenceMakesNoCopy() throws {
        let reference = ##"{"$ref": "#/components/schemas/Owner"}"##
        let text = try OpenAPIImporter.swift(
            document(
                #"{"type": "object", "required": ["a", "b", "c"], "properties": {"a": {"type": "object", "allOf": [\#(reference)]}, "#
                    + #""b": {"type": ["object", "null"], "allOf": [\#(reference)]}, "c": {"type": "object", \#(reference.dropFirst())}}"#,
                more: #""Owner": {"type": "object", "properties": {"a": {}}}"#))
        for line in ["a: Owner", "b: Owner?", "c: Owner"] { #expect(text.contains("    var \(line)\n"), "\(line)") }
    }

    /// A child that adds nothing to its parent is a child nevertheless.
    @Test func componentWithOneAllOfIsATypeOfItsOwn() throws {
        let text = try OpenAPIImporter.swift(
            document(
                ##"{"$ref": "#/components/schemas/Shape"}"##,
                more:
                    #""Shape": {"type": "object", "discriminator": {"propertyName": "t"}, "properties": {"t": {"type": "string"}}}, "#
                    + ##""Dot": {"type": "object", "allOf": [{"$ref": "#/components/schemas/Shape"}]}"##))
        #expect(text.contains(#"case "Dot": self = .dot"#))
    }

    @Test func integerOrTextOfKubernetesIsAnyValue() throws {
        let text = try OpenAPIImporter.swift(
            document(#"{"type": "object", "properties": {"port": {"type": "string", "format": "int-or-string"}}}"#))
        #expect(text.contains("var port: JSONValue?"))
    }

    private static let azure = #"""
        {"swagger": "2.0", "info": {"title": "Azure"}, "host": "a.example", "paths": {"/x": {"get": {"operationId": "x",
        "responses": {"200": {"schema": {"$ref": "#/definitions/Codec"}}}}}},
        "x-ms-paths": {"/{c}?comp=acl": {"put": {"operationId": "setACL",
        "parameters": [{"name": "c", "in": "path", "required": true, "type": "string"}], "responses": {"200": {}}}}},
        "definitions": {
        "Codec": {"type": "object", "discriminator": "kind", "properties": {"kind": {"type": "string"}}},
        "Audio": {"allOf": [{"$ref": "#/definitions/Codec"}], "properties": {"a": {}}, "x-ms-discriminator-value": "#A"},
        "Aac": {"allOf": [{"$ref": "#/definitions/Audio"}], "properties": {"b": {}}, "x-ms-discriminator-value": "#A.aac"}}}
        """#

    @Test func childrenOfAzureHaveTheirValues() throws {
        let text = try OpenAPIImporter.swift(Self.azure)
        #expect(text.contains(##"case "#A": self = .audio(try .init(from: decoder))"##))
        #expect(text.contains(##"case "#A.aac": self = .aac(try .init(from: decoder))"##))
    }

    @Test func pathsOfAzureWithAQueryAreCalls() throws {
        let result = try OpenAPIImporter.of(Self.azure).run(choosing: .all)
        #expect(result.table.rows.map { $0.row["path"]?.string } == ["/x", "/{c}?comp=acl"])
    }

    // MARK: Names

    /// Three calls that share a parameter, a body and a reply without names of their own.
    private static let shared = #"""
        openapi: 3.0.3
        info: { title: Share }
        servers: [{ url: "https://s.example" }]
        paths:
          /a: { parameters: [{ $ref: "#/components/parameters/Sort" }], get: { operationId: listA, tags: [a], responses: { "200": { $ref: "#/components/responses/Page" } } } }
          /b:
            parameters: [{ $ref: "#/components/parameters/Sort" }]
            get: { operationId: listB, tags: [b], responses: { "200": { $ref: "#/components/responses/Page" } } }
            put: { operationId: putB, tags: [a], requestBody: { $ref: "#/components/requestBodies/New" }, responses: { "204": {} } }
            post: { operationId: addB, tags: [b], requestBody: { $ref: "#/components/requestBodies/New" }, responses: { "204": {} } }
          /broken: { get: { operationId: broken, tags: [c], responses: { "200": { $ref: "#/nowhere" } } } }
        components:
          parameters: { Sort: { name: sort, in: query, schema: { enum: [asc, desc] } } }
          requestBodies: { New: { content: { application/json: { schema: { type: array, items: { properties: { a: {} } } } } } } }
          responses: { Page: { description: "", content: { application/json: { schema: { properties: { items: { type: array, items: { properties: { id: {} } } } } } } } } }
        """#

    @Test func namesAreThoseOfTheWholeDocument() throws {
        func types(_ tags: String...) throws -> Set<String> {
            let files = try OpenAPIImporter.of(Self.shared).run(choosing: .some(tags: tags, operations: [])).files
            return files.reduce(into: []) { $0.formUnion(OpenAPIImporter.types(in: $1.text)) }
        }
        let unnamed: Set = ["ListAReply", "ListAReplyItem", "ListASort", "PutBContentItem"]
        #expect(try types("b") == unnamed.union(["ListB", "AddB"]))
        #expect(try types("a", "b") == unnamed.union(["ListA", "PutB", "ListB", "AddB"]))
    }

    /// What is not chosen is read for its names only.
    @Test func whatIsNotChosenWarnsOfNothing() throws {
        let result = try OpenAPIImporter.of(
            Self.shared.replacing("/a: {", with: "/a/{id}: {")
        ).run(choosing: .some(tags: ["b"], operations: []))
        #expect(result.warnings.isEmpty)
    }

    // MARK: Bodies

    @Test func fileOfOpenAPI31IsAFile() throws {
        let file = #"{"type": "string", "contentMediaType": "application/octet-stream"}"#
        let text = try OpenAPIImporter.swift(
            call(
                body(
                    #""multipart/form-data": {"schema": {"type": "object", "required": ["one", "many"], "properties": {"one": \#(file), "#
                        + #""many": {"type": "array", "items": \#(file)}, "maybe": {"anyOf": [\#(file), {"type": "null"}]}, "#
                        + #""any": {"contentMediaType": "image/png"}, "json": {"type": "string", "contentMediaType": "application/json"}, "#
                        + #""text": {"type": "string", "contentMediaType": "text/plain"}}}}"#)))
        for line in [
            "one: UploadFile", "many: [UploadFile]", "maybe: UploadFile?", "`any`: UploadFile?", "json: String?",
            "text: String?",
        ] { #expect(text.contains("    var \(line)\n"), "\(line)") }
    }

    @Test(
        arguments: [
            (["application/json-patch+json", "application/json", "text/json"], nil),
            (["application/json-patch+json", "application/merge-patch+json"], "application/merge-patch+json"),
            (["application/json-patch+json"], "application/json-patch+json"),
            (["application/vnd.a+json", "text/csv"], "application/vnd.a+json"),
        ] as [([String], String?)]) func bodyIsTheMostUsualJSON(_ types: [String], _ sent: String?) throws
    {
        let contents = types.map { #""\#($0)": {"schema": {"type": "object"}}"# }.joined(separator: ", ")
        #expect(try row(call(body(contents)))["headers"]?["Content-Type"]?.string == sent)
    }

    /// Stripe has an empty form in each call.
    @Test(arguments: ["get", "post", "delete"]) func formWithoutMembersIsNoBody(_ method: String) throws {
        let form =
            #""application/x-www-form-urlencoded": {"encoding": {}, "schema": {"type": "object", "properties": {}}}"#
        let result = try OpenAPIImporter.of(call(body(form), method: method)).run(choosing: .all)
        #expect(result.warnings.isEmpty && result.files[0].text.contains("struct X: RequestEntity {"))
        #expect(!result.files[0].text.contains("body"))
    }

    @Test func partsThatAreNoFormAreBytes() throws {
        let mixed = call(body(#""multipart/mixed": {"schema": {"type": "object", "properties": {"a": {}}}}"#))
        #expect(try OpenAPIImporter.swift(mixed).contains("var content: HTTPBody?"))
        #expect(try row(mixed)["headers"] == nil)
    }

    @Test func fileOfSwaggerIsNotAskedForAsJSON() throws {
        let text = #"""
            {"swagger": "2.0", "info": {"title": "Zoo"}, "host": "z.example", "produces": ["application/json", "image/png"], "paths":
            {"/x": {"parameters": [{"name": "b", "in": "body", "schema": {"type": "object", "properties": {"old": {}}}}],
            "post": {"operationId": "x", "parameters": [{"name": "b", "in": "body", "schema": {"type": "object", "properties": {"new": {}}}}],
            "responses": {"200": {"schema": {"type": "file"}}}}}}}
            """#
        #expect(try row(text)["headers"] == nil)
        let swift = try OpenAPIImporter.swift(text)
        // The body of the call, not that of the path.
        #expect(swift.contains("typealias Model = Data") && swift.contains("var new:") && !swift.contains("var old:"))
    }

    // MARK: Told

    @Test func schemesThatAreNeededTogetherAreTold() throws {
        func warnings(_ security: String) throws -> [String] {
            let schemes = ["A", "B"].map { #""\#($0)": {"type": "apiKey", "in": "header", "name": "X-\#($0)"}"# }
            return try OpenAPIImporter.of(
                call(
                    #""security": \#(security), "responses": {"204": {}}"#,
                    more: #", "components": {"securitySchemes": {\#(schemes.joined(separator: ", "))}}"#)
            ).run(choosing: .all).warnings.map(\.message)
        }
        #expect(
            try warnings(#"[{"A": [], "B": []}]"#) == [
                "A and B are needed together, and a row names one authenticator: let that of A send all of them"
            ])
        #expect(try warnings(#"[{"A": []}, {"B": []}]"#).isEmpty)
        #expect(try warnings(#"[{"A": [], "B": []}, {}]"#).isEmpty)
    }

    /// Springdoc says nothing of the objects of a query, whose members Spring reads by their own names.
    @Test(arguments: [("", true), (#""style": "form", "#, false), (#""style": "deepObject", "#, false)])
    func objectInAQueryWithoutAStyleIsTold(_ style: String, _ isTold: Bool) throws {
        let parameter =
            #"{"name": "page", "in": "query", \#(style)"schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}"#
        let result = try OpenAPIImporter.of(
            call(#""parameters": [\#(parameter)], "responses": {"204": {}}"#, method: "get")
        ).run(choosing: .all)
        #expect(result.warnings.contains { $0.message.contains("how the object page is written") } == isTold)
    }
}

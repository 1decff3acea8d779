import Testing

@testable import OpenAPIImport

/// What another version of a document changes.
@Suite struct DifferenceTests {
    private func changes(_ edit: (String) -> String) throws -> [String] {
        let text = try testFile("Documents/library.yaml")
        let difference = try DocumentDifference(from: .of(text), to: .of(edit(text)))
        return difference.changes.map { "\($0.isBreaking ? "breaking" : "harmless") \($0.subject): \($0.text)" }
    }

    @Test func sameDocumentHasNoChange() throws { #expect(try changes { $0 }.isEmpty) }

    /// Ids that are repeated, and a name at three places.
    @Test func sameNamesTwiceInADocumentAreNoChange() throws {
        let call = { (path: String, type: String) in
            let places = ["path", "query", "header"].map {
                #"{"name": "id", "in": "\#($0)", "required": \#($0 == "path"), "schema": {"type": "\#(type)"}}"#
            }
            return
                #""\#(path)/{id}": {"post": {"operationId": "do", "parameters": [\#(places.joined(separator: ", "))], "#
                + #""requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": "#
                + #"{"\#(type)": {"type": "\#(type)"}}}}}}, "responses": {"200": {}}}}"#
        }
        let text =
            #"{"openapi": "3.1.0", "info": {"title": "Zoo"}, "servers": [{"url": "https://zoo.example"}], "paths": {"#
            + call("/a", "string") + ", " + call("/b", "integer") + "}}"
        #expect(try DocumentDifference(from: .of(text), to: .of(text)).changes == [])
        let moved = try DocumentDifference(from: .of(text), to: .of(text.replacing("/b/{id}", with: "/c/{id}")))
        #expect(moved.changes.map(\.text) == ["the call is gone", "the call is new: POST /c/{id.path}"])
    }

    @Test(arguments: [
        (
            "operationId: shelves", "operationId: racks",
            ["breaking Shelves: the call is Racks now, and its row library.racks"]
        ),
        ("/shelves:", "/racks:", ["breaking Shelves: GET /shelves is GET /racks"]),
        (
            "name: author, in: query,", "name: author, required: true, in: query,",
            ["breaking ListBooks: author is required now"]
        ),
        ("explode: false, ", "", ["breaking ListBooks: the array years is written as repeated, was comma"]),
        (
            "enum: [novel, poetry, default]", "enum: [novel, poetry, default, essay]",
            ["harmless Genre: the value \"essay\" is new"]
        ),
        ("days: { type: integer", "days: { type: string", ["breaking Loan: days is String, was Int"]),
        ("required: [books]", "required: []", ["breaking ListBooksReply: books is optional now"]),
        (
            "fine: { type: number }", "fine: { type: number }\n        by: { type: string }",
            ["harmless Returned: by is new"]
        ),
        (
            "Book\" } } }\n  /books/{id}", "Author\" } } }\n  /books/{id}",
            ["breaking AddBook: the model is Author, was Book"]
        ),
        ("required: [book]\n", "required: [book, who]\n", ["breaking Loan: who is new, and required"]),
    ]) func changeIsToldWithItsWeight(_ old: String, _ new: String, _ expected: [String]) throws {
        let found = try changes { text in
            let edited = text.replacing(old, with: new)
            return new.contains("who")
                ? edited.replacing(
                    "book: { type: string }\n        days",
                    with: "book: { type: string }\n        who: { type: string }\n        days") : edited
        }
        #expect(found == expected)
    }

    /// A document with one call: its path, what it sends, and what it has in a reply and a failure.
    private struct Shop {
        var path = "/orders"
        var method = "post"
        var server = "https://shop.example"
        var security = ""
        var parameters = ""
        var body = #"{"type": "object", "properties": {"a": {"type": "string"}}}"#
        var bodyType = "application/json"
        var reply = #"{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}"#
        var replyType = "application/json"
        var more = ""
        var schemas = ""

        var text: String {
            """
            {"openapi": "3.1.0", "info": {"title": "Shop"}, "servers": [{"url": "\(server)"}], "paths": {"\(path)": {"\(method)": {
            "operationId": "order", \(security) "parameters": [\(parameters)],
            "requestBody": {"content": {"\(bodyType)": {"schema": \(body)}}},
            "responses": {"200": {"content": {"\(replyType)": {"schema": \(reply)}}}\(more)}}}},
            "components": {"securitySchemes": {"Key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
            "schemas": {\(schemas)}}}
            """
        }
    }

    private func changes(_ base: Shop = Shop(), _ edit: (inout Shop) -> Void) throws -> [String] {
        var other = base
        edit(&other)
        let difference = try DocumentDifference(from: .of(base.text), to: .of(other.text))
        return difference.changes.map { "\($0.isBreaking ? "breaking" : "harmless") \($0.subject): \($0.text)" }
    }

    /// A schema, another one, and what the change means for who sends it and for who receives it.
    @Test(arguments: [
        (#"{"type": "string", "format": "uuid"}"#, #"{"type": "string"}"#, "is String, was Verbatim<UUID>", true, true),
        (
            #"{"type": "string", "format": "email"}"#, #"{"type": "string", "format": "hostname"}"#,
            "format is \"hostname\", was \"email\"", true, false
        ),
        (#"{"type": "integer"}"#, #"{"type": "integer", "minimum": 1}"#, "minimum is 1", true, false),
        (
            #"{"type": "integer", "minimum": 1}"#, #"{"type": "integer", "minimum": 0}"#, "minimum is 0, was 1", false,
            false
        ),
        (
            #"{"type": "string", "maxLength": 9}"#, #"{"type": "string", "maxLength": 8}"#, "maxLength is 8, was 9",
            true, false
        ),
        (
            #"{"type": "string", "maxLength": 9}"#, #"{"type": "string"}"#, "there is no maxLength any more, was 9",
            false,
            false
        ),
        (#"{"type": "string"}"#, #"{"type": "string", "pattern": "^x"}"#, "pattern is \"^x\"", true, false),
        (#"{"type": "integer"}"#, #"{"type": "integer", "default": 3}"#, "default is 3", false, false),
        (
            #"{"type": "array", "items": {"type": "string"}}"#,
            #"{"type": "array", "items": {"type": ["string", "null"]}}"#, "is [String?], was [String]", true, true
        ),
        (
            #"{"type": "array", "items": {"type": "string"}}"#,
            #"{"type": "array", "items": {"type": "string", "maxLength": 3}}"#, "items: maxLength is 3", true, false
        ),
        (
            #"{"type": "integer", "format": "int32"}"#, #"{"type": "integer", "format": "int64"}"#,
            #"format is "int64", was "int32""#, false, false
        ),
        (
            #"{"type": "integer", "format": "int64"}"#, #"{"type": "integer", "format": "int32"}"#,
            #"format is "int32", was "int64""#, true, false
        ),
        (
            #"{"type": "number", "format": "float"}"#, #"{"type": "number", "format": "double"}"#,
            #"format is "double", was "float""#, false, false
        ),
        (
            #"{"type": "integer", "multipleOf": 6}"#, #"{"type": "integer", "multipleOf": 3}"#,
            "multipleOf is 3, was 6", false, false
        ),
        (
            #"{"type": "integer", "multipleOf": 6}"#, #"{"type": "integer", "multipleOf": 4}"#,
            "multipleOf is 4, was 6", true, false
        ),
        (#"{"type": "string"}"#, #"{"type": "string", "minLength": 0}"#, "minLength is 0", false, false),
        (#"{"type": "integer"}"#, #"{"type": "integer", "minimum": 0}"#, "minimum is 0", true, false),
    ]) func boundsBreakWhoSends(_ old: String, _ new: String, _ text: String, _ sent: Bool, _ received: Bool) throws {
        func word(_ breaks: Bool) -> String { breaks ? "breaking" : "harmless" }
        let object = { (schema: String) in #"{"type": "object", "properties": {"a": \#(schema)}}"# }
        let sending = try changes(Shop(body: object(old))) { $0.body = object(new) }
        let receiving = try changes(Shop(reply: object(old))) { $0.reply = object(new) }
        let line = text.hasPrefix("is ") ? "a \(text)" : "a: \(text)"
        #expect(sending == ["\(word(sent)) Order: \(line)"])
        #expect(receiving == ["\(word(received)) OrderReply: \(line)"])
    }

    private static let key = #"{"type": "apiKey", "in": "header", "name": "X-Key"}"#
    private static let oauth =
        #"{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://a.example/t"}}}"#

    @Test(arguments: [
        (
            key, key.replacing("X-Key", with: "X-Key2"),
            "Key is a key in the header X-Key2, was a key in the header X-Key"
        ),
        (key, key.replacing("header", with: "query"), "Key is a key in the query X-Key, was a key in the header X-Key"),
        (key, #"{"type": "http", "scheme": "bearer"}"#, "Key is HTTP bearer, was a key in the header X-Key"),
        (
            oauth, oauth.replacing("/t", with: "/token"),
            "the addresses of Key are https://a.example/token, were https://a.example/t"
        ),
    ]) func anotherWayOfAuthenticationBreaks(_ old: String, _ new: String, _ text: String) throws {
        func changes(_ security: String) throws -> DocumentDifference {
            let shop = Shop(security: #""security": \#(security),"#).text
            return try DocumentDifference(
                from: .of(shop.replacing(Self.key, with: old)), to: .of(shop.replacing(Self.key, with: new)))
        }
        let difference = try changes(#"[{"Key": []}]"#)
        #expect(difference.changes.map(\.text) == [text])
        #expect(difference.changes.allSatisfy { $0.isBreaking && $0.subject == "shop" && $0.rows == ["shop.order"] })
        // A scheme that no call uses does not count.
        #expect(try changes("[{}]").changes.isEmpty)
    }

    @Test func valueThatIsGoneBreaksWhoSends() throws {
        let (old, new) = (#"{"enum": ["x", "y"]}"#, #"{"enum": ["y", "z"]}"#)
        let object = { (schema: String) in #"{"type": "object", "properties": {"a": \#(schema)}}"# }
        let sending = try changes(Shop(body: object(old))) { $0.body = object(new) }
        #expect(sending == [#"harmless OrderA: the value "z" is new"#, #"breaking OrderA: the value "x" is gone"#])
        let receiving = try changes(Shop(reply: object(old))) { $0.reply = object(new) }
        #expect(
            receiving == [
                #"harmless OrderReplyA: the value "z" is new"#, #"harmless OrderReplyA: the value "x" is gone"#,
            ])
    }

    @Test func caseThatIsGoneBreaksWhoSends() throws {
        let schemas = ["A", "B", "C"].map {
            #""\#($0)": {"type": "object", "required": ["\#($0)"], "properties": {"\#($0)": {}}}"#
        }
        .joined(separator: ", ")
        let union = { (names: [String]) in
            #"{"type": "object", "properties": {"u": {"oneOf": ["#
                + names.map { ##"{"$ref": "#/components/schemas/\##($0)"}"## }.joined(separator: ", ") + "]}}}"
        }
        let sending = try changes(Shop(body: union(["A", "B"]), schemas: schemas)) { $0.body = union(["B", "C"]) }
        #expect(sending == ["harmless OrderU: it may be C", "breaking OrderU: it is A no more"])
        let receiving = try changes(Shop(reply: union(["A", "B"]), schemas: schemas)) { $0.reply = union(["B", "C"]) }
        #expect(receiving == ["harmless OrderReplyU: it may be C", "harmless OrderReplyU: it is A no more"])
    }

    @Test func memberThatIsNeededBreaksWhoSends() throws {
        let required =
            #"{"type": "object", "required": ["id", "new"], "properties": {"id": {"type": "string"}, "new": {"type": "integer"}}}"#
        #expect(try changes { $0.reply = required } == ["harmless OrderReply: new is new"])
        let optional = #"{"type": "object", "properties": {"id": {"type": "string"}}}"#
        #expect(try changes { $0.reply = optional } == ["breaking OrderReply: id is optional now"])
        let needed = #"{"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}"#
        #expect(try changes { $0.body = needed } == ["breaking Order: a is required now"])
        let constant = { (value: String) in
            #"{"type": "object", "required": ["k"], "properties": {"k": {"const": "\#(value)"}}}"#
        }
        #expect(
            try changes(Shop(body: constant("x"))) { $0.body = constant("y") } == [
                #"breaking Order: k is "y", was "x""#
            ])
    }

    @Test func nullThatIsGoneBreaksWhoSends() throws {
        let (null, text) = (
            #"{"type": "object", "properties": {"a": {"type": ["string", "null"]}}}"#,
            #"{"type": "object", "properties": {"a": {"type": "string"}}}"#
        )
        #expect(try changes(Shop(body: null)) { $0.body = text } == ["breaking Order: a may not be null any more"])
        #expect(try changes(Shop(body: text)) { $0.body = null } == ["harmless Order: a may be null now"])
        #expect(
            try changes(Shop(reply: null)) { $0.reply = text } == ["harmless OrderReply: a may not be null any more"])
    }

    @Test func parametersAreFollowedWhereTheyGo() throws {
        let query = #"{"name": "q", "in": "query", "schema": {"type": "string"}}"#
        let header = #"{"name": "q", "in": "header", "schema": {"type": "string"}}"#
        let needed = #"{"name": "q", "in": "query", "required": true, "schema": {"type": "string"}}"#
        #expect(
            try changes(Shop(parameters: query)) { $0.parameters = header } == [
                "breaking Order: q is in the header, was in the query"
            ])
        #expect(
            try changes(Shop(parameters: query)) {
                ($0.parameters, $0.body) = (
                    "",
                    #"{"type": "object", "properties": {"a": {"type": "string"}, "q": {"type": "string"}}}"#
                )
            } == ["breaking Order: q is in the body, was in the query"])
        let bounded = #"{"name": "q", "in": "query", "schema": {"type": "string", "maxLength": 9}}"#
        #expect(
            try changes(Shop(parameters: query)) { $0.parameters = bounded } == [
                "breaking Order: q: maxLength is 9"
            ])
        #expect(try changes { $0.parameters = query } == ["harmless Order: q is new"])
        #expect(try changes { $0.parameters = needed } == ["breaking Order: q is new, and required"])
        #expect(try changes(Shop(parameters: query)) { $0.parameters = "" } == ["breaking Order: q is gone"])
    }

    @Test func callIsFollowedByItsName() throws {
        #expect(try changes { $0.path = "/v2/orders" } == ["breaking Order: POST /orders is POST /v2/orders"])
        #expect(try changes { $0.method = "put" } == ["breaking Order: POST /orders is PUT /orders"])
        #expect(
            try changes { $0.server = "https://new.example" } == [
                "breaking shop: the address is https://new.example, was https://shop.example"
            ])
    }

    @Test func needOfATokenBreaks() throws {
        let secured = #""security": [{"Key": []}],"#
        #expect(try changes { $0.security = secured } == ["breaking Order: the authenticator is Key"])
        #expect(
            try changes(Shop(security: secured)) { $0.security = "" } == [
                "harmless Order: no authenticator is needed, was Key"
            ])
    }

    @Test func secondSchemeOfASetIsCompared() throws {
        let (one, both) = (#""security": [{"Key": []}],"#, #""security": [{"Key": [], "Other": []}],"#)
        #expect(
            try changes(Shop(security: one)) { $0.security = both } == [
                "breaking Order: the authenticator is Key and Other, was Key"
            ])
        #expect(
            try changes(Shop(security: both)) { $0.security = one } == [
                "harmless Order: the authenticator is Key, was Key and Other"
            ])
    }

    @Test func stylesOfObjectsAreCompared() throws {
        let query = { (style: String) in
            #"{"name": "f", "in": "query", "style": "\#(style)", "schema": {"type": "object", "properties": {"b": {}}}}"#
        }
        #expect(
            try changes(Shop(parameters: query("form"))) { $0.parameters = query("deepObject") } == [
                "breaking Order: the object f is written as brackets, was repeated"
            ])
    }

    @Test func encodingOfAFormIsCompared() throws {
        let list = #"{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}"#
        let shop = Shop(body: list, bodyType: "application/x-www-form-urlencoded")
        #expect(
            try changes(shop) { $0.body = list + #", "encoding": {"a": {"explode": false}}"# } == [
                "breaking Order: the array a is written as comma, was repeated"
            ])
    }

    /// Where the bounds are not those of a member: in a list that is the body, a dictionary, and a choice.
    @Test(arguments: [
        (#"{"type": "array", "maxItems": 9, "items": {"type": "string"}}"#, "9", "content: maxItems is 2, was 9"),
        (
            #"{"type": "array", "items": {"type": "string", "maxLength": 9}}"#, "9",
            "content: items: maxLength is 2, was 9"
        ),
        (
            #"{"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}}}}"#,
            "9", "m: values: maxLength is 2, was 9"
        ),
        (
            #"{"type": "object", "properties": {"u": {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 9}]}}}"#,
            "9", "u: string: maxLength is 2, was 9"
        ),
    ]) func boundsWithinAreCompared(_ body: String, _ old: String, _ text: String) throws {
        let found = try changes(Shop(body: body)) { $0.body = body.replacing(old, with: "2") }
        #expect(found == ["breaking Order: \(text)"])
    }

    @Test func scopesAreCompared() throws {
        func secured(_ scopes: String) -> String { #""security": [{"Key": [\#(scopes)]}, {}],"# }
        #expect(
            try changes(Shop(security: secured(#""read""#))) { $0.security = secured(#""write""#) } == [
                "breaking Order: the scope write is needed", "harmless Order: the scope read is not needed any more",
            ])
    }

    @Test func mediaTypesAreCompared() throws {
        let form = try changes { $0.bodyType = "application/x-www-form-urlencoded" }
        #expect(form == ["breaking Order: the body is application/x-www-form-urlencoded, was application/json"])
        let both = try changes {
            $0.bodyType =
                #"application/json": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}, "text/csv"#
        }
        #expect(both == ["harmless Order: the body is application/json, text/csv, was application/json"])
        #expect(
            try changes { $0.replyType = "text/plain" }.first == "breaking Order: the model is String, was OrderReply")
    }

    @Test func failuresAreCompared() throws {
        let failure = { (schema: String) in #", "404": {"content": {"application/json": {"schema": \#(schema)}}}"# }
        let empty = #", "404": {"description": ""}"#
        #expect(try changes { $0.more = empty } == ["harmless Order: the status 404 is new"])
        #expect(try changes(Shop(more: empty)) { $0.more = "" } == ["harmless Order: the status 404 is gone"])
        #expect(
            try changes(Shop(more: failure(#"{"type": "string"}"#))) { $0.more = failure(#"{"type": "integer"}"#) } == [
                "breaking Order: 404 has Int, had String"
            ])
    }

    @Test func changeNamesTheRowsThatItConcerns() throws {
        let text = try testFile("Documents/library.yaml")
        let difference = try DocumentDifference(
            from: .of(text), to: .of(text.replacing("required: [message]", with: "required: []")))
        #expect(difference.changes.map(\.rows) == [["library.listBooks"]])
    }
}

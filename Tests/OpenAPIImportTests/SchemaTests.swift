import Testing

@testable import OpenAPIImport

/// What schemas become in Swift.
@Suite struct SchemaTests {
    private func swift(_ schema: String, more: String = "") throws -> String {
        try OpenAPIImporter.swift(document(schema, more: more))
    }

    @Test(arguments: [
        (#"{"type": ["string", "null"]}"#, "String?"), (#"{"type": "integer", "format": "int32"}"#, "Int?"),
        (#"{"type": "integer", "format": "uint64"}"#, "UInt64?"),
        (#"{"type": "number", "format": "uint64"}"#, "UInt64?"),
        (#"{"type": "integer", "minimum": 0, "maximum": 18446744073709551615}"#, "UInt64?"),
        (#"{"type": "integer", "minimum": -1, "maximum": 18446744073709551615}"#, "Decimal?"),
        (#"{"type": "integer", "maximum": 9223372036854776000}"#, "Int?"),
        (#"{"type": "integer", "format": "int64", "maximum": 18446744073709551615}"#, "Int?"),
        (#"{"type": "integer", "format": "bigint"}"#, "Decimal?"), (#"{"enum": [1, 18446744073709551615]}"#, "UInt64?"),
        (#"{"oneOf": [{"type": "integer", "format": "uint64"}, {"type": "integer"}]}"#, "Decimal?"),
        (#"{"type": "number", "format": "decimal"}"#, "Decimal?"),
        (#"{"type": "string", "format": "date"}"#, "Timestamp.Day?"),
        (#"{"type": "string", "format": "date-time"}"#, "Timestamp?"),
        (#"{"type": "string", "format": "rfc2822"}"#, "Timestamp.Mail?"),
        (#"{"type": "integer", "format": "unix-time"}"#, "Timestamp.Unix?"),
        (#"{"type": "string", "format": "uuid"}"#, "Verbatim<UUID>?"),
        (#"{"type": "string", "format": "uri"}"#, "Verbatim<URL>?"),
        (#"{"type": "string", "format": "byte"}"#, "Verbatim<Data>?"),
        (#"{"type": "string", "format": "time"}"#, "String?"), (#"{"type": "object"}"#, "[String: JSONValue]?"),
        (#"{"type": "object", "additionalProperties": {"type": ["integer", "null"]}}"#, "[String: Int?]?"),
        (#"{"type": "array", "items": {"type": "boolean"}}"#, "[Bool]?"), ("{}", "JSONValue?"), ("true", "JSONValue?"),
        (#"{"type": "array", "items": {"type": ["string", "null"]}}"#, "[String?]?"),
        (#"{"anyOf": [{"type": "integer"}, {"type": "null"}]}"#, "Int?"),
        (#"{"type": "string", "format": "uuid", "example": "not one"}"#, "Verbatim<UUID>?"),
        (#"{"oneOf": [{"type": "integer"}, {"type": "number"}]}"#, "Double?"),
        (#"{"anyOf": [{"type": "string", "format": "uri"}, {"type": "string"}]}"#, "String?"),
    ]) func memberHasTheTypeOfItsSchema(_ schema: String, _ type: String) throws {
        let text = try swift(#"{"type": "object", "properties": {"a": \#(schema)}}"#)
        #expect(text.contains("    var a: \(type)\n"))
    }

    @Test(arguments: [
        ("", "    var a: String?  // snowflake\n"),
        (#", "description": "Who.""#, "    /// Who. Format: snowflake.\n    var a: String?\n"),
        (#", "default": "1""#, "    /// Format: snowflake. Default \"1\".\n    var a: String?\n"),
    ]) func commentNamesAFormatWithoutATypeOfItsOwn(_ more: String, _ expected: String) throws {
        let text = try swift(
            #"{"type": "object", "properties": {"a": {"type": "string", "format": "snowflake"\#(more)}}}"#)
        #expect(text.contains(expected))
    }

    @Test func requiredNullIsWritten() throws {
        let text = try swift(
            #"{"type": "object", "required": ["a"], "properties": {"a": {"type": ["string", "null"]}}}"#)
        #expect(text.contains("try members.encode(self.a, forKey: .a)"))
    }

    @Test func singleValueIsConstant() throws {
        let text = try swift(
            #"{"type": "object", "required": ["a", "n"], "properties": {"a": {"const": "x\"y"}, "n": {"enum": [7]}}}"#)
        #expect(text.contains("var a = \"x\\\"y\"\n") && text.contains("var n = 7\n"))
    }

    @Test func enumIsOpen() throws {
        let text = try swift(#"{"type": "string", "enum": ["a b", "a-b", "in", "+1", "", null]}"#)
        for line in [
            "struct GetXReply: KnownValues {", "aB = Self(rawValue: \"a b\")",
            "aB2 = Self(rawValue: \"a-b\")", "`in` = Self(rawValue: \"in\")", "empty = Self(rawValue: \"\")",
            "static let knownValues: [Self] = [aB, aB2, `in`, plus1, empty]",
        ] { #expect(text.contains(line)) }
        #expect(text.contains("typealias Model = GetXReply?"))
    }

    /// YAML without quotes has numbers and Booleans where a text is meant.
    @Test(arguments: [
        (#""type": "string", "enum": [1, 2.10, true, null]"#, "GetXReplyA?", ["\"1\"", "\"2.10\"", "\"true\""]),
        (#""type": ["string", "null"], "enum": [3]"#, "String?", []),
        (
            #""type": "string", "oneOf": [{"title": "One", "const": 1}, {"const": "2"}]"#, "GetXReplyA?",
            ["\"1\"", "\"2\""]
        ),
        (#""type": "integer", "enum": ["1", "-2"]"#, "GetXReplyA?", ["1", "-2"]),
        (#""type": "number", "enum": ["0.5"]"#, "Double?", []), (#""type": "boolean", "enum": ["true"]"#, "Bool?", []),
        (#""type": ["string", "integer"], "enum": ["1", "a"]"#, "GetXReplyA?", ["\"1\"", "\"a\""]),
        (#""type": "boolean", "enum": ["yes", "no"]"#, "JSONValue?", []),
        (#""type": "integer", "enum": ["1", "a"]"#, "JSONValue?", []),
        (#""type": "array", "items": {"type": "integer"}, "enum": ["1", "a"]"#, "[Int]?", []),
    ]) func valuesAreWhatTheTypeSays(_ schema: String, _ type: String, _ values: [String]) throws {
        let result = try OpenAPIImporter.of(
            document("{\"type\": \"object\", \"properties\": {\"a\": {\(schema)}}}")
        ).run(choosing: .all)
        let text = result.files.map(\.text).joined()
        #expect(text.contains("    var a: \(type)\n"))
        for value in values { #expect(text.contains(" = Self(rawValue: \(value))\n")) }
        let isSaid = result.warnings.contains { $0.message.contains("the values of enum") }
        #expect(isSaid != schema.contains(#"["string", "integer"]"#))
    }

    @Test func singleValueIsAConstantOfTheType() throws {
        let text = try swift(
            #"{"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "enum": [3]}}}"#)
        #expect(text.contains("    var a = \"3\"\n"))
    }

    @Test func namedConstantsAreOneEnum() throws {
        let text = try swift(
            #"{"type": "integer", "oneOf": [{"title": "PLAYING", "const": 0}, {"title": "STREAMING", "const": 1}]}"#)
        #expect(text.contains("static let playing = Self(rawValue: 0)") && text.contains("var rawValue: Int"))
    }

    @Test func inheritedMembersAndTheirRequiredAreThere() throws {
        let text = try swift(
            ##"{"allOf": [{"$ref": "#/components/schemas/A"}, {"required": ["a"], "properties": {"b": {"type": "string"}}}]}"##,
            more: #""A": {"type": "object", "properties": {"a": {"type": "string"}}}"#)
        #expect(text.contains("    var a: String\n") && text.contains("    var b: String?\n"))
    }

    /// With each level, twice as many ways lead to the last schema.
    @Test(.timeLimit(.minutes(1)), arguments: ["allOf", "oneOf", "anyOf"])
    func partsThatAreRepeatedCountOnce(_ word: String) throws {
        func part(_ name: String) -> String { ##"{"$ref": "#/components/schemas/\##(name)"}"## }
        let schemas = (0..<60).flatMap { level in
            ["A", "B"].map {
                #""\#($0)\#(level)": {"\#(word)": [\#(part("A\(level + 1)")), \#(part("B\(level + 1)"))]}"#
            }
        }
        let last = [("A60", "x"), ("B60", "y")].map { name, member in
            #""\#(name)": {"type": "object", "required": ["\#(member)"], "properties": {"\#(member)": {"type": "string"}}}"#
        }
        let text = try swift(part("A0"), more: (schemas + last).joined(separator: ", "))
        #expect(text.contains("    var x: String\n") && text.contains("    var y: String\n"))
    }

    /// `true` means the same as nothing. Where it is the habit of a document, it says nothing of a schema.
    @Test(arguments: [(9, true), (10, false)])
    func anyMembersCountUnlessMostSchemasHaveThem(_ count: Int, _ isThere: Bool) throws {
        let schemas = (1...count).map {
            #""S\#($0)": {"type": "object", "additionalProperties": true, "properties": {"a": {"type": "string"}}}"#
        }
        let text = try swift(##"{"$ref": "#/components/schemas/S1"}"##, more: schemas.joined(separator: ", "))
        #expect(text.contains("var additional: [String: JSONValue]") == isThere)
    }

    @Test func habitOfADocumentIsDecidedOnce() throws {
        let text = { (count: Int) in
            let schemas = (1...count).map {
                #""S\#($0)": {"type": "object", "additionalProperties": true, "properties": {"a": {"type": "string"}}}"#
            }
            return document(##"{"$ref": "#/components/schemas/S1"}"##, more: schemas.joined(separator: ", "))
        }
        let first = try OpenAPIImporter.of(text(9)).run(choosing: .all)
        let update = try OpenAPIImporter.of(text(10)).run(choosing: .all, keepsAdditional: first.keepsAdditional)
        #expect(first.keepsAdditional && update.keepsAdditional)
        #expect(update.files.map(\.text).joined().contains("var additional: [String: JSONValue]"))
        #expect(try DocumentDifference(from: .of(text(9)), to: .of(text(10))).changes == [])
    }

    @Test func schemasOfAFileHaveItsNames() throws {
        let text = try OpenAPIImporter.swift(
            document(##"{"oneOf": [{"$ref": "pets.yaml#/big_cat"}, {"$ref": "pets.yaml#/dog"}]}"##),
            files: [
                "pets.yaml": """
                big_cat: { type: object, required: [claws], properties: { claws: { type: integer } } }
                dog: { type: object, required: [tail], properties: { tail: { type: string } } }
                """
            ])
        #expect(text.contains("case bigCat(BigCat)") && text.contains("case dog(Dog)"))
        #expect(text.contains("struct BigCat: Codable") && text.contains("struct Dog: Codable"))
    }

    @Test func componentsOfOtherFilesHaveTheirNamesAndChildren() throws {
        let text = try OpenAPIImporter.swift(
            document(
                ##"{"$ref": "#/components/schemas/Pet"}"##,
                more: ##""Pet": {"$ref": "s/pet.yaml"}, "Cat": {"$ref": "s/cat.yaml"}, "Box": {"$ref": "s/box.yaml"}"##),
            files: [
                "s/pet.yaml":
                    "{ type: object, discriminator: { propertyName: kind }, properties: { kind: { type: string } } }",
                "s/cat.yaml": "{ allOf: [{ $ref: pet.yaml }, { properties: { box: { $ref: box.yaml } } }] }",
                "s/box.yaml": "{ type: object, properties: { size: { type: integer } } }",
            ])
        #expect(text.contains("enum Pet:") && text.contains("case cat(Cat)") && text.contains("var box: Box?"))
        #expect(text.contains(#"case "Cat": self = .cat(try .init(from: decoder))"#))
        #expect(text.contains("struct Cat:") && text.contains("struct Box:") && !text.contains("2"))
    }

    @Test(arguments: [
        ("date", "date"), ("date<", "dateLess"), ("date>=", "dateGreaterEqual"), ("+1", "plus1"), ("-1", "minus1"),
        ("1", "value1"), ("<", "less"), ("user_ids", "userIDs"),
    ]) func namesKeepTheSignsThatTellThemApart(_ name: String, _ expected: String) {
        #expect(SwiftName.member(name) == expected)
    }

    @Test(arguments: [
        ("MEMBER_BAN_ADD", "memberBanAdd"), ("GUILD_SKU_ID", "guildSkuID"), ("GET_HTTP_URLS", "getHTTPURLs"),
        ("guildVIPs", "guildVIPs"), ("USER2", "user2"),
    ]) func namesInCapitalsHaveNoOtherAcronyms(_ name: String, _ expected: String) {
        #expect(SwiftName.member(name) == expected)
    }

    @Test(arguments: [
        ("An object in the form:\n\n`{}`\n\nMore.", "An object in the form: `{}`"),
        ("One of:\n- a\n- b", "One of …"), ("Limits. For example:\n```\n{}\n```", "Limits."),
        ("In short:\n\nIt is long.", "In short …"), ("# Title\n\nText.", "Title"),
    ]) func commentsDoNotEndWithAColon(_ description: String, _ expected: String) {
        #expect(Comments.short(description) == expected)
    }

    @Test func variantHasTheNameOfItsTagIfItsSchemaSaysThatToo() throws {
        func schema(_ tag: String) -> String {
            #"{"type": "object", "required": ["kind"], "properties": {"kind": {"const": "\#(tag)"}}}"#
        }
        let text = try swift(
            ##"{"oneOf": [{"$ref": "#/components/schemas/RoleSelectValue"}, {"$ref": "#/components/schemas/Other"}]}"##,
            more: #""RoleSelectValue": \#(schema("role")), "Other": \#(schema("x1"))"#)
        #expect(text.contains("case role(RoleSelectValue)") && text.contains("case other(Other)"))
        #expect(text.contains(#"case "role": self = .role(try .init(from: decoder))"#))
    }

    @Test func wrappedReferenceIsTheTypeItself() throws {
        let text = try swift(
            ##"{"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/components/schemas/A"}], "nullable": true}}}"##,
            more: #""A": {"type": "object", "properties": {"a": {"type": "string"}}}"#)
        #expect(text.contains("var a: A?") && !text.contains("struct GetXReplyA"))
    }

    @Test func valuesBesideTheReferenceToThemAreThatType() throws {
        let reference = ##""allOf": [{"$ref": "#/components/schemas/Color"}]"##
        let text = try swift(
            #"""
            {"type": "object", "properties": {"a": {"enum": ["red", "blue", null], \#(reference), "nullable": true},
            "b": {"enum": ["red"], \#(reference)}}}
            """#,
            more: #""Color": {"type": "string", "enum": ["red", "blue"]}"#)
        #expect(text.contains("var a: Color?\n") && !text.contains("GetXReplyA"))
        #expect(!text.contains("var b: Color"))
    }

    @Test(arguments: [
        ("", "enum GetXReplyA:", "typealias GetXReplyB = GetXReplyA"),
        (
            ##", "Pet": {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]}"##,
            "enum Pet:", "typealias GetXReplyB = Pet"
        ),
    ]) func unionOfTheSameObjectsIsOneType(_ more: String, _ union: String, _ alias: String) throws {
        let choices = ##"{"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]}"##
        let scalars = #"{"oneOf": [{"type": "string"}, {"type": "integer"}]}"#
        let pet = more.isEmpty ? choices : ##"{"$ref": "#/components/schemas/Pet"}"##
        let text = try swift(
            #"""
            {"type": "object", "properties": {"a": \#(choices), "b": \#(choices), "c": \#(scalars), "d": \#(scalars), "e": \#(pet)}}
            """#,
            more: #"""
                "Cat": {"type": "object", "required": ["claws"], "properties": {"claws": {"type": "integer"}}},
                "Dog": {"type": "object", "required": ["tail"], "properties": {"tail": {"type": "integer"}}}\#(more)
                """#)
        #expect(text.contains(union) && text.contains(alias) && text.contains("var b: GetXReplyB?"))
        // That two members may be a text or a number does not make them the same.
        #expect(text.contains("enum GetXReplyC:") && text.contains("enum GetXReplyD:"))
    }

    @Test func discriminatorChoosesByItsMapping() throws {
        let text = try swift(
            ##"""
            {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
            "discriminator": {"propertyName": "kind", "mapping": {"c": "#/components/schemas/Cat", "kitten": "Cat"}}}
            """##,
            more:
                #"""
                "Cat": {"type": "object", "properties": {"kind": {"type": "string"}}},
                "Dog": {"type": "object", "properties": {"kind": {"type": "string"}}}
                """#
        )
        #expect(text.contains(#"case "c", "kitten": self = .cat(try .init(from: decoder))"#))
        #expect(text.contains(#"case "Dog": self = .dog(try .init(from: decoder))"#))
        #expect(text.contains("default: self = .unknown(try JSONValue(from: decoder))"))
    }

    @Test func childrenOfParentAreItsCases() throws {
        let text = try swift(
            ##"{"$ref": "#/components/schemas/Pet"}"##,
            more: ##"""
                "Pet": {"type": "object", "discriminator": {"propertyName": "kind"}, "properties": {"kind": {"type": "string"}}},
                "Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"claws": {"type": "integer"}}}]}
                """##)
        #expect(text.contains("enum Pet:") && text.contains("case cat(Cat)") && text.contains("var claws: Int?"))
    }

    @Test func membersTellVariantsApart() throws {
        let text = try swift(
            #"""
            {"oneOf": [{"type": "object", "title": "A", "required": ["id"], "properties": {"id": {"type": "string"}}},
            {"type": "object", "title": "B", "required": ["id", "b"],
            "properties": {"id": {"type": "string"}, "b": {"type": "string"}}}]}
            """#
        )
        let first = try #require(text.firstRange(of: "members[\"b\"] != nil"))
        let second = try #require(text.firstRange(of: "members[\"id\"] != nil"))
        #expect(first.lowerBound < second.lowerBound)
    }

    @Test func readOnlyIsInRepliesOnly() throws {
        let text = try OpenAPIImporter.swift(
            ##"""
            {"openapi": "3.0.0", "info": {}, "paths": {"/a": {"post": {"operationId": "makeA",
            "requestBody": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}}}},
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}}}}},
            "components": {"schemas": {"A": {"type": "object", "properties": {"id": {"type": "string", "readOnly": true},
            "key": {"type": "string", "writeOnly": true}}}}}}
            """##)
        #expect(text.contains("var content: [ARequest]?"))
        #expect(text.contains("struct A: Codable, Hashable, Sendable {\n    var id: String?\n}"))
        #expect(text.contains("struct ARequest: Codable, Hashable, Sendable {\n    var key: String?\n}"))
    }

    @Test func patchTellsNullFromMissing() throws {
        let text = try OpenAPIImporter.swift(
            #"""
            {"openapi": "3.1.0", "info": {}, "paths": {"/a": {"patch": {"requestBody": {"content": {"application/json":
            {"schema": {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}}}}},
            "responses": {}}}}}
            """#
        )
        #expect(text.contains("var a: Settable<String> = .leftOut") && text.contains("var b: String?"))
    }

    @Test func exampleAboveTheIntegersKeepsItsDigits() throws {
        let text = try swift(
            #"""
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "format": "uint64"},
            "c": {"type": "integer", "format": "uint64"}, "d": {"oneOf": [{"type": "string"}, {"type": "integer", "format": "uint64"}]}},
            "example": {"a": 18446744073709551615, "b": 18446744073709551615, "c": -1}}
            """#)
        #expect(text.contains("var a: Decimal?") && text.contains("var b: UInt64?") && text.contains("var c: Decimal?"))
        #expect(text.contains("case number(UInt64)") && text.contains("case .int, .double, .decimal:"))
    }

    @Test func exampleLoosensTheType() throws {
        let text = try OpenAPIImporter.swift(
            #"""
            {"openapi": "3.1.0", "info": {}, "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"content":
            {"application/json": {"schema": {"type": "object", "required": ["a", "b", "c"],
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "integer"}}},
            "examples": {"x": {"value": {"b": 1.5, "c": "x", "extra": 1}}, "y": {"value": {"b": 1, "c": null, "extra": null}}}}}}}}}}}
            """#
        )
        for line in [
            "var a: String?", "var b: Double\n", "var c: JSONValue\n", "try members.encode(self.extra, forKey: .extra)",
        ] {
            #expect(text.contains(line))
        }
    }
}

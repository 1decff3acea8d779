import Testing

@testable import OpenAPIImport

/// Members of which several parts of an `allOf` say something.
@Suite struct AllOfTests {
    private func result(_ base: String, _ own: String, more: String = "") throws -> (text: String, warnings: [String]) {
        let schema = ##"""
            {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "properties": {"a": \##(own)}}]}
            """##
        let components = #""Base": {"type": "object", "properties": {"a": \#(base)}}\#(more)"#
        let result = try OpenAPIImporter.of(document(schema, more: components)).run(choosing: .all)
        return (result.files.map(\.text).joined(), result.warnings.map(\.message))
    }

    private func object(_ member: String, _ schema: String = #"{"type": "string"}"#) -> String {
        #"{"type": "object", "properties": {"\#(member)": \#(schema)}}"#
    }

    @Test func nestedObjectHasTheMembersOfBoth() throws {
        let (text, warnings) = try result(object("x"), object("y"))
        #expect(
            text.contains("struct GetXReplyA: Codable, Hashable, Sendable {\n    var x: String?\n    var y: String?\n}")
        )
        #expect(warnings.isEmpty)
    }

    @Test func objectsBelowThemToo() throws {
        let (text, _) = try result(object("n", object("x")), object("n", object("y")))
        #expect(
            text.contains(
                "struct GetXReplyAN: Codable, Hashable, Sendable {\n    var x: String?\n    var y: String?\n}"))
    }

    @Test func elementsToo() throws {
        let (text, _) = try result(
            #"{"type": "array", "items": \#(object("x"))}"#, #"{"type": "array", "items": \#(object("y"))}"#)
        #expect(text.contains("var a: [GetXReplyAItem]?") && text.contains("    var x: String?\n    var y: String?\n}"))
        #expect(
            try result(#"{"type": "array", "items": \#(object("x"))}"#, #"{"type": "array"}"#).text.contains("var x"))
    }

    @Test(arguments: [#"{"required": ["x"]}"#, #"{"type": "object", "required": ["x"], "properties": {"x": {}}}"#])
    func whatIsRequiredLaterIsOfTheSameType(_ own: String) throws {
        #expect(try result(object("x"), own).text.contains("    var x: String\n"))
    }

    /// In the children of a choice, and in three parts.
    @Test func eachPartCounts() throws {
        let (text, _) = try result(
            ##"{"allOf": [{"$ref": "#/components/schemas/P"}, {"properties": {"n": \##(object("y"))}}]}"##,
            object("n", object("z")), more: #", "P": \#(object("n", object("x")))"#)
        #expect(text.contains("    var x: String?\n    var y: String?\n    var z: String?\n"))
        let choice = try OpenAPIImporter.swift(
            document(
                #"""
                {"type": "object", "properties": {"a": \#(object("x"))}, "oneOf": [{"title": "One", "properties": {"a": \#(object("y"))}},
                {"title": "Two", "properties": {"b": {}}}]}
                """#))
        #expect(choice.contains("    var x: String?\n    var y: String?\n"))
    }

    /// A later schema that has all of the earlier one keeps its name, also if it is the schema itself.
    @Test func schemaThatHasAllMembersIsTheType() throws {
        let user = #", "User": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}"#
        let (text, _) = try result(object("x"), ##"{"$ref": "#/components/schemas/User"}"##, more: user)
        #expect(text.contains("    var a: User?\n") && !text.contains("struct GetXReplyA:"))
        let tree = try OpenAPIImporter.swift(
            document(
                ##"{"$ref": "#/components/schemas/Leaf"}"##,
                more: ##"""
                    "Node": {"type": "object", "properties": {"up": {"$ref": "#/components/schemas/Node"}, "n": {"type": "string"}}},
                    "Leaf": {"allOf": [{"$ref": "#/components/schemas/Node"}, {"properties": {"up": {"$ref": "#/components/schemas/Leaf"}}}]}
                    """##))
        #expect(tree.contains("@Coding.Boxed var up: Leaf?\n") && tree.contains("    var n: String?\n"))
    }

    /// Each level has the members of all above it, which are looked at once.
    @Test func manyLevelsAreReadOnce() throws {
        let levels = (0...24).map { level in
            let own =
                ##"{"properties": {"up": {"$ref": "#/components/schemas/L\##(level)"}, "m\##(level)": {"type": "string"}}}"##
            let above = level > 0 ? ##"{"$ref": "#/components/schemas/L\##(level - 1)"}, "## : ""
            return #""L\#(level)": {"allOf": [\#(above)\#(own)]}"#
        }
        let text = try OpenAPIImporter.swift(
            document(##"{"$ref": "#/components/schemas/L24"}"##, more: levels.joined(separator: ", ")))
        #expect(text.contains("@Coding.Boxed var up: L24?\n") && text.contains("    var m0: String?\n"))
    }

    @Test func otherTypeIsAWarning() throws {
        let (text, warnings) = try result(#"{"type": "string"}"#, #"{"type": "integer"}"#)
        #expect(text.contains("    var a: Int?\n"))
        #expect(warnings == ["another part of allOf gives a another type; this one is read"])
    }

    @Test func partsOfSeveralFilesHaveTheirReferences() throws {
        let text = try OpenAPIImporter.swift(
            document(##"{"allOf": [{"$ref": "b/base.yaml"}, {"properties": {"a": \##(object("y"))}}]}"##),
            files: [
                "b/base.yaml":
                    "{ properties: { a: { type: object, properties: { x: { $ref: x.yaml }, k: { writeOnly: true } } } } }",
                "b/x.yaml": "{ type: boolean }",
            ])
        #expect(text.contains("    var x: Bool?\n    var y: String?\n") && !text.contains("var k"))
    }
}

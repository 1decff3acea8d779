import Testing

@testable import OpenAPIImport

/// How the objects of a union are told apart.
@Suite struct UnionTests {
    private func result(_ choices: String, beside: String = "") throws -> (text: String, warnings: [String]) {
        let result = try OpenAPIImporter.of(document("{\(beside)\"anyOf\": [\(choices)]}")).run(choosing: .all)
        return (result.files.map(\.text).joined(), result.warnings.map(\.message))
    }

    private func object(_ title: String, _ members: String..., required: String = "") -> String {
        let list = members.map { #""\#($0)": {"type": "string"}"# }.joined(separator: ", ")
        return #"{"type": "object", "title": "\#(title)", "required": [\#(required)], "properties": {\#(list)}}"#
    }

    /// The tests of the generated code in their order, with the cases that they choose.
    private func tests(_ text: String) -> [String] {
        let lines = text.split(separator: "\n").map { $0.drop { $0 == " " } }
        let first = lines.firstIndex { $0.hasPrefix("switch value") } ?? 0
        let last = lines[first...].firstIndex { $0.hasPrefix("default:") } ?? 0
        return lines[first..<last].dropFirst().joined(separator: " ").replacing("(try .init(from: decoder))", with: "")
            .split(separator: "case ").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    @Test func membersOfOneAloneTellIt() throws {
        let (text, warnings) = try result("\(object("A", "c", "s")), \(object("B", "d", "s"))")
        #expect(
            tests(text) == [
                #".object(let members) where members["c"] != nil: self = .a"#,
                #".object(let members) where members["d"] != nil: self = .b"#,
            ])
        #expect(warnings.isEmpty)
    }

    @Test func severalMembersAreOneTest() throws {
        let (text, _) = try result("\(object("A", "c", "e")), \(object("B", "d"))")
        #expect(
            tests(text)[0]
                == #".object(let members) where ["c", "e"].contains(where: { members[$0] != nil }): self = .a"#)
    }

    /// The one with more members comes first, and the last one stands for the rest.
    @Test func eachThatAddsMembersIsTriedFirst() throws {
        let (text, warnings) = try result(
            "\(object("A", "x")), \(object("B", "x", "y")), \(object("C", "x", "y", "z"))")
        #expect(
            tests(text) == [
                #".object(let members) where members["z"] != nil: self = .c"#,
                #".object(let members) where members["y"] != nil: self = .b"#,
                ".object: self = .a",
            ])
        #expect(warnings.isEmpty)
    }

    @Test func whatAllRequireIsAskedToo() throws {
        let (text, _) = try result(
            "\(object("A", "k", "c", required: "\"k\"")), \(object("B", "k", "d", required: "\"k\""))")
        #expect(
            tests(text) == [
                #".object(let members) where members["k"] != nil && members["c"] != nil: self = .a"#,
                #".object(let members) where members["k"] != nil && members["d"] != nil: self = .b"#,
            ])
    }

    @Test func choicesWithWhatStandsBesideThemAreToldToo() throws {
        let (text, _) = try result(
            "\(object("A", "c")), \(object("B", "d"))",
            beside: #""type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}, "#)
        #expect(tests(text)[1] == #".object(let members) where members["k"] != nil && members["d"] != nil: self = .b"#)
    }

    @Test func valuesOfAnOptionalMemberTell() throws {
        func kind(_ values: String) -> String {
            #"{"type": "object", "properties": {"kind": {"type": "string", "enum": [\#(values)]}, "s": {"type": "string"}}}"#
        }
        let (text, _) = try result("\(kind(#""x""#)), \(kind(#""y", "z""#))")
        #expect(
            tests(text) == [
                #".object(let members) where members["kind"] == "x": self = .x"#,
                #".object(let members) where members["kind"] == "y" || members["kind"] == "z": self = .choice2"#,
            ])
        let (same, warnings) = try result("\(kind(#""x", "y""#)), \(kind(#""y", "z""#))")
        #expect(tests(same).isEmpty && warnings.count == 1)
    }

    @Test func whatNothingTellsApartIsUnknown() throws {
        let (text, warnings) = try result(
            "\(object("A", "x", "y")), \(object("B", "y", "x")), \(object("C", "z", "y"))")
        #expect(tests(text) == [#".object(let members) where members["z"] != nil: self = .c"#])
        #expect(warnings == ["nothing tells a, b apart; what is one of them is unknown"])
        // They can still be made.
        #expect(text.contains("case a(GetXReplyA)") && text.contains("case b(GetXReplyB)"))
    }

    /// A dictionary keeps every member.
    @Test func dictionaryStandsForTheRest() throws {
        let (text, warnings) = try result("\(object("A", "x")), {\"type\": \"object\"}")
        #expect(
            tests(text) == [
                #".object(let members) where members["x"] != nil: self = .a"#, ".object: self = .choice2",
            ])
        #expect(warnings.isEmpty)
    }

    /// A union among the choices has the members of all of its own.
    @Test func membersOfAUnionTellIt() throws {
        let inner =
            "{\"discriminator\": {\"propertyName\": \"t\"}, \"oneOf\": [\(object("I", "t", "i")), \(object("J", "t", "j"))]}"
        let (text, _) = try result("\(object("A", "x")), \(inner)")
        #expect(text.contains(#"where ["t", "i", "j"].contains(where: { members[$0] != nil }):"#))
        #expect(text.contains(#"case .object(let members) where members["x"] != nil:"#))
    }

    /// The choice of an example is that of the generated code.
    @Test func exampleChangesTheVariantThatItIs() throws {
        let reply = try OpenAPIImporter.swift(
            #"""
            {"openapi": "3.1.0", "info": {}, "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"content":
            {"application/json": {"schema": {"anyOf": [\#(object("A", "c")), \#(object("B", "d"))]},
            "examples": {"x": {"value": {"d": 1}}, "y": {"value": {"e": 1}}}}}}}}}}}
            """#)
        #expect(reply.contains("var c: String?") && reply.contains("var d: JSONValue?") && !reply.contains("var e"))
    }
}

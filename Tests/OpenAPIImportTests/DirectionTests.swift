import Testing

@testable import OpenAPIImport

/// Members that are only in requests or only in replies.
@Suite struct DirectionTests {
    private static let user = """
        { type: object, required: [id, name, password], properties: { id: { type: integer, readOnly: true },
          name: { type: string }, password: { type: string, writeOnly: true } } }
        """

    /// - Parameters:
    ///   - user: the reference to the schema of a user, and that of a schema which refers to it.
    ///   - more: the components.
    private func swift(_ user: String, _ wrap: String, more: String = "", files: [String: String] = [:]) throws
        -> String
    {
        try OpenAPIImporter.swift(
            """
            openapi: 3.0.3
            info: { title: Users, version: 1 }
            servers: [{ url: "https://a.example.com" }]
            paths:
              /users:
                post:
                  operationId: addUsers
                  requestBody: { content: { application/json: { schema: { type: array, items: { $ref: "\(user)" } } } } }
                  responses: { 201: { content: { application/json: { schema: { $ref: "\(user)" } } } } }
                put:
                  operationId: putUser
                  requestBody: { required: true, content: { application/json: { schema: { $ref: "\(wrap)" } } } }
                  responses: { 204: { description: done } }
            \(more)
            """, files: files)
    }

    @Test func areTheSameInOneFileAndInMany() throws {
        func wrap(_ user: String) -> String {
            #"{ type: object, properties: { user: { $ref: "\#(user)" }, note: { type: string } } }"#
        }
        let one = try swift(
            "#/components/schemas/User", "#/components/schemas/Wrap",
            more: """
                components:
                  schemas:
                    User: \(Self.user)
                    Wrap: \(wrap("#/components/schemas/User"))
                """)
        let many = try swift(
            "schemas/User.yaml", "schemas/Wrap.yaml",
            files: ["schemas/User.yaml": Self.user, "schemas/Wrap.yaml": wrap("User.yaml")])
        #expect(many == one)
        #expect(many.contains("struct User: Codable, Hashable, Sendable {\n    var id: Int\n    var name: String\n}"))
        let request =
            "struct UserRequest: Codable, Hashable, Sendable {\n    var name: String\n    var password: String\n}"
        #expect(many.contains(request) && many.contains("var content: [UserRequest]?"))
        #expect(many.contains("var user: UserRequest?"))
    }

    /// In a circle of files, each schema differs if one of them does.
    @Test func circleOfFilesDiffersAsAWhole() throws {
        let text = try swift(
            "a.yaml", "b.yaml",
            files: [
                "a.yaml": "{ type: object, properties: { b: { $ref: b.yaml }, x: { type: string } } }",
                "b.yaml":
                    "{ type: object, properties: { a: { $ref: a.yaml }, key: { type: string, writeOnly: true } } }",
            ])
        #expect(text.contains("var content: [ARequest]?") && text.contains("var b: BRequest?"))
        #expect(text.contains("var a: ARequest?") && text.contains("var key: String?"))
    }

    /// A parent does not refer to its children, but stands for them.
    @Test(arguments: ["", ", mapping: { cat: \"#/components/schemas/Cat\" }"])
    func parentDiffersIfAChildDoes(_ mapping: String) throws {
        let text = try swift(
            "#/components/schemas/Pet", "#/components/schemas/Pet",
            more: """
                components:
                  schemas:
                    Pet: { type: object, discriminator: { propertyName: kind\(mapping) }, properties: { kind: { type: string } } }
                    Cat:
                      allOf: [{ $ref: "#/components/schemas/Pet" }, { properties: { key: { type: string, writeOnly: true } } }]
                """)
        #expect(text.contains("var content: [PetRequest]?") && text.contains("enum PetRequest:"))
        #expect(text.contains("case cat(CatRequest)") && text.contains("var key: String?"))
    }
}

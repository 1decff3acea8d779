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

    @Test(arguments: [
        (
            "operationId: shelves", "operationId: racks",
            ["breaking Shelves: the call is gone", "harmless Racks: the call is new: GET /shelves"]
        ),
        ("/shelves:", "/racks:", ["breaking Shelves: GET /shelves is GET /racks"]),
        (
            "name: author, in: query,", "name: author, required: true, in: query,",
            ["breaking ListBooks: author is required now"]
        ),
        ("explode: false, ", "", ["harmless ListBooks: the row has no query"]),
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

    @Test func changeNamesTheRowsThatItConcerns() throws {
        let text = try testFile("Documents/library.yaml")
        let difference = try DocumentDifference(
            from: .of(text), to: .of(text.replacing("required: [message]", with: "required: []")))
        #expect(difference.changes.map(\.rows) == [["library.listBooks"]])
    }
}

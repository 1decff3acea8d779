import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

/// `lat openapi` as a process.
@Suite(.timeLimit(.minutes(1))) struct OpenAPIProcessTests {
    private let folder: TemporaryDirectory

    init() throws {
        folder = try TemporaryDirectory()
        try FileManager.default.createDirectory(
            atPath: folder.path + "/Sources/App", withIntermediateDirectories: true)
        try write(Self.document, "zoo.yaml")
    }

    private static let document = """
        openapi: 3.1.0
        info: { title: Zoo API }
        servers: [{ url: "https://zoo.example.org" }]
        paths:
          /animals:
            get:
              operationId: listAnimals
              tags: [Animals]
              responses:
                "200":
                  description: All.
                  content:
                    application/json:
                      schema: { type: array, items: { type: object, properties: { name: { type: string } } } }
                      example: [{ name: Nemo }]
          /food:
            put: { operationId: feed, tags: [Food], responses: { "204": { description: "" } } }

        """

    private func write(_ text: String, _ name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(folder.path)/\(name)"))
    }

    private func text(_ name: String) throws -> String {
        try String(contentsOfFile: "\(folder.path)/\(name)", encoding: .utf8)
    }

    private func files() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.contains(".") }.sorted()
    }

    private func openapi(_ arguments: String...) async throws -> LatProcess.Result {
        try await LatProcess.run(["openapi"] + arguments, in: folder.path)
    }

    @Test func documentWithoutChoiceIsListed() async throws {
        let result = try await openapi("import", "zoo.yaml")
        #expect(result.exitCode == 0)
        #expect(
            result.text == """
                Zoo API: choose with --tags, --operations or --all

                Animals (1)
                  listAnimals

                Food (1)
                  feed

                """)
        #expect(try files() == ["zoo.yaml"])
    }

    @Test func choiceIsWrittenAndRepeated() async throws {
        let result = try await openapi("import", "zoo.yaml", "--tags", "Animals", "--examples", "Fixtures")
        #expect(result.exitCode == 0 && result.err == "")
        #expect(
            try files() == [
                "Config/domains.json5", "Fixtures/animals.GET.json", "Sources/App/Zoo/ZooAnimals.swift",
                "Sources/App/Zoo/zoo.openapi.json", "zoo.yaml",
            ])
        #expect(try text("Config/domains.json5").contains(#""zoo.listAnimals": { domain: "zoo", path: "/animals""#))
        let again = try await openapi("import", "zoo.yaml")
        #expect(again.text == "zoo: 1 call\nnothing has changed\n")
        let more = try await openapi("import", "zoo.yaml", "--operations", "feed")
        #expect(more.text.contains("zoo: 2 calls") && more.text.contains("new in the table: zoo.feed"))
        try write(Self.document.replacing("Food", with: "Meals"), "zoo.yaml")
        let moved = try await openapi("import", "zoo.yaml")
        #expect(moved.text.contains("wrote Sources/App/Zoo/ZooMeals.swift"))
        #expect(moved.text.contains("removed Sources/App/Zoo/ZooFood.swift"))
        // The rows work with the examples.
        try write(
            text("Config/domains.json5").replacing(
                "query: {", with: "simulation: { directory: \"../Fixtures\" }, query: {"), "Config/domains.json5")
        let call = try await LatProcess.run(["start", "zoo.listAnimals"], in: folder.path)
        #expect(call.exitCode == 0 && call.text.contains("Nemo"))
    }

    @Test func exampleRepliesThatAPersonEditedStay() async throws {
        func withExamples() async throws -> LatProcess.Result {
            try await openapi("import", "zoo.yaml", "--all", "--examples", "Fixtures")
        }
        _ = try await withExamples()
        let file = "Fixtures/animals.GET.json"
        let made = try text(file)
        try write(made.replacing("Nemo", with: "Dory"), file)
        let again = try await withExamples()
        #expect(
            again.exitCode == 0 && again.err.contains("\(file) was edited and stays; delete it to have the document's"))
        #expect(try text(file).contains("Dory"))
        // An import without examples does not forget which are its own.
        try FileManager.default.removeItem(atPath: "\(folder.path)/\(file)")
        _ = try await withExamples()
        _ = try await openapi("import", "zoo.yaml")
        #expect(try text(file) == made)
        try write(Self.document.replacing("Nemo", with: "Marlin"), "zoo.yaml")
        let newer = try await withExamples()
        #expect(try newer.err == "" && text(file).contains("Marlin"))
    }

    @Test func twoDocumentsHaveRoomInOneTarget() async throws {
        _ = try await openapi("import", "zoo.yaml", "--all")
        try write(Self.document.replacing("Zoo API", with: "Farm API").replacing("feed", with: "water"), "farm.yaml")
        let farm = try await openapi("import", "farm.yaml", "--all")
        #expect(farm.exitCode == 0)
        let names = try files().filter { $0.hasSuffix(".swift") }.map { $0.split(separator: "/").last }
        #expect(names == ["FarmAnimals.swift", "FarmFood.swift", "ZooAnimals.swift", "ZooFood.swift"])
        let animals = try text("Sources/App/Farm/FarmAnimals.swift")
        #expect(
            animals.contains("struct FarmListAnimals: RequestEntity")
                && animals.contains("struct FarmListAnimalsReplyItem:"))
        #expect(animals.contains(#"Route(server: "farm.listAnimals")"#))
        #expect(try text("Sources/App/Farm/FarmFood.swift").contains("struct Water: RequestEntity"))
        // What another import has does not change what this one had.
        for document in ["zoo.yaml", "farm.yaml"] {
            #expect(try await openapi("import", document).text.hasSuffix("2 calls\nnothing has changed\n"))
        }
    }

    @Test func anotherAPIDoesNotTakeTheDomainOfTheFirst() async throws {
        try write(Self.document.replacing("Zoo API", with: "Acme Orders API"), "orders.yaml")
        let users = Self.document.replacing("Zoo API", with: "Acme Users API").replacing("/animals", with: "/users")
            .replacing("listAnimals", with: "listUsers").replacing("[Animals]", with: "[Users]")
        try write(users.replacing("/food", with: "/groups").replacing("feed", with: "addGroup"), "users.yaml")
        _ = try await openapi("import", "orders.yaml", "--all")
        let before = try files()
        for choice in [["--all"], []] {
            let result = try await LatProcess.run(["openapi", "import", "users.yaml"] + choice, in: folder.path)
            #expect(result.exitCode == 2)
            #expect(
                result.err
                    == "lat: acme was imported from \"Acme Orders API\", and \"Acme Users API\" has none of its calls; "
                    + "name another API with --domain users, or confirm a new version with --domain acme\n")
        }
        #expect(try files() == before)
        let beside = try await openapi("import", "users.yaml", "--all", "--domain", "users")
        #expect(
            beside.exitCode == 0 && beside.text.contains("new in the table: users, users.listUsers, users.addGroup"))
        #expect(try text("Config/domains.json5").contains("\"acme.listAnimals\""))
        // A new version may have another title, and other names.
        try write(
            users.replacing("/users", with: "/animals").replacing("feed", with: "giveFood"), "orders.yaml")
        #expect(try await openapi("import", "orders.yaml").exitCode == 0)
        let replaced = try await openapi("import", "users.yaml", "--domain", "acme")
        #expect(replaced.exitCode == 0 && replaced.text.contains("removed in the table: acme."), "\(replaced.text)")
    }

    @Test(arguments: [["--tags", "Animals,Food"], ["--operations", "listAnimals,feed"]])
    func whatIsGoneFromTheDocumentLeavesTheChoice(_ choice: [String]) async throws {
        _ = try await LatProcess.run(["openapi", "import", "zoo.yaml"] + choice, in: folder.path)
        let whole = Self.document.split(separator: "\n", omittingEmptySubsequences: false)
        try write(
            whole.filter { !$0.contains("feed") && !$0.contains("/food") }.joined(separator: "\n")
                .replacing("/animals", with: "/beasts"), "zoo.yaml")
        let result = try await openapi("import", "zoo.yaml")
        #expect(result.exitCode == 0)
        let word = choice[0] == "--tags" ? "tag Food" : "operation feed"
        #expect(
            result.err.hasSuffix(
                "the document has no \(word) any more; it leaves the choice, and its rows are removed\n"),
            "\(result.err)")
        #expect(result.text.contains("changed in the table: zoo.listAnimals\nremoved in the table: zoo.feed"))
        #expect(result.text.contains("removed Sources/App/Zoo/ZooFood.swift"))
        let again = try await openapi("import", "zoo.yaml")
        #expect(again.err.isEmpty && again.text == "zoo: 1 call\nnothing has changed\n", "\(again.text)")
        // What this command names must be there.
        #expect(try await openapi("import", "zoo.yaml", "--tags", "Food").exitCode == 2)
    }

    @Test func nothingLeftOfTheChoiceIsAnError() async throws {
        _ = try await openapi("import", "zoo.yaml", "--tags", "Food")
        try write(Self.document.replacing("[Food]", with: "[Meals]"), "zoo.yaml")
        let result = try await openapi("import", "zoo.yaml")
        #expect(result.exitCode == 2)
        #expect(
            result.err == "lat: the document has nothing of the choice any more: tag Food; choose anew with --tags, "
                + "--operations or --all\n")
        #expect(try await openapi("import", "zoo.yaml", "--tags", "Meals").exitCode == 0)
    }

    @Test func onlyTakesTheEarlierChoiceBack() async throws {
        _ = try await openapi("import", "zoo.yaml", "--all")
        let result = try await openapi("import", "zoo.yaml", "--tags", "Animals", "--only")
        #expect(result.exitCode == 0 && result.text.contains("removed in the table: zoo.feed"), "\(result.text)")
        #expect(try await openapi("import", "zoo.yaml").text == "zoo: 1 call\nnothing has changed\n")
    }

    @Test func overridesAreUsedAgain() async throws {
        try write(##"{ "#/paths/~1food/put": { name: "GiveFood" } }"##, "names.json5")
        _ = try await openapi("import", "zoo.yaml", "--all", "--overrides", "names.json5")
        let again = try await openapi("import", "zoo.yaml")
        #expect(again.text == "zoo: 2 calls\nnothing has changed\n")
        try write(Self.document.replacing("/food:", with: "/meals:"), "new.yaml")
        let difference = try await openapi("diff", "zoo.yaml", "new.yaml")
        #expect(difference.text.contains("(used by zoo.giveFood)"), "\(difference.text)")
        // Another file replaces them, and one that is gone is an error.
        try write(##"{ "#/paths/~1food/put": { name: "Serve" } }"##, "others.json5")
        _ = try await openapi("import", "zoo.yaml", "--overrides", "others.json5")
        #expect(try text("Sources/App/Zoo/ZooFood.swift").contains("struct Serve:"))
        try FileManager.default.removeItem(atPath: folder.path(of: "others.json5"))
        let refused = try await openapi("import", "zoo.yaml")
        #expect(
            refused.exitCode == 2
                && refused.err
                    == "lat: others.json5 is not there; the last import used it: restore it, or name one with --overrides\n"
        )
    }

    @Test func dryRunWritesNothing() async throws {
        let result = try await openapi("import", "zoo.yaml", "--all", "--dry-run")
        #expect(result.exitCode == 0 && result.text.contains("would write Config/domains.json5"))
        #expect(try files() == ["zoo.yaml"])
    }

    @Test func nothingIsWrittenOverForeignFile() async throws {
        let own = "\(folder.path)/Sources/App/Zoo"
        try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
        try write("// mine\n", "Sources/App/Zoo/ZooFood.swift")
        let result = try await openapi("import", "zoo.yaml", "--all")
        #expect(result.exitCode == 2)
        #expect(
            result.err
                == "lat: Sources/App/Zoo/ZooFood.swift is not made by an import; move it, or name another folder "
                + "with --to DIR\n")
        #expect(try files() == ["Sources/App/Zoo/ZooFood.swift", "zoo.yaml"])
    }

    @Test(arguments: [
        (["import"], "DOCUMENT is missing; write lat openapi import DOCUMENT"),
        (["import", "no.yaml"], "no.yaml is not there; name a file that can be read"),
        (["import", "zoo.yaml", "--all", "--tags", "A"], "--tags"),
        (["import", "zoo.yaml", "--tags", "Animal"], "no operation has the tag Animal; did you mean Animals?"),
        (["import", "zoo.yaml", "--only"], "--only needs --tags or --operations"),
        (["import", "zoo.yaml", "--all", "--domain", "a b"], "--domain \"a b\" is no name"),
        (["diff", "zoo.yaml"], "two documents are needed; write lat openapi diff OLD NEW"),
        (["export"], "lat openapi knows no \"export\"; "),
        ([], "the action is missing; write lat openapi import DOCUMENT"),
    ]) func uselessCommandHasItsNextStep(_ arguments: [String], _ message: String) async throws {
        let result = try await LatProcess.run(["openapi"] + arguments, in: folder.path)
        #expect(result.exitCode == 2 && result.err.contains(message))
        #expect(result.err.split(separator: "\n").count == 1 && result.out.isEmpty)
        #expect(try files() == ["zoo.yaml"])
    }

    @Test func linkOutOfTheFolderIsRefused() async throws {
        let elsewhere = try TemporaryDirectory()
        try Data("A: { type: string }".utf8).write(to: URL(filePath: elsewhere.path + "/a.yaml"))
        symlink(elsewhere.path + "/a.yaml", folder.path + "/a.yaml")
        try write(
            Self.document.replacing("{ type: array, items", with: "{ $ref: 'a.yaml#/A', items"), "zoo.yaml")
        let result = try await openapi("import", "zoo.yaml", "--all")
        #expect(result.exitCode == 2 && result.err.contains("a.yaml is a link out of the folder of the document"))
    }

    @Test func differenceCountsWhatTheTableHas() async throws {
        _ = try await openapi("import", "zoo.yaml", "--tags", "Animals")
        try write(Self.document.replacing("/food", with: "/meals"), "new.yaml")
        let unused = try await openapi("diff", "zoo.yaml", "new.yaml")
        #expect(unused.exitCode == 0)
        #expect(unused.text == "breaking  Feed: PUT /food is PUT /meals  (not used here)\n")
        try write(Self.document.replacing("/animals", with: "/beasts"), "new.yaml")
        let used = try await openapi("diff", "zoo.yaml", "new.yaml")
        #expect(used.exitCode == 1)
        #expect(used.text == "breaking  ListAnimals: GET /animals is GET /beasts  (used by zoo.listAnimals)\n")
    }

    @Test(arguments: ["Sources/App/Zoo", "Générés/Zoo"]) func editedSwiftFileIsNotReplaced(to place: String)
        async throws
    {
        _ = try await openapi("import", "zoo.yaml", "--all", "--to", place)
        let food = "\(place)/ZooFood.swift"
        let made = try text(food)
        // A formatter changes white space only.
        try write(made.replacing("    ", with: "  "), food)
        #expect(try await openapi("import", "zoo.yaml").exitCode == 0)
        #expect(try text(food) == made)
        try write(made + "extension Feed { var mine: Int { 1 } }\n", food)
        try write(Self.document.replacing("/food", with: "/meals"), "zoo.yaml")
        let refused = try await openapi("import", "zoo.yaml")
        #expect(refused.exitCode == 2 && refused.err.contains("\(food) was edited"), "\(refused.err)")
        #expect(try text("Config/domains.json5").contains("/food"))
        try FileManager.default.removeItem(atPath: folder.path(of: food))
        #expect(try await openapi("import", "zoo.yaml").exitCode == 0)
    }

    @Test func editedSwiftFileIsNotRemoved() async throws {
        _ = try await openapi("import", "zoo.yaml", "--all")
        let food = "Sources/App/Zoo/ZooFood.swift"
        let made = try text(food)
        try write(made + "extension Feed { var mine: Int { 1 } }\n", food)
        try write(Self.document.replacing("tags: [Food]", with: "tags: [Animals]"), "zoo.yaml")
        let before = try files().map { try text($0) }
        let refused = try await openapi("import", "zoo.yaml")
        #expect(refused.exitCode == 2, "\(refused.text)")
        #expect(refused.err.contains("\(food) was edited, and the import would remove it; "), "\(refused.err)")
        #expect(try files().map { try text($0) } == before)
        // White space is no edit.
        try write(made.replacing("    ", with: "  "), food)
        #expect(try await openapi("import", "zoo.yaml").text.contains("removed \(food)"))
        #expect(try !files().contains(food))
    }

    @Test func deletedRowComesBackWhenItIsNamed() async throws {
        _ = try await openapi("import", "zoo.yaml", "--all")
        let rows = try text("Config/domains.json5").split(separator: "\n", omittingEmptySubsequences: false)
        try write(rows.filter { !$0.contains("zoo.feed") }.joined(separator: "\n"), "Config/domains.json5")
        let kept = try await openapi("import", "zoo.yaml")
        #expect(
            kept.text.contains("kept: zoo.feed was removed from the table and stays out, so calls of its type fail"))
        let back = try await openapi("import", "zoo.yaml", "--operations", "feed")
        #expect(back.text.contains("new in the table: zoo.feed"), "\(back.text)")
    }

    @Test func whatTheAppHasToSetIsSaid() async throws {
        let secured =
            Self.document.replacing("\npaths:", with: "\nsecurity: [{ key: [] }]\npaths:")
            + "\ncomponents: { securitySchemes: { key: { type: http, scheme: bearer } } }\n"
        try write(secured, "zoo.yaml")
        let result = try await openapi("import", "zoo.yaml", "--all")
        #expect(result.text.contains("to do: the app sets configuration.authenticators[\"key\"]"), "\(result.text)")
        #expect(try await !openapi("import", "zoo.yaml").text.contains("to do"))
    }

    @Test func laterImportFindsTheFolderOfTheFirst() async throws {
        _ = try await openapi("import", "zoo.yaml", "--tags", "Animals", "--to", "Generated/Zoo")
        let again = try await openapi("import", "zoo.yaml", "--tags", "Food")
        #expect(again.exitCode == 0 && again.text.contains("wrote Generated/Zoo/ZooFood.swift"))
        let second = try await openapi("import", "zoo.yaml", "--all", "--to", "Other")
        #expect(second.exitCode == 2 && second.err.contains("zoo was imported into Generated/Zoo already"))
        #expect(try !files().contains { $0.hasPrefix("Other") })
        #expect(try await openapi("import", "zoo.yaml", "--to", "Generated/../Generated/Zoo").exitCode == 0)
        try FileManager.default.copyItem(atPath: folder.path(of: "Generated"), toPath: folder.path(of: "Other"))
        let unclear = try await openapi("import", "zoo.yaml")
        #expect(unclear.exitCode == 2)
        #expect(
            unclear.err.contains("zoo was imported into Generated/Zoo, Other/Zoo; name one of them with --to DIR"))
    }
}

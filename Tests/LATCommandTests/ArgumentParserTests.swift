import DomainTables
import LATNetworking
import Testing

@testable import lat

@Suite struct ArgumentParserTests {
    private static let output = Option("--output", "-o", value: "FILE", help: "")
    private static let header = Option("--header", "-H", value: "'K: V'", repeats: true, help: "")
    private static let verbose = Option("--verbose", "-v", help: "")
    private static let include = Option("--include", "-i", help: "")
    private let parser = ArgumentParser(options: [output, header, verbose, include])

    @Test func optionsAreAcceptedAnywhere() throws {
        let parsed = try parser.parse(["GET", "-v", "-o", "a.txt", "http://x/", "--header", "A: b"])
        #expect(parsed.operands == ["GET", "http://x/"])
        #expect(parsed.contains(Self.verbose))
        #expect(parsed.value(Self.output) == "a.txt")
        #expect(parsed.values(Self.header) == ["A: b"])
        #expect(!parsed.contains(Self.include))
    }

    @Test func valuesMayBeJoinedToTheirOption() throws {
        let parsed = try parser.parse(["--output=a=b", "-HA: b", "-ivH", "C: d"])
        #expect(parsed.value(Self.output) == "a=b")
        #expect(parsed.values(Self.header) == ["A: b", "C: d"])
        #expect(parsed.contains(Self.include) && parsed.contains(Self.verbose))
    }

    @Test(arguments: [
        (["--form", "a", "x"], "a", ["x"]), (["--form", "x"], "", ["x"]), (["--form", "-v"], "", []),
        (["--form"], "", []), (["--form=x"], "x", []),
    ])
    func optionalValueIsOneOfItsWords(arguments: [String], value: String, operands: [String]) throws {
        let form = Option("--form", value: "a|b", isValueOptional: true, help: "")
        let parsed = try ArgumentParser(options: [form, Self.verbose]).parse(arguments)
        #expect(parsed.value(form) == value && parsed.operands == operands)
    }

    @Test func operandsFollowTwoDashes() throws {
        #expect(try parser.parse(["-v", "--", "-i", "--nothing"]).operands == ["-i", "--nothing"])
    }

    @Test func singleDashAndEmptyTextAreValues() throws {
        let parsed = try parser.parse(["-o", "-", ""])
        #expect(parsed.value(Self.output) == "-")
        #expect(parsed.operands == [""])
    }

    @Test(arguments: [
        (["--verbos"], "unknown option --verbos; did you mean --verbose?"),
        (["--hedaer", "x"], "unknown option --hedaer; did you mean --header?"),
        (["--xyz"], "unknown option --xyz; --help lists the options"),
        (["-vx"], "unknown option -x in -vx; --help lists the options"),
        (["-o"], "-o needs a value; write -o FILE"),
        (["--output", "-v"], "--output needs a value; write --output FILE"),
        (["--verbose=yes"], "--verbose takes no value; write --verbose alone"),
        (["-o", "a", "--output=b"], "--output is given twice; give it once"),
    ])
    func mistakesNameTheNextStep(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try parser.parse(arguments) }
    }

    @Test func nearestNameIsSuggestedOnlyIfSimilar() {
        #expect(NearestName.of("reqeust", among: ["request", "demo", "help"]) == "request")
        #expect(NearestName.of("deno", among: ["request", "demo", "help"]) == "demo")
        #expect(NearestName.of("upload", among: ["request", "demo", "help"]) == nil)
        #expect(NearestName.of("x", among: []) == nil)
        #expect(NearestName.distance([], Array("abc")) == 3)
        #expect(NearestName.distance(Array("abcd"), Array("acbd")) == 1)
    }
}

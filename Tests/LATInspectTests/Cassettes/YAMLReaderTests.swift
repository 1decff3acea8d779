import Testing

@testable import LATInspect

/// Cassette files that nobody records.
struct YAMLReaderTests {
    @Test func deepNestingIsAProblemWithItsLine() {
        let text = (0..<5_000).map { String(repeating: " ", count: $0) + "a:\n" }.joined()
        let problem = #expect(throws: YAMLProblem.self) { try YAMLReader.documents(text) }
        #expect(problem?.line == YAMLReader.depthLimit + 1)
        #expect(problem?.message == "more than 64 blocks within each other")
    }

    @Test func nestingUpToTheLimitIsRead() throws {
        let depth = YAMLReader.depthLimit
        let lines = (0..<depth).map { String(repeating: " ", count: $0) + ($0 == depth - 1 ? "a: x" : "a:") }
        var value = try #require(try YAMLReader.documents(lines.joined(separator: "\n") + "\n...\n").first)
        var count = 0
        while case .map(let members, _) = value {
            value = members[0].value
            count += 1
        }
        #expect(count == depth && value == .text("x", line: depth))
    }

    /// The sizes are so large that work which grows with their square would take many minutes.
    @Test(arguments: ["n{}: x\n", "n{}:\n  a: \"b\"\n", "n{}: |\n  b\n\n", "n{}: [a, b]\n", "\"n{}\": x # y\n"])
    func manyNamesAreRead(line: String) throws {
        let text = (0..<40_000).map { line.replacing("{}", with: "\($0)") }.joined() + "...\n"
        guard case .map(let members, _)? = try YAMLReader.documents(text).first else {
            throw YAMLProblem(line: 0, message: "")
        }
        #expect(members.count == 40_000 && members.last?.name == "n39999")
        let documents = (0..<40_000).map { "---\n" + line.replacing("{}", with: "\($0)") }.joined() + "...\n"
        #expect(try YAMLReader.documents(documents).count == 40_000)
    }

    private static let long = String(repeating: "x", count: 1 << 20)

    /// Each message has the beginning of the line only. The log of the tests does not have the long text either.
    @Test(arguments: [
        "a:\n- %", "%", "a: \"b\" %", "a: [%", "a: {%", "a: \"%", "a: \"\\q%\"", "%: x\n%: x", "%:", "- %", "a: \"\\",
        "\"%\": {",
    ])
    func messagesOfLongLinesAreShort(pattern: String) {
        let text = pattern.replacing("%", with: Self.long)
        let problem = #expect(throws: YAMLProblem.self) { try YAMLReader.documents(text + "\n...\n") }
        #expect(problem.map { $0.message.utf8.count < 200 } == true, "\(problem?.message.prefix(300) ?? "")")
    }

    @Test func longTextsAreRead() throws {
        let long = Self.long
        let text =
            "a: \(long)\nb: \"\(long)\"\nc: |\n  \(long)\nd: [\(long)]\ne: \(String(repeating: " ", count: 1 << 20))x\n"
        let blank = String(repeating: "\n", count: 1 << 18) + String(repeating: "# \n", count: 1 << 18)
        guard case .map(let members, _)? = try YAMLReader.documents(text + blank + "...\n").first else {
            throw YAMLProblem(line: 0, message: "no names")
        }
        #expect(members.map(\.name) == ["a", "b", "c", "d", "e"])
        #expect(members[0].value == .text(long, line: 1) && members[1].value == .text(long, line: 2))
        #expect(members[4].value == .text("x", line: 6))
    }

    @Test func secondOfManyNamesIsFound() {
        let text = (0..<2_000).map { "n\($0): x\n" }.joined() + "n7: y\n...\n"
        let problem = #expect(throws: YAMLProblem.self) { try YAMLReader.documents(text) }
        #expect(problem == YAMLProblem(line: 2_001, message: "a second \"n7\"; keep one of them"))
    }
}

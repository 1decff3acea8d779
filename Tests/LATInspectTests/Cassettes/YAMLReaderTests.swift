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

    @Test func secondOfManyNamesIsFound() {
        let text = (0..<2_000).map { "n\($0): x\n" }.joined() + "n7: y\n...\n"
        let problem = #expect(throws: YAMLProblem.self) { try YAMLReader.documents(text) }
        #expect(problem == YAMLProblem(line: 2_001, message: "a second \"n7\"; keep one of them"))
    }
}

import Foundation
import LATTesting
import Snippets
import Testing

/// The Swift file that the generator makes from a page.
@Suite struct SnippetTests {
    private func source(_ page: String) -> [String] {
        Source(MarkdownPage(path: "A.md", text: page), name: "A", root: URL(filePath: "/p/")).text
            .split(separator: "\n").map(String.init)
    }

    @Test func sampleIsAFunctionThatNamesPageAndLine() {
        let lines = source("# A\n\n```swift\nprint(1)\n```\n")
        #expect(
            Array(lines.dropFirst(3)) == [
                "enum A {", "    static func line4() async throws {", #"#sourceLocation(file: "/p/A.md", line: 4)"#,
                "print(1)", "#sourceLocation()", "    }", "    static func properties() async throws {", "    }", "}",
            ])
    }

    @Test func importsMoveToTheTop() {
        let lines = source("```swift\nimport LATStorage\nprint(1)\n```")
        #expect(Array(lines[1...3]) == ["import Foundation", "import LATNetworking", "import LATStorage"])
        #expect(lines.count { $0.contains("LATStorage") } == 1)
    }

    @Test func typesOfSamplesAreMembers() throws {
        let lines = source("```swift\nstruct B: C {\n    var d = 1\n}\nlet b = B()\n```\n```swift\nstruct B {}\n```")
        let function = try #require(lines.firstIndex(of: "    static func line2() async throws {"))
        let type = try #require(lines.firstIndex(of: "struct B: C {"))
        #expect(type < function)
        #expect(lines[type - 1] == #"#sourceLocation(file: "/p/A.md", line: 2)"#)
        // A second type of the same name is local to its sample.
        #expect(try #require(lines.firstIndex(of: "struct B {}")) > function)
    }

    @Test func extensionsMoveToTheEndOfTheFile() throws {
        let lines = source("```swift\nextension B {\n}\nextension String {}\n```\n```swift\nstruct B {}\n```")
        let end = try #require(lines.firstIndex(of: "}") ?? nil)
        #expect(lines.contains("private extension A.B {"))
        #expect(try #require(lines.firstIndex(of: "private extension String {}")) > end)
    }

    @Test func givenDeclarationsAreMembers() {
        let lines = source(
            "<!-- given\nimport B\nlet c = 1\nfunc d() {\n    let e = 2\n}\n-->\n```swift\nprint(c)\n```")
        #expect(lines.contains("import B"))
        #expect(lines.contains("nonisolated(unsafe) static let c = 1"))
        #expect(lines.contains("static func d() {"))
        #expect(lines.contains("    let e = 2"))
    }

    @Test func linksAndAnchorsAreRead() {
        let page = MarkdownPage(path: "A.md", text: "## Who's `here`, A-B?\n[a](B.md#c), ![d](e.svg)\n```\n[f](g)\n```")
        #expect(page.anchors == ["whos-here-a-b"])
        #expect(page.links == ["B.md#c", "e.svg"])
    }

    @Test func propertiesInTheTextAreCompiled() {
        let lines = source("a\n`request.timeout` and `other.name`, `request.cancel()`\n")
        #expect(lines.contains("_ = request.timeout"))
        #expect(!lines.contains { $0.contains("other") || $0.contains("cancel") })
    }

    @Test func samplesOfCommentsNameTheirFile() throws {
        let folder = try TemporaryDirectory()
        let code = "/// A.\n///\n/// ```swift\n/// if isB {\n///     c()\n/// }\n/// ```\nstruct A {}\n"
        _ = try folder.write(Data(code.utf8), to: "A.swift")
        let root = URL(filePath: folder.path).deletingLastPathComponent()
        let module = URL(filePath: folder.path).lastPathComponent
        let lines = try Source.text(ofComments: module, root: root).split(separator: "\n").map(String.init)
        let first = try #require(lines.firstIndex(of: "if isB {"))
        #expect(lines[first - 1].hasSuffix("/\(module)/A.swift\", line: 4)"))
        #expect(Array(lines[first...(first + 2)]) == ["if isB {", "    c()", "}"])
        #expect(lines.contains("@testable import \(module)"))
    }

    @Test func markedAndOtherBlocksAreLeftOut() {
        let page = MarkdownPage(path: "A.md", text: "```swift manifest\na\n```\n```sh\nb\n```\n  ```swift\n  c\n  ```")
        #expect(page.blocks.map(\.language) == ["swift", "sh", "swift"])
        #expect(page.blocks.map(\.mark) == ["manifest", "", ""])
        #expect(page.samples.map(\.lines) == [["c"]])
    }
}

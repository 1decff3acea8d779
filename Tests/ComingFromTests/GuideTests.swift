import FoundationEssentials
import LATNetworking
import Testing

/// The pages about coming from other clients show only code that the tests beside this file compile and run.
@Suite struct GuideTests {
    private let guide: [String]
    private let tests: String

    init() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        guide = try ["Coming-from", "Coming-from-Objective-C"].flatMap { page in
            try String(contentsOf: folder.appending(path: "../../Documentation/\(page).md"), encoding: .utf8)
                .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        }
        tests = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("From") }
            .map { try Self.bare(String(contentsOf: folder.appending(path: $0), encoding: .utf8)) }.joined(
                separator: "\n")
    }

    /// Code without comments, white space, and the commas that formatting adds.
    private static func bare(_ code: String) -> String {
        code.split(separator: "\n").map { line in
            let isComment = line.drop { $0 == " " }.hasPrefix("//")
            let end = isComment ? line.startIndex : line.firstRange(of: " //")?.lowerBound ?? line.endIndex
            return line[..<end].filter { !$0.isWhitespace }
        }
        .joined().replacing(",]", with: "]").replacing(",)", with: ")")
    }

    /// The blocks of a language.
    private func blocks(_ language: String) -> [String] {
        var blocks: [String] = []
        var isInside = false
        for line in guide {
            if line == "```\(language)" {
                isInside = true
                blocks.append("")
            } else if line == "```" {
                isInside = false
            } else if isInside {
                blocks[blocks.count - 1] += line + "\n"
            }
        }
        return blocks
    }

    @Test func samplesAreThoseOfTheTests() {
        // The last cell of each row, without the names of declarations such as `model(from:)`.
        let cells = guide.filter { $0.hasPrefix("| ") }.compactMap { $0.split(separator: " | ").last }
        let spans = cells.flatMap { cell in
            cell.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }
                .map { String($0.element) }
        }
        let code =
            spans.filter { !$0.hasSuffix(":)") }
            + blocks("swift").flatMap { $0.split(separator: "\n\n").map(String.init) }
        #expect(code.count > 150)
        for sample in code { #expect(tests.contains(Self.bare(sample)), "no test has this: \(sample)") }
    }

    @Test func tablesAreValid() throws {
        let tables = blocks("json5")
        #expect(tables.count == 3)
        for table in tables { _ = try DomainTable(json5: table, environment: nil) }
    }
}

import Testing

@testable import lat

/// The pages of help at the widths of terminals.
@Suite struct HelpTextTests {
    private static let names = Commands.all.map { $0.name }

    private func page(_ name: String?, width: Int) throws -> String {
        guard let name else { return HelpText.overview(.plain, width: width) }
        return HelpText.explaining(try Commands.named(name), .plain, width: width)
    }

    /// The words without what only the layout adds: backslashes at ends of lines, and blanks.
    private func words(_ page: String) -> [Substring] {
        page.split { $0 == " " || $0 == "\n" }.filter { $0 != "\\" }
    }

    @Test(arguments: [40, 80, 100], [nil] + names)
    func noLineIsWiderThanTheTerminal(width: Int, name: String?) throws {
        let page = try page(name, width: width)
        for line in page.split(separator: "\n") { #expect(line.count <= width, "\(name ?? "lat"): \(line)") }
        #expect(!page.contains(" \n") && page.hasSuffix("\n"))
    }

    @Test(arguments: [nil] + names) func narrowPageHasTheSameWords(name: String?) throws {
        #expect(try words(page(name, width: 40)) == words(page(name, width: 80)))
    }

    @Test(arguments: names) func everyOptionAndSummaryIsListed(name: String) throws {
        let command = try Commands.named(name)
        let page = try page(name, width: 80)
        for option in command.options { #expect(page.contains(option.form)) }
        #expect(words(HelpText.overview(.plain)).joined(separator: " ").contains(command.summary))
    }

    @Test func textIsReadAsBlocks() {
        let text = """
            Two lines of
            one sentence.

              check    whether it is valid
              list     all rows

            Examples
              lat a
              lat b 'c d'
            """
        #expect(
            HelpBlock.reading(text) == [
                .paragraph("Two lines of one sentence."),
                .terms([.init(name: "check", text: "whether it is valid"), .init(name: "list", text: "all rows")]),
                .examples(["lat a", "lat b 'c d'"]),
            ])
    }

    @Test func longCommandLineIsContinuedWithBackslashes() {
        let line = "lat request GET http://h/ -H 'Accept: a b'"
        #expect(ShellLine.wrapped(line, to: 80) == [line])
        #expect(
            ShellLine.wrapped(line, to: 24) == ["lat request GET \\", "    http://h/ \\", "    -H 'Accept: a b'"])
    }
}

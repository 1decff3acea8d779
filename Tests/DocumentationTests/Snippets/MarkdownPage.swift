import Foundation

/// A page of documentation, with its blocks of code.
public struct MarkdownPage: Sendable {
    /// A fenced block of code.
    public struct Block: Sendable {
        /// The first word after the fence, such as `swift`; empty when there is none.
        public var language: String
        /// What follows the language: why a block is not compiled, such as `manifest`.
        public var mark: String
        /// The heading above.
        public var title: String
        /// The number of the first line of code.
        public var line: Int
        /// The code, without the indentation of the fence.
        public var lines: [String]

        /// The code as one text.
        public var text: String { lines.joined(separator: "\n") }

        /// Whether this is a package manifest, or a part of one that has the mark `manifest`.
        public var isManifest: Bool {
            language == "swift" && (mark == "manifest" || lines.contains("import PackageDescription"))
        }
    }

    /// The path in the package.
    public var path: String
    /// All blocks of code, in order.
    public var blocks: [Block] = []
    /// The headings, without their signs.
    public var headings: [String] = []
    /// The addresses of links and pictures.
    public var links: [String] = []
    /// The properties that the text names, such as `configuration.timeout`, with their lines.
    public var properties: [(path: String, line: Int)] = []
    /// The declarations in comments `<!-- given … -->`, which readers do not see. They hold for all samples of the page.
    public var givens: [Block] = []

    /// Reads a page from its text.
    public init(path: String, text: String) {
        self.path = path
        var open: (block: Block, fence: Fence)?
        var given: Block?
        var title = ""
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let line = String(line)
            if let (block, fence) = open {
                if fence.isClosed(by: line) {
                    blocks.append(block)
                    open = nil
                } else {
                    let blanks = line.prefix { $0 == " " }.count
                    open?.block.lines.append(String(line.dropFirst(min(blanks, fence.indentation))))
                }
            } else if let block = given {
                if line == "-->" {
                    givens.append(block)
                    given = nil
                } else {
                    given?.lines.append(line)
                }
            } else if let fence = Fence(line) {
                open = (fence.block(title: title, line: index + 2), fence)
            } else if line == "<!-- given" {
                given = Block(language: "swift", mark: "", title: title, line: index + 2, lines: [])
            } else if line.hasPrefix("#") {
                title = String(line.drop { $0 == "#" }.drop { $0 == " " })
                headings.append(title)
            } else {
                properties += line.matches(of: /`([a-z]+(\.[a-z]\w*)+)`/).map { (String($0.1), index + 1) }
                links += line.matches(of: /\]\(([^)\s]+)\)/).map { String($0.1) }
            }
        }
    }

    /// Reads a page of the package whose folder is `root`.
    public init(path: String, root: URL) throws {
        self.init(path: path, text: try String(contentsOf: root.appending(path: path), encoding: .utf8))
    }

    /// Reads the documentation comments of a file as a page, whose lines are those of the file.
    public init(comments path: String, root: URL) throws {
        let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line -> Substring in
            let code = line.drop { $0 == " " }
            guard code.hasPrefix("///") else { return "" }
            return code.dropFirst(code.hasPrefix("/// ") ? 4 : 3)
        }
        self.init(path: path, text: lines.joined(separator: "\n"))
    }

    /// The anchors of the headings, as GitHub makes them.
    public var anchors: [String] {
        headings.map { heading in
            let kept = heading.lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
            return kept.replacingOccurrences(of: " ", with: "-")
        }
    }

    /// The samples that are compiled.
    public var samples: [Block] { blocks.filter { $0.language == "swift" && $0.mark.isEmpty && !$0.isManifest } }
}

/// The line that opens a block.
private struct Fence {
    var indentation: Int
    var length: Int
    var info: Substring

    init?(_ line: String) {
        let text = line.drop { $0 == " " }
        length = text.prefix { $0 == "`" }.count
        guard length >= 3 else { return nil }
        indentation = line.count - text.count
        info = text.dropFirst(length)
        guard !info.contains("`") else { return nil }
    }

    func isClosed(by line: String) -> Bool {
        let text = line.trimmingCharacters(in: .whitespaces)
        return text.count >= length && text.allSatisfy { $0 == "`" }
    }

    func block(title: String, line: Int) -> MarkdownPage.Block {
        let words = info.split(separator: " ", maxSplits: 1)
        return MarkdownPage.Block(
            language: words.first.map(String.init) ?? "", mark: words.count > 1 ? String(words[1]) : "", title: title,
            line: line, lines: [])
    }
}

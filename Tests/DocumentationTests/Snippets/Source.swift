import Foundation

/// The Swift file made of a page: an enum with a function for each sample. The types that samples declare are members
/// of the enum, so that later samples of the page can use them. Errors name the line of the page.
public struct Source {
    /// The beginning of the pages whose samples `GuideTests` compares with the code of ComingFromTests.
    static let comparedPages = "Documentation/Coming-from"
    /// The page that also names removed properties.
    static let changelog = "CHANGELOG.md"

    /// The given values whose properties the text of a page may name.
    static let objects: Set = [
        "c", "central", "configuration", "download", "error", "manager", "request", "response", "task", "upload",
    ]

    /// What every page imports, and what its samples and given declarations import.
    private var imports: Set = ["import Foundation", "import LATNetworking"]
    private var members: [String] = []
    private var extensions: [String] = []
    private var functions: [String] = []
    /// The types that are members, so far.
    private var types: Set<String> = []
    /// The types that become members.
    private var shownTypes: Set<String> = []
    private let name: String
    /// The path of the page, as the compiler shows it.
    private let file: String

    /// - Parameters:
    ///   - page: The page.
    ///   - name: The name of the enum.
    ///   - root: The folder of the package.
    public init(_ page: MarkdownPage, name: String, root: URL) {
        self.name = name
        self.file = root.appending(path: page.path).path
        for given in page.givens { add(given: given) }
        // The types of a recipe are local to it.
        if !page.isRecipes {
            let shown = page.samples.flatMap { Declaration.all(in: $0.lines) }.filter { !$0.isExtension }
            shownTypes = types.union(shown.map(\.name))
        }
        if !page.path.hasPrefix(Self.comparedPages) {
            for sample in page.samples { add(sample, isRecipe: page.isRecipes) }
            if page.path != Self.changelog { addProperties(of: page) }
        }
    }

    /// The text of the file.
    public var text: String { Self.text(of: [self]) }

    private var end: [String] { ["}"] + extensions }

    private static func text(of sources: [Source]) -> String {
        let imports = sources.reduce(into: Set<String>()) { $0.formUnion($1.imports) }
        let bodies = sources.map { ["", "enum \($0.name) {"] + $0.members + $0.functions + $0.end }
        let lines =
            ["// Made by SnippetPlugin. Edit the page, not this file.", ""] + imports.sorted() + bodies.flatMap(\.self)
        return lines.joined(separator: "\n") + "\n"
    }

    /// The text of a file with the samples of all documentation comments of a module.
    ///
    /// - Parameters:
    ///   - module: The path of the module's folder, such as `Sources/Client/HTTPCore`.
    ///   - root: The folder of the package.
    public static func text(ofComments module: String, root: URL) throws -> String {
        let paths = try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: module).path)
        let name = module.split(separator: "/").last.map(String.init) ?? module
        let sources = try paths.filter { $0.hasSuffix(".swift") }.sorted().compactMap { path -> Source? in
            let page = try MarkdownPage(comments: "\(module)/\(path)", root: root)
            guard !page.samples.isEmpty else { return nil }
            let kept = path.dropLast(".swift".count).map { $0.isLetter || $0.isNumber ? $0 : "_" }
            var source = Source(page, name: "\(name)_\(String(kept))", root: root)
            // Internal declarations have samples too, for developers of the module.
            source.imports.formUnion([
                "@testable import \(name)", "import LATStorage", "import LATTesting", "import ResponseCache",
                "import Testing",
            ])
            return source
        }
        return text(of: sources)
    }

    /// The file that lists all recipes and the pages.
    public static func list(_ pages: [(page: MarkdownPage, name: String)]) -> String {
        let recipes = pages.filter(\.page.isRecipes).flatMap { page, name in
            page.samples.map { sample in
                "    Recipe(title: \(String(reflecting: sample.title)), line: \(sample.line), "
                    + "run: \(name).line\(sample.line)),"
            }
        }
        return """
            // Made by SnippetPlugin.

            /// How many samples of each page are compiled.
            let compiledSamples = [
            \(pages.map { "    \(String(reflecting: $0.page.path)): \($0.page.samples.count)," }.joined(separator: "\n"))
            ]

            /// The samples of Documentation/Recipes.md.
            let recipes: [Recipe] = [
            \(recipes.joined(separator: "\n"))
            ]

            """
    }

    // MARK: - Parts

    private mutating func add(given: MarkdownPage.Block) {
        var isNested = false
        let lines = withoutImports(given.lines).map { line in
            defer { isNested = line.hasPrefix("}") ? false : isNested || Declaration.opens(line) }
            let isValue = ["let ", "var ", "func "].contains { line.hasPrefix($0) }
            guard isValue, !isNested else { return line }
            return (line.hasPrefix("func ") ? "static " : "nonisolated(unsafe) static ") + line
        }
        for declaration in Declaration.all(in: lines) { types.insert(declaration.name) }
        members += located(lines, at: given.line)
    }

    private mutating func add(_ sample: MarkdownPage.Block, isRecipe: Bool) {
        var lines = withoutImports(sample.lines)
        for declaration in Declaration.all(in: lines) {
            let text = Array(lines[declaration.lines])
            let line = sample.line + declaration.lines.lowerBound
            if declaration.isExtension {
                extensions += located(adapted(text, declaration.name), at: line)
            } else if shownTypes.contains(declaration.name), types.insert(declaration.name).inserted {
                members += located(text, at: line)
            } else {
                continue
            }
            // Empty lines keep the numbers of the lines that follow.
            for index in declaration.lines { lines[index] = "" }
        }
        let parameters = isRecipe ? "central: CentralRequestManager, server: String, folder: String" : ""
        functions.append("    static func line\(sample.line)(\(parameters)) async throws {")
        functions += located(lines, at: sample.line)
        functions.append("    }")
    }

    /// Adds a function that reads the properties that the text names.
    private mutating func addProperties(of page: MarkdownPage) {
        let known = page.properties.filter { property in
            Self.objects.contains(String(property.path.prefix { $0 != "." }))
        }
        functions.append("    static func properties() async throws {")
        functions += known.flatMap { located(["_ = \($0.path)"], at: $0.line) }
        functions.append("    }")
    }

    /// Moves imports to the top of the file, and leaves empty lines where they were. Attributes that only a program or a
    /// test target may have are removed.
    private mutating func withoutImports(_ lines: [String]) -> [String] {
        lines.map { line in
            if line.hasPrefix("import ") || line.hasPrefix("@testable import ") {
                imports.insert(line)
                return ""
            }
            for attribute in ["@main", "@Test", "@Suite"] where line.hasPrefix(attribute) {
                return String(line.dropFirst(attribute.count))
            }
            return line
        }
    }

    /// The lines of an extension. The name of a type that is a member of the enum is qualified. An extension without a
    /// conformance is private, so that it does not affect other pages.
    private func adapted(_ lines: [String], _ type: String) -> [String] {
        var head = lines[0]
        if shownTypes.contains(type) {
            head = head.replacingOccurrences(of: "extension ", with: "extension \(name).")
        }
        if !head.prefix(while: { $0 != "{" }).contains(":") { head = "private " + head }
        return [head] + lines.dropFirst()
    }

    private func located(_ lines: [String], at line: Int) -> [String] {
        ["#sourceLocation(file: \(String(reflecting: file)), line: \(line))"] + lines + ["#sourceLocation()"]
    }
}

extension MarkdownPage {
    /// Whether the samples are recipes, which a test runs.
    public var isRecipes: Bool { path == "Documentation/Recipes.md" }
}

/// A declaration of a type, or an extension, at the beginning of a line.
private struct Declaration {
    var name: String
    var isExtension: Bool
    var lines: ClosedRange<Int>

    private static let keywords: Set<Substring> = ["struct", "class", "enum", "actor", "protocol", "extension"]
    private static let modifiers: Set<Substring> = ["final", "public", "private", "indirect", "open"]

    /// The keyword and name that a line declares.
    private static func head(_ line: String) -> (keyword: Substring, name: String)? {
        let words = line.split(separator: " ").drop { modifiers.contains($0) }
        guard line.first != " ", words.count > 1, let keyword = words.first, keywords.contains(keyword) else {
            return nil
        }
        return (keyword, String(words[words.startIndex + 1].prefix { $0.isLetter || $0.isNumber || $0 == "_" }))
    }

    /// Whether a line begins a declaration that ends at a later line.
    static func opens(_ line: String) -> Bool {
        line.first != " " && line.count { $0 == "{" } > line.count { $0 == "}" }
    }

    static func all(in lines: [String]) -> [Declaration] {
        var declarations: [Declaration] = []
        var index = 0
        while index < lines.count {
            defer { index += 1 }
            guard let (keyword, name) = head(lines[index]) else { continue }
            let first = index
            if opens(lines[index]) || !lines[index].contains("{") {
                index = lines[index...].dropFirst().firstIndex { $0.hasPrefix("}") } ?? lines.count - 1
            }
            declarations.append(Declaration(name: name, isExtension: keyword == "extension", lines: first...index))
        }
        return declarations
    }
}

import Foundation
import LATNetworking
import Snippets
import Testing

@testable import lat

/// Tables, links, command lines and manifests in the pages are valid, and no sample in Swift is left out.
@Suite struct PageTests {
    private static let root = URL(filePath: #filePath).appending(path: "../../..").standardizedFileURL

    private let pages: [MarkdownPage]

    init() throws {
        pages = try compiledSamples.keys.sorted().map { try MarkdownPage(path: $0, root: Self.root) }
    }

    @Test func everyPageIsCompiled() throws {
        let catalogs = try FileManager.default.subpathsOfDirectory(atPath: Self.root.appending(path: "Sources").path)
            .filter { $0.hasSuffix(".docc") }.map { "Sources/\($0)" }
        let folders = ["", "Documentation"] + catalogs
        let paths = try folders.flatMap { folder in
            try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: folder).path)
                .filter { $0.hasSuffix(".md") }.map { folder.isEmpty ? $0 : "\(folder)/\($0)" }
        }
        #expect(Set(paths) == Set(compiledSamples.keys), "a page is new or gone; touch Package.swift and build again")
        #expect(recipes.count == compiledSamples["Documentation/Recipes.md"])
        for page in pages {
            #expect(page.samples.count == compiledSamples[page.path], "\(page.path) was changed; build again")
        }
    }

    /// A block with a mark after its language is not compiled.
    @Test func onlyKnownMarksLeaveSamplesOut() {
        let marks: Set = ["manifest", "plan", "bridges", "bridges-vapor", "bridges-hummingbird"]
        let languages: Set = ["swift", "json5", "json", "sh", "diff", "text", ""]
        for page in pages {
            for block in page.blocks {
                #expect(languages.contains(block.language), "\(page.path):\(block.line)")
                #expect(block.mark.isEmpty || marks.contains(block.mark), "\(page.path):\(block.line)")
            }
        }
    }

    @Test func tablesAreValid() {
        let blocks = pages.flatMap { page in page.blocks.filter { $0.language == "json5" }.map { (page.path, $0) } }
        #expect(!blocks.isEmpty)
        for (path, block) in blocks {
            // A whole table, the rows of domains, or settings of one row.
            let tables = [
                block.text, "{ \(block.text)\n}", "{ domains: { \(block.text)\n} }",
                "{ domains: { a: { baseURL: \"https://a.example\", \(block.text)\n} } }",
            ]
            let problems = tables.compactMap { table -> String? in
                do {
                    _ = try DomainTable(json5: table, environment: nil)
                    return nil
                } catch {
                    return "\(error)"
                }
            }
            #expect(problems.count < tables.count, "\(path):\(block.line): \(problems.joined(separator: "\n"))")
        }
    }

    @Test func linksBetweenPagesAreValid() throws {
        var count = 0
        for page in pages {
            for link in page.links where !link.contains(":") {
                count += 1
                let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                let source = Self.root.appending(path: page.path)
                let target =
                    parts[0].isEmpty ? source : source.deletingLastPathComponent().appending(path: parts[0])
                #expect(FileManager.default.fileExists(atPath: target.path), "\(page.path): \(link)")
                guard parts.count > 1, target.pathExtension == "md" else { continue }
                let text = try String(contentsOf: target, encoding: .utf8)
                let anchors = MarkdownPage(path: link, text: text).anchors
                #expect(anchors.contains(parts[1].removingPercentEncoding ?? parts[1]), "\(page.path): \(link)")
            }
        }
        #expect(count > 0)
    }

    @Test func commandLinesAreValid() {
        var count = 0
        for page in pages {
            for block in page.blocks where ["sh", ""].contains(block.language) {
                // A backslash at the end continues a line.
                let lines = block.text.replacing("\\\n", with: "").split(separator: "\n")
                for line in lines where line.hasPrefix("lat ") {
                    count += 1
                    let words = Self.words(of: line).dropFirst()
                    #expect(throws: Never.self, "\(page.path):\(block.line): \(line)") {
                        _ = try Invocation(Array(words))
                    }
                }
            }
        }
        #expect(count > 0)
    }

    /// The words of a command line, up to a comment, a pipe or a redirection, as a shell divides them.
    private static func words(of line: Substring) -> [String] {
        var words: [String] = []
        var word: String?
        var quote: Character?
        for character in line {
            if let open = quote {
                if character == open { quote = nil } else { word? += String(character) }
            } else if character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if character == " " {
                if let ended = word { words.append(ended) }
                word = nil
            } else if word == nil, "#|<>&;".contains(character) {
                break
            } else {
                word = (word ?? "") + String(character)
            }
        }
        return words + (word.map { [$0] } ?? [])
    }

    @Test(.enabled(if: Compiler.path != nil, "swiftc is not in the PATH"))
    func manifestsAreValid() throws {
        let blocks = pages.flatMap(\.blocks).filter(\.isManifest)
        #expect(!blocks.isEmpty)
        for block in blocks {
            let isWhole = block.text.contains("let package")
            let manifest =
                isWhole
                ? block.text : "import PackageDescription\nlet package = Package(name: \"App\", \(block.text)\n)"
            let problems = try #require(try Compiler.problems(ofManifest: manifest))
            #expect(problems.isEmpty, "\(block.title): \(problems)")
        }
    }
}

/// The compiler of the toolchain that is in the `PATH`.
private enum Compiler {
    static let path: URL? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { URL(filePath: "\($0)/swiftc") }.first { FileManager.default.isExecutableFile(atPath: $0.path) }

    /// The compiler's diagnostics for a package manifest; `nil` when there is no compiler.
    static func problems(ofManifest manifest: String) throws -> String? {
        guard let path else { return nil }
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "Package.swift")
        try manifest.write(to: file, atomically: true, encoding: .utf8)
        let bin = path.resolvingSymlinksInPath().deletingLastPathComponent()
        let interface = bin.deletingLastPathComponent().appending(path: "lib/swift/pm/ManifestAPI")
        let process = Process()
        let output = Pipe()
        process.executableURL = path
        process.arguments = [
            "-typecheck", "-swift-version", "6", "-package-description-version", "6.1", "-I", interface.path, file.path,
        ]
        process.standardError = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return process.terminationStatus == 0 ? "" : String(decoding: text, as: UTF8.self)
    }
}

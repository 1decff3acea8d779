import Foundation
import PackagePlugin

/// Makes one Swift file of each page of documentation, and of the documentation comments of each listed module, so that
/// the compiler checks their samples. Only the target DocumentationTests uses it.
@main
struct SnippetPlugin: BuildToolPlugin {
    /// The modules whose documentation comments are checked.
    private static let modules = [
        "CurlTransport", "HTTPCore", "LATClient", "LATKit", "LATSealing", "LATStorage", "LATTesting", "LATTransfers",
        "ResponseCache",
    ]

    func createBuildCommands(context: PluginContext, target: Target) async throws -> [Command] {
        let root = context.package.directoryURL
        let pages = try Self.pages(root)
        let sources = pages.map { page in
            let name = page.dropLast(".md".count).map { $0.isLetter || $0.isNumber ? $0 : "_" }
            return context.pluginWorkDirectoryURL.appending(path: String(name) + ".swift")
        }
        let modules = try Self.modules.map { try Self.folder(of: $0, root) }
        let comments = Self.modules.map { context.pluginWorkDirectoryURL.appending(path: "\($0)Comments.swift") }
        let files = try modules.flatMap { try Self.files(in: $0, root, ".swift") }
        let generator = try ["SnippetGenerator", "Snippets"].flatMap {
            try Self.files(in: "Tests/DocumentationTests/\($0)", root, ".swift")
        }
        let list = context.pluginWorkDirectoryURL.appending(path: "Pages.swift")
        var arguments = [try context.tool(named: "swiftc").url.path, context.pluginWorkDirectoryURL.path]
        arguments += generator.map { root.appending(path: $0).path }
        arguments += ["--", root.path, list.path]
        for (source, output) in zip(pages + modules, sources + comments) { arguments += [source, output.path] }
        return [
            .buildCommand(
                displayName: "Samples of \(pages.count) pages and \(modules.count) modules",
                executable: root.appending(path: "Plugins/run-tool"),
                arguments: arguments,
                inputFiles: (generator + pages + files).map { root.appending(path: $0) },
                outputFiles: [list] + sources + comments)
        ]
    }

    /// The paths of all pages, relative to the package.
    private static func pages(_ root: URL) throws -> [String] {
        func markdown(in folder: String) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: root.appending(path: folder).path)
                .filter { $0.hasSuffix(".md") }.map { folder.isEmpty ? $0 : "\(folder)/\($0)" }
        }
        let catalogs = try files(in: "Sources", root, ".docc")
        return try (["", "Documentation"] + catalogs).flatMap(markdown).sorted()
    }

    /// The path of a module's folder, which is in one of the storeys.
    private static func folder(of module: String, _ root: URL) throws -> String {
        let storeys = try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path)
        let folders = storeys.map { "Sources/\($0)/\(module)" }
        return folders.first { FileManager.default.fileExists(atPath: root.appending(path: $0).path) } ?? module
    }

    /// The paths of the files and folders below a folder that end in this way, relative to the package.
    private static func files(in folder: String, _ root: URL, _ ending: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path)
            .filter { $0.hasSuffix(ending) }.sorted().map { "\(folder)/\($0)" }
    }
}

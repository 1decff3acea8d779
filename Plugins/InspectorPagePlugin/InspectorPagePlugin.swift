import Foundation
import PackagePlugin

/// Puts the files of the inspector's page into a Swift file, so that they are part of the program. Only LATInspect uses it.
@main
struct InspectorPagePlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: Target) async throws -> [Command] {
        let files = try Self.files(in: target.directoryURL.appending(path: "Page/Files"))
        let generator = try Self.files(in: target.directoryURL.appending(path: "Page/Generator"))
        let output = context.pluginWorkDirectoryURL.appending(path: "PageFiles.swift")
        var arguments = [try context.tool(named: "swiftc").url.path, context.pluginWorkDirectoryURL.path]
        arguments += generator.map(\.path) + ["--", output.path] + files.map(\.path)
        return [
            .buildCommand(
                displayName: "Files of the inspector's page",
                executable: context.package.directoryURL.appending(path: "Plugins/run-tool"),
                arguments: arguments,
                inputFiles: generator + files,
                outputFiles: [output])
        ]
    }

    private static func files(in folder: URL) throws -> [URL] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { !$0.hasPrefix(".") }.sorted()
            .map { folder.appending(path: $0) }
    }
}

import Foundation
import PackagePlugin

/// Puts the files of the inspector's page into a Swift file, so that they are part of the program. Only LATInspect uses it.
@main
struct InspectorPagePlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: Target) async throws -> [Command] {
        let folder = target.directoryURL.appending(path: "Page/Files")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { !$0.hasPrefix(".") }
            .sorted()
            .map { folder.appending(path: $0) }
        let output = context.pluginWorkDirectoryURL.appending(path: "PageFiles.swift")
        return [
            .buildCommand(
                displayName: "Files of the inspector's page",
                executable: try context.tool(named: "InspectorPageGenerator").url,
                arguments: [output.path] + files.map(\.path),
                inputFiles: files,
                outputFiles: [output])
        ]
    }
}

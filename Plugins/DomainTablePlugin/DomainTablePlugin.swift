import Foundation
import PackagePlugin

/// Generates typed names such as `DomainName.daxiang` and `ServerName.userDetail` from a table, before a target is
/// compiled. An invalid table fails the build, with the file and line of each problem.
///
/// The table is `domains.json5` in the target, else `Config/domains.json5` in the package.
@main
struct DomainTablePlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: Target) async throws -> [Command] {
        let table = Self.ownTable(of: target) ?? context.package.directoryURL.appending(path: "Config/domains.json5")
        guard FileManager.default.fileExists(atPath: table.path) else {
            Diagnostics.error(
                "DomainTablePlugin found no table for \(target.name); write Config/domains.json5, or remove the plugin from "
                    + "the target")
            return []
        }
        let output = context.pluginWorkDirectoryURL.appending(path: "TableNames.swift")
        return [
            .buildCommand(
                displayName: "Names of \(table.lastPathComponent) for \(target.name)",
                executable: try context.tool(named: "DomainTableGenerator").url,
                arguments: [
                    "--root", context.package.directoryURL.path, "--output", output.path, table.path,
                ],
                inputFiles: [table],
                outputFiles: [output])
        ]
    }

    /// The table in the folder of a target.
    private static func ownTable(of target: Target) -> URL? {
        (target as? any SourceModuleTarget)?.sourceFiles.map(\.url).first { $0.lastPathComponent == "domains.json5" }
    }
}

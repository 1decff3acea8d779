import DomainTables
import LATNetworking
import OpenAPIImport

/// `lat openapi diff`.
extension OpenAPICommand {
    func runDiff(_ old: String, _ new: String, _ console: Console) throws -> ExitCode {
        let domain = arguments.value(Self.domain)
        let before = try importer(old, domain: domain)
        let after = try importer(new, domain: before.domain)
        let folders = Self.folders(of: before.domain)
        if folders.count == 1, let state = try Self.state(Self.stateFile(of: before.domain, in: folders[0])) {
            try takeOverrides(of: state, before, after)
        }
        let difference = try DocumentDifference(from: before, to: after)
        // The rows that this project has, if it has any of them: what concerns no other is shown, and breaks nothing here.
        let own = Set((try? table.read())?.serverNames.map(\.rawValue) ?? [])
        let isKnown =
            difference.changes.contains { $0.rows.contains(where: own.contains) }
            || own.contains { $0.hasPrefix(before.domain + ".") }
        var breaks = false
        for change in difference.changes {
            let rows = change.rows.filter(own.contains)
            let concerns = !isKnown || !rows.isEmpty
            if change.isBreaking, concerns { breaks = true }
            let word = change.isBreaking ? "breaking" : "harmless"
            let more = rows.count > 3 ? " and \(rows.count - 3) more" : ""
            let users = rows.isEmpty ? "not used here" : "used by \(rows.prefix(3).joined(separator: ", "))\(more)"
            let use = isKnown ? "  (\(users))" : ""
            try console.print(SafeText.line("\(word)  \(change.subject): \(change.text)\(use)"))
        }
        if difference.changes.isEmpty { try console.print("nothing has changed") }
        return breaks ? .failure : .success
    }
}

import Cryptography
import DomainTables
import Glibc
import LATNetworking
import OpenAPIImport
import Platform

/// `lat openapi import`.
extension OpenAPICommand {
    func runImport(_ document: String, _ console: Console) throws -> ExitCode {
        let importer = try importer(document, domain: arguments.value(Self.domain))
        let domain = importer.domain
        let hasChoice =
            arguments.contains(Self.all) || arguments.contains(Self.tags) || arguments.contains(Self.operations)
        let folder = try self.folder(domain)
        guard let folder else {
            if !hasChoice { return try list(importer, console) }
            throw UsageError("Sources has no single target; name the folder of the Swift files with --to DIR")
        }
        let stateFile = Self.stateFile(of: domain, in: folder)
        var state = try Self.state(stateFile) ?? ImportState()
        try takeOverrides(of: state, importer)
        if arguments.value(Self.domain) == nil, let doubt = importer.doubt(after: state) {
            throw UsageError(SafeText.line(doubt))
        }
        let gone = arguments.contains(Self.only) ? [] : state.forget(missingIn: importer)
        let choice = state.choose(
            all: arguments.contains(Self.all), tags: list(Self.tags), operations: list(Self.operations),
            only: arguments.contains(Self.only))
        guard let choice else {
            guard gone.isEmpty else {
                throw UsageError(
                    "the document has nothing of the choice any more: \(SafeText.line(gone.listed)); choose anew with "
                        + "--tags, --operations or --all")
            }
            return try list(importer, console)
        }
        for word in gone {
            console.note(
                SafeText.line("the document has no \(word) any more; it leaves the choice, and its rows are removed"))
        }
        if arguments.contains(Self.isPublic) { state.isPublic = true }

        // Everything is made before anything is written.
        let result = try importer.run(
            choosing: choice, isPublic: state.isPublic, keepsAdditional: state.keepsAdditional,
            others: Self.otherTypes(than: Set(state.files.map { "\(folder)/\($0)" }), besides: folder),
            restoring: list(Self.operations))
        let oldTable = try Self.text(of: table.path)
        let editor = try TableEditor(
            oldTable, file: table.path, base: state.table, new: result.table, restoring: result.restored)
        var writes = result.files.map { (path: "\(folder)/\($0.name)", text: $0.text) }
        for write in writes {
            let old = try Self.text(of: write.path)
            if let old, !old.hasPrefix(OpenAPIImporter.mark) {
                throw UsageError(
                    "\(write.path) is not made by an import; move it, or name another folder with --to DIR")
            }
        }
        let removed = try state.files.filter { file in
            guard !result.files.contains(where: { $0.name == file }), !file.contains("/") else { return false }
            return try Self.text(of: "\(folder)/\(file)")?.hasPrefix(OpenAPIImporter.mark) == true
        }
        try Self.refuseEdited(result.files + removed.map { ($0, nil) }, state, in: folder)
        state.files = result.files.map(\.name)
        // Those of example replies have the path of the file.
        state.digests = state.digests.filter { $0.key.contains("/") }
        for file in result.files { state.digests[file.name] = Self.digest(file.text) }
        state.table = editor.table.json
        state.title = importer.title
        state.overrides = arguments.value(Self.overrides) ?? state.overrides
        state.keepsAdditional = result.keepsAdditional
        writes.append((table.path, editor.text))
        if let examples = arguments.value(Self.examples) {
            for (path, text) in result.examples.map({ ("\(examples)/\($0.name)", $0.text) }) {
                let digest = Self.digest(text)
                if let old = try Self.text(of: path).map(Self.digest), ![state.digests[path], digest].contains(old) {
                    console.note(
                        SafeText.line("\(path) was edited and stays; delete it to have the document's example"))
                    continue
                }
                state.digests[path] = digest
                writes.append((path, text))
            }
        }
        writes.append((stateFile, state.text))
        let changed = try writes.filter { write in try Self.text(of: write.path) != write.text }
        if !arguments.contains(Self.isDry) {
            for write in changed { try Self.write(write.text, to: write.path) }
            for file in removed { AtomicFile.remove("\(folder)/\(file)") }
        }
        try report(
            result, editor, importer, changed.map(\.path), removed.map { "\(folder)/\($0)" }, console)
        return .success
    }

    // MARK: Reports

    /// What there is to choose from.
    private func list(_ importer: OpenAPIImporter, _ console: Console) throws -> ExitCode {
        let contents = importer.contents
        try console.print("\(SafeText.line(importer.title)): choose with --tags, --operations or --all")
        for (tag, operations) in contents {
            try console.print("")
            try console.print("\(SafeText.line(tag)) (\(operations.count))")
            for operation in operations { try console.print("  \(SafeText.line(operation))") }
        }
        return .success
    }

    private func report(
        _ result: OpenAPIImporter.Result, _ editor: TableEditor, _ importer: OpenAPIImporter, _ changed: [String],
        _ removed: [String], _ console: Console
    ) throws {
        let shown = arguments.contains(Self.allWarnings) ? result.warnings.count : 20
        for warning in result.warnings.prefix(shown) { console.note(SafeText.line("\(warning)")) }
        if result.warnings.count > shown {
            console.note("and \(result.warnings.count - shown) more warnings; --warnings shows all")
        }
        for (operation, reason) in result.skipped { console.note(SafeText.line("\(operation) is left out: \(reason)")) }
        let calls = TableReport.count(result.calls, "call")
        let vague = result.vague == 0 ? "" : ", \(result.vague) with a JSONValue in them"
        try console.print("\(importer.domain): \(calls)\(vague)")
        let verb = arguments.contains(Self.isDry) ? ("would write", "would remove") : ("wrote", "removed")
        for path in changed { try console.print("\(verb.0) \(path)") }
        for path in removed { try console.print("\(verb.1) \(path)") }
        if changed.isEmpty, removed.isEmpty { try console.print("nothing has changed") }
        for (word, rows) in [("new", editor.added), ("changed", editor.changed), ("removed", editor.removed)]
        where !rows.isEmpty {
            let list = rows.count > 8 ? "\(rows.count) rows" : rows.joined(separator: ", ")
            try console.print("\(word) in the table: \(list)")
        }
        for text in editor.kept { try console.print("kept: \(SafeText.line(text))") }
        guard !editor.added.isEmpty else { return }
        for (name, words) in result.authenticators {
            let place = "configuration.authenticators[\"\(SafeText.line(name))\"]"
            try console.print("to do: the app sets \(place): \(SafeText.line(words))")
        }
    }

    // MARK: Files

    /// The folder of the Swift files: that of the last import, which another one would only repeat, or the one that was named;
    /// `nil` if there is neither, nor a usual place.
    private func folder(_ domain: String) throws(UsageError) -> String? {
        let known = Self.folders(of: domain)
        guard let named = arguments.value(Self.folder) else {
            guard known.count > 1 else { return known.first ?? Self.standardFolder(domain) }
            let list = known.prefix(3).joined(separator: ", ")
            throw UsageError("\(domain) was imported into \(list); name one of them with --to DIR")
        }
        let real = PathParts.resolved(named)
        let isKnown = real != nil && known.contains { PathParts.resolved($0) == real }
        guard let other = known.first, !isKnown else { return named }
        throw UsageError(
            "\(domain) was imported into \(other) already, and a second copy would declare the same types; leave out --to, "
                + "move that folder to \(SafeText.line(named)) first, or give the other copy a --domain of its own")
    }

    /// - Parameter files: Their new texts; `nil` for one that is to be removed.
    /// - Throws: ``UsageError`` if a file is not as an import wrote it, but for white space, which a formatter changes.
    private static func refuseEdited(
        _ files: [(name: String, text: String?)], _ state: ImportState, in folder: String
    ) throws {
        let edited = try files.filter { file in
            guard let digest = state.digests[file.name], let old = try text(of: "\(folder)/\(file.name)") else {
                return false
            }
            return ![digest, file.text.map(Self.digest)].contains(Self.digest(old))
        }
        guard let file = edited.first else { return }
        let first = "\(folder)/\(file.name)"
        let others = edited.count > 1 ? " and \(edited.count - 1) more" : ""
        throw UsageError(
            "\(first)\(others) was edited, and the import would \(file.text == nil ? "remove it" : "write it anew"); move "
                + "the edits to a file of your own, such as an extension, or name them in a file for --overrides, then "
                + "delete \(first) and import again")
    }

    private static func digest(_ text: String) -> String {
        let bytes = text.utf8.filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return MessageDigest.hexadecimal((try? MessageDigest.of(Array(bytes), .sha256)) ?? [])
    }

    static func stateFile(of domain: String, in folder: String) -> String { "\(folder)/\(domain).openapi.json" }

    /// The state in a file; `nil` if there is none.
    static func state(_ file: String) throws(ImportProblem) -> ImportState? {
        try text(of: file).map { text throws(ImportProblem) in try ImportState(text, file: file) }
    }

    /// The folders with the state of an import of a domain, at most six levels below the working directory.
    static func folders(of domain: String) -> [String] {
        tree(".").filter { access(stateFile(of: domain, in: $0), F_OK) == 0 }
    }

    /// A folder and those at most six levels below it.
    private static func tree(_ root: String) -> [String] {
        var level = [root]
        var all = level
        for _ in 0..<6 {
            level = level.flatMap { parent in
                entries(in: parent) { $0 == S_IFDIR }.map { parent == "." ? $0 : "\(parent)/\($0)" }
            }
            all += level
        }
        return all
    }

    /// The types of other imports into the target of a folder: it has each name once.
    private static func otherTypes(than own: Set<String>, besides folder: String) throws -> Set<String> {
        let steps = folder.split(separator: "/").filter { $0 != "." }
        let isTarget = steps.count > 1 && ["Sources", "Tests"].contains(steps[0]) && !folder.hasPrefix("/")
        let files = tree(isTarget ? steps.prefix(2).joined(separator: "/") : folder).flatMap { folder in
            entries(in: folder) { $0 == S_IFREG }.filter { $0.hasSuffix(".swift") }.map { "\(folder)/\($0)" }
        }
        return try files.filter { !own.contains($0) }.reduce(into: []) { types, file in
            types.formUnion(OpenAPIImporter.types(in: try text(of: file) ?? ""))
        }
    }

    /// A folder of the only target of the package.
    private static func standardFolder(_ domain: String) -> String? {
        let targets = entries(in: "Sources") { $0 == S_IFDIR }
        guard targets.count == 1 else { return nil }
        return "Sources/\(targets[0])/\(domain.prefix(1).uppercased() + domain.dropFirst())"
    }

    /// What is in a folder, is of a kind and neither hidden nor a link, by name.
    private static func entries(in folder: String, _ isWanted: (_ kind: mode_t) -> Bool) -> [String] {
        guard let entries = opendir(folder) else { return [] }
        defer { closedir(entries) }
        var names: [String] = []
        while let entry = readdir(entries) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            var status = stat()
            if !name.hasPrefix("."), lstat("\(folder)/\(name)", &status) == 0, isWanted(status.st_mode & S_IFMT) {
                names.append(name)
            }
        }
        return names.sorted()
    }

    /// The text of a file; `nil` if there is none.
    static func text(of path: String) throws(ImportProblem) -> String? {
        do throws(SourceFile.Problem) {
            return String(decoding: try SourceFile.bytes(of: path, limit: OpenAPIImporter.byteLimit), as: UTF8.self)
        } catch {
            if error.isMissing { return nil }
            throw ImportProblem("\(path) \(error.reason)")
        }
    }

    private static func write(_ text: String, to path: String) throws(UsageError) {
        do throws(SystemError) {
            try PathParts(path).makeFolder(mode: 0o777)
            // The permissions of a file that is there stay.
            var status = stat()
            let mode = stat(path, &status) == 0 ? status.st_mode & 0o777 : 0o644
            try AtomicFile.write(Array(text.utf8), to: path, mode: mode)
        } catch {
            throw UsageError("\(path) cannot be written: \(error.text)")
        }
    }
}

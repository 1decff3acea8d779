/// Which files the rows of a table may name: certificates, keys, and folders of fixtures.
package enum AllowedFiles: Sendable {
    /// Any, as in a file that belongs to the app.
    case any
    /// None, as in a table from a source.
    case none
    /// Those below a folder that the program chose: relative paths without `..`.
    case below

    /// The errors in rows that name other files.
    func diagnostics(of file: DomainTableFile, _ source: SourceText) -> [TableDiagnostic] {
        if case .any = self { return [] }
        return file.allSettings.flatMap(\.namedFiles).filter { !allows($0.path) }.map { file in
            let advice =
                if case .none = self {
                    "leave it out, or name the folder of such files in the program: DomainTable(from: …, files:)"
                } else {
                    "write a path below the program's folder of files, without \"..\""
                }
            return TableDiagnostic(
                .error, at: file.range, of: source,
                "\(QuotedText.of(file.key)) names the file \(QuotedText.of(file.path)), which is not allowed in a "
                    + "table from a source; \(advice)", found: QuotedText.of(file.path))
        }
    }

    private func allows(_ path: String) -> Bool {
        guard case .below = self else { return false }
        return !path.hasPrefix("/") && !path.split(separator: "/").contains("..")
    }
}

extension SettingsEntry {
    /// The files that the settings name, with their place.
    fileprivate var namedFiles: [(key: String, path: String, range: Range<Int>)] {
        var files: [(key: String, path: String, range: Range<Int>)] = []
        if let file = tls.caFile { files.append(("caFile", file.value, file.range)) }
        if let certificate = tls.clientCertificate {
            let paths =
                switch certificate.value {
                case .pkcs12(let file, _): [file]
                case .pem(let certificate, let key, _): [certificate, key]
                }
            files += paths.map { ("clientCertificate", $0, certificate.range) }
        }
        if let simulate, case .directory(let path, _) = simulate.value {
            files.append(("directory", path, simulate.range))
        }
        return files
    }
}

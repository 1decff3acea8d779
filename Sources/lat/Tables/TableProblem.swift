import LATNetworking

/// Why a table cannot be used.
struct TableProblem: Error {
    /// All that is wrong with the file; empty when that is not the reason.
    let diagnostics: [TableDiagnostic]
    /// One sentence.
    let message: String

    init(_ message: String) {
        diagnostics = []
        self.message = message
    }

    init(_ path: String, _ error: NetworkError) {
        diagnostics = (error.underlying as? DomainTableError)?.diagnostics ?? []
        message =
            diagnostics.isEmpty
            ? error.message : "the table \(path) has \(Self.count(diagnostics)); mend it and call this again"
    }

    /// Every problem with its line, then the sentence.
    func show(on console: Console) {
        console.note(diagnostics)
        console.complain(message)
    }

    /// `2 errors and 1 warning`.
    static func count(_ diagnostics: [TableDiagnostic]) -> String {
        let words: [(TableDiagnostic.Severity, String)] = [(.error, "error"), (.warning, "warning")]
        return words.compactMap { severity, word in
            let count = diagnostics.count { $0.severity == severity }
            return count == 0 ? nil : count == 1 ? "1 \(word)" : "\(count) \(word)s"
        }.joined(separator: " and ")
    }
}

extension Console {
    /// Diagnostics as the library renders them, with colour for whom it helps.
    func note(_ diagnostics: [TableDiagnostic]) {
        for diagnostic in diagnostics { Self.lines(of: diagnostic, errStyle).forEach(note) }
    }

    private static func lines(of diagnostic: TableDiagnostic, _ style: Style) -> [String] {
        let severity = "\(diagnostic.severity.rawValue):"
        let place = style.bold(SafeText.line("\(diagnostic.position)"))
        let kind = diagnostic.severity == .error ? style.red(severity) : style.yellow(severity)
        var lines = ["\(place): \(kind) \(diagnostic.message)"] + diagnostic.excerpt
        // The last line of an excerpt is the one with the caret.
        if diagnostic.excerpt.count > 1, let caret = lines.popLast() { lines.append(style.green(caret)) }
        return lines
    }
}

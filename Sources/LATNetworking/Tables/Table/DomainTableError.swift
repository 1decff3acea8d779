import DomainTableFormat
import HTTPCore

/// All that is wrong with a table file; what ``NetworkError/underlying`` is when a table cannot be read.
public struct DomainTableError: Error, Sendable, CustomStringConvertible {
    /// The file, as it was named.
    public var file: String
    /// What is wrong, in the order of the file, warnings included. Empty when the file could not be read at all.
    public var diagnostics: [TableDiagnostic]
    private var reason: String

    /// Every problem with its line of the file and a caret, as compilers print them.
    public var description: String {
        diagnostics.isEmpty ? reason : diagnostics.map(\.description).joined(separator: "\n")
    }

    static func broken(_ file: String, _ diagnostics: [TableDiagnostic]) -> NetworkError {
        let errors = diagnostics.filter { $0.severity == .error }
        var message = errors.first?.summary ?? "\(file) cannot be used"
        if errors.count > 1 {
            let others = errors.count == 2 ? "1 more problem" : "\(errors.count - 1) more problems"
            message += " (and \(others); lat domains check \(file) shows all)"
        }
        let error = DomainTableError(file: file, diagnostics: diagnostics, reason: message)
        return NetworkError(.invalidRequest, message: message, underlying: error)
    }

    static func unreadable(_ file: String, _ problem: SourceFile.Problem) -> NetworkError {
        let message = "the table \(file) \(problem.isMissing ? "is not there" : problem.reason); check the path"
        let error = DomainTableError(file: file, diagnostics: [], reason: message)
        return NetworkError(.invalidRequest, message: message, underlying: error)
    }
}

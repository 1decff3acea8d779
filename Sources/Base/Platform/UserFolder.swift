/// The folders of a user in which a program keeps files of its own (XDG Base Directory Specification).
package enum UserFolder: Sendable {
    /// For files that may be lost: `$XDG_CACHE_HOME`, else `~/.cache`.
    case cache
    /// For files that must survive a restart: `$XDG_STATE_HOME`, else `~/.local/state`.
    case state

    /// The program's part of the folder; `nil` when neither the variable nor `HOME` has an absolute path, and for an empty
    /// program name.
    package func path(environment: [String: String], program: String) -> String? {
        let (variable, standard) =
            switch self {
            case .cache: ("XDG_CACHE_HOME", ".cache")
            case .state: ("XDG_STATE_HOME", ".local/state")
            }
        // The specification says to ignore a relative path.
        let base = environment[variable].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? "\($0)/\(standard)" : nil }
        guard let base = base ?? home, !program.isEmpty else { return nil }
        return base.hasSuffix("/") ? base + program : "\(base)/\(program)"
    }
}

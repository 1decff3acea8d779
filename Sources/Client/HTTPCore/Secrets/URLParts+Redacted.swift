extension URLParts {
    /// The URL without user information, query and fragment, which may contain secrets. `?…` stands for a query.
    /// A URL within the path is shown without its secrets.
    package var redacted: String {
        let stem = stem
        let mayHaveURL = stem.utf8.contains { $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: "@") }
        let shown = mayHaveURL ? Secrets.standard.shown(url: stem) : stem
        return shown + (shownQuery == nil ? "" : "?…")
    }

    /// The same for the text of a URL.
    package static func redacted(_ url: String) -> String { URLParts(url).redacted }
}

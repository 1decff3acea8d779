import HTTPCore
import LATNetworking

/// A URL on the command line, which may lack its scheme and, for this machine, its host.
enum URLArgument {
    /// The URL of a command that has no other operand.
    ///
    /// - Parameters:
    ///   - form: what to write when it is missing.
    ///   - hint: what to write in place of another operand.
    static func only(_ operands: [String], _ form: String, _ hint: String) throws(UsageError) -> String {
        guard let url = operands.first else { throw UsageError("URL is missing; \(form)") }
        try UsageError.refuse(operands, after: 1, hint)
        return try checked(url)
    }

    /// Completes a URL: `:8080/x` is `http://localhost:8080/x`, and `example.org/x` is `http://example.org/x`. With
    /// port 443 the scheme is `https`.
    ///
    /// - Throws: ``UsageError`` for a text that is not a URL, and for a scheme other than http, https and unix.
    static func checked(_ text: String) throws(UsageError) -> String {
        let shown = SafeText.line(text)
        guard !text.isEmpty, !text.unicodeScalars.contains(where: { $0 == " " || $0.controlsTerminal }) else {
            throw UsageError(
                "URL \"\(shown)\" is empty or has a space; write http://host/path, with %20 instead of a space")
        }
        guard !text.hasPrefix("-") else {
            throw UsageError("URL \"\(shown)\" begins with a dash; write options before the --, or http://host/path")
        }
        let scheme = text.lowercased()
        if scheme.hasPrefix("http://") || scheme.hasPrefix("https://") { return text }
        if UnixAddress.isOne(text) {
            do throws(UnixAddress.Problem) {
                _ = try UnixAddress(text)
                return text
            } catch {
                let advice = error.suggestion.map { "did you mean \(SafeText.line($0))?" }
                let shown = SafeText.line(URLParts.redacted(text))
                throw UsageError("URL \"\(shown)\" \(error.reason); \(advice ?? "write unix:///path/of.sock:/path")")
            }
        }
        let start = authority(text)
        guard !(start.hasSuffix(":") && text.dropFirst(start.count).hasPrefix("//")) else {
            throw UsageError("URL \"\(shown)\" has a scheme other than http and https; lat sends only these two")
        }
        let rest = text.hasPrefix(":") ? "localhost" + (hasPort(text) ? text : String(text.dropFirst())) : text
        return (authority(rest).hasSuffix(":443") ? "https://" : "http://") + rest
    }

    /// Whether a word is a URL rather than the name of a command: it has a scheme, a port, a path, a dot, or is
    /// `localhost`.
    static func isURL(_ word: String) -> Bool {
        let host = authority(word)
        if URLParts(word).isAbsolute || host == "localhost" || host.hasPrefix("[") { return true }
        if word.hasPrefix(":") { return word == ":" || hasPort(word) || word.hasPrefix(":/") }
        guard let first = host.first, first.isLetter || first.isNumber else { return false }
        return host.contains(".") || host.count < word.count
            || host.contains(":") && host.drop { $0 != ":" }.dropFirst().allSatisfy(\.isNumber)
    }

    /// Whether a port follows the colon at the beginning.
    private static func hasPort(_ text: String) -> Bool { text.dropFirst().first.map(\.isNumber) ?? false }

    /// The text before path and query.
    private static func authority(_ text: String) -> Substring {
        text.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    }
}

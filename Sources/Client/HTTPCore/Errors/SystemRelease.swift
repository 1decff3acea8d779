/// The content of an os-release file (os-release(5)). The caller reads the file.
package struct SystemRelease: Sendable {
    /// All values by name, without quotes and escapes.
    package let values: [String: String]

    /// Parses the content of the file. Lines that are not assignments are skipped, as the manual page requires.
    package init(parsing text: String) {
        var values: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            let line = String(line).trimmingFieldWhitespace
            guard !line.hasPrefix("#"), let equals = line.firstIndex(of: "=") else { continue }
            values[String(line[..<equals]).trimmingFieldWhitespace] = Self.value(line[line.index(after: equals)...])
        }
        self.values = values
    }

    /// The name of the system without the suffix `GNU/Linux` or `Linux`: `Debian`, `Ubuntu`, `Alpine`. `nil` when the file
    /// has none.
    package var name: String? {
        guard let name = present("NAME") ?? present("ID") else { return nil }
        for suffix in [" GNU/Linux", " Linux"] where name.hasSuffix(suffix) {
            return String(name.dropLast(suffix.count))
        }
        return name
    }

    /// The version, such as `12` or `24.04`; `nil` for a system without versions, such as a rolling release.
    package var version: String? { present("VERSION_ID") ?? present("VERSION") }

    /// Name and version for people: `Debian GNU/Linux 12 (bookworm)`.
    package var title: String? { present("PRETTY_NAME") ?? present("NAME") }

    private func present(_ name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// The value without quotes, parsed as a shell does.
    private static func value(_ text: Substring) -> String {
        guard let quote = text.first, quote == "\"" || quote == "'" else { return String(text) }
        var value = ""
        var rest = text.dropFirst()
        while let character = rest.popFirst(), character != quote {
            if character == "\\", quote == "\"", let next = rest.first, "\"\\$`".contains(next) {
                value.append(next)
                rest.removeFirst()
            } else {
                value.append(character)
            }
        }
        return value
    }
}

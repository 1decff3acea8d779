internal import FoundationEssentials

/// The system's table of file extensions and media types.
///
/// Nothing else in this module reads the disk. A file of a few tens of
/// kilobytes is read once per process, for the first extension that is not
/// built in.
package struct MediaTypeTable: Sendable {
    private typealias Types = [String: (type: String, weight: Int)]

    /// Types by extension in lower case: `png`, and `tar.gz` too.
    private var types: Types = [:]
    /// Types by extensions that are case-sensitive, such as `C` for C++.
    private var exactTypes: Types = [:]

    /// The type of a file name by its longest known extension; `nil` when none is known.
    package func type(of name: some StringProtocol) -> String? {
        var rest = Substring(name)
        while let dot = rest.firstIndex(of: ".") {
            rest = rest[rest.index(after: dot)...]
            if let found = exactTypes[String(rest)] ?? types[rest.lowercased()] { return found.type }
        }
        return nil
    }

    // MARK: Formats

    /// Parses the list of shared-mime-info: lines of `weight:type:glob`, some with `:flags`. Only globs of the form
    /// `*.ext` are used.
    package init(globs2 text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let fields = line.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false)
            guard fields.count >= 3, let weight = Int(fields[0]), fields[2].hasPrefix("*.") else { continue }
            let name = fields[2].dropFirst(2)
            if fields.count > 3, fields[3].split(separator: ",").contains("cs") {
                Self.add(String(name), fields[1], weight, to: &exactTypes)
            } else {
                Self.add(name.lowercased(), fields[1], weight, to: &types)
            }
        }
    }

    /// Parses `mime.types`, the list of mail programs and web servers: lines of a type and its extensions.
    package init(mimeTypes text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let fields = line.split { $0 == " " || $0 == "\t" }
            guard let type = fields.first else { continue }
            for name in fields.dropFirst() { Self.add(name.lowercased(), type, 50, to: &types) }
        }
    }

    private init() {}

    private static func add(_ name: String, _ type: Substring, _ weight: Int, to types: inout Types) {
        guard !name.isEmpty, !name.contains(where: { "*?[".contains($0) }), type.contains("/") else { return }
        // The first of equal weight counts.
        if types[name].map({ $0.weight < weight }) ?? true { types[name] = (String(type), weight) }
    }

    /// The first of the system's lists that exists; else an empty table.
    static let system: MediaTypeTable = {
        if let text = text(of: "/usr/share/mime/globs2") { return MediaTypeTable(globs2: text) }
        if let text = text(of: "/etc/mime.types") { return MediaTypeTable(mimeTypes: text) }
        return MediaTypeTable()
    }()

    private static func text(of path: String) -> String? {
        (try? Data(contentsOf: URL(filePath: path))).map { String(decoding: $0, as: UTF8.self) }
    }
}

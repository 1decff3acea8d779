internal import FoundationEssentials

/// The system's table of file extensions and media types.
///
/// Nothing else in this module reads the disk. A file of a few tens of
/// kilobytes is read once per process, for the first extension that is not
/// built in.
package struct MediaTypeTable: Sendable {
    /// Types by extension in lower case: `png`, and `tar.gz` too.
    private var types: [String: (type: String, weight: Int)] = [:]
    /// Types by extensions that are case-sensitive, such as `C` for C++.
    private var exactTypes: [String: (type: String, weight: Int)] = [:]

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
            let isExact = fields.count > 3 && fields[3].split(separator: ",").contains("cs")
            add(fields[2].dropFirst(2), String(fields[1]), weight, isExact: isExact)
        }
    }

    /// Parses `mime.types`, the list of mail programs and web servers: lines of a type and its extensions.
    package init(mimeTypes text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let fields = line.split { $0 == " " || $0 == "\t" }
            guard let type = fields.first else { continue }
            for fileExtension in fields.dropFirst() { add(fileExtension, String(type), 50, isExact: false) }
        }
    }

    private init() {}

    private mutating func add(_ fileExtension: Substring, _ type: String, _ weight: Int, isExact: Bool) {
        guard !fileExtension.isEmpty, !fileExtension.contains(where: { "*?[".contains($0) }), type.contains("/")
        else { return }
        // The first of equal weight counts.
        if isExact {
            let key = String(fileExtension)
            if exactTypes[key].map({ $0.weight < weight }) ?? true { exactTypes[key] = (type, weight) }
        } else {
            let key = fileExtension.lowercased()
            if types[key].map({ $0.weight < weight }) ?? true { types[key] = (type, weight) }
        }
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

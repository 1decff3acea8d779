/// Reads a JSON5 tree as a table and collects diagnostics.
struct TableReader {
    let source: SourceText
    /// What the paths of files in rows are relative to.
    let folder: String?
    let files: AllowedFiles
    var file: DomainTableFile
    private(set) var diagnostics: [DomainTable.Diagnostic] = []
    /// How many diagnostics were left out, and whether one of them was an error.
    private(set) var omitted = (count: 0, hasError: false)
    /// The names of the domains that have been read.
    private(set) var domainNames: Set<String> = []
    var unknownDomainCount = 0
    var caching = CachingCheck()
    /// The rows' settings that make faults on purpose.
    var faults: [JSON5Node] = []

    /// The largest number of diagnostics: nobody reads more, and each has its line of the file.
    static let mostDiagnostics = 1_000
    /// The largest number of unknown domains that get advice.
    static let mostAdvice = 20

    init(_ source: SourceText, folder: String?, files: AllowedFiles) {
        self.source = source
        self.folder = folder
        self.files = files
        file = DomainTableFile(name: source.name)
    }

    mutating func readTable(_ root: JSON5Node) {
        guard let table = fields(of: root, in: .table, called: "the table") else { return }
        if let node = table["defaults"] {
            if let row = fields(of: node, in: .defaults, called: "\"defaults\"") {
                file.defaults = settings(row)
                caching.defaults = caching.last
            }
        }
        for (member, isFirst) in entries(of: table["domains"], called: "\"domains\"", each: "domain") {
            caching.startRow()
            let row = domain(member)
            guard isFirst else { continue }
            file.domains.append(.init(name: located(member.key, member.keyRange), row: row))
            caching.domains.append(caching.last)
            domainNames.insert(member.key)
        }
        if table.lacks("domains") {
            report(
                root.range.lowerBound..<(root.range.lowerBound + 1),
                "the table has no \"domains\"; "
                    + #"write domains: { demo: { baseURL: "http://127.0.0.1:8080" } }"#, expected: "\"domains\"")
        }
        for (member, isFirst) in entries(of: table["servers"], called: "\"servers\"", each: "server") {
            caching.startRow()
            let row = server(member)
            guard isFirst else { continue }
            file.servers.append(.init(name: located(member.key, member.keyRange), row: row))
            caching.servers.append(caching.last)
        }
        checkCaching()
        file.production = table["production"].flatMap { production($0) }
    }

    /// A diagnostic at the end of the file that counts the omitted ones.
    var ending: [DomainTable.Diagnostic] {
        guard omitted.count > 0 else { return [] }
        let end = source.bytes.count
        return [
            DomainTable.Diagnostic(
                omitted.hasError ? .error : .warning, at: end..<end, of: source,
                "\(omitted.count) more problems are not shown; correct the others first")
        ]
    }

    // MARK: Objects

    /// The values of an object whose keys the format defines.
    struct Fields {
        fileprivate var values: [String: JSON5Node] = [:]
        /// The keys that were probably meant by unknown keys.
        fileprivate(set) var mistyped: Set<String> = []

        subscript(key: String) -> JSON5Node? { values[key] }

        /// Whether a setting that every row may have is there.
        var hasSettings: Bool { values.keys.contains { TableKey.settingNames.contains($0) } }

        /// Whether a key is missing, and not just mistyped.
        func lacks(_ key: String) -> Bool { values[key] == nil && !mistyped.contains(key) }
    }

    /// Reads an object. Unknown and duplicate keys are reported; the first of duplicate keys counts.
    mutating func fields(of node: JSON5Node, in place: TableKey.Place, called name: String) -> Fields? {
        guard let members = object(node, called: name) else { return nil }
        let known = Set(place.keys)
        var fields = Fields()
        var seen: [String: JSON5Member] = [:]
        for var member in members {
            let written = member
            if let name = RowKey.formerNames[member.key], known.contains(name) {
                report(
                    member.keyRange, "the key \(QuotedText.of(member.key)) is now called \"\(name)\"; rename it",
                    expected: "\"\(name)\"", found: QuotedText.of(member.key), suggestion: name, severity: .warning)
                member.key = name
            }
            if let first = seen[member.key] {
                let former = first.key == member.key ? "" : ", as \(QuotedText.of(first.key))"
                reportDuplicate("key", member, first: first.keyRange, former)
                continue
            }
            seen[member.key] = written
            guard known.contains(member.key) else {
                let advice = TableKey.advice(member.key, in: place)
                if let name = advice.suggestion { fields.mistyped.insert(name) }
                report(
                    member.keyRange, "unknown key \(QuotedText.of(member.key))\(advice.text)",
                    found: QuotedText.of(member.key), suggestion: advice.suggestion)
                continue
            }
            fields.values[member.key] = member.value
        }
        return fields
    }

    /// The members of an object whose keys are chosen by the user, and for each whether it is the first with its name.
    ///
    /// - Parameter most: The largest number of members. Default `nil`: any.
    mutating func entries(
        of node: JSON5Node?, called name: String, each kind: String, most: Int? = nil
    ) -> [(JSON5Member, Bool)] {
        guard let node, let members = object(node, called: name) else { return [] }
        if let most, members.count > most {
            report(node.range, "\(name) has \(members.count) members; at most \(most) are of use")
            return []
        }
        var seen: [String: Range<Int>] = [:]
        var entries: [(JSON5Member, Bool)] = []
        for member in members {
            if let first = seen[member.key] { reportDuplicate(kind, member, first: first) }
            entries.append((member, seen[member.key] == nil))
            if seen[member.key] == nil { seen[member.key] = member.keyRange }
            if member.key.isEmpty { report(member.keyRange, "the name of a \(kind) is empty") }
        }
        return entries
    }

    private mutating func object(_ node: JSON5Node, called name: String) -> [JSON5Member]? {
        guard case .object(let members) = node.value else {
            reportType(node, name, "an object { … }")
            return nil
        }
        return members
    }

    // MARK: Reports

    mutating func report(
        _ range: Range<Int>, _ message: String, expected: String? = nil, found: String? = nil,
        suggestion: String? = nil, severity: DomainTable.Diagnostic.Severity = .error
    ) {
        guard diagnostics.count < Self.mostDiagnostics else {
            omitted = (omitted.count + 1, omitted.hasError || severity == .error)
            return
        }
        diagnostics.append(
            DomainTable.Diagnostic(
                severity, at: range, of: source, message, expected: expected, found: found, suggestion: suggestion))
    }

    /// Reports a value of the wrong type or format.
    mutating func reportType(_ node: JSON5Node, _ name: String, _ expected: String, advice: String = "") {
        report(
            node.range, "\(name) must be \(expected), found \(node.phrase)\(advice)", expected: expected,
            found: node.phrase)
    }

    /// Reports a setting that two keys can give, when both keys are there.
    mutating func reportTwice(_ name: String, _ one: Range<Int>, _ other: Range<Int>) {
        let isFirst = one.lowerBound < other.lowerBound
        let line = source.position(of: (isFirst ? one : other).lowerBound).line
        report(isFirst ? other : one, "\(QuotedText.of(name)) is given twice, first in line \(line); remove one")
    }

    private mutating func reportDuplicate(
        _ kind: String, _ member: JSON5Member, first: Range<Int>, _ spelling: String = ""
    ) {
        let line = source.position(of: first.lowerBound).line
        report(
            member.keyRange, "duplicate \(kind) \(QuotedText.of(member.key)); the first is in line \(line)\(spelling)",
            found: QuotedText.of(member.key))
    }

    func located<Value>(_ value: Value, _ node: JSON5Node) -> Located<Value> {
        located(value, node.range)
    }

    func located<Value>(_ value: Value, _ range: Range<Int>) -> Located<Value> {
        Located(value: value, position: source.position(of: range.lowerBound), range: range)
    }
}

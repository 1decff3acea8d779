/// Reads a JSON5 tree as a table and collects diagnostics.
struct TableReader {
    let source: SourceText
    var file: DomainTableFile
    private(set) var diagnostics: [TableDiagnostic] = []
    /// Whether a cache policy or time to live could not be read, so that their combination cannot be checked.
    var hasBrokenCaching = false

    init(_ source: SourceText) {
        self.source = source
        file = DomainTableFile(name: source.name)
    }

    mutating func readTable(_ root: JSON5Node) {
        guard let table = fields(of: root, in: .table, called: "the table") else { return }
        if let node = table["defaults"] {
            if let row = fields(of: node, in: .defaults, called: "\"defaults\"") { file.defaults = settings(row) }
        }
        for (member, isFirst) in entries(of: table["domains"], called: "\"domains\"", each: "domain") {
            let entry = domain(member)
            if isFirst { file.domains.append(entry) }
        }
        if table.lacks("domains") {
            report(
                root.range.lowerBound..<(root.range.lowerBound + 1),
                "the table has no \"domains\"; "
                    + #"write domains: { demo: { baseURL: "http://127.0.0.1:8080" } }"#, expected: "\"domains\"")
        }
        for (member, isFirst) in entries(of: table["servers"], called: "\"servers\"", each: "server") {
            let entry = server(member)
            if isFirst { file.servers.append(entry) }
        }
        if !hasBrokenCaching { checkCaching() }
    }

    // MARK: Objects

    /// The values of an object whose keys the format defines.
    struct Fields {
        fileprivate var values: [String: JSON5Node] = [:]
        /// The keys that were probably meant by unknown keys.
        fileprivate(set) var mistyped: Set<String> = []

        subscript(key: String) -> JSON5Node? { values[key] }

        /// Whether a key is missing, and not just mistyped.
        func lacks(_ key: String) -> Bool { values[key] == nil && !mistyped.contains(key) }
    }

    /// Reads an object. Unknown and duplicate keys are reported; the first of duplicate keys counts.
    mutating func fields(of node: JSON5Node, in place: TableKey.Place, called name: String) -> Fields? {
        guard let members = object(node, called: name) else { return nil }
        let known = Set(place.keys)
        var fields = Fields()
        var seen: [String: Range<Int>] = [:]
        for member in members {
            if let first = seen[member.key] {
                reportDuplicate("key", member, first: first)
                continue
            }
            seen[member.key] = member.keyRange
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
    mutating func entries(of node: JSON5Node?, called name: String, each kind: String) -> [(JSON5Member, Bool)] {
        guard let node, let members = object(node, called: name) else { return [] }
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
        suggestion: String? = nil, severity: TableDiagnostic.Severity = .error
    ) {
        diagnostics.append(
            TableDiagnostic(
                severity, at: range, of: source, message, expected: expected, found: found, suggestion: suggestion))
    }

    /// Reports a value of the wrong type or format.
    mutating func reportType(_ node: JSON5Node, _ name: String, _ expected: String, advice: String = "") {
        report(
            node.range, "\(name) must be \(expected), found \(node.phrase)\(advice)", expected: expected,
            found: node.phrase)
    }

    /// Reports a setting that two keys can give, when both keys are there.
    mutating func reportTwice<Value: Sendable>(_ name: String, _ second: Located<Value>, first: Located<Value>) {
        let isReversed = second.range.lowerBound < first.range.lowerBound
        let line = (isReversed ? second : first).position.line
        report(
            (isReversed ? first : second).range,
            "\(QuotedText.of(name)) is given twice, first in line \(line); remove one")
    }

    private mutating func reportDuplicate(_ kind: String, _ member: JSON5Member, first: Range<Int>) {
        let line = source.position(of: first.lowerBound).line
        report(
            member.keyRange, "duplicate \(kind) \(QuotedText.of(member.key)); the first is in line \(line)",
            found: QuotedText.of(member.key))
    }

    func located<Value>(_ value: Value, _ node: JSON5Node) -> Located<Value> {
        located(value, node.range)
    }

    func located<Value>(_ value: Value, _ range: Range<Int>) -> Located<Value> {
        Located(value: value, position: source.position(of: range.lowerBound), range: range)
    }
}

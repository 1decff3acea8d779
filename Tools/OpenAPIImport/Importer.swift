import DomainTables

/// An import of a document: what is in it, and the files that are made of what is chosen.
///
/// ```swift
/// let importer = try OpenAPIImporter(bytes, name: "museum.yaml", domain: "museum") { path in try read(path) }
/// let result = try importer.run(choosing: .all)
/// for file in result.files { print(file.name, file.text.count) }
/// ```
package final class OpenAPIImporter {
    /// Which operations are made.
    package enum Choice: Hashable, Sendable {
        case all
        /// Those with one of the tags, and those that are named by id or as `GET /path`.
        case some(tags: [String], operations: [String])
    }

    /// The largest file that is read.
    package static var byteLimit: Int { Documents.byteLimit }
    /// The first words of every Swift file, by which an import knows its own.
    package static var mark: String { SwiftFiles.mark }

    /// What an import made.
    package struct Result {
        package var files: [(name: String, text: String)] = []
        /// The row of the domain, and those of the calls.
        package var table: ImportedTable
        /// The first example reply of each call that has one, under the names that a simulation looks for.
        package var examples: [(name: String, text: String)] = []
        package var warnings: [ImportWarning] = []
        package var skipped: [(operation: String, reason: String)] = []
        /// The rows of the calls that a person has named now, which come back if they were removed from the table.
        package var restored: Set<String> = []
        /// The authenticators that the rows name and the app provides, and the schemes of the document in words.
        package var authenticators: [(name: String, words: String)] = []
        /// Whether types with `additionalProperties: true` keep members that the document does not name. An update does as
        /// the first import did, whatever is added to the document.
        package var keepsAdditional = true
        /// The number of calls, and of those that have a `JSONValue` in them.
        package var calls = 0
        package var vague = 0
    }

    let reader: APIReader
    let api: API
    package let domain: String
    private var overrides = Overrides()

    /// - Parameters:
    ///   - bytes: the document.
    ///   - name: its path, which names it in messages and is the folder of what it refers to.
    ///   - domain: the name of the domain in the table; `nil` for one made from the title.
    ///   - overrides: the text and the name of a file of overrides.
    ///   - read: returns the bytes of another file.
    package init(
        _ bytes: [UInt8], name: String, domain: String? = nil, overrides: (bytes: [UInt8], file: String)? = nil,
        read: @escaping (_ path: String) throws(ImportProblem) -> [UInt8]
    ) throws(ImportProblem) {
        reader = try APIReader(Documents(bytes, name: name, read: read))
        api = try reader.api()
        let word = Self.words(of: api.title).first
        self.domain = domain ?? word.flatMap { $0.contains(where: \.isASCII) ? $0 : nil } ?? "api"
        if let overrides { try take(overrides.bytes, overrides: overrides.file) }
    }

    /// Takes the overrides of a file.
    package func take(_ bytes: [UInt8], overrides file: String) throws(ImportProblem) {
        overrides = try Overrides(bytes, file: file)
    }

    /// The words of a title by which its domain may be named.
    private static func words(of title: String) -> [String] {
        let noise: Set<String> = [
            "api", "the", "rest", "openapi", "swagger", "http", "v1", "v2", "v3", "public", "preview",
        ]
        // A brand such as `OpenAI` is one word.
        let words = title.split { !$0.isLetter && !$0.isNumber }.map { $0.lowercased() }
        return words.filter { !noise.contains($0) && $0.first?.isLetter == true }
    }

    /// The title of the document.
    package var title: String { api.title }

    /// Why this document may be that of another API than the one of the last import, whose domain it would take; `nil` if it
    /// seems to be a version of it: one of the same title has some of its operations, one of another title half of them.
    package func doubt(after state: ImportState) -> String? {
        guard let rows = state.table?["rows"].object, !rows.isEmpty else { return nil }
        let names = Set(api.heads.map { Planner.row(Planner.wanted($0, overrides), domain) })
        let addresses = Set(api.heads.map(\.address))
        let known = rows.count { name, row in
            names.contains(name) || addresses.contains("\(row["method"].string ?? "") \(row["path"].string ?? "")")
        }
        guard known == 0 || title != state.title && 2 * known < rows.count else { return nil }
        let origin = state.title.map { "\"\($0)\"" } ?? "another document"
        let other = Self.words(of: title).first { $0 != domain && $0.allSatisfy(\.isASCII) } ?? "NAME"
        return "\(domain) was imported from \(origin), and \"\(title)\" has "
            + (known == 0 ? "none of its calls" : "only \(known) of its \(rows.count) calls")
            + "; name another API with --domain \(other), or confirm a new version with --domain \(domain)"
    }

    /// The operations by tag, in the order of the document: what there is to choose from.
    package var contents: [(tag: String, operations: [String])] {
        var list: [(tag: String, operations: [String])] = []
        for head in api.heads {
            let tags = head.tags.isEmpty ? ["(without a tag)"] : head.tags
            let name = head.id ?? head.address
            for tag in tags {
                if let known = list.firstIndex(where: { $0.tag == tag }) {
                    list[known].operations.append(name)
                } else {
                    list.append((tag, [name]))
                }
            }
        }
        return list
    }

    /// - Parameters:
    ///   - keepsAdditional: as the result of an import before; `nil` for as the schemas of the document suggest.
    ///   - others: the types of other imports into the same module, whose names are not taken.
    ///   - operations: names of operations whose rows come back if they were removed from the table.
    package func run(
        choosing choice: Choice, isPublic: Bool = false, keepsAdditional: Bool? = nil, others: Set<String> = [],
        restoring operations: [String] = []
    ) throws(ImportProblem) -> Result {
        let generation = try generate(choice, keepsAdditional: keepsAdditional, others: others)
        let files = SwiftFiles(
            generation.plans, prefix: SwiftName.type(domain), title: api.title, source: Self.fileName(reader),
            isPublic: isPublic)
        var result = Result(files: files.files, table: generation.table)
        result.warnings = generation.warnings
        result.examples = generation.plans.compactMap(Self.fixture)
        result.skipped = generation.skipped
        result.keepsAdditional = generation.keepsAdditional
        result.calls = generation.plans.count
        result.vague = generation.plans.count(where: \.isVague)
        result.restored = Set(
            generation.plans.filter { operations.contains(where: $0.operation.head.isNamed) }.map(\.row))
        let named = generation.table.authenticators
        result.authenticators = api.schemes.filter { named.contains($0.name) }.map { ($0.name, $0.words) }
        return result
    }

    private static func fixture(of plan: EntityPlan) -> (name: String, text: String)? {
        guard let (_, spot) = plan.simulated, let data = try? spot.node.json.data(prettyPrinted: true) else {
            return nil
        }
        let path = plan.path.hasPrefix("/") ? String(plan.path.dropFirst()) : plan.path
        let isSafe = !path.isEmpty && !path.contains("..") && !path.contains("?") && !path.contains("://")
        guard isSafe else { return nil }
        return ("\(path).\(plan.operation.head.method).json", String(decoding: data, as: UTF8.self) + "\n")
    }

    private static func fileName(_ reader: APIReader) -> String {
        reader.documents.files[0].name.split(separator: "/").last.map(String.init) ?? ""
    }

    /// The types that a Swift file of an import declares; none for another file.
    package static func types(in text: String) -> Set<String> {
        guard text.hasPrefix(mark) else { return [] }
        let lines = text.split(separator: "\n").map { $0.split(separator: " ", omittingEmptySubsequences: false) }
        let names = lines.compactMap { words -> Substring? in
            let words = words.drop { ["public", "indirect"].contains($0) }
            guard let kind = words.first, ["struct", "enum", "typealias"].contains(kind) else { return nil }
            return words.dropFirst().first?.prefix { $0 != ":" }
        }
        return Set(names.map(String.init))
    }

    // MARK: Generation

    struct Generation {
        var plans: [EntityPlan]
        var declarations: [Declaration]
        var table: ImportedTable
        var warnings: [ImportWarning]
        var skipped: [(operation: String, reason: String)]
        var keepsAdditional: Bool
    }

    func generate(
        _ choice: Choice, keepsAdditional: Bool? = nil, others: Set<String> = []
    ) throws(ImportProblem) -> Generation {
        let (types, planner, names) = planning(keepsAdditional, others)
        if choice != .all {
            let (whole, planner, names) = planning(keepsAdditional, others)
            let warnings = reader.warnings
            for (head, (name, row)) in zip(api.heads, names) { _ = try? planner.plan(head, name: name, row: row) }
            reader.warnings = warnings
            types.takeNames(of: whole)
        }
        var plans: [EntityPlan] = []
        for index in try chosen(choice) {
            let (name, row) = names[index]
            if let plan = try planner.plan(api.heads[index], name: name, row: row) { plans.append(plan) }
        }
        let bodies = plans.compactMap(\.bodyDeclaration)
        let all = types.declarations + bodies
        Finishing.decideUnions(all)
        let check = ExampleCheck(reader.documents)
        for index in plans.indices {
            for example in plans[index].bodyExamples { _ = check.fit(example.spot, to: example.type) }
            for example in plans[index].replyExamples {
                let type = check.fit(example.spot, to: example.type)
                if example.type == plans[index].model { plans[index].model = type }
            }
        }
        for declaration in types.declarations where declaration.properties.isEmpty == false {
            let spot = declaration.spot
            for example in (spot["example"].map { [$0] } ?? []) + (spot["examples"]?.elements ?? [])
            where example.node.members != nil {
                _ = check.fit(example, to: .named(declaration))
            }
        }
        ExampleCheck.finish(all)
        Finishing.decideUnions(all)
        Finishing.shareUnions(types.declarations) { types.givenName(of: $0.spot) != nil }
        Finishing.box(types.declarations)
        var warnings = Finishing.untold(types.declarations).map { declaration, names in
            ImportWarning(
                place: reader.documents.place(of: declaration.spot),
                message: "nothing tells \(names.joined(separator: ", ")) apart; what is one of them is unknown")
        }
        let domainRow = RowSettings.domain(api) { message in
            warnings.append(ImportWarning(place: reader.documents.place(of: reader.documents.root), message: message))
        }
        warnings += overrides.unused(in: reader.documents)
        let needed = Set(plans.map { SecurityScheme.needed(by: $0.operation, api) }.filter { $0.count > 1 })
        for names in needed.sorted(by: { $0.joined() < $1.joined() }) {
            let message =
                "\(names.joined(separator: " and ")) are needed together, and a row names one authenticator: let that "
                + "of \(names[0]) send all of them"
            warnings.append(ImportWarning(place: reader.documents.place(of: reader.documents.root), message: message))
        }
        let table = ImportedTable(
            domain: domain, domainRow: domainRow, rows: plans.map { ($0.row, RowSettings.row($0, domain: domain)) },
            comment: api.schemes.map { "\($0.name): \($0.words)" }.joined(separator: "; "))
        var seen: Set<ImportWarning> = []
        let found = (reader.documents.warnings + warnings + reader.warnings + types.warnings + check.warnings).filter {
            seen.insert($0).inserted
        }
        return Generation(
            plans: plans, declarations: types.declarations, table: table,
            warnings: found, skipped: planner.skipped, keepsAdditional: types.keepsAdditional)
    }

    /// What makes plans of the operations, and their names.
    private func planning(_ keepsAdditional: Bool?, _ others: Set<String>) -> (TypeMaker, Planner, [(String, String)]) {
        let calls = Set(api.heads.map { Planner.wanted($0, overrides).lowercased() })
        let types = TypeMaker(
            reader.documents, overrides, prefix: SwiftName.type(domain), others: others, calls: calls,
            keepsAdditional: keepsAdditional)
        let planner = Planner(reader, api, types, domain: domain)
        return (types, planner, planner.names())
    }

    private func chosen(_ choice: Choice) throws(ImportProblem) -> [Int] {
        guard case .some(let tags, let operations) = choice else { return Array(api.heads.indices) }
        let missing = missing(tags, operations)
        if let tag = missing.tags.first {
            let hint = Self.hint(tag, contents.map(\.tag))
            throw ImportProblem("no operation has the tag \(tag)\(hint); without a choice, the tags are listed")
        }
        if let word = missing.operations.first {
            let names = api.heads.map { $0.id ?? $0.address }
            throw ImportProblem(
                "there is no operation \(word)\(Self.hint(word, names)); without a choice, they are listed")
        }
        return api.heads.indices.filter { index in
            let head = api.heads[index]
            let own = head.tags.isEmpty ? ["(without a tag)"] : head.tags
            return own.contains(where: tags.contains) || operations.contains(where: head.isNamed)
        }
    }

    /// What the document does not have.
    func missing(_ tags: [String], _ operations: [String]) -> (tags: [String], operations: [String]) {
        let known = contents
        return (
            tags.filter { tag in !known.contains { $0.tag == tag } },
            operations.filter { word in !api.heads.contains { $0.isNamed(word) } }
        )
    }

    private static func hint(_ word: String, _ names: [String]) -> String {
        NearestName.of(word, among: names).map { "; did you mean \($0)?" } ?? ""
    }
}

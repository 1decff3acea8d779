/// The Swift files of an import: one for each tag, with the types that only it uses, and one for the others.
struct SwiftFiles {
    /// The first words of every file, by which an import knows its own.
    static let mark = "// Made by lat openapi import"
    /// More lines than this are in several files, so that they compile in parallel and are read in review.
    private static let linesOfFile = 1_500

    private(set) var files: [(name: String, text: String)] = []
    private let prefix: String

    /// - Parameter prefix: begins the names of the files, because a module has each name once.
    init(_ plans: [EntityPlan], prefix: String, title: String, source: String, isPublic: Bool) {
        self.prefix = prefix
        // Which tags need a type: a type that one tag needs is in its file.
        var (tags, order): ([Declaration: Set<String>], [Declaration]) = ([:], [])
        for plan in plans {
            var next = plan.types.flatMap(\.declarations)
            while let declaration = next.popLast() {
                guard tags[declaration, default: []].insert(plan.tag).inserted else { continue }
                if tags[declaration]?.count == 1 { order.append(declaration) }
                next += declaration.declarations
            }
        }
        let sorted = order.sorted { $0.name < $1.name }
        let header =
            "\(Self.mark) from \(Comments.oneLine(title).prefix(60)) (\(Comments.oneLine(source))). "
            + "Change the document or the overrides, and import again."
        var names = NameSet()
        _ = names.claim("Models")

        var seen: Set<String> = []
        for tag in plans.map(\.tag) where seen.insert(tag).inserted {
            let calls = plans.filter { $0.tag == tag }
            let own = sorted.filter { tags[$0] == [tag] }
            let name = names.claim(SwiftName.type(tag))
            var writer = SwiftWriter(isPublic: isPublic)
            for plan in calls { writer.write(plan) }
            let count = writer.lines.count
            for declaration in own { writer.write(declaration) }
            let needsFoundation = calls.contains(where: Self.needsFoundation)
            if writer.lines.count <= Self.linesOfFile {
                add(name, writer, header, needsFoundation || Self.needFoundation(own))
                continue
            }
            // A large tag has its types in files of their own, and its calls, too.
            let groups = count <= Self.linesOfFile ? [(name, calls)] : Self.byLetter(calls, name, \.name)
            for (name, calls) in groups {
                var writer = SwiftWriter(isPublic: isPublic)
                for plan in calls { writer.write(plan) }
                add(name, writer, header, calls.contains(where: Self.needsFoundation))
            }
            addModels(own, name + "Models", header, isPublic)
        }
        addModels(sorted.filter { (tags[$0]?.count ?? 0) > 1 }, "Models", header, isPublic)
    }

    private mutating func addModels(
        _ declarations: [Declaration], _ name: String, _ header: String, _ isPublic: Bool
    ) {
        var writer = SwiftWriter(isPublic: isPublic)
        for declaration in declarations { writer.write(declaration) }
        let isSmall = writer.lines.count <= Self.linesOfFile
        for (name, declarations) in isSmall ? [(name, declarations)] : Self.byLetter(declarations, name, \.name)
        where !declarations.isEmpty {
            var writer = SwiftWriter(isPublic: isPublic)
            for declaration in declarations { writer.write(declaration) }
            add(name, writer, header, Self.needFoundation(declarations))
        }
    }

    /// The items by the first letter of their names: what comes or goes changes one file.
    private static func byLetter<Item>(
        _ items: [Item], _ name: String, _ key: (Item) -> String
    ) -> [(name: String, items: [Item])] {
        Dictionary(grouping: items) { key($0).prefix(1).uppercased() }.sorted { $0.key < $1.key }
            .map { ("\(name)-\($0.key)", $0.value) }
    }

    private static func needsFoundation(_ plan: EntityPlan) -> Bool {
        plan.model.needsFoundation || plan.properties.contains { $0.property.type.needsFoundation }
    }

    private static func needFoundation(_ declarations: [Declaration]) -> Bool {
        declarations.contains { $0.parts.contains(where: \.needsFoundation) }
    }

    private mutating func add(_ name: String, _ writer: SwiftWriter, _ header: String, _ needsFoundation: Bool) {
        let imports = (needsFoundation ? ["import Foundation"] : []) + ["import LATNetworking"]
        files.append((prefix + name + ".swift", ([header] + imports + writer.lines).joined(separator: "\n") + "\n"))
    }
}

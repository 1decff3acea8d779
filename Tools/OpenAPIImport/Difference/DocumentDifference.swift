import HTTPCore

/// What a document changes in another, in the words of the generated code: calls, their members, and those of the types that
/// they send and receive. What a change breaks depends on the direction: a value that is gone breaks who sends it, a member that
/// may be missing now breaks who reads it.
package struct DocumentDifference {
    /// A change of one call or type.
    package struct Change: Hashable {
        /// The name of the call or type.
        package let subject: String
        package let text: String
        /// Whether a program that was made for the old document may fail.
        package let isBreaking: Bool
        /// The rows of the calls that it concerns.
        package let rows: [String]
    }

    package private(set) var changes: [Change] = []

    package init(from old: OpenAPIImporter, to new: OpenAPIImporter) throws(ImportProblem) {
        let (old, new) = (try Side(old), try Side(new))
        compareDomains(old, new)
        compareCalls(old, new)
        compareTypes(old, new)
    }

    mutating func add(_ subject: String, _ text: String, breaks: Bool, _ rows: [String]) {
        let change = Change(subject: subject, text: text, isBreaking: breaks, rows: rows)
        if !changes.contains(change) { changes.append(change) }
    }

    /// What is compared of one document.
    struct Side {
        var calls: [(key: String, plan: EntityPlan)] = []
        var types: [String: Declaration] = [:]
        /// The rows of the calls that send a type, and of those that receive it.
        var senders: [String: [String]] = [:]
        var receivers: [String: [String]] = [:]
        let domain: String
        let domainRow: Node
        let flattener: Flattener

        init(_ importer: OpenAPIImporter) throws(ImportProblem) {
            let generation = try importer.generate(.all)
            domain = importer.domain
            domainRow = generation.table.domainRow
            flattener = Flattener(documents: importer.reader.documents)
            for plan in generation.plans {
                let head = plan.operation.head
                calls.append((head.id ?? head.address, plan))
                walk(plan.properties.flatMap(\.property.type.declarations), plan.row, \.senders)
                walk(
                    plan.model.declarations + plan.failures.flatMap(\.type.declarations)
                        + (plan.streamType?.declarations ?? []), plan.row, \.receivers)
            }
        }

        private mutating func walk(
            _ roots: [Declaration], _ row: String, _ list: WritableKeyPath<Side, [String: [String]]>
        ) {
            var (next, seen): ([Declaration], Set<Declaration>) = (roots, [])
            while let declaration = next.popLast() {
                guard seen.insert(declaration).inserted else { continue }
                types[declaration.name] = declaration
                self[keyPath: list][declaration.name, default: []].append(row)
                next += declaration.declarations
            }
        }
    }

    // MARK: Types

    private mutating func compareTypes(_ old: Side, _ new: Side) {
        for (name, before) in old.types.sorted(by: { $0.key < $1.key }) {
            // A type that is gone shows in what named it.
            guard let after = new.types[name] else { continue }
            let (sent, received) = (old.senders[name] ?? [], old.receivers[name] ?? [])
            let rows = sent + received.filter { !sent.contains($0) }
            switch (before.kind, after.kind) {
            case (.object, .object):
                compare(before.properties, after.properties, name, sent: sent, received: received, old, new)
                let others = (before.additional.map(Self.text), after.additional.map(Self.text))
                if others.0 != others.1 {
                    let text = others.1.map { "other members are \($0)" } ?? "there are no other members any more"
                    add(name, others.0.map { "\(text), was \($0)" } ?? text, breaks: others.0 != nil, rows)
                }
            case (.openEnum(let before), .openEnum(let after)):
                if before.raw != after.raw {
                    add(name, "the values are \(after.raw.text), were \(before.raw.text)", breaks: true, rows)
                }
                let values = (Set(before.cases.map(\.value)), Set(after.cases.map(\.value)))
                for value in values.1.subtracting(values.0).sorted() {
                    add(name, "the value \(value) is new", breaks: false, rows)
                }
                for value in values.0.subtracting(values.1).sorted() {
                    add(name, "the value \(value) is gone", breaks: !sent.isEmpty, rows)
                }
            case (.union(let before), .union(let after)):
                let cases = (Set(before.variants.map(\.type.text)), Set(after.variants.map(\.type.text)))
                for type in cases.1.subtracting(cases.0).sorted() {
                    add(name, "it may be \(type)", breaks: false, rows)
                }
                for type in cases.0.subtracting(cases.1).sorted() {
                    add(name, "it is \(type) no more", breaks: !sent.isEmpty, rows)
                }
                compareDiscriminators(before, after, name, rows)
            default: add(name, "it is another kind of type", breaks: true, rows)
            }
        }
    }

    private static func text(_ use: Use) -> String { use.type.text + (use.isNullable ? "?" : "") }

    private mutating func compareDiscriminators(
        _ before: UnionShape, _ after: UnionShape, _ name: String, _ rows: [String]
    ) {
        func values(_ shape: UnionShape) -> [String: Set<String>] {
            guard let (_, values) = shape.discriminator else { return [:] }
            return Dictionary(
                zip(shape.variants.map(\.type.text), values.map { Set($0.compactMap(\.text)) })
            ) { $0.union($1) }
        }
        if before.discriminator?.member != after.discriminator?.member {
            let text =
                after.discriminator.map { "\($0.member) says which it is" } ?? "no member says which it is any more"
            return add(name, text, breaks: true, rows)
        }
        let (old, new) = (values(before), values(after))
        for (type, known) in old.sorted(by: { $0.key < $1.key }) {
            guard let now = new[type], known != now else { continue }
            let list = now.sorted().map(SwiftName.literal).joined(separator: ", ")
            add(name, "\(type) is told by \(list)", breaks: !known.isSubset(of: now), rows)
        }
    }

    // MARK: Members

    /// - Parameters:
    ///   - sent: the rows of the calls that send the members.
    ///   - received: the rows of the calls that receive them.
    mutating func compare(
        _ before: [Property], _ after: [Property], _ subject: String, sent: [String], received: [String],
        _ old: Side, _ new: Side
    ) {
        let rows = sent + received.filter { !sent.contains($0) }
        let later = Dictionary(after.map { ($0.member, $0) }) { first, _ in first }
        let known = Set(before.map(\.member))
        for property in before {
            let name = property.member
            guard let other = later[name] else {
                add(subject, "\(name) is gone", breaks: true, rows)
                continue
            }
            if property.type.text != other.type.text {
                add(subject, "\(name) is \(other.type.text), was \(property.type.text)", breaks: true, rows)
            } else if property.constant != other.constant {
                let value = other.constant ?? "any \(other.type.text)"
                add(subject, "\(name) is \(value), was \(property.constant ?? "any")", breaks: true, rows)
            }
            if property.isOptional != other.isOptional {
                let text = "\(name) is \(other.isOptional ? "optional" : "required") now"
                add(subject, text, breaks: other.isOptional ? !received.isEmpty : !sent.isEmpty, rows)
            } else if property.isRequired != other.isRequired {
                // Both may be null, and only who sends it sees whether it must be there.
                let text =
                    "\(name) \(other.isRequired ? "must be there now, as null or with a value" : "may be left out now")"
                add(subject, text, breaks: other.isRequired && !sent.isEmpty, rows)
            }
            guard let first = property.spot, let second = other.spot, property.type.text == other.type.text else {
                continue
            }
            for (text, isNarrower) in Bounds(first, old.flattener).changes(to: Bounds(second, new.flattener)) {
                add(subject, "\(name): \(text)", breaks: isNarrower && !sent.isEmpty, rows)
            }
        }
        for property in after where !known.contains(property.member) {
            let isNeeded = property.isRequired && property.constant == nil && !sent.isEmpty
            add(subject, "\(property.member) is new\(isNeeded ? ", and required" : "")", breaks: isNeeded, rows)
        }
    }
}

/// The formats and bounds of a schema, which its type in Swift does not have.
private struct Bounds {
    private let values: [String: Node]

    /// Keywords whose value may only be met by fewer values when it grows, and those where it is when it sinks.
    private static let lowest = [
        "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains",
    ]
    private static let highest = [
        "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains",
    ]
    private static let others = ["format", "pattern", "multipleOf", "uniqueItems", "default"]

    init(_ spot: Spot, _ flattener: Flattener) {
        var values: [String: Node] = [:]
        for node in [spot.node, ((try? flattener.named(spot))?.spot ?? spot).node] {
            for key in Self.lowest + Self.highest + Self.others { values[key] = values[key] ?? node[key] }
        }
        self.values = values
    }

    /// What changes, and whether fewer values are allowed.
    func changes(to other: Bounds) -> [(text: String, isNarrower: Bool)] {
        (Self.lowest + Self.highest + Self.others).compactMap { key in
            let (old, new) = (values[key], other.values[key])
            guard old?.json != new?.json else { return nil }
            let before = old.map(JSON5Text.inline)
            let text = new.map { "\(key) is \(JSON5Text.inline($0))" } ?? "there is no \(key) any more"
            let sentence = before.map { "\(text), was \($0)" } ?? text
            return (sentence, isNarrower(key, old, new))
        }
    }

    private func isNarrower(_ key: String, _ old: Node?, _ new: Node?) -> Bool {
        guard let new, key != "default" else { return false }
        guard let old else { return new.bool != false }
        if Self.lowest.contains(key) || Self.highest.contains(key) {
            // In OpenAPI 3.0, exclusiveMinimum is true or false.
            guard let before = old.number.flatMap({ Double($0) }), let after = new.number.flatMap({ Double($0) }) else {
                return new.bool == true
            }
            return Self.lowest.contains(key) ? after > before : after < before
        }
        return new.bool != false
    }
}

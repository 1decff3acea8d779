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
        let old = try Side(old)
        let new = try Side(new, keepsAdditional: old.keepsAdditional)
        compareDomains(old, new)
        compareSchemes(old, new)
        compareCalls(old, new)
        compareTypes(old, new)
    }

    mutating func add(_ subject: String, _ text: String, breaks: Bool, _ rows: [String]) {
        let change = Change(subject: subject, text: text, isBreaking: breaks, rows: rows)
        if !changes.contains(change) { changes.append(change) }
    }

    /// What is compared of one document.
    struct Side {
        let calls: [EntityPlan]
        var types: [String: Declaration] = [:]
        /// The rows of the calls that send a type, and of those that receive it.
        var senders: [String: [String]] = [:]
        var receivers: [String: [String]] = [:]
        let domain: String
        let domainRow: Node
        let api: API
        let flattener: Flattener
        let keepsAdditional: Bool

        /// - Parameter keepsAdditional: as the other side, because an update does as the first import.
        init(_ importer: OpenAPIImporter, keepsAdditional: Bool? = nil) throws(ImportProblem) {
            let generation = try importer.generate(.all, keepsAdditional: keepsAdditional)
            self.keepsAdditional = generation.keepsAdditional
            domain = importer.domain
            domainRow = generation.table.domainRow
            api = importer.api
            flattener = Flattener(documents: importer.reader.documents)
            calls = generation.plans
            for plan in calls {
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
                compare(
                    Self.members(of: before), Self.members(of: after), name, sent: sent, received: received, old, new)
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

    private static func members(of declaration: Declaration) -> [EntityPlan.Member] {
        declaration.properties.map { EntityPlan.Member(property: $0, location: .body) }
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
        _ before: [EntityPlan.Member], _ after: [EntityPlan.Member], _ subject: String, sent: [String],
        received: [String], _ old: Side, _ new: Side
    ) {
        let rows = sent + received.filter { !sent.contains($0) }
        let (pairs, others) = Self.partners(before, after)
        for (member, partner) in pairs {
            let (property, name) = (member.property, member.property.member)
            guard let partner else {
                add(subject, "\(name) is gone", breaks: true, rows)
                continue
            }
            let other = partner.property
            let places = (Self.place(member.location), Self.place(partner.location))
            if places.0 != places.1 {
                add(subject, "\(name) is in the \(places.1), was in the \(places.0)", breaks: true, rows)
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
            if property.isOptional, other.isOptional, property.isNullable != other.isNullable {
                let text = "\(name) may \(other.isNullable ? "be null now" : "not be null any more")"
                add(subject, text, breaks: !other.isNullable && !sent.isEmpty, rows)
            }
            guard let first = property.spot, let second = other.spot, property.type.text == other.type.text else {
                continue
            }
            for (text, isNarrower) in Bounds(first, old.flattener).changes(to: Bounds(second, new.flattener)) {
                add(subject, "\(name): \(text)", breaks: isNarrower && !sent.isEmpty, rows)
            }
        }
        for property in others.map(\.property) {
            let isNeeded = property.isRequired && property.constant == nil && !sent.isEmpty
            add(subject, "\(property.member) is new\(isNeeded ? ", and required" : "")", breaks: isNeeded, rows)
        }
    }

    /// The members with what they are in the other document, which is the one of that name at the same place, or else at
    /// another one; and those of the other document that are left.
    private static func partners(
        _ before: [EntityPlan.Member], _ after: [EntityPlan.Member]
    ) -> (pairs: [(EntityPlan.Member, EntityPlan.Member?)], others: [EntityPlan.Member]) {
        var others = after
        var partners: [EntityPlan.Member?] = before.map { _ in nil }
        for needsPlace in [true, false] {
            for (index, member) in before.enumerated() where partners[index] == nil {
                let found = others.firstIndex { other in
                    other.property.member == member.property.member
                        && (!needsPlace || place(other.location) == place(member.location))
                }
                if let found { partners[index] = others.remove(at: found) }
            }
        }
        return (Array(zip(before, partners)), others)
    }
}

/// The formats and bounds of a schema, which its type in Swift does not have.
private struct Bounds {
    private let values: [String: Node]
    /// Those of the elements of an array, the values of a dictionary, and the scalars of a choice, by what they are.
    private var parts: [String: Bounds] = [:]

    /// Keywords whose value may only be met by fewer values when it grows, and those where it is when it sinks.
    private static let lowest = [
        "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains",
    ]
    private static let highest = [
        "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains",
    ]
    /// Bounds of which 0 is what holds without them.
    private static let counts: Set = ["minLength", "minItems", "minProperties"]
    private static let others = ["format", "pattern", "multipleOf", "uniqueItems", "default"]
    /// An array may be one of arrays like itself.
    private static let maximumDepth = 8

    /// - Parameter spot: a schema, or a parameter, which may have the words of its schema itself.
    init(_ spot: Spot, _ flattener: Flattener, depth: Int = 0) {
        let schema = spot["schema"] ?? spot
        let target = (try? flattener.named(schema))?.spot ?? schema
        var values: [String: Node] = [:]
        for node in [spot.node, schema.node, target.node] {
            for key in Self.lowest + Self.highest + Self.others { values[key] = values[key] ?? node[key] }
        }
        self.values = values
        guard depth < Self.maximumDepth else { return }
        if let items = target["items"] { parts["items"] = Bounds(items, flattener, depth: depth + 1) }
        if let values = target["additionalProperties"] { parts["values"] = Bounds(values, flattener, depth: depth + 1) }
        for choice in (target["oneOf"] ?? target["anyOf"])?.elements ?? [] {
            let type = choice.node["type"]?.string ?? ""
            guard ["string", "integer", "number"].contains(type) else { continue }
            parts[type] = parts[type] ?? Bounds(choice, flattener, depth: Self.maximumDepth)
        }
    }

    /// What changes, and whether fewer values are allowed.
    func changes(to other: Bounds) -> [(text: String, isNarrower: Bool)] {
        let own = (Self.lowest + Self.highest + Self.others).compactMap { key -> (text: String, isNarrower: Bool)? in
            let (old, new) = (values[key], other.values[key])
            guard old?.json != new?.json else { return nil }
            let before = old.map(JSON5Text.inline)
            let text = new.map { "\(key) is \(JSON5Text.inline($0))" } ?? "there is no \(key) any more"
            let sentence = before.map { "\(text), was \($0)" } ?? text
            return (sentence, isNarrower(key, old, new))
        }
        return own
            + parts.sorted { $0.key < $1.key }.flatMap { name, part in
                (other.parts[name].map(part.changes) ?? []).map { ("\(name): \($0.text)", $0.isNarrower) }
            }
    }

    private func isNarrower(_ key: String, _ old: Node?, _ new: Node?) -> Bool {
        guard let new, key != "default" else { return false }
        // What the type in Swift can have anyway.
        if key == "format", ["int64", "double"].contains(new.string) { return false }
        guard let old else {
            return new.bool != false && !(Self.counts.contains(key) && new.number.flatMap { Double($0) } == 0)
        }
        if Self.lowest.contains(key) || Self.highest.contains(key) {
            // In OpenAPI 3.0, exclusiveMinimum is true or false.
            guard let before = old.number.flatMap({ Double($0) }), let after = new.number.flatMap({ Double($0) }) else {
                return new.bool == true
            }
            return Self.lowest.contains(key) ? after > before : after < before
        }
        if key == "multipleOf", let before = old.number.flatMap({ Double($0) }),
            let after = new.number.flatMap({ Double($0) }), after > 0
        {
            let times = before / after
            return abs(times - times.rounded()) > 1e-9 * times
        }
        return new.bool != false
    }
}

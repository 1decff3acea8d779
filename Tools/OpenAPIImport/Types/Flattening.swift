/// A schema with all that it takes from `$ref` and `allOf`.
struct FlatSchema {
    enum Additional {
        case unsaid, none, any
        case schema(Spot)
    }

    var types: Set<String> = []
    var isNullable = false
    var format: String?
    /// The bounds of a number.
    var (minimum, maximum): (Node?, Node?)
    /// The known values; `nil` where any value is allowed.
    var values: [Spot]?
    var valueNames: [String] = []
    /// Whether the document has the values in another type than it says, and they were made that.
    private(set) var areValuesConverted = false
    /// Whether the values, which are left out, cannot be what the type says.
    private(set) var contradictsValues = false
    /// The properties in the order of the document.
    var properties: [(name: String, spot: Spot)] = []
    var required: Set<String> = []
    /// Properties of which parts of an `allOf` say different types.
    var disputed: [Spot] = []
    var additional = Additional.unsaid
    var items: Spot?
    /// The schemas of `oneOf` and `anyOf`, each list for itself.
    var choices: [[Spot]] = []
    var discriminator: Spot?
    var comment: String?
    var title: String?
    var isReadOnly = false
    var isWriteOnly = false
    var isDeprecated = false
    var encoding: String?
    /// What a text without an encoding holds (`contentMediaType`).
    var mediaType: String?
    var examples: [Spot] = []
    var defaultValue: Node?

    var isObject: Bool {
        types.contains("object") || types.isEmpty && (!properties.isEmpty || hasAdditional)
    }
    var hasAdditional: Bool {
        switch additional {
        case .any, .schema: true
        case .unsaid, .none: false
        }
    }

    /// Makes the values what the type says: without quotes, YAML has a number or a Boolean where a text is meant.
    mutating func convertValues() {
        let known: Set<String> = ["string", "integer", "number", "boolean", "array", "object"]
        guard let old = values, !types.isEmpty, types.isSubset(of: known) else { return }
        var new: [Spot] = []
        for spot in old {
            let found = types.sorted().compactMap { spot.node.converted(to: $0) }
            guard let node = found.first(where: { $0.kind == spot.node.kind }) ?? found.first else {
                (values, contradictsValues) = (nil, true)
                return
            }
            if node.kind != spot.node.kind { areValuesConverted = true }
            new.append(Spot(document: spot.document, pointer: spot.pointer, node: node))
        }
        values = new
    }
}

/// The keywords of JSON Schema by what they do here.
enum SchemaWords {
    /// Those that change the type. A `$ref` beside none of them is the schema that it names.
    static let shaping: Set<String> = [
        "type", "properties", "items", "prefixItems", "oneOf", "anyOf", "allOf", "enum", "const",
        "additionalProperties",
        "patternProperties", "format", "$ref", "required",
    ]
}

/// Reads schemas without their types.
struct Flattener {
    let documents: Documents
    private let relations = Relations()

    func flat(_ spot: Spot) throws(ImportProblem) -> FlatSchema {
        var flat = FlatSchema()
        var done: Set<Spot.Key> = []
        try merge(spot, into: &flat, isTop: true, seen: [], &done)
        flat.convertValues()
        return flat
    }

    /// The schema that this one stands for: without references, and without an `allOf`, `oneOf` or `anyOf` around a single
    /// one that only adds words or `null`.
    func named(_ spot: Spot) throws(ImportProblem) -> (spot: Spot, isNullable: Bool) {
        var (spot, isNullable) = (spot, false)
        var seen: Set<Spot.Key> = []
        while spot.others.isEmpty, seen.insert(spot.key).inserted {
            if spot.node["nullable"]?.bool == true || spot.node["x-nullable"]?.bool == true { isNullable = true }
            var shaping = (spot.node.members?.names ?? []).filter { SchemaWords.shaping.contains($0) }
            // NestJS and Twilio write the type of a member beside its schema. A component is a type of its own.
            let isOther = spot.node["$ref"] != nil || spot["allOf"]?.elements.count == 1
            if isOther, Pointer.steps(spot.pointer).count > 3 {
                if spot.node["type"]?.strings.contains("null") == true { isNullable = true }
                shaping.removeAll { $0 == "type" }
            }
            if let only = try repeated(spot, shaping) {
                spot = only
                continue
            }
            guard shaping.count == 1 else { break }
            if let reference = spot.node["$ref"]?.string {
                spot = try documents.target(of: reference, from: spot)
            } else if shaping[0] == "allOf", let only = spot["allOf"]?.elements.first,
                spot["allOf"]?.elements.count == 1
            {
                spot = only
            } else if shaping[0] == "oneOf" || shaping[0] == "anyOf", spot.node["discriminator"] == nil {
                let list = spot[shaping[0]]?.elements ?? []
                let others = list.filter { !isNull($0) }
                guard others.count == 1, let only = others.first else { break }
                if others.count < list.count { isNullable = true }
                spot = only
            } else {
                break
            }
        }
        if seen.contains(spot.key), spot.node["$ref"] != nil, spot.node.members?.names.count == 1 {
            throw ImportProblem(documents.place(of: spot), "the reference leads back to itself; name a schema")
        }
        return (spot, isNullable)
    }

    /// The schema of an `allOf` beside which its own values stand once more, as ASP.NET writes it.
    private func repeated(_ spot: Spot, _ shaping: [String]) throws(ImportProblem) -> Spot? {
        guard shaping.contains("allOf"), shaping.allSatisfy({ ["allOf", "enum", "type", "format"].contains($0) }),
            let values = spot.node["enum"]?.array, let list = spot["allOf"]?.elements, list.count == 1,
            let known = try flat(list[0]).values
        else { return nil }
        return Set(values.filter { !$0.isNull }.map(\.json)) == Set(known.map(\.node.json)) ? list[0] : nil
    }

    /// Whether a schema has no value but `null`, here or where it is defined.
    private func isNull(_ spot: Spot) -> Bool {
        let node = ((try? documents.resolved(spot)) ?? spot).node
        return node["type"]?.string == "null" || node["type"]?.array?.map(\.string) == ["null"]
            || node["enum"]?.array?.map(\.isNull) == [true] || node["const"]?.isNull == true
    }

    /// - Parameters:
    ///   - seen: the schemas that this one is a part of.
    ///   - done: the parts that are in already. Once more they would change nothing, and parts of parts double.
    private func merge(
        _ spot: Spot, into flat: inout FlatSchema, isTop: Bool, seen: Set<Spot.Key>, _ done: inout Set<Spot.Key>
    ) throws(ImportProblem) {
        guard !seen.contains(spot.key) else {
            throw ImportProblem(
                documents.place(of: spot), "this schema contains itself by allOf or $ref; take one of them out")
        }
        guard done.insert(spot.key).inserted else { return }
        let seen = seen.union(CollectionOfOne(spot.key))
        let node = spot.node
        for other in spot.others { try merge(other, into: &flat, isTop: false, seen: seen, &done) }
        if let reference = node["$ref"]?.string {
            try merge(documents.target(of: reference, from: spot), into: &flat, isTop: isTop, seen: seen, &done)
        }
        for part in spot["allOf"]?.elements ?? [] { try merge(part, into: &flat, isTop: false, seen: seen, &done) }

        var types = Set(node["type"]?.strings ?? [])
        if types.remove("null") != nil { flat.isNullable = true }
        if !types.isEmpty { flat.types = flat.types.isEmpty ? types : flat.types.intersection(types) }
        if node["nullable"]?.bool == true || node["x-nullable"]?.bool == true { flat.isNullable = true }
        if let format = node["format"]?.string { flat.format = format }
        flat.minimum = node["minimum"] ?? node["exclusiveMinimum"] ?? flat.minimum
        flat.maximum = node["maximum"] ?? node["exclusiveMaximum"] ?? flat.maximum
        if let encoding = node["contentEncoding"]?.string { flat.encoding = encoding }
        if let type = node["contentMediaType"]?.string { flat.mediaType = type }
        if let values = spot["enum"]?.elements {
            if values.contains(where: \.node.isNull) { flat.isNullable = true }
            flat.values = values.filter { !$0.node.isNull }
            flat.valueNames = (node["x-enum-varnames"] ?? node["x-enumNames"])?.strings ?? []
        }
        if let value = spot["const"] {
            if value.node.isNull { flat.isNullable = true }
            flat.values = value.node.isNull ? [] : [value]
        }
        for (name, property) in spot["properties"]?.members ?? []
        where property.node.members != nil || property.node.bool == true {
            try add(name, property, to: &flat)
        }
        flat.required.formUnion(node["required"]?.array?.compactMap(\.text) ?? [])
        try mergeAdditional(spot, into: &flat)
        if let items = spot["items"], items.node.members != nil {
            if let known = flat.items {
                flat.items = try joined(known, items).spot
            } else {
                flat.items = items
            }
        }
        // The choices of a parent are its children, and this may be one of them.
        let isParent = !isTop && node["discriminator"] != nil
        for word in ["oneOf", "anyOf"] where !isParent {
            guard let list = spot[word]?.elements, !list.isEmpty else { continue }
            let others = list.filter { !isNull($0) }
            if others.count < list.count { flat.isNullable = true }
            // A list of nothing but `required` says which members go together.
            let shaped = others.filter { choice in
                choice.node.members?.names.contains { $0 != "required" && SchemaWords.shaping.contains($0) } ?? false
            }
            if !shaped.isEmpty { flat.choices.append(shaped) }
        }
        if let discriminator = spot["discriminator"], isTop { flat.discriminator = discriminator }
        if let comment = node["description"]?.text, isTop { flat.comment = comment }
        if let title = node["title"]?.text, isTop { flat.title = title }
        if node["readOnly"]?.bool == true { flat.isReadOnly = true }
        if node["writeOnly"]?.bool == true { flat.isWriteOnly = true }
        if node["deprecated"]?.bool == true, isTop { flat.isDeprecated = true }
        if isTop {
            if let example = spot["example"] ?? spot["x-example"] { flat.examples.append(example) }
            flat.examples += spot["examples"]?.elements ?? []
            if let value = node["default"] { flat.defaultValue = value }
        }
    }

    // MARK: Members of several parts

    /// Adds a property. Of the parts of an `allOf` that have it, each says something of it.
    func add(_ name: String, _ spot: Spot, to flat: inout FlatSchema) throws(ImportProblem) {
        guard let known = flat.properties.firstIndex(where: { $0.name == name }) else {
            return flat.properties.append((name, spot))
        }
        let (joined, isDisputed) = try joined(flat.properties[known].spot, spot)
        flat.properties[known].spot = joined
        if isDisputed { flat.disputed.append(spot) }
    }

    /// The schema that two parts of an `allOf` give a member or an element: the later one, with the earlier one where that
    /// has members which the later one leaves out.
    private func joined(_ first: Spot, _ second: Spot) throws(ImportProblem) -> (spot: Spot, isDisputed: Bool) {
        // A later schema that only adds a description does not replace the type.
        let saysMore = second.node.members?.names.contains { SchemaWords.shaping.contains($0) } ?? false
        guard saysMore else { return (first, false) }
        let (one, other) = (try named(first).spot, try named(second).spot)
        switch try relation(of: one, to: other) {
        case .replaced: return (second, false)
        case .disputed: return (second, true)
        case .joined:
            var joined = second
            joined.others.append(first)
            return (joined, false)
        }
    }

    private func relation(of one: Spot, to other: Spot) throws(ImportProblem) -> Relations.Relation {
        let pair = Relations.Pair(one: one.key, other: other.key)
        if let known = relations.known[pair] { return known }
        // Of schemas that contain themselves, the later one has what it inherits.
        relations.known[pair] = .replaced
        guard pair.one != pair.other else { return .replaced }
        let (old, new) = (try flat(one), try flat(other))
        var relation = Relations.Relation.replaced
        if old.types.isEmpty || new.types.isEmpty || !old.types.isDisjoint(with: new.types) {
            if try leavesOut(new, old) { relation = .joined }
        } else if !old.types.union(new.types).isSubset(of: ["integer", "number"]) {
            relation = .disputed
        }
        relations.known[pair] = relation
        return relation
    }

    /// Whether a schema has no word of what another one has within it.
    private func leavesOut(_ new: FlatSchema, _ old: FlatSchema) throws(ImportProblem) -> Bool {
        guard new.choices.isEmpty, new.values == nil, new.discriminator == nil else { return false }
        if let items = old.items {
            guard let others = new.items else { return new.properties.isEmpty }
            return try joined(items, others).spot.key != others.key
        }
        guard old.isObject, new.items == nil else { return false }
        for (name, spot) in old.properties {
            guard let other = new.properties.first(where: { $0.name == name }) else { return true }
            if try joined(spot, other.spot).spot.key != other.spot.key { return true }
        }
        return false
    }

    private func mergeAdditional(_ spot: Spot, into flat: inout FlatSchema) throws(ImportProblem) {
        let additional = spot["additionalProperties"] ?? spot["unevaluatedProperties"]
        if let additional {
            switch additional.node.value {
            case .bool(let flag): if flag { flat.additional = .any } else { flat.additional = .none }
            case .object(let members):
                flat.additional = members.names.isEmpty ? .any : .schema(additional)
            default: break
            }
        }
        if !flat.hasAdditional, let pattern = spot["patternProperties"]?.members.first {
            flat.additional = .schema(pattern.spot)
        }
    }
}

/// What was found out about schemas that parts of an `allOf` give the same member.
private final class Relations {
    struct Pair: Hashable { let one: Spot.Key, other: Spot.Key }
    enum Relation { case replaced, disputed, joined }

    var known: [Pair: Relation] = [:]
}

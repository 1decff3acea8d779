/// A schema with all that it takes from `$ref` and `allOf`.
struct FlatSchema {
    enum Additional {
        case unsaid, none, any
        case schema(Spot)
    }

    var types: Set<String> = []
    var isNullable = false
    var format: String?
    /// The known values; `nil` where any value is allowed.
    var values: [Spot]?
    var valueNames: [String] = []
    /// The properties in the order of the document.
    var properties: [(name: String, spot: Spot)] = []
    var required: Set<String> = []
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

    mutating func add(_ name: String, _ spot: Spot) {
        guard let known = properties.firstIndex(where: { $0.name == name }) else {
            return properties.append((name, spot))
        }
        // A later schema that only adds a description does not replace the type.
        let saysMore = spot.node.members?.names.contains { SchemaWords.shaping.contains($0) } ?? false
        if saysMore { properties[known].spot = spot }
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

    func flat(_ spot: Spot) throws(ImportProblem) -> FlatSchema {
        var flat = FlatSchema()
        var done: Set<Spot.Key> = []
        try merge(spot, into: &flat, isTop: true, seen: [], &done)
        return flat
    }

    /// The schema that this one stands for: without references, and without an `allOf`, `oneOf` or `anyOf` around a single
    /// one that only adds words or `null`.
    func named(_ spot: Spot) throws(ImportProblem) -> (spot: Spot, isNullable: Bool) {
        var (spot, isNullable) = (spot, false)
        var seen: Set<Spot.Key> = []
        while seen.insert(spot.key).inserted {
            if spot.node["nullable"]?.bool == true || spot.node["x-nullable"]?.bool == true { isNullable = true }
            let shaping = (spot.node.members?.names ?? []).filter { SchemaWords.shaping.contains($0) }
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
                let others = list.filter { !Self.isNull($0.node) }
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

    static func isNull(_ node: Node) -> Bool {
        node["type"]?.string == "null" || node["type"]?.array?.map(\.string) == ["null"]
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
        if let reference = node["$ref"]?.string {
            try merge(documents.target(of: reference, from: spot), into: &flat, isTop: isTop, seen: seen, &done)
        }
        for part in spot["allOf"]?.elements ?? [] { try merge(part, into: &flat, isTop: false, seen: seen, &done) }

        var types = Set(node["type"]?.strings ?? [])
        if types.remove("null") != nil { flat.isNullable = true }
        if !types.isEmpty { flat.types = flat.types.isEmpty ? types : flat.types.intersection(types) }
        if node["nullable"]?.bool == true || node["x-nullable"]?.bool == true { flat.isNullable = true }
        if let format = node["format"]?.string { flat.format = format }
        if let encoding = node["contentEncoding"]?.string { flat.encoding = encoding }
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
            flat.add(name, property)
        }
        flat.required.formUnion(node["required"]?.array?.compactMap(\.text) ?? [])
        try mergeAdditional(spot, into: &flat)
        if let items = spot["items"], items.node.members != nil { flat.items = items }
        // The choices of a parent are its children, and this may be one of them.
        let isParent = !isTop && node["discriminator"] != nil
        for word in ["oneOf", "anyOf"] where !isParent {
            guard let list = spot[word]?.elements, !list.isEmpty else { continue }
            let others = list.filter { !Self.isNull($0.node) }
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

/// `oneOf`, `anyOf`, lists of types, and parents with children.
extension TypeMaker {
    /// A choice of a union.
    private struct Choice {
        let spot: Spot
        let flat: FlatSchema
    }

    /// The type of several schemas.
    ///
    /// - Parameters:
    ///   - base: what stands beside the choices and belongs to each of them.
    ///   - flat: the schema that has the choices.
    ///   - isParent: whether the choices are the children of the schema, so that one alone is not all.
    func union(
        _ choices: [Spot], _ base: FlatSchema, _ flat: FlatSchema, _ spot: Spot, _ hint: String, _ direction: Direction,
        isParent: Bool = false, _ declare: (Use) -> Void
    ) throws(ImportProblem) -> Use {
        if flat.discriminator == nil, base.properties.isEmpty,
            let use = try enumOfChoices(choices, flat, spot, hint)
        {
            return use
        }
        var isNullable = flat.isNullable
        var list: [Choice] = []
        var seen: Set = [spot.key]
        try collect(choices, base, into: &list, &isNullable, &seen)
        let objects = list.filter { $0.flat.isObject || !$0.flat.properties.isEmpty }
        // A union is declared before its choices are read, because they may contain it. Of scalars only, it may become one.
        guard !objects.isEmpty, list.count > 1 || isParent else {
            let use = try merged(list, spot, hint, direction)
            return Use(type: use.type, isNullable: use.isNullable || isNullable)
        }
        let declaration = Declaration(name: name(for: spot, hint: hint, direction), spot: spot, direction: direction)
        declaration.comment = flat.comment
        declarations.append(declaration)
        declaration.kind = .union(UnionShape(variants: []))
        declare(Use(type: .named(declaration), isNullable: isNullable))

        var variants: [(type: SwiftType, label: String, spots: [Spot])] = []
        for (index, choice) in list.enumerated() {
            let label = label(choice, index, hint: declaration.name)
            let type: SwiftType
            if base.properties.isEmpty {
                let use = try use(choice.spot, hint: declaration.name + SwiftName.type(label), direction)
                if use.isNullable { isNullable = true }
                type = use.type
            } else {
                // Its properties are joined with those beside the choices, so it is a type of its own.
                let own = Spot(
                    document: choice.spot.document, pointer: "\(spot.pointer)/oneOf/\(index)", node: choice.spot.node)
                type = try objectType(choice.flat, own, declaration.name + SwiftName.type(label), direction) { _ in }
            }
            if type == .named(declaration) { continue }
            if let known = variants.firstIndex(where: { $0.type == type }) {
                variants[known].spots.append(choice.spot)
            } else {
                variants.append((type, label, [choice.spot]))
            }
        }
        let shape = UnionShape(
            variants: try self.variants(variants.map { ($0.type, $0.label) }, of: declaration, direction))
        // A declaration that nothing names is not written.
        if shape.variants.count == 1, !isParent, let only = shape.variants.first {
            return Use(type: only.type, isNullable: isNullable)
        }
        if shape.variants.contains(where: { $0.kind == .any }) || shape.variants.isEmpty { return Use(type: .json) }
        var result = shape
        if let discriminator = flat.discriminator,
            let member = discriminator.node["propertyName"]?.text ?? discriminator.node.text
        {
            var values: [[Node]] = []
            for variant in variants { values.append(try self.values(of: variant.spots, discriminator, member)) }
            // Other kinds beside the objects are told apart by their kind.
            if result.variants.allSatisfy({ $0.kind == .object }), values.count == result.variants.count {
                result.discriminator = (member, values)
            }
        }
        declaration.kind = .union(result)
        return Use(type: .named(declaration), isNullable: isNullable)
    }

    /// The choices, with those of choices that have no name of their own in their place.
    ///
    /// - Parameter seen: those whose choices are in the list, or will be.
    private func collect(
        _ choices: [Spot], _ base: FlatSchema, into list: inout [Choice], _ isNullable: inout Bool,
        _ seen: inout Set<Spot.Key>
    ) throws(ImportProblem) {
        for choice in choices {
            let (target, isNull) = try flattener.named(choice)
            if isNull { isNullable = true }
            guard !seen.contains(target.key) else { continue }
            var flat = try flattener.flat(target)
            if flat.isNullable { isNullable = true }
            if let inner = flat.choices.first, flat.properties.isEmpty, flat.discriminator == nil,
                try enumOfChoicesIsImpossible(inner)
            {
                seen.insert(target.key)
                try collect(inner, base, into: &list, &isNullable, &seen)
                continue
            }
            if !base.properties.isEmpty {
                let own = flat
                flat = base
                flat.choices = []
                flat.discriminator = nil
                for (name, spot) in own.properties { try flattener.add(name, spot, to: &flat) }
                flat.required.formUnion(own.required)
                (flat.title, flat.comment) = (own.title, own.comment)
            }
            list.append(Choice(spot: target, flat: flat))
        }
    }

    private func enumOfChoicesIsImpossible(_ choices: [Spot]) throws(ImportProblem) -> Bool {
        for choice in choices where try flattener.flat(flattener.named(choice).spot).values == nil { return true }
        return false
    }

    /// The type of choices none of which is an object, or of a single one.
    private func merged(_ list: [Choice], _ spot: Spot, _ hint: String, _ direction: Direction) throws(ImportProblem)
        -> Use
    {
        var uses: [(type: SwiftType, label: String)] = []
        for (index, choice) in list.enumerated() {
            let type = try use(choice.spot, hint: hint, direction).type
            if !uses.contains(where: { $0.type == type }) { uses.append((type, label(choice, index, hint: hint))) }
        }
        guard uses.count > 1 else { return Use(type: uses.first?.type ?? .json) }
        let declaration = Declaration(name: hint, spot: spot, direction: direction)
        let variants = try variants(uses, of: declaration, direction)
        if variants.count == 1, let only = variants.first { return Use(type: only.type) }
        if variants.isEmpty || variants.contains(where: { $0.kind == .any }) { return Use(type: .json) }
        declaration.name = name(for: spot, hint: hint, direction)
        declaration.kind = .union(UnionShape(variants: variants))
        declarations.append(declaration)
        return Use(type: .named(declaration))
    }

    /// `type: [string, integer]`.
    func ofSeveral(_ flat: FlatSchema, _ spot: Spot, _ hint: String, _ direction: Direction) throws(ImportProblem)
        -> SwiftType
    {
        var uses: [(type: SwiftType, label: String)] = []
        for type in flat.types.sorted() {
            let made =
                type == "object"
                ? try objectType(flat, spot, hint + "Object", direction) { _ in }
                : try simple(flat, type, spot, hint, direction)
            uses.append((made, "value"))
        }
        let declaration = Declaration(name: hint, spot: spot, direction: direction)
        let variants = try variants(uses, of: declaration, direction)
        if variants.count == 1, let only = variants.first { return only.type }
        if variants.contains(where: { $0.kind == .any }) { return .json }
        declaration.name = name(for: spot, hint: hint, direction)
        declaration.comment = flat.comment
        declaration.kind = .union(UnionShape(variants: variants))
        declarations.append(declaration)
        return .named(declaration)
    }

    // MARK: Variants

    /// One variant for each kind of JSON but objects: nothing else tells two texts apart.
    private func variants(
        _ uses: [(type: SwiftType, label: String)], of declaration: Declaration, _ direction: Direction
    ) throws(ImportProblem) -> [UnionShape.Variant] {
        var list: [UnionShape.Variant] = []
        for (type, label) in uses {
            let kind = Self.kind(of: type)
            if kind != .object, let known = list.firstIndex(where: { $0.kind == kind }) {
                switch kind {
                case .string: list[known].type = .string
                case .number: list[known].type = .double
                case .integer where type == .uint64 && list[known].type == .uint64: break
                case .integer where type == .uint64 || [.uint64, .decimal].contains(list[known].type):
                    list[known].type = .decimal
                case .integer: list[known].type = .int
                default: list[known].type = .array(.json, isNullable: true)
                }
                continue
            }
            list.append(.init(name: kind == .object ? label : Self.caseName(kind, type), type: type, kind: kind))
        }
        // A double reads whole numbers as well.
        if let whole = list.firstIndex(where: { $0.kind == .integer }),
            let number = list.firstIndex(where: { $0.kind == .number })
        {
            list[number].type = .double
            list.remove(at: whole)
        }
        var taken: Set<String> = ["unknown"]
        for index in list.indices {
            let wanted = SwiftName.member(list[index].name)
            var number = 2
            var given = wanted
            while !taken.insert(given).inserted {
                given = "\(wanted)\(number)"
                number += 1
            }
            list[index].name = given
        }
        return list
    }

    static func kind(of type: SwiftType) -> UnionShape.Kind {
        switch type {
        case .string, .timestamp, .day, .mail, .uuid, .url, .data, .verbatim: return .string
        case .int, .uint64: return .integer
        case .double, .decimal, .unix: return .number
        case .bool: return .bool
        case .array: return .array
        case .dictionary: return .object
        case .json, .empty, .custom: return .any
        case .named(let declaration):
            switch declaration.kind {
            case .openEnum(let shape): return kind(of: shape.raw)
            case .object: return .object
            case .union(let shape):
                // One that is still being read has objects.
                let kinds = Set(shape.variants.map(\.kind))
                return kinds.isSubset(of: [.object]) ? .object : .any
            }
        }
    }

    private static func caseName(_ kind: UnionShape.Kind, _ type: SwiftType) -> String {
        switch kind {
        case .string: "text"
        case .integer, .number: "number"
        case .bool: "flag"
        case .array: "list"
        case .object, .any: "object"
        }
    }

    /// A name for a case: that of the schema without what all names share with the union's.
    private func label(_ choice: Choice, _ index: Int, hint: String) -> String {
        if let name = givenName(of: choice.spot) { return SwiftName.type(name) }
        if let title = choice.flat.title, SwiftName.words(title).count <= 4, !title.isEmpty {
            return SwiftName.type(title)
        }
        // A member with one value says what it is.
        for (name, spot) in choice.flat.properties where ["type", "kind", "object", "status"].contains(name) {
            if let values = try? flattener.flat(spot).values, values.count == 1, let text = values[0].node.string {
                return SwiftName.type(text)
            }
        }
        return "Choice\(index + 1)"
    }

    /// The values of a discriminator that mean one of these schemas (OpenAPI 3.2 §4.8.25).
    private func values(of spots: [Spot], _ discriminator: Spot, _ member: String) throws(ImportProblem) -> [Node] {
        var values: [Node] = []
        for (value, target) in discriminator["mapping"]?.members ?? [] {
            guard let reference = target.node.text else { continue }
            let named =
                try? reference.contains("/") || reference.contains("#")
                ? documents.target(of: reference, from: discriminator)
                : documents.target(of: "#/components/schemas/\(reference)", from: discriminator)
            guard let named, let key = try? flattener.named(named).spot.key else {
                warn(target, "the mapping of \(value) leads nowhere; it is left out")
                continue
            }
            if spots.contains(where: { $0.key == key }) { values.append(.text(value)) }
        }
        if !values.isEmpty { return values }
        for spot in spots {
            if let value = spot["x-ms-discriminator-value"] {
                values.append(value.node)
                continue
            }
            let property = try flattener.flat(spot).properties.first { $0.name == member }
            if let property, let known = try flattener.flat(flattener.named(property.spot).spot).values,
                known.count == 1
            {
                values += known.map(\.node)
            } else {
                values.append(.text(givenName(of: spot) ?? spot.name))
            }
        }
        return values
    }
}

extension Flattener {
    /// The children of a schema with a discriminator and no choices: those that the mapping names, or that have it in
    /// `allOf`. `nil` if there are none.
    func children(of flat: FlatSchema, _ spot: Spot) throws(ImportProblem) -> [Spot]? {
        guard let discriminator = flat.discriminator, flat.choices.isEmpty else { return nil }
        var children: [Spot] = []
        for (_, target) in discriminator["mapping"]?.members ?? [] {
            guard let reference = target.node.text,
                let child = try? documents.target(of: reference, from: discriminator),
                !children.contains(where: { $0.key == child.key })
            else { continue }
            children.append(child)
        }
        if children.isEmpty {
            let root = documents.root
            let members = root["components"]?["schemas"]?.members ?? root["definitions"]?.members ?? []
            let schemas = members.map { (try? documents.resolved($0.spot)) ?? $0.spot }
            let parents = schemas.map { schema in
                (schema["allOf"]?.elements ?? []).compactMap { part in
                    part.node["$ref"]?.string.flatMap { try? documents.target(of: $0, from: part).key }
                }
            }
            // Children of children, too.
            var (known, isNew): (Set<Spot.Key>, Bool) = ([spot.key], true)
            while isNew {
                isNew = false
                for (schema, parents) in zip(schemas, parents) where !known.isDisjoint(with: parents) {
                    if known.insert(schema.key).inserted { isNew = true }
                }
            }
            children = schemas.filter { known.contains($0.key) }
        }
        children.removeAll { $0.key == spot.key }
        return children.isEmpty ? nil : children
    }
}

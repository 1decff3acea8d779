/// What is decided when all types are known: how the variants of unions are told apart, and what is stored in a box.
enum Finishing {
    /// Decides by which members the variants of unions are recognized. What is not recognized is `.unknown`.
    static func decideUnions(_ declarations: [Declaration]) {
        for declaration in declarations {
            guard case .union(var shape) = declaration.kind else { continue }
            for index in shape.variants.indices {
                (shape.variants[index].telling, shape.variants[index].isTold) = ([], true)
                guard case .named(let variant) = shape.variants[index].type, case .object = variant.kind else {
                    continue
                }
                shape.variants[index].required = variant.properties.filter { $0.isRequired }.map(\.member)
                shape.variants[index].constants = variant.properties.compactMap { property in
                    guard let constant = property.constant else { return nil }
                    let node = (try? JSONReader.node(Array(constant.utf8), file: "")) ?? .text(constant)
                    return (property.member, [node])
                }
            }
            if shape.discriminator == nil { shape.discriminator = common(shape.variants) }
            shape.nameByTags()
            if shape.discriminator == nil {
                // The variant that asks for most is tried first.
                let order = shape.variants.enumerated().sorted { left, right in
                    let (a, b) = (weight(left.element), weight(right.element))
                    return a == b ? left.offset < right.offset : a > b
                }
                shape.variants = order.map(\.element)
                dropShared(&shape.variants)
                tellApart(&shape.variants)
            }
            declaration.kind = .union(shape)
        }
    }

    /// What all objects must have tells none of them apart.
    private static func dropShared(_ variants: inout [UnionShape.Variant]) {
        let objects = variants.filter { $0.kind == .object }
        guard objects.count > 1, let first = objects.first else { return }
        let shared = objects.dropFirst().reduce(Set(first.required)) { $0.intersection($1.required) }
        for index in variants.indices {
            let own = variants[index].required.filter { !shared.contains($0) }
            if !own.isEmpty { variants[index].required = own }
        }
    }

    /// Finds what tells objects apart for which several variants ask for the same members. Those with members of their own
    /// are tried first. Of the others one may stand for the rest, if it is alone or alone keeps all members.
    private static func tellApart(_ variants: inout [UnionShape.Variant]) {
        var groups: [String: [Int]] = [:]
        for index in variants.indices where variants[index].kind == .object {
            let constants = variants[index].constants.map { "\($0.member)=\($0.values.map(\.json))" }
            groups["\(constants.sorted()) \(variants[index].required.sorted())", default: []].append(index)
        }
        for places in groups.values where places.count > 1 {
            var (list, left) = ([UnionShape.Variant](), places.map { variants[$0] })
            while left.count > 1 {
                let members = left.map { Self.members(of: $0.type) }
                for index in left.indices {
                    let others = members.indices.filter { $0 != index }.map { members[$0] }
                    left[index].telling = telling(members[index], others)
                }
                let told = left.filter { !$0.telling.isEmpty }
                guard !told.isEmpty else { break }
                list += told
                left.removeAll { !$0.telling.isEmpty }
            }
            let whole = left.count == 1 ? [0] : left.indices.filter { keepsAll(left[$0].type) }
            for index in left.indices { left[index].isTold = whole == [index] }
            for (place, variant) in zip(places, list + left) { variants[place] = variant }
        }
    }

    /// The members that an object may have, in order, each with the values that its schema lists.
    private static func members(
        of type: SwiftType, seen: Set<Declaration> = []
    ) -> [(name: String, values: [Node])] {
        guard let declaration = type.direct, !seen.contains(declaration) else { return [] }
        switch declaration.kind {
        case .object: return declaration.properties.map { ($0.member, $0.values) }
        case .openEnum: return []
        case .union(let shape):
            let seen = seen.union(CollectionOfOne(declaration))
            var list: [(name: String, values: [Node])] = []
            for member in shape.variants.flatMap({ members(of: $0.type, seen: seen) }) {
                guard let known = list.firstIndex(where: { $0.name == member.name }) else {
                    list.append(member)
                    continue
                }
                let isListed = !member.values.isEmpty && !list[known].values.isEmpty
                list[known].values = isListed ? list[known].values + member.values : []
            }
            return list
        }
    }

    /// The members that none of the others has, and the values that none of them has.
    private static func telling(
        _ members: [(name: String, values: [Node])], _ others: [[(name: String, values: [Node])]]
    ) -> [(member: String, value: Node?)] {
        members.flatMap { name, values -> [(member: String, value: Node?)] in
            let same = others.compactMap { $0.first { $0.name == name } }
            if same.isEmpty { return [(name, nil)] }
            guard same.allSatisfy({ !$0.values.isEmpty }) else { return [] }
            let known = Set(same.flatMap(\.values).map(\.json))
            return values.allSatisfy { !known.contains($0.json) } ? values.map { (name, $0) } : []
        }
    }

    /// Whether a type has a place for members that nobody has named.
    private static func keepsAll(_ type: SwiftType) -> Bool {
        if case .dictionary = type { return true }
        return type.direct?.additional != nil
    }

    private static func weight(_ variant: UnionShape.Variant) -> Int {
        variant.kind == .object ? variant.constants.count * 1000 + variant.required.count : 1_000_000
    }

    /// A member that has another value in each variant.
    private static func common(_ variants: [UnionShape.Variant]) -> (member: String, values: [[Node]])? {
        guard variants.count > 1, variants.allSatisfy({ $0.kind == .object }), let first = variants.first else {
            return nil
        }
        for (member, _) in first.constants {
            let values = variants.map { variant in variant.constants.first { $0.member == member }?.values ?? [] }
            let texts = values.flatMap { $0.map { $0.string ?? $0.number ?? "" } }
            guard values.allSatisfy({ !$0.isEmpty }), Set(texts).count == texts.count else { continue }
            return (member, values)
        }
        return nil
    }

    /// The unions with the names of the variants that are never chosen.
    static func untold(_ declarations: [Declaration]) -> [(declaration: Declaration, names: [String])] {
        declarations.compactMap { declaration in
            guard case .union(let shape) = declaration.kind else { return nil }
            let names = shape.variants.filter { !$0.isTold }.map(\.name)
            return names.isEmpty ? nil : (declaration, names)
        }
    }

    /// Makes unions of the same objects one type: documents repeat them wherever they are used. The names all stay, so none
    /// depends on what else is imported.
    ///
    /// - Parameter isNamed: whether a declaration is a schema with a name of its own, which is never another one.
    static func shareUnions(_ declarations: [Declaration], isNamed: (Declaration) -> Bool) {
        var known: [String: Declaration] = [:]
        for declaration in declarations.filter(isNamed) + declarations.filter({ !isNamed($0) }) {
            guard case .union(let shape) = declaration.kind, shape.variants.contains(where: { $0.kind == .object })
            else {
                continue
            }
            if let first = known[shape.signature] {
                if !isNamed(declaration) { declaration.alias = first }
            } else {
                known[shape.signature] = declaration
            }
        }
    }

    /// Boxes properties, and makes enums indirect, so that no value contains itself.
    static func box(_ declarations: [Declaration]) {
        var state: [Declaration: Bool] = [:]  // `true` when it and all below are done.
        func visit(_ declaration: Declaration) {
            state[declaration] = false
            for index in declaration.properties.indices {
                guard let inner = declaration.properties[index].type.direct else { continue }
                if state[inner] == false { declaration.properties[index].isBoxed = true }
                if state[inner] == nil { visit(inner) }
            }
            if case .union(let shape) = declaration.kind {
                for inner in shape.variants.compactMap(\.type.direct) {
                    if state[inner] == false { declaration.isIndirect = true }
                    if state[inner] == nil { visit(inner) }
                }
            }
            state[declaration] = true
        }
        for declaration in declarations where state[declaration] == nil { visit(declaration) }
    }
}

/// Makes types from schemas. Each schema has one type, however often it is used; one that has `readOnly` or `writeOnly`
/// members has one for each direction.
final class TypeMaker {
    let documents: Documents
    let flattener: Flattener
    let overrides: Overrides
    /// The types, in the order in which they were first used.
    var declarations: [Declaration] = []
    private(set) var warnings: [ImportWarning] = []
    var names: NameSet

    struct Key: Hashable {
        let spot: Spot.Key
        let direction: Direction
    }
    /// The names that schemas were given, in order.
    private(set) var given: [Key: [String]] = [:]
    /// The names that they have in an import of the whole document.
    private var wanted: [Key: [String]] = [:]
    private var known: [Key: Use] = [:]
    /// Schemas that are being read and have no declaration, such as arrays.
    private var open: Set<Key> = []
    /// Types whose members are read when the schemas that led to them are: a document may have a thousand within each other,
    /// which no stack has room for.
    private var unread: [(declaration: Declaration, flat: FlatSchema, direction: Direction)] = []
    private var depth = 0
    private static let maximumDepth = 100
    private let directions: Directions
    private var componentNames: [Spot.Key: String] = [:]
    /// What the document calls schemas of other files.
    private var namesOfOtherFiles: [Spot.Key: String] = [:]
    /// Whether a schema with `additionalProperties: true` has members of which nobody has thought. Where most have it, which is
    /// what JSON Schema means without it, it is a habit of the document.
    let keepsAdditional: Bool

    /// - Parameters:
    ///   - prefix: stands before names that mean something else in Swift, or that others have.
    ///   - others: the types of others.
    ///   - calls: the names of all calls, in small letters, which no type takes.
    ///   - decided: ``keepsAdditional``; `nil` for as most schemas suggest.
    init(
        _ documents: Documents, _ overrides: Overrides, prefix: String, others: Set<String>, calls: Set<String>,
        keepsAdditional decided: Bool?
    ) {
        names = NameSet(avoiding: others, prefix: prefix)
        self.documents = documents
        self.overrides = overrides
        flattener = Flattener(documents: documents)
        directions = Directions(flattener)
        let schemas = Self.components(of: documents.root).filter { $0.spot.node["properties"] != nil }
        let open = schemas.count { $0.spot.node["additionalProperties"]?.bool == true }
        keepsAdditional = decided ?? (open < 10 || open * 2 <= schemas.count)
        nameComponents(prefix, calls)
    }

    func warn(_ spot: Spot, _ message: String) {
        warnings.append(ImportWarning(place: documents.place(of: spot), message: message))
    }

    private static func components(of root: Spot) -> [(name: String, spot: Spot)] {
        root["components"]?["schemas"]?.members ?? root["definitions"]?.members ?? []
    }

    /// Names all schemas of the document, also those that are not chosen: a name does not change with the choice.
    private func nameComponents(_ prefix: String, _ calls: Set<String>) {
        for (name, spot) in Self.components(of: documents.root) {
            let wanted = overrides.name(at: spot.pointer) ?? SwiftName.type(name)
            var free = SwiftName.takenTypes.contains(wanted) ? prefix + wanted : wanted
            if calls.contains(free.lowercased()) { free += "Model" }
            let given = names.claim(free)
            if given != free {
                warn(spot, "something else has the name \(free) too, or in another case; this schema is \(given)")
            }
            componentNames[spot.key] = given
            // The schema itself may be in another file.
            if let target = try? documents.resolved(spot), target.document != spot.document,
                componentNames[target.key] == nil
            {
                componentNames[target.key] = given
                namesOfOtherFiles[target.key] = name
            }
        }
    }

    /// Gives schemas the names that they have in an import of the whole document: one without a name is named after the first
    /// call that uses it, whatever is chosen.
    func takeNames(of whole: TypeMaker) { (wanted, names) = (whole.given, whole.names) }

    /// The name of a type: that of its schema, or the hint for a schema without a name.
    func name(for spot: Spot, hint: String, _ direction: Direction) -> String {
        let key = Key(spot: spot.key, direction: direction)
        if let name = wanted[key]?.first {
            wanted[key]?.removeFirst()
            return name
        }
        let name = newName(for: spot, hint: hint, direction)
        given[key, default: []].append(name)
        return name
    }

    private func newName(for spot: Spot, hint: String, _ direction: Direction) -> String {
        if let name = overrides.name(at: spot.pointer), componentNames[spot.key] == nil { return names.claim(name) }
        let isVariant = direction == .request && directions.differ(spot)
        if let name = componentNames[spot.key] { return isVariant ? names.claim(name + "Request") : name }
        var base = givenName(of: spot).map(SwiftName.type) ?? hint
        if SwiftName.takenTypes.contains(base) { base += "Model" }
        return names.claim(isVariant && base != hint ? base + "Request" : base)
    }

    /// The name that a document gives a schema: that of the component, or in a file of schemas the member, or the file itself.
    func givenName(of spot: Spot) -> String? {
        if let name = namesOfOtherFiles[spot.key] { return name }
        let steps = Pointer.steps(spot.pointer)
        switch steps.count {
        case 0:
            let file = documents.files[spot.document].name.split(separator: "/").last ?? ""
            return String(file.prefix { $0 != "." })
        case 1 where spot.document != 0 && !SchemaWords.shaping.contains(steps[0]): return steps[0]
        case 2 where ["definitions", "$defs"].contains(steps[0]): return steps[1]
        case 3 where steps[0] == "components": return steps[2]
        default: return nil
        }
    }

    // MARK: Types

    /// The type of a schema.
    ///
    /// - Parameter hint: the name of the type if it needs one and has none.
    func use(_ spot: Spot, hint: String, _ direction: Direction) throws(ImportProblem) -> Use {
        if let type = overrides.type(at: spot.pointer) { return Use(type: type) }
        if spot.node.members == nil { return Use(type: .json) }
        let (target, isNullable) = try flattener.named(spot)
        if let type = overrides.type(at: target.pointer) { return Use(type: type, isNullable: isNullable) }
        let key = Key(spot: target.key, direction: directions.differ(target) ? direction : .reply)
        var use: Use
        if let known = known[key] {
            use = known
        } else if !open.insert(key).inserted {
            warn(target, "this schema contains itself without an object between; it is JSONValue")
            return Use(type: .json)
        } else {
            defer { open.remove(key) }
            depth += 1
            defer { depth -= 1 }
            use = try make(target, flattener.flat(target), hint: hint, key.direction) { self.known[key] = $0 }
            known[key] = use
            while depth == 1, let next = unread.popLast() {
                try readMembers(of: next.declaration, next.flat, next.direction)
            }
        }
        if isNullable { use.isNullable = true }
        return use
    }

    /// - Parameter declare: remembers the type before its parts are read, so that it may contain itself.
    private func make(
        _ spot: Spot, _ flat: FlatSchema, hint: String, _ direction: Direction, _ declare: (Use) -> Void
    ) throws(ImportProblem) -> Use {
        let isNullable = flat.isNullable
        if flat.contradictsValues {
            let isScalar = flat.types.isDisjoint(with: ["array", "object"])
            warn(
                spot,
                "no \(flat.types.sorted().joined(separator: " or ")) has the values of enum; "
                    + (isScalar ? "the type is JSONValue" : "they are left out"))
            if isScalar { return Use(type: .json) }
        }
        if flat.areValuesConverted { warn(spot, Self.convertedValues(flat)) }
        if let values = flat.values, let type = enumType(values, flat, spot, hint) {
            return Use(type: type, isNullable: isNullable)
        }
        if let children = try flattener.children(of: flat, spot) {
            return try union(children, FlatSchema(), flat, spot, hint, direction, isParent: true, declare)
        }
        if let choices = flat.choices.first {
            if flat.choices.count > 1 { warn(spot, "of oneOf and anyOf beside each other, the first is read") }
            return try union(choices, flat, flat, spot, hint, direction, declare)
        }
        if flat.types.count > 1 {
            return Use(type: try ofSeveral(flat, spot, hint, direction), isNullable: isNullable)
        }
        if flat.isObject {
            let type = try objectType(flat, spot, hint, direction) { declare(Use(type: $0, isNullable: isNullable)) }
            return Use(type: type, isNullable: isNullable)
        }
        return Use(type: try simple(flat, flat.types.first, spot, hint, direction), isNullable: isNullable)
    }

    /// A type without members: an array or a scalar.
    func simple(
        _ flat: FlatSchema, _ type: String?, _ spot: Spot, _ hint: String, _ direction: Direction
    ) throws(ImportProblem) -> SwiftType {
        switch type {
        case _ where flat.items != nil && (type == "array" || type == nil):
            guard let items = flat.items else { return .array(.json, isNullable: false) }
            let element = try use(items, hint: SwiftName.singular(hint), direction)
            return .array(element.type, isNullable: element.isNullable)
        case "array"?: return .array(.json, isNullable: false)
        case "object"?: return .dictionary(.json, isNullable: false)
        case "boolean"?: return .bool
        case "file"?: return .data
        case "integer"?, "number"?, "string"?:
            return Formats.type(of: type ?? "", flat, overrides) { self.warn(spot, $0) }
        case nil:
            return flat.format == nil ? .json : Formats.type(of: "string", flat, overrides) { self.warn(spot, $0) }
        case let other?:
            warn(spot, "\(other) is no type of JSON Schema; it is JSONValue")
            return .json
        }
    }

    /// A dictionary, or a declaration with properties.
    func objectType(
        _ flat: FlatSchema, _ spot: Spot, _ hint: String, _ direction: Direction, _ declare: (SwiftType) -> Void
    ) throws(ImportProblem) -> SwiftType {
        if flat.properties.isEmpty {
            guard case .schema(let schema) = flat.additional else { return .dictionary(.json, isNullable: false) }
            let value = try use(schema, hint: SwiftName.singular(hint), direction)
            return .dictionary(value.type, isNullable: value.isNullable)
        }
        let declaration = Declaration(name: name(for: spot, hint: hint, direction), spot: spot, direction: direction)
        declaration.comment = flat.comment
        declarations.append(declaration)
        declare(.named(declaration))
        if depth < Self.maximumDepth {
            try readMembers(of: declaration, flat, direction)
        } else {
            unread.append((declaration, flat, direction))
        }
        return .named(declaration)
    }

    private func readMembers(
        of declaration: Declaration, _ flat: FlatSchema, _ direction: Direction
    ) throws(ImportProblem) {
        declaration.properties = try properties(flat, hint: declaration.name, direction, taken: [])
        switch flat.additional {
        case .any: if keepsAdditional { declaration.additional = Use(type: .json) }
        case .schema(let schema):
            declaration.additional = try use(schema, hint: declaration.name + "Value", direction)
        case .none, .unsaid: break
        }
    }

    /// - Parameter taken: names that the properties must not have.
    func properties(
        _ flat: FlatSchema, hint: String, _ direction: Direction, taken: Set<String>
    ) throws(ImportProblem) -> [Property] {
        var (list, names): ([Property], Set<String>) = ([], taken)
        for spot in flat.disputed {
            warn(spot, "another part of allOf gives \(spot.name) another type; this one is read")
        }
        for (member, spot) in flat.properties {
            let (target, _) = spot.node.members == nil ? (spot, false) : try flattener.named(spot)
            let inner = spot.node.members == nil ? FlatSchema() : try flattener.flat(target)
            let outer = spot.node
            if direction == .request, inner.isReadOnly || outer["readOnly"]?.bool == true { continue }
            if direction == .reply, inner.isWriteOnly || outer["writeOnly"]?.bool == true { continue }
            let wanted = overrides.name(at: spot.pointer) ?? SwiftName.member(member)
            var name = taken.contains(wanted) ? wanted + "Value" : wanted
            var number = 2
            while names.contains(name) {
                name = "\(wanted)\(number)"
                number += 1
            }
            if number > 2 { warn(spot, "another member is \(wanted) in Swift too; \(member) is \(name)") }
            names.insert(name)
            let use = try use(spot, hint: hint + SwiftName.type(member), direction)
            var property = Property(
                member: member, name: name, type: use.type, isRequired: flat.required.contains(member),
                isNullable: use.isNullable, spot: spot)
            property.comment = Comments.text(of: outer["description"]?.text ?? inner.comment, inner, use.type)
            property.values = inner.values?.map(\.node) ?? []
            if property.isRequired, !use.isNullable, let value = inner.values?.first, inner.values?.count == 1 {
                property.constant = constant(value.node, use.type)
            }
            list.append(property)
        }
        for member in flat.required.sorted() where !flat.properties.contains(where: { $0.name == member }) {
            guard let first = flat.properties.first else { continue }
            warn(first.spot, "required names \(member), which is no member of the schema; it is left out")
        }
        return list
    }

    private func constant(_ node: Node, _ type: SwiftType) -> String? {
        switch (type, node.value) {
        case (.string, .string(let text)): SwiftName.literal(text)
        case (.int, .number(let text)): text
        case (.bool, .bool(let flag)): "\(flag)"
        default: nil
        }
    }
}

/// Compares examples with the types. Where an example contradicts its schema, the type is loosened, so that every reply that
/// the document shows can be read and written without loss; the warning says where.
final class ExampleCheck {
    private let documents: Documents
    private(set) var warnings: [ImportWarning] = []

    init(_ documents: Documents) { self.documents = documents }

    private func warn(_ spot: Spot, _ message: String) {
        let warning = ImportWarning(place: documents.place(of: spot), message: message)
        if !warnings.contains(warning) { warnings.append(warning) }
    }

    /// Returns the type of a value as the example has it: the same type in most cases.
    func fit(_ spot: Spot, to type: SwiftType) -> SwiftType {
        let node = spot.node
        switch type {
        case .json, .custom, .empty: return type
        case .string, .timestamp, .day, .mail, .uuid, .url, .data, .verbatim:
            return node.string == nil ? loosened(spot, type) : type
        case .bool: return node.bool == nil ? loosened(spot, type) : type
        case .int, .uint64:
            guard let number = node.number else { return loosened(spot, type) }
            if type == .int ? Int(number) != nil : UInt64(number) != nil { return type }
            // The value itself, which Double rounds, or which Int has no room for.
            let isWhole = number.allSatisfy { $0.isNumber || $0 == "-" }
            warn(spot, "the example \(number) is no \(type.text); the type is \(isWhole ? "Decimal" : "Double")")
            return isWhole ? .decimal : .double
        case .double, .decimal, .unix: return node.number == nil ? loosened(spot, type) : type
        case .array(let element, var isNullable):
            guard node.array != nil else { return loosened(spot, type) }
            let inner = fit(spot.elements, element, &isNullable)
            return .array(inner, isNullable: isNullable)
        case .dictionary(let value, var isNullable):
            guard node.members != nil else { return loosened(spot, type) }
            let inner = fit(spot.members.map(\.spot), value, &isNullable)
            return .dictionary(inner, isNullable: isNullable)
        case .named(let declaration): return fit(spot, to: declaration) ? type : loosened(spot, type)
        }
    }

    private func fit(_ spots: [Spot], _ type: SwiftType, _ isNullable: inout Bool) -> SwiftType {
        var type = type
        for spot in spots {
            if spot.node.isNull, type != .json { isNullable = true } else { type = fit(spot, to: type) }
        }
        return type
    }

    private func loosened(_ spot: Spot, _ type: SwiftType) -> SwiftType {
        warn(spot, "the example has \(spot.node.kind) where the schema says \(type.text); the type is JSONValue")
        return .json
    }

    // MARK: Declarations

    /// Returns whether the example has the kind of the declaration.
    private func fit(_ spot: Spot, to declaration: Declaration) -> Bool {
        switch declaration.kind {
        case .openEnum(let shape): return shape.raw == .int ? spot.node.int != nil : spot.node.string != nil
        case .union(let shape):
            guard let variant = variant(of: shape, for: spot.node) else { return true }
            if case .named(let inner) = variant.type { return fit(spot, to: inner) }
            return true
        case .object:
            guard spot.node.members != nil else { return false }
            for index in declaration.properties.indices { fit(spot, declaration, index) }
            for (name, value) in spot.members where !declaration.properties.contains(where: { $0.member == name }) {
                if let additional = declaration.additional {
                    if value.node.isNull {
                        declaration.additional?.isNullable = true
                    } else {
                        let type = fit(value, to: additional.type)
                        if type != additional.type { declaration.additional?.type = type }
                    }
                    continue
                }
                if declaration.isClosed {
                    warn(value, "the schema of the example has no member \(name); it is left out")
                    continue
                }
                warn(value, "the schema of the example has no member \(name); it is JSONValue")
                var name = SwiftName.member(name)
                while declaration.properties.contains(where: { $0.name == name }) { name += "Value" }
                var property = Property(member: value.name, name: name, type: .json, isRequired: false)
                property.comment = "Only in an example of the document."
                property.seen.null = value.node.isNull
                declaration.properties.append(property)
            }
            return true
        }
    }

    // The property is read and written in place, because a type that contains itself changes it further down.
    private func fit(_ spot: Spot, _ declaration: Declaration, _ index: Int) {
        let property = declaration.properties[index]
        guard let value = spot[property.member] else {
            declaration.properties[index].seen.nothing = true
            if property.isRequired {
                warn(spot, "the example has no \(property.member), which is required; it is optional")
                declaration.properties[index].isRequired = false
                declaration.properties[index].constant = nil
            }
            return
        }
        // A JSONValue that must be there holds the null itself.
        guard value.node.isNull, property.type != .json || property.isNullable || !property.isRequired else {
            let type = fit(value, to: property.type)
            if type != property.type { declaration.properties[index].type = type }
            return
        }
        declaration.properties[index].seen.null = true
        if !property.isNullable {
            if property.type != .json {
                warn(value, "the example has null, which the schema does not allow; it is optional")
            }
            declaration.properties[index].isNullable = true
            declaration.properties[index].constant = nil
        }
    }

    /// The variant that the generated code would choose.
    private func variant(of shape: UnionShape, for node: Node) -> UnionShape.Variant? {
        if let (member, values) = shape.discriminator {
            guard let value = node[member], let text = value.string ?? value.number else { return nil }
            let index = values.firstIndex { $0.contains { ($0.string ?? $0.number) == text } }
            return index.map { shape.variants[$0] }
        }
        return shape.variants.first { variant in
            switch variant.kind {
            case .object:
                guard variant.isTold, let members = node.members else { return false }
                return variant.required.allSatisfy { members.contains($0) }
                    && variant.constants.allSatisfy { constant in
                        constant.values.contains { $0.json == members[constant.member]?.json }
                    }
                    && (variant.telling.isEmpty
                        || variant.telling.contains { member, value in
                            value.map { $0.json == members[member]?.json } ?? members.contains(member)
                        })
            case .array: return node.array != nil
            case .string: return node.string != nil
            case .integer, .number: return node.number != nil
            case .bool: return node.bool != nil
            case .any: return false
            }
        }
    }

    /// Decides what is written where there is no value, once all examples were read.
    static func finish(_ declarations: [Declaration]) {
        for declaration in declarations {
            for index in declaration.properties.indices {
                let property = declaration.properties[index]
                // Examples leave it out and have null, so the two differ.
                if property.isOptional, !property.isRequired, property.seen.null, property.seen.nothing {
                    declaration.properties[index].isSettable = true
                    declaration.properties[index].isNullable = true
                }
                if property.type == .json, property.isRequired { declaration.properties[index].isNullable = false }
            }
        }
    }
}

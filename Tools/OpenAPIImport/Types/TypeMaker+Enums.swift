/// Enums that keep values which they do not know.
extension TypeMaker {
    /// The type of a list of values; `nil` where the list says nothing.
    func enumType(_ values: [Spot], _ flat: FlatSchema, _ spot: Spot, _ hint: String) -> SwiftType? {
        guard let first = values.first else { return flat.isNullable ? .json : nil }
        let strings = values.compactMap(\.node.string)
        let integers = values.compactMap { $0.node.number }
        switch first.node.value {
        case .string where strings.count == values.count:
            if values.count == 1 { return .string }
            let cases = zip(strings, 0...).map { ($0, flat.valueNames.indices.contains($1) ? flat.valueNames[$1] : $0) }
            return openEnum(
                .string, cases.map { ($0.1, SwiftName.literal($0.0), nil) }, flat, spot, hint)
        case .number where integers.count == values.count && integers.allSatisfy { Int($0) != nil }:
            if values.count == 1 { return .int }
            let cases = zip(integers, 0...).map {
                ($0, flat.valueNames.indices.contains($1) ? flat.valueNames[$1] : $0)
            }
            return openEnum(.int, cases.map { ($0.1, $0.0, nil) }, flat, spot, hint)
        case .number where integers.count == values.count:
            return integers.allSatisfy { UInt64($0) != nil } ? .uint64 : .double
        case .bool where values.allSatisfy { $0.node.bool != nil }: return .bool
        case .array: return .array(.json, isNullable: false)
        case .object: return .json
        default:
            warn(spot, "the values of enum are of several types; the type is JSONValue")
            return .json
        }
    }

    /// An enum whose values are each a schema of its own with `const`, or with one of `enum`, and a title; `nil` where a choice
    /// is something else. Plain strings beside them say that there are more values, which such an enum allows anyway.
    func enumOfChoices(_ choices: [Spot], _ flat: FlatSchema, _ spot: Spot, _ hint: String) throws(ImportProblem)
        -> Use?
    {
        var isNullable = flat.isNullable
        var cases: [(String, String, String?)] = []
        var raw: SwiftType?
        for choice in choices {
            let (target, isNull) = try flattener.named(choice)
            var inner = try flattener.flat(target)
            if isNull || inner.isNullable { isNullable = true }
            if inner.types.isEmpty {
                inner.types = flat.types
                inner.convertValues()
                if inner.areValuesConverted { warn(target, Self.convertedValues(flat)) }
            }
            guard inner.properties.isEmpty, inner.choices.isEmpty, inner.items == nil else { return nil }
            guard let values = inner.values else {
                guard inner.types.isEmpty || inner.types == ["string"], inner.format == nil, choices.count > 1,
                    !inner.types.isEmpty
                else { return nil }
                guard raw != .int else { return nil }
                raw = .string
                continue
            }
            for value in values {
                let title = values.count == 1 ? inner.title : nil
                switch value.node.value {
                case .string(let text) where raw != .int:
                    raw = .string
                    cases.append((title ?? text, SwiftName.literal(text), values.count == 1 ? inner.comment : nil))
                case .number(let text) where raw != .string && Int(text) != nil:
                    raw = .int
                    cases.append((title ?? text, text, values.count == 1 ? inner.comment : nil))
                default: return nil
                }
            }
        }
        guard let raw, !cases.isEmpty else { return nil }
        let isOne = cases.count == 1 && choices.count == 1
        return Use(type: isOne ? raw : openEnum(raw, cases, flat, spot, hint), isNullable: isNullable)
    }

    static func convertedValues(_ flat: FlatSchema) -> String {
        "the values of enum are read as \(flat.types.sorted().joined(separator: " or ")), which is the type"
    }

    private func openEnum(
        _ raw: SwiftType, _ cases: [(name: String, value: String, comment: String?)], _ flat: FlatSchema, _ spot: Spot,
        _ hint: String
    ) -> SwiftType {
        let declaration = Declaration(name: name(for: spot, hint: hint, .reply), spot: spot, direction: .reply)
        var (taken, seen, list): (Set<String>, Set<String>, [(name: String, value: String, comment: String?)]) = (
            [], [], []
        )
        for (name, value, comment) in cases where seen.insert(value).inserted {
            let wanted = name.isEmpty ? "empty" : SwiftName.member(name)
            var given = wanted
            var number = 2
            while !taken.insert(given).inserted {
                given = "\(wanted)\(number)"
                number += 1
            }
            list.append((given, value, comment.map(Comments.short)))
        }
        declaration.kind = .openEnum(EnumShape(raw: raw, cases: list))
        declaration.comment = flat.comment
        declarations.append(declaration)
        return .named(declaration)
    }
}

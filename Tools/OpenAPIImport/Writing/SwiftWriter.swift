/// Writes declarations as Swift.
struct SwiftWriter {
    /// `public `, or nothing.
    let access: String
    private(set) var lines: [String] = []

    init(isPublic: Bool) { access = isPublic ? "public " : "" }

    mutating func add(_ line: String = "") { lines.append(line) }
    mutating func add(_ more: [String]) { lines += more }

    mutating func write(_ declaration: Declaration) {
        add()
        add(Comments.lines(declaration.comment.map(Comments.short), indent: 0))
        if let alias = declaration.alias { return add("\(access)typealias \(declaration.name) = \(alias.name)") }
        switch declaration.kind {
        case .object: write(object: declaration)
        case .openEnum(let shape): write(shape, declaration)
        case .union(let shape): write(shape, declaration)
        }
    }

    // MARK: Objects

    private mutating func write(object declaration: Declaration) {
        add("\(access)struct \(declaration.name): Codable, Hashable, Sendable {")
        for property in declaration.properties { write(property) }
        if let additional = declaration.additional {
            add("    /// The members that the document does not name.")
            add("    \(access)var additional: \(additionalText(additional)) = [:]")
        }
        writeInit(declaration.properties, additional: declaration.additional)
        let isWhole = declaration.additional != nil
        let needsEncode = isWhole || declaration.properties.contains(where: \.writesNull)
        writeKeys(declaration.properties, isNeeded: needsEncode)
        if needsEncode { writeEncode(declaration.properties, hasAdditional: declaration.additional != nil) }
        add("}")
        guard let additional = declaration.additional else { return }
        // In an extension, so that the struct keeps its memberwise initializer.
        add()
        add("extension \(declaration.name) {")
        add("    \(access)init(from decoder: any Decoder) throws {")
        if !declaration.properties.isEmpty {
            add("        let members = try decoder.container(keyedBy: CodingKeys.self)")
        }
        for property in declaration.properties {
            let name = SwiftName.escaped(property.name)
            let decode = property.isOptional && !property.isSettable ? "decodeIfPresent" : "decode"
            let type = property.isSettable ? property.text : property.type.text
            let target =
                property.isBoxed ? "_\(property.name) = Coding.Boxed(wrappedValue: " : "self.\(property.name) = "
            add(
                "        \(target)try members.\(decode)(\(type).self, forKey: .\(name))" + (property.isBoxed ? ")" : "")
            )
        }
        add("        let others = try decoder.container(keyedBy: JSONKey.self)")
        let check = declaration.properties.isEmpty ? "" : " where CodingKeys(stringValue: name.stringValue) == nil"
        add("        for name in others.allKeys\(check) {")
        let decode = additional.isNullable ? "decodeIfPresent" : "decode"
        let value = "try others.\(decode)(\(additional.type.text).self, forKey: name)"
        add(
            additional.isNullable
                ? "            additional.updateValue(\(value), forKey: name.stringValue)"
                : "            additional[name.stringValue] = \(value)")
        add("        }")
        add("    }")
        add("}")
    }

    private func additionalText(_ additional: Use) -> String {
        "[String: \(additional.type.text)\(additional.isNullable ? "?" : "")]"
    }

    mutating func write(_ property: Property) {
        let name = SwiftName.escaped(property.name)
        var line = "    \(access)var \(name)"
        if let constant = property.constant, !property.isOptional {
            line += " = \(constant)"
        } else {
            let box = property.isBoxed ? "@Coding.Boxed " : ""
            line = "    \(box)\(access)var \(name): \(property.text)" + (property.isSettable ? " = .leftOut" : "")
        }
        // A format alone needs no line of its own.
        if let format = Comments.format(property.comment), line.count + format.count < 110 {
            return add("\(line)  // \(format)")
        }
        add(Comments.lines(property.comment, indent: 4))
        add(line)
    }

    /// The initializer that a public struct does not have by itself.
    mutating func writeInit(_ properties: [Property], additional: Use? = nil) {
        guard !access.isEmpty else { return }
        var parameters = properties.map { property in
            let value =
                property.constant.flatMap { property.isOptional ? nil : " = \($0)" }
                ?? (property.isSettable ? " = .leftOut" : property.isOptional ? " = nil" : "")
            let type = property.constant != nil && !property.isOptional ? property.type.text : property.text
            return "\(SwiftName.escaped(property.name)): \(type)\(value)"
        }
        if let additional { parameters.append("additional: \(additionalText(additional)) = [:]") }
        add()
        if parameters.isEmpty { return add("    \(access)init() {}") }
        add("    \(access)init(")
        add(SwiftWriter.packed(parameters, indent: 8))
        add("    ) {")
        for property in properties {
            let name = SwiftName.escaped(property.name)
            add("        self.\(property.name) = \(name)")
        }
        if additional != nil { add("        self.additional = additional") }
        add("    }")
    }

    /// The names in JSON, where one differs from its property.
    ///
    /// - Parameter all: the names of all properties that are written; `nil` for those of the list.
    mutating func writeKeys(_ properties: [Property], isNeeded: Bool = false) {
        guard isNeeded || properties.contains(where: { $0.name != $0.member }) else { return }
        guard !properties.isEmpty else { return }
        let cases = properties.map { property in
            let name = SwiftName.escaped(property.name)
            return property.name == property.member ? name : "\(name) = \(SwiftName.literal(property.member))"
        }
        add()
        let line = "    private enum CodingKeys: String, CodingKey { case \(cases.joined(separator: ", ")) }"
        if line.count <= 116 { return add(line) }
        add("    private enum CodingKeys: String, CodingKey {")
        let packed = SwiftWriter.packed(cases, indent: 13)
        add(packed.enumerated().map { $0.offset == 0 ? "        case " + $0.element.dropFirst(13) : $0.element })
        add("    }")
    }

    /// Items with commas between them, in lines of at most 116 columns.
    static func packed(_ items: [String], indent: Int) -> [String] {
        let blank = String(repeating: " ", count: indent)
        var (lines, line): ([String], String) = ([], "")
        for (index, item) in items.enumerated() {
            let text = item + (index < items.count - 1 ? "," : "")
            if !line.isEmpty, indent + line.count + text.count + 1 > 116 {
                lines.append(blank + line)
                line = ""
            }
            line += line.isEmpty ? text : " " + text
        }
        return lines + [blank + line]
    }

    mutating func writeEncode(_ properties: [Property], hasAdditional: Bool = false) {
        add()
        add("    \(access)func encode(to encoder: any Encoder) throws {")
        if !properties.isEmpty {
            add("        var members = encoder.container(keyedBy: CodingKeys.self)")
        }
        for property in properties {
            let name = SwiftName.escaped(property.name)
            let isLeftOut = property.isOptional && !property.writesNull && !property.isSettable
            add("        try members.encode\(isLeftOut ? "IfPresent" : "")(self.\(property.name), forKey: .\(name))")
        }
        if hasAdditional {
            add("        var others = encoder.container(keyedBy: JSONKey.self)")
            add("        for (name, value) in additional { try others.encode(value, forKey: .name(name)) }")
        }
        add("    }")
    }

    // MARK: Enums

    private mutating func write(_ shape: EnumShape, _ declaration: Declaration) {
        add("\(access)struct \(declaration.name): KnownValues {")
        add("    \(access)var rawValue: \(shape.raw.text)")
        if !access.isEmpty {
            add()
            add("    \(access)init(rawValue: \(shape.raw.text)) { self.rawValue = rawValue }")
        }
        add()
        for value in shape.cases {
            add(Comments.lines(value.comment, indent: 4))
            add("    \(access)static let \(SwiftName.escaped(value.name)) = Self(rawValue: \(value.value))")
        }
        add()
        let names = shape.cases.map { SwiftName.escaped($0.name) }
        let line = "    \(access)static let knownValues: [Self] = [\(names.joined(separator: ", "))]"
        if line.count <= 116 {
            add(line)
        } else {
            add("    \(access)static let knownValues: [Self] = [")
            add(SwiftWriter.packed(names, indent: 8))
            add("    ]")
        }
        add("}")
    }

    private mutating func write(_ shape: UnionShape, _ declaration: Declaration) {
        let indirect = declaration.isIndirect ? "indirect " : ""
        add("\(access)\(indirect)enum \(declaration.name): Codable, Hashable, Sendable {")
        for variant in shape.variants { add("    case \(SwiftName.escaped(variant.name))(\(variant.type.text))") }
        add("    /// What the document does not describe.")
        add("    case unknown(JSONValue)")
        add()
        add("    \(access)init(from decoder: any Decoder) throws {")
        if let (member, values) = shape.discriminator {
            writeSwitch(shape, member, values)
        } else {
            writeTests(shape)
        }
        add("    }")
        add()
        add("    \(access)func encode(to encoder: any Encoder) throws {")
        add("        switch self {")
        for variant in shape.variants {
            add("        case .\(SwiftName.escaped(variant.name))(let value): try value.encode(to: encoder)")
        }
        add("        case .unknown(let value): try value.encode(to: encoder)")
        add("        }")
        add("    }")
        add("}")
    }

    private mutating func writeSwitch(_ shape: UnionShape, _ member: String, _ values: [[Node]]) {
        let isNumber = values.allSatisfy { $0.allSatisfy { $0.int != nil } }
        let type = isNumber ? "Int" : "String"
        // An enum of keys for each union takes long to compile.
        let key = ".name(\(SwiftName.literal(member)))"
        add("        let members = try? decoder.container(keyedBy: JSONKey.self)")
        add("        switch try? members?.decode(\(type).self, forKey: \(key)) {")
        var seen: Set<String> = []
        for (variant, values) in zip(shape.variants, values) {
            let texts = values.map { isNumber ? $0.number ?? "" : SwiftName.literal($0.text ?? "") }.filter {
                seen.insert($0).inserted
            }
            guard !texts.isEmpty else { continue }
            let value = "\(SwiftName.escaped(variant.name))(try .init(from: decoder))"
            add("        case \(texts.joined(separator: ", ")): self = .\(value)")
        }
        add("        default: self = .unknown(try JSONValue(from: decoder))")
        add("        }")
    }

    private mutating func writeTests(_ shape: UnionShape) {
        add("        let value = try JSONValue(from: decoder)")
        add("        switch value {")
        var catchesObjects = false
        for variant in shape.variants where variant.isTold {
            let pattern: String
            switch variant.kind {
            case .object:
                if catchesObjects { continue }
                let tests =
                    variant.constants.map { Self.test($0, $1[0]) }
                    + variant.required.filter { name in !variant.constants.contains { $0.member == name } }.map {
                        Self.test($0)
                    }
                    + Self.tests(
                        variant, isAlone: variant.constants.isEmpty && variant.required.isEmpty)
                catchesObjects = tests.isEmpty
                if tests.isEmpty {
                    pattern = ".object"
                } else {
                    let line = tests.joined(separator: " && ")
                    let several = "\n            " + tests.joined(separator: "\n            && ")
                    pattern = ".object(let members) where" + (line.count < 76 ? " " + line : several)
                }
            case .array: pattern = ".array"
            case .string: pattern = ".string"
            case .integer where ![.uint64, .decimal].contains(variant.type): pattern = ".int"
            case .integer, .number: pattern = ".int, .double, .decimal"
            case .bool: pattern = ".bool"
            case .any: continue
            }
            add("        case \(pattern):")
            add("            self = .\(SwiftName.escaped(variant.name))(try .init(from: decoder))")
        }
        add("        default: self = .unknown(value)")
        add("        }")
    }

    /// Whether an object has a member, or a value of it.
    private static func test(_ member: String, _ value: Node? = nil) -> String {
        let value = value.map { $0.string.map(SwiftName.literal) ?? "\($0.json)" }
        return "members[\(SwiftName.literal(member))] " + (value.map { "== \($0)" } ?? "!= nil")
    }

    /// Whether an object has one of several members.
    private static func tests(_ variant: UnionShape.Variant, isAlone: Bool) -> [String] {
        let names = variant.telling.filter { $0.value == nil }.map(\.member)
        var tests = variant.telling.filter { $0.value != nil }.map { test($0.member, $0.value) }
        if names.count == 1 { tests.insert(test(names[0]), at: 0) }
        if names.count > 1 {
            // A long row of comparisons takes long to compile.
            let lines = packed(names.map(SwiftName.literal), indent: 16)
            let list =
                lines.count == 1 && lines[0].count < 80
                ? String(lines[0].dropFirst(16)) : "\n\(lines.joined(separator: "\n"))\n            "
            tests.insert("[\(list)].contains(where: { members[$0] != nil })", at: 0)
        }
        let text = tests.joined(separator: " || ")
        return tests.isEmpty ? [] : [tests.count == 1 || isAlone ? text : "(\(text))"]
    }
}

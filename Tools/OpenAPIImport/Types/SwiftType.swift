/// A type in the generated code.
indirect enum SwiftType: Hashable {
    case string, int, uint64, double, decimal, bool, data, uuid, url
    case timestamp, day, unix, mail
    /// A text that is kept as it came, beside the value that it means.
    case verbatim(SwiftType)
    case json
    /// Nothing: a reply without content.
    case empty
    case array(SwiftType, isNullable: Bool)
    case dictionary(SwiftType, isNullable: Bool)
    case named(Declaration)
    /// A type of the app, which an override names.
    case custom(String)

    var text: String {
        switch self {
        case .string: "String"
        case .int: "Int"
        case .uint64: "UInt64"
        case .double: "Double"
        case .decimal: "Decimal"
        case .bool: "Bool"
        case .data: "Data"
        case .uuid: "UUID"
        case .url: "URL"
        case .timestamp: "Timestamp"
        case .day: "Timestamp.Day"
        case .unix: "Timestamp.Unix"
        case .mail: "Timestamp.Mail"
        case .verbatim(let value): "Verbatim<\(value.text)>"
        case .json: "JSONValue"
        case .empty: "Empty"
        case .array(let element, let isNullable): "[\(element.text)\(isNullable ? "?" : "")]"
        case .dictionary(let value, let isNullable): "[String: \(value.text)\(isNullable ? "?" : "")]"
        case .named(let declaration): declaration.name
        case .custom(let name): name
        }
    }

    /// The declaration that is stored in a value of this type itself, not in an array.
    var direct: Declaration? {
        if case .named(let declaration) = self { declaration.alias ?? declaration } else { nil }
    }

    /// The declarations that the type names.
    var declarations: [Declaration] {
        switch self {
        case .named(let declaration): [declaration]
        case .array(let inner, _), .dictionary(let inner, _): inner.declarations
        default: []
        }
    }

    /// Whether it needs Foundation.
    var needsFoundation: Bool {
        switch self {
        case .decimal, .data, .uuid, .url: true
        case .array(let inner, _), .dictionary(let inner, _), .verbatim(let inner): inner.needsFoundation
        default: false
        }
    }

    /// Whether it is a text that may be an address.
    var isAddress: Bool { self == .string || isURL }
    var isURL: Bool { self == .url || self == .verbatim(.url) }

    /// Whether `JSONValue` is in it, that is, whether the document could not say more.
    var isVague: Bool {
        switch self {
        case .json: true
        case .array(let inner, _), .dictionary(let inner, _): inner.isVague
        default: false
        }
    }
}

/// A type with whether `null` is one of its values.
struct Use: Hashable {
    var type: SwiftType
    var isNullable = false
}

/// Whether a schema describes what is sent or what is received: `readOnly` members are only in the latter.
enum Direction { case request, reply }

/// A type that is generated.
final class Declaration: Hashable {
    enum Kind {
        case object
        case openEnum(EnumShape)
        case union(UnionShape)
    }

    var name: String
    var kind = Kind.object
    var comment: String?
    var properties: [Property] = []
    /// The type of the members that the schema does not name; `nil` where there are none.
    var additional: Use?
    /// Whether it is stored in itself, for an enum.
    var isIndirect = false
    /// The same union under another name, which this one stands for.
    var alias: Declaration?
    /// Whether an example adds no members: those of a body are properties of its call, which has others beside them.
    var isClosed = false
    let spot: Spot
    let direction: Direction

    init(name: String, spot: Spot, direction: Direction) {
        self.name = name
        self.spot = spot
        self.direction = direction
    }

    static func == (left: Declaration, right: Declaration) -> Bool { left === right }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// The declarations that this one names.
    var declarations: [Declaration] {
        if let alias { return [alias] }
        return switch kind {
        case .object: (properties.map(\.type) + [additional?.type].compactMap { $0 }).flatMap(\.declarations)
        case .openEnum: []
        case .union(let shape): shape.variants.flatMap(\.type.declarations)
        }
    }

    /// The types of its parts.
    var parts: [SwiftType] {
        switch kind {
        case .object: properties.map(\.type) + [additional?.type].compactMap { $0 }
        case .openEnum: []
        case .union(let shape): shape.variants.map(\.type)
        }
    }
}

/// A member of an object.
struct Property {
    /// The name in JSON.
    var member: String
    /// The name in Swift, without backticks.
    var name: String
    var type: SwiftType
    var isRequired: Bool
    var isNullable = false
    /// What examples have where there is no value.
    var seen = (null: false, nothing: false)
    /// Whether left out and null differ: `Settable`.
    var isSettable = false
    /// Whether it is stored in a box, because the type is in itself.
    var isBoxed = false
    /// The only value, as Swift.
    var constant: String?
    /// The values that the schema lists; none where it has no list.
    var values: [Node] = []
    var comment: String?
    var spot: Spot?

    var isOptional: Bool { !isRequired || isNullable }
    /// Whether `nil` is written as null: the member must be there, or examples have null and never leave it out.
    var writesNull: Bool { !isSettable && isNullable && (isRequired || seen.null && !seen.nothing) }

    /// The type as it is declared.
    var text: String {
        if isSettable { return "Settable<\(type.text)>" }
        return type.text + (isOptional ? "?" : "")
    }
}

/// An enum that keeps values which the document does not know.
struct EnumShape {
    var raw: SwiftType
    /// The names of the known values with the values as Swift, and a few words for each.
    var cases: [(name: String, value: String, comment: String?)]
}

/// An enum with one case for each of several schemas.
struct UnionShape {
    struct Variant {
        var name: String
        var type: SwiftType
        var kind: Kind
        /// The members that an object of the variant must have.
        var required: [String] = []
        /// The values that members of the variant may have.
        var constants: [(member: String, values: [Node])] = []
        /// Members, or values of them, of which an object must have one, because other variants ask for the same.
        var telling: [(member: String, value: Node?)] = []
        /// Whether an object can be told from those of the other variants. If not, it is unknown.
        var isTold = true
        var comment: String?
    }

    /// The kind of JSON by which a variant is recognized first.
    enum Kind: Int { case object, array, string, integer, number, bool, any }

    var variants: [Variant]
    /// The member whose value says which variant it is, with the values of each variant.
    var discriminator: (member: String, values: [[Node]])?

    /// What two unions have in common that are one type.
    var signature: String {
        let cases = variants.map { variant in
            let constants = variant.constants.map { "\($0.member)=\($0.values.map(\.json))" }
            return "\(variant.name) \(variant.type.text) \(variant.required) \(constants)"
        }
        let tags = discriminator.map { "\($0.member) \($0.values.map { $0.map(\.json) })" }
        return cases.joined(separator: ";") + (tags ?? "")
    }

    /// Gives a variant the name of its only tag where its schema says that word too: `.role` for `RoleSelectDefault`.
    mutating func nameByTags() {
        guard let (_, values) = discriminator, values.count == variants.count else { return }
        let tags = zip(variants, values).map { variant, values -> String? in
            guard values.count == 1, let tag = values[0].string.map(SwiftName.member), tag.count > 2 else { return nil }
            return variant.name.lowercased().contains(tag.lowercased()) ? tag : nil
        }
        var names = NameSet()
        _ = names.claim("unknown")
        for (index, tag) in tags.enumerated() { variants[index].name = names.claim(tag ?? variants[index].name) }
    }
}

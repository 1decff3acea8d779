import HTTPCore

extension JSONValue {
    /// The value of a tree. Of equal keys the first counts.
    init(_ node: JSON5Node.Value) {
        switch node {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .number(let number): self = number.integer.map(JSONValue.int) ?? .double(number.double)
        case .string(let text): self = .string(text)
        case .array(let elements): self = .array(elements.map { JSONValue($0.value) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.key, JSONValue($0.value.value)) }) { first, _ in first })
        }
    }
}

/// An enum whose cases are objects that a member tells apart, such as `type`: `oneOf` with a discriminator in OpenAPI.
///
/// ```swift
/// struct Card: Codable, Sendable { var lastDigits: String }
/// struct BankAccount: Codable, Sendable { var iban: String }
///
/// enum PaymentMethod: TaggedUnion, Encodable {
///     case card(Card), bankAccount(BankAccount), unknown(JSONValue)
///     static let union = Coding.Union("type", else: PaymentMethod.unknown)
///         .case("card", PaymentMethod.card)
///         .case("bank_account", PaymentMethod.bankAccount)
/// }
/// ```
///
/// The member alone decides; no case is tried. A new case of the server is kept by `else` as it came, and is an error without
/// it. With `Encodable` the cases are written too, each with its tag. A case without other members has the payload ``Empty``.
public protocol TaggedUnion: Decodable, Sendable {
    /// The member, and the case for each of its values.
    static var union: Coding.Union<Self> { get }
}

extension TaggedUnion {
    /// Decodes the case that the tag names.
    public init(from decoder: any Decoder) throws { self = try Self.union.decode(from: decoder) }
}

extension TaggedUnion where Self: Encodable {
    /// Encodes the payload, and the tag of the case.
    ///
    /// - Throws: `EncodingError.invalidValue` when the case is not in ``union``, or its payload is not encoded as an object.
    public func encode(to encoder: any Encoder) throws { try Self.union.encode(self, to: encoder) }
}

extension Coding {
    /// The cases of a ``TaggedUnion`` by the values of their tag.
    public struct Union<Value>: Sendable {
        private struct Case: Sendable {
            let decode: @Sendable (any Decoder) throws -> Value
            /// The payload of a value of this case; `nil` for other values.
            let payload: @Sendable (Value) -> Any?

            init<Payload: Decodable & Sendable>(_ make: @escaping @Sendable (Payload) -> Value) {
                decode = { make(try Payload(from: $0)) }
                payload = { value in
                    guard let (name, content) = EnumCase.read(value), let payload = content as? Payload,
                        // Two cases may have payloads of one type.
                        EnumCase.read(make(payload))?.name == name
                    else { return nil }
                    return payload
                }
            }
        }

        private let name: String
        private let other: Case?
        private var cases: [JSONValue: Case] = [:]
        /// The tags in the order in which they were added.
        private var tags: [JSONValue] = []

        /// A union without cases, whose tag has this name. A tag that no case has is an error.
        public init(_ name: String) {
            self.name = name
            other = nil
        }

        /// A union without cases, whose tag has this name.
        ///
        /// - Parameter other: the case of values with another tag, or without one. It is written as it came.
        public init(_ name: String, else other: @escaping @Sendable (JSONValue) -> Value) {
            self.name = name
            self.other = Case(other)
        }

        /// The union with one more case. Of several tags for one case, the first one is written.
        ///
        /// - Parameters:
        ///   - tag: the value of the member for this case: a text, or a number.
        ///   - make: the case, such as `PaymentMethod.card`.
        public func `case`<Payload: Decodable & Sendable>(
            _ tag: JSONValue, _ make: @escaping @Sendable (Payload) -> Value
        ) -> Union {
            var union = self
            if union.cases.updateValue(Case(make), forKey: tag) == nil { union.tags.append(tag) }
            return union
        }

        private var key: JSONKey { JSONKey(stringValue: name) }

        func decode(from decoder: any Decoder) throws -> Value {
            let tag: JSONValue?
            do {
                tag = try decoder.container(keyedBy: JSONKey.self).decodeIfPresent(JSONValue.self, forKey: key)
            } catch {
                // It is not an object.
                guard let other else { throw error }
                return try other.decode(decoder)
            }
            if let match = tag.flatMap({ cases[$0] }) ?? other { return try match.decode(decoder) }
            let known = cases.keys.map(\.description).sorted().joined(separator: ", ")
            let found = tag.map { "\"\(name)\" is \($0.description.prefix(80))" } ?? "there is no \"\(name)\""
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath + [key],
                    debugDescription: "\(found), which is no case of \(Value.self) (\(known)); add the case, or keep "
                        + "what is unknown with `else`"))
        }

        func encode(_ value: Value, to encoder: any Encoder) throws {
            if let payload = other?.payload(value) as? JSONValue { return try payload.encode(to: encoder) }
            for tag in tags {
                guard let payload = cases[tag]?.payload(value) else { continue }
                let type = "\(Swift.type(of: payload))"
                guard let payload = payload as? any Encodable else {
                    throw problem(encoder, "\(type) is not Encodable; declare it so")
                }
                let isValue = payload is any DirectlyJSONEncodable && !(payload is any StringKeys)
                if !isValue { try payload.encode(to: encoder) }
                guard !isValue, (encoder as? JSONEncodingNode)?.takesMembers() != false else {
                    throw problem(
                        encoder, "\(type) is not encoded as an object, so it has no place for \"\(name)\"; use a struct"
                    )
                }
                var container = encoder.container(keyedBy: JSONKey.self)
                return try container.encode(tag, forKey: key)
            }
            throw problem(encoder, "this case of \(Value.self) is not in its union; add .case(…)")
        }

        private func problem(_ encoder: any Encoder, _ reason: String) -> EncodingError {
            .unwritable(name, at: encoder.codingPath, reason)
        }
    }
}

/// The case of an enum, read by reflection: there are no key paths to cases.
private enum EnumCase {
    static func read(_ value: Any) -> (name: String, content: Any)? {
        let mirror = Mirror(reflecting: value)
        guard mirror.displayStyle == .enum, let child = mirror.children.first, let name = child.label else {
            return nil
        }
        // A payload with a label is a tuple of one element.
        let tuple = Mirror(reflecting: child.value)
        let isLabelled = tuple.displayStyle == .tuple && tuple.children.count == 1
        return (name, isLabelled ? tuple.children.first?.value ?? child.value : child.value)
    }
}

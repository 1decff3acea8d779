public import FoundationEssentials

// A literal makes a `JSONValue` of constants. These make one of variables.
extension JSONValue {
    /// Makes a ``string(_:)``; a null for `nil`.
    public init(_ text: String?) { self = text.map(JSONValue.string) ?? .null }

    /// Makes an ``int(_:)``; a null for `nil`.
    public init(_ number: Int?) { self = number.map { .int(Int64($0)) } ?? .null }

    /// Makes a ``double(_:)``; a null for `nil`.
    public init(_ number: Double?) { self = number.map(JSONValue.double) ?? .null }

    /// Makes a ``decimal(_:)``; a null for `nil`.
    public init(_ number: Decimal?) { self = number.map(JSONValue.decimal) ?? .null }

    /// Makes a ``bool(_:)``; a null for `nil`.
    public init(_ flag: Bool?) { self = flag.map(JSONValue.bool) ?? .null }

    /// Makes the JSON of any value, the counterpart of ``decode(_:coding:)``.
    ///
    /// ```swift
    /// let variables: JSONValue = ["first": 10, "filter": try JSONValue(encoding: filter)]
    /// ```
    ///
    /// - Parameter coding: how dates, names and the rest are written. Default `Coding()`. The coding of a call does not
    ///   change the JSON any more; an ``Object`` is written with it.
    /// - Throws: `EncodingError.invalidValue` with the path of a value that JSON does not have.
    public init(encoding value: some Encodable, coding: Coding = Coding()) throws {
        self = try JSONValueEncoder(rules: CodingRules.of(coding)).encode(value)
    }

    /// An object of values of any types, which are encoded when it is sent, with the ``Coding`` of the call.
    ///
    /// ```swift
    /// let variables: JSONValue.Object = ["first": 10, "after": cursor, "filter": filter]
    /// try await central.startRequest("POST", "/graphql", parameters: ["query": query, "variables": variables])
    /// try await central.startRequest("POST", "/graphql", body: .json(["query": query, "variables": variables]))
    /// ```
    ///
    /// A `nil` is a null, as in every JSON body; only `parameters` leave it out. ``Settable/leftOut`` is left out. Names stay as
    /// they are written.
    public struct Object: Encodable, Sendable, ExpressibleByDictionaryLiteral {
        /// The values by name.
        public var members: Parameters

        /// Makes an object of parameters.
        public init(_ members: Parameters = [:]) { self.members = members }

        /// Makes an object. The last of repeated names counts.
        public init(dictionaryLiteral elements: (String, (any Encodable & Sendable)?)...) {
            members = Parameters(elements) { _, last in last }
        }

        /// The value of a member. Setting `nil` removes the member; `members` can have a null.
        public subscript(name: String) -> (any Encodable & Sendable)? {
            get { members[name] ?? nil }
            set { members[name] = newValue.map(Optional.some) }
        }

        /// Encodes the values. Throws what they throw.
        public func encode(to encoder: any Encoder) throws {
            // Encoders keep the names of a dictionary.
            var container = encoder.singleValueContainer()
            try container.encode(members.compactMapValues(Member.init))
        }
    }

    private struct Member: Encodable {
        let value: (any Encodable)?

        init?(_ value: (any Encodable & Sendable)?) {
            if let value, (value as? any OptionalValue)?.isLeftOut == true { return nil }
            self.value = value
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            if let value { try container.encode(value) } else { try container.encodeNil() }
        }
    }
}

// The standard library writes an optional as `Optional(…)`.

extension JSONValue? {
    /// The value as JSON in one line; `nil` when it is absent.
    public var description: String { self?.description ?? "nil" }
}

extension DefaultStringInterpolation {
    /// Writes the result of a look-up as JSON, without `Optional(…)`: `print("\(json["name"])")`.
    public mutating func appendInterpolation(_ value: JSONValue?) { appendLiteral(value.description) }
}

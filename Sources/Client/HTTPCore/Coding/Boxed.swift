extension Coding {
    /// Stores a value elsewhere, so that a struct can contain itself. It is encoded as the value.
    ///
    /// ```swift
    /// struct Folder: Codable, Hashable, Sendable {
    ///     var name: String
    ///     @Coding.Boxed var parent: Folder?
    /// }
    /// ```
    ///
    /// A member that is missing is `nil`, as for any other optional property, and `nil` is left out. A ``Settable`` has its three
    /// states.
    @propertyWrapper
    public struct Boxed<Value: Codable & Hashable & Sendable>: Codable, Hashable, Sendable {
        private indirect enum Box: Hashable, Sendable { case value(Value) }

        private var box: Box

        /// The value.
        public var wrappedValue: Value {
            get {
                switch box {
                case .value(let value): value
                }
            }
            set { box = .value(newValue) }
        }

        /// Stores a value.
        public init(wrappedValue: Value) { box = .value(wrappedValue) }
        /// Decodes the value.
        public init(from decoder: any Decoder) throws { box = .value(try Value(from: decoder)) }
        /// Encodes the value.
        public func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
    }
}

// Found by the code that the compiler makes for Codable.
extension KeyedDecodingContainer {
    /// Decodes an optional value, which is `nil` where the member is missing or null.
    public func decode<Value>(
        _ type: Coding.Boxed<Value?>.Type, forKey key: Key
    ) throws -> Coding.Boxed<Value?> {
        Coding.Boxed(wrappedValue: try decodeIfPresent(Value.self, forKey: key))
    }

    /// Decodes a value of three states. A member that is absent is ``Settable/leftOut``.
    public func decode<Value>(
        _ type: Coding.Boxed<Settable<Value>>.Type, forKey key: Key
    ) throws -> Coding.Boxed<Settable<Value>> {
        Coding.Boxed(wrappedValue: try decode(Settable<Value>.self, forKey: key))
    }
}

extension KeyedEncodingContainer {
    /// Encodes an optional value; `nil` is left out.
    public mutating func encode<Value>(_ box: Coding.Boxed<Value?>, forKey key: Key) throws {
        try encodeIfPresent(box.wrappedValue, forKey: key)
    }

    /// Encodes a value of three states. A ``Settable/leftOut`` encodes nothing.
    public mutating func encode<Value>(_ box: Coding.Boxed<Settable<Value>>, forKey key: Key) throws {
        try encode(box.wrappedValue, forKey: key)
    }
}

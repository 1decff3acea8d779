// Each once for key paths and once for fields by name. The order of optionals is written without them on the right:
// nothing is smaller or larger than `nil`.

/// Whether a field is equal to a value; `nil` to `nil` only.
public func == <Object, Value: Encodable & Equatable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .equal, Operand(value))) }

/// Whether a field is another than a value.
public func != <Object, Value: Encodable & Equatable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .unequal, Operand(value))) }

/// Whether a field is less than a value.
public func < <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .less, Operand(value))) }

/// Whether a field is at most a value.
public func <= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atMost, Operand(value))) }

/// Whether a field is greater than a value.
public func > <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .greater, Operand(value))) }

/// Whether a field is at least a value.
public func >= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atLeast, Operand(value))) }

/// Whether a field has a value and it is less.
public func < <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .less, Operand(value))) }

/// Whether a field has a value and it is at most.
public func <= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atMost, Operand(value))) }

/// Whether a field has a value and it is greater.
public func > <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .greater, Operand(value))) }

/// Whether a field has a value and it is at least.
public func >= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atLeast, Operand(value))) }

/// Whether a field is equal to a value; `nil` to `nil` only.
public func == <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .equal, Operand(value)))
}

/// Whether a field is another than a value.
public func != <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .unequal, Operand(value)))
}

/// Whether a field has a value and it is less.
public func < <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .less, Operand(value)))
}

/// Whether a field has a value and it is at most.
public func <= <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .atMost, Operand(value)))
}

/// Whether a field has a value and it is greater.
public func > <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .greater, Operand(value)))
}

/// Whether a field has a value and it is at least.
public func >= <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .atLeast, Operand(value)))
}

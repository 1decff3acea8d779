import FoundationEssentials
import HTTPCore

/// Converts single values to and from columns. The row encoder and decoder convert frequent types themselves. All other
/// values, and ids and the values of conditions, are converted here.
enum ColumnCoding {
    /// Encodes values with fields or elements. Keys are sorted, so that equal values are equal texts.
    static let encoder: JSONEncoder = {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "Infinity", negativeInfinity: "-Infinity", nan: "NaN")
        if let key = CodingUserInfoKey.numbersAsTexts { encoder.userInfo[key] = true }
        return encoder
    }()

    static let decoder: JSONDecoder = {
        let decoder = JSONDecoder()
        decoder.nonConformingFloatDecodingStrategy = .convertFromString(
            positiveInfinity: "Infinity", negativeInfinity: "-Infinity", nan: "NaN")
        return decoder
    }()

    /// The kind in which a type is stored, as far as the type alone determines it.
    static func kind(of type: Any.Type) -> FieldKind {
        switch type {
        case is Bool.Type: .boolean
        case is String.Type: .text
        case is Double.Type, is Float.Type: .real
        case is UInt.Type, is UInt64.Type: .unsigned
        case is any FixedWidthInteger.Type: .integer
        case is Date.Type: .date
        case is Data.Type, is [UInt8].Type: .blob
        case is UUID.Type: .uuid
        case is URL.Type: .url
        case is Decimal.Type: .decimal
        default: .any
        }
    }

    static func stored<T: Encodable>(_ value: T) throws -> (kind: FieldKind, value: StoredValue) {
        if let scalar = scalar(value) { return scalar }
        let probe = SingleValueEncoder()
        try? value.encode(to: probe)
        if let result = probe.result, !probe.isNested { return result }
        return (.json, .text(try json(value)))
    }

    /// A value to compare with stored ones.
    static func compared<T: Encodable>(_ value: T) throws -> StoredValue {
        let (kind, stored) = try stored(value)
        if kind == .json, let collection = value as? any JSONEncodedCollection, !collection.hasOrder {
            let reason = "the elements of \(T.self) have no order, so equal values may be stored differently"
            throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: reason))
        }
        return stored
    }

    /// The id of a value as a column holds it.
    static func id<ID: Encodable>(_ id: ID, _ operation: @autoclosure () -> String) throws -> StoredValue {
        // The most frequent type goes without casts.
        if ID.self == Int.self, let number = id as? Int { return .integer(Int64(number)) }
        do { return try compared(id) } catch let error as EncodingError {
            throw NetworkError.storage(.value, operation(), "the id cannot be stored: \(error.summary)")
        }
    }

    static func json(_ value: some Encodable) throws -> String {
        let data = try encoder.encode(value)
        // The encoder writes a decimal that is NaN as a bare word, which is not JSON.
        if mayHoldBareNaN(data), (try? JSONValue(parsing: data)) == nil {
            throw EncodingError.invalidValue(
                value,
                .init(codingPath: [], debugDescription: "a Decimal in it is NaN, which JSON does not have; use nil"))
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// Whether JSON has the word NaN at its start or after one of `:[,`, where it may also be part of a text.
    private static func mayHoldBareNaN(_ json: Data) -> Bool {
        let word = Array("NaN".utf8)
        let before = Array(":[,".utf8)
        return json.withUnsafeBytes { bytes in
            bytes.indices.dropLast(2).contains { index in
                guard bytes[index] == word[0], bytes[index + 1] == word[1], bytes[index + 2] == word[2] else {
                    return false
                }
                return index == 0 || before.contains(bytes[index - 1])
            }
        }
    }

    /// Foundation's values and the standard library's scalars.
    static func scalar<T>(_ value: T) -> (kind: FieldKind, value: StoredValue)? {
        switch value {
        case let value as String: (.text, .text(value))
        case let value as Bool: (.boolean, .integer(value ? 1 : 0))
        case let value as Double: (.real, .real(value))
        case let value as Float: (.real, .real(Double(value)))
        case let value as UInt64: (.unsigned, unsigned(value))
        case let value as UInt: (.unsigned, unsigned(UInt64(value)))
        case let value as any FixedWidthInteger: Int64(exactly: value).map { (.integer, .integer($0)) }
        case let value as Date: (.date, .real(value.timeIntervalSinceReferenceDate))
        case let value as Data: (.blob, .blob(value))
        // A cast turns any empty array into an empty array of bytes, hence the check of the type.
        case let value as [UInt8] where T.self == [UInt8].self: (.blob, .blob(Data(value)))
        case let value as UUID: (.uuid, .text(value.uuidString))
        case let value as URL: (.url, .text(value.absoluteString))
        case let value as Decimal where !value.isNaN: (.decimal, .text(value.description))
        default: nil
        }
    }

    static func unsigned(_ value: UInt64) -> StoredValue {
        if let small = Int64(exactly: value) { return .integer(small) }
        let digits = String(value)
        return .text(String(repeating: "0", count: 20 - digits.count) + digits)
    }

    // MARK: Reading

    /// Reads a value of a type from a stored value.
    static func value<T: Decodable>(_ type: T.Type, from stored: StoredValue, at path: [any CodingKey]) throws -> T {
        if let direct = direct(type, from: stored) { return direct }
        // Collections are always JSON, so reading one as a single value need not be tried.
        if let text = stored.text, type is any JSONEncodedCollection.Type {
            return try nested(type, from: text, at: path)
        }
        do {
            return try T(from: SingleValueDecoder(stored: stored, codingPath: path))
        } catch is SingleValueDecoder.Nested {
            guard let text = stored.text else { throw mismatch(type, stored, path) }
            return try nested(type, from: text, at: path)
        }
    }

    static func nested<T: Decodable>(_ type: T.Type, from text: String, at path: [any CodingKey]) throws -> T {
        do {
            return try decoder.decode(type, from: Data(text.utf8))
        } catch let error as DecodingError {
            throw error.prefixed(by: path)
        }
    }

    /// `nil` when the type is not converted directly or the value does not fit it.
    static func direct<T>(_ type: T.Type, from stored: StoredValue) -> T? {
        if type == Date.self { return stored.real.map { Date(timeIntervalSinceReferenceDate: $0) } as? T }
        if type == Data.self { return stored.blob as? T }
        if type == UUID.self { return stored.text.flatMap { UUID(uuidString: $0) } as? T }
        if type == URL.self { return stored.text.flatMap { URL(string: $0) } as? T }
        if type == Decimal.self { return stored.text.flatMap { Decimal(string: $0) } as? T }
        if type == [UInt8].self { return stored.blob.map { [UInt8]($0) } as? T }
        if type == String.self { return stored.text as? T }
        if type == Bool.self { return stored.boolean as? T }
        if type == Double.self { return stored.real as? T }
        if type == Float.self { return stored.real.map { Float($0) } as? T }
        if let integer = type as? any FixedWidthInteger.Type { return self.integer(integer, from: stored) as? T }
        return nil
    }

    private static func integer<Number: FixedWidthInteger>(_ type: Number.Type, from stored: StoredValue) -> Number? {
        switch stored {
        case .integer(let value): Number(exactly: value)
        case .text(let value) where value.utf8.count == 20: UInt64(value).flatMap { Number(exactly: $0) }
        default: nil
        }
    }

    static func mismatch(_ type: Any.Type, _ stored: StoredValue, _ path: [any CodingKey]) -> DecodingError {
        let context = DecodingError.Context(
            codingPath: path, debugDescription: "\(type) cannot be read from \(stored.shape)")
        return stored == .null ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }
}

/// Collections of the standard library, which always encode elements.
private protocol JSONEncodedCollection {
    /// Whether equal collections are equal texts: a set has no order, nor has a dictionary whose keys are not texts or numbers.
    var hasOrder: Bool { get }
}

extension Collection {
    fileprivate var haveOrder: Bool { allSatisfy { ($0 as? any JSONEncodedCollection)?.hasOrder ?? true } }
}
extension Array: JSONEncodedCollection { fileprivate var hasOrder: Bool { haveOrder } }
extension Set: JSONEncodedCollection { fileprivate var hasOrder: Bool { count < 2 && haveOrder } }
extension Dictionary: JSONEncodedCollection {
    fileprivate var hasOrder: Bool {
        let areNames = Key.self == String.self || Key.self == Int.self || Key.self is any CodingKeyRepresentable.Type
        return (areNames || count < 2) && values.haveOrder
    }
}

extension StoredValue {
    var text: String? { if case .text(let value) = self { value } else { nil } }
    var blob: Data? { if case .blob(let value) = self { value } else { nil } }

    var boolean: Bool? {
        if case .integer(let value) = self, value == 0 || value == 1 { value == 1 } else { nil }
    }

    var real: Double? {
        switch self {
        case .real(let value): value
        case .integer(let value): Double(value)
        case .text("NaN"): .nan
        default: nil
        }
    }

    /// The kind of value for messages, without the value.
    var shape: String {
        switch self {
        case .null: "no value"
        case .integer: "a whole number"
        case .real: "a number"
        case .text: "a text"
        case .blob: "bytes"
        }
    }
}

extension EncodingError {
    /// Where and why, in one line, without the value.
    var summary: String {
        guard case .invalidValue(_, let context) = self else { return "it cannot be encoded" }
        return "\(context.codingPath.shown): \(context.debugDescription)"
    }
}

extension DecodingError {
    /// The error with a path put before its own.
    func prefixed(by path: [any CodingKey]) -> DecodingError {
        func extended(_ context: Context) -> Context {
            Context(
                codingPath: path + context.codingPath, debugDescription: context.debugDescription,
                underlyingError: context.underlyingError)
        }
        switch self {
        case .typeMismatch(let type, let context): return .typeMismatch(type, extended(context))
        case .valueNotFound(let type, let context): return .valueNotFound(type, extended(context))
        case .keyNotFound(let key, let context): return .keyNotFound(key, extended(context))
        case .dataCorrupted(let context): return .dataCorrupted(extended(context))
        @unknown default: return self
        }
    }

    /// Where and why, in one line.
    var summary: String {
        switch self {
        case .typeMismatch(_, let context), .dataCorrupted(let context), .valueNotFound(_, let context):
            "\(context.codingPath.shown): \(context.debugDescription)"
        case .keyNotFound(let key, let context): "\((context.codingPath + [key]).shown): it has no value"
        @unknown default: "\(self)"
        }
    }
}

extension [any CodingKey] {
    var shown: String {
        isEmpty ? "the value" : map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".")
    }
}

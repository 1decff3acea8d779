import FoundationEssentials
import HTTPCore

extension Transaction {
    func extreme<Object: Storable, Value: Decodable>(
        _ function: String, _ place: Place, _ condition: Condition<Object>
    ) throws -> Value? where Object.ID: Codable & Sendable {
        let stored = try aggregate(function, place, condition)
        return stored == .null ? nil : try read(Value.self, stored, Object.self)
    }

    func total<Object: Storable, Value: Codable & Numeric>(
        _ place: Place, _ condition: Condition<Object>
    ) throws -> Value where Object.ID: Codable & Sendable {
        // SQLite would make doubles of decimals and of what is above Int64.max.
        if Value.self == Decimal.self || ColumnCoding.kind(of: Value.self) == .unsigned {
            var sum: Decimal = 0
            try values(of: place, condition) { stored in
                if stored != .null { sum += try read(Decimal.self, stored.asDecimal, Object.self) }
            }
            if let sum = sum as? Value { return sum }
            return try read(Value.self, ColumnCoding.unsigned(UInt64(sum.description) ?? 0, of: sum), Object.self)
        }
        let stored = try aggregate("sum", place, condition)
        return stored == .null ? .zero : try read(Value.self, stored, Object.self)
    }

    private func read<Value: Decodable, Object>(
        _ type: Value.Type, _ stored: StoredValue, _ object: Object.Type
    ) throws -> Value {
        do {
            return try ColumnCoding.value(type, from: stored, at: [])
        } catch {
            throw NetworkError.storage(
                .value, "work out a value of \(object)",
                "what came of it, \(stored.shape), does not fit \(type); the sum may be too large")
        }
    }
}

extension StoredValue {
    /// A number as the text of a decimal.
    fileprivate var asDecimal: StoredValue {
        switch self {
        case .integer(let value): .text(String(value))
        case .real(let value): .text("\(value)")
        default: self
        }
    }
}

extension ColumnCoding {
    /// A sum as it would be stored; no value when it does not fit.
    fileprivate static func unsigned(_ value: UInt64, of sum: Decimal) -> StoredValue {
        String(value) == sum.description ? unsigned(value) : .null
    }
}

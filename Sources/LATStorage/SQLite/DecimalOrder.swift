import CSQLite
import FoundationEssentials

/// The collation of columns that hold decimals as text: by number, so that `9.5` comes before `10` and `1.0` is `1`.
enum DecimalOrder {
    static let name = "lat_decimal"

    static func register(on database: OpaquePointer) -> Int32 {
        sqlite3_create_collation_v2(
            database, name, SQLITE_UTF8, nil,
            { _, leftCount, left, rightCount, right in
                let left = DecimalOrder.text(left, leftCount)
                let right = DecimalOrder.text(right, rightCount)
                guard let first = Decimal(string: left), let second = Decimal(string: right) else {
                    return left < right ? -1 : left == right ? 0 : 1
                }
                return first < second ? -1 : first == second ? 0 : 1
            }, nil)
    }

    private static func text(_ bytes: UnsafeRawPointer?, _ count: Int32) -> String {
        guard let bytes else { return "" }
        return String(decoding: UnsafeRawBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    }
}

import Glibc

/// What a stored response is found by: a digest of what makes two requests the same, never the secrets themselves.
///
/// Keys are equal when their bytes are: unlike two texts, which are when they look the same.
public struct CacheKey: Sendable {
    /// The digest of method, URL, parameters, partition and schema version: 64 hexadecimal digits.
    public let primary: String
    /// The digest of the request's fields that `Vary` selects (RFC 9111 §4.1); empty when it selects none.
    public var variant: String

    /// A key of its parts.
    public init(primary: String, variant: String = "") {
        self.primary = primary
        self.variant = variant
    }
}

extension CacheKey: Hashable {
    /// Whether the bytes of both parts are the same.
    public static func == (a: CacheKey, b: CacheKey) -> Bool {
        a.primary.hasSameBytes(as: b.primary) && a.variant.hasSameBytes(as: b.variant)
    }

    /// Hashes the bytes of both parts.
    public func hash(into hasher: inout Hasher) {
        primary.hashBytes(into: &hasher)
        variant.hashBytes(into: &hasher)
    }
}

extension String {
    /// Whether the bytes are the same: unlike two texts, which are equal when they look the same.
    func hasSameBytes(as other: String) -> Bool {
        let isSame: Bool?? = utf8.withContiguousStorageIfAvailable { a in
            other.utf8.withContiguousStorageIfAvailable { b in
                guard a.count == b.count, let start = a.baseAddress, let otherStart = b.baseAddress else {
                    return a.count == b.count
                }
                return memcmp(start, otherStart, a.count) == 0
            }
        }
        if let isSame, let isSame { return isSame }
        return utf8.elementsEqual(other.utf8)
    }

    /// Hashes the bytes, with an end that no text has.
    func hashBytes(into hasher: inout Hasher) {
        let isDone: Void? = utf8.withContiguousStorageIfAvailable { bytes in
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        }
        if isDone == nil { for byte in utf8 { hasher.combine(byte) } }
        hasher.combine(0xFF as UInt8)
    }
}

import Glibc

// Swift's `==` treats canonically equivalent texts as equal, such as é as one scalar and as two. On the wire and on disk they
// differ.

extension String {
    /// Whether the UTF-8 bytes are the same.
    package func hasSameBytes(as other: String) -> Bool {
        let isSame: Bool?? = utf8.withContiguousStorageIfAvailable { a in
            other.utf8.withContiguousStorageIfAvailable { b in
                guard a.count == b.count, let start = a.baseAddress, let otherStart = b.baseAddress else {
                    return a.count == b.count
                }
                return start == otherStart || memcmp(start, otherStart, a.count) == 0
            }
        }
        if let isSame, let isSame { return isSame }
        return utf8.elementsEqual(other.utf8)
    }

    /// Hashes the bytes, and then 0xFF as their end, because it never occurs in UTF-8.
    package func hashBytes(into hasher: inout Hasher) {
        let isDone: Void? = utf8.withContiguousStorageIfAvailable { bytes in
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        }
        if isDone == nil { for byte in utf8 { hasher.combine(byte) } }
        hasher.combine(0xFF as UInt8)
    }
}

extension String? {
    /// Whether both are `nil` or have the same UTF-8 bytes.
    package func hasSameBytes(as other: String?) -> Bool {
        guard let self, let other else { return self == nil && other == nil }
        return self.hasSameBytes(as: other)
    }
}

extension [String] {
    /// Whether the texts at each index have the same UTF-8 bytes.
    package func hasSameBytes(as other: [String]) -> Bool {
        guard count == other.count else { return false }
        return withUnsafeBufferPointer { a in
            other.withUnsafeBufferPointer { b in
                a.baseAddress == b.baseAddress || a.indices.allSatisfy { a[$0].hasSameBytes(as: b[$0]) }
            }
        }
    }
}

/// A text that equals another only if the UTF-8 bytes are the same.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (lhs: Self, rhs: Self) -> Bool { lhs.text.hasSameBytes(as: rhs.text) }

    package func hash(into hasher: inout Hasher) { text.hashBytes(into: &hasher) }
}

import Glibc
import JSONText

/// An IPv4 or IPv6 address, parsed, compared and classified without a resolver.
///
/// ```swift
/// IPAddress("127.0.0.1")?.rule            // .loopback
/// IPAddress("::ffff:10.0.0.1")?.rule      // .privateUse: the IPv4 address inside counts
/// IPAddress("93.184.216.34")?.rule        // nil: an address of the public internet
/// IPAddress(host: "0x7f.1")?.rule         // .loopback: read as the system's resolver does
/// ```
package struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// The address in network byte order: 4 bytes for IPv4, 16 for IPv6.
    public let bytes: [UInt8]

    /// Whether it is an IPv4 address.
    public var isIPv4: Bool { bytes.count == 4 }

    /// Makes an address from its bytes; `nil` unless there are 4 or 16.
    public init?(bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Parses the strict text form: four decimal numbers without leading zeros, or RFC 4291 §2.2. `nil` for anything else.
    public init?(_ text: String) {
        guard let bytes = Self.parse(text, family: AF_INET, count: 4) ?? Self.parse(text, family: AF_INET6, count: 16)
        else { return nil }
        self.bytes = bytes
    }

    /// Parses the host of a URL if it is an address in any form that a resolver accepts: in brackets, with a zone, with a
    /// trailing dot, and the old forms of IPv4 (`2130706433`, `0x7f.1`, `0177.0.0.1`, `127.1`). `nil` for a name.
    public init?(host: String) {
        var text = Substring(host)
        if text.hasPrefix("["), text.hasSuffix("]") { text = text.dropFirst().dropLast() }
        if text.contains(":"), let percent = text.firstIndex(of: "%") { text = text[..<percent] }
        while text.hasSuffix("."), !text.contains(":") { text = text.dropLast() }
        guard let bytes = IPAddress(String(text))?.bytes ?? Self.parseOldIPv4(text) else { return nil }
        self.bytes = bytes
    }

    private static func parse(_ text: String, family: CInt, count: Int) -> [UInt8]? {
        guard text.utf8.count < 64, !text.utf8.contains(0) else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        return inet_pton(family, text, &bytes) == 1 ? bytes : nil
    }

    /// Parses one to four decimal, octal or hexadecimal numbers. The last fills the remaining bytes, as in `inet_aton(3)`.
    private static func parseOldIPv4(_ text: Substring) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count) else { return nil }
        var numbers = parts.compactMap(number)
        guard numbers.count == parts.count else { return nil }
        var value = numbers.removeLast()
        guard numbers.allSatisfy({ $0 < 256 }), value < UInt64(1) << (8 * (4 - numbers.count)) else { return nil }
        for (index, number) in numbers.enumerated() { value |= number << (8 * (3 - index)) }
        return (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * (3 - $0))) }
    }

    private static func number(_ text: Substring) -> UInt64? {
        let lower = text.lowercased()
        guard lower.utf8.first?.isDigit == true else { return nil }
        if lower.hasPrefix("0x") {
            let digits = lower.dropFirst(2)
            return digits.isEmpty ? 0 : UInt64(digits, radix: 16)
        }
        return lower.hasPrefix("0") ? UInt64(lower, radix: 8) : UInt64(lower, radix: 10)
    }

    /// The text form; for IPv6 that of RFC 5952.
    public var description: String {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let text = bytes.withUnsafeBytes {
            inet_ntop(isIPv4 ? AF_INET : AF_INET6, $0.baseAddress, &buffer, socklen_t(INET6_ADDRSTRLEN))
        }
        return text.map { String(cString: $0) } ?? ""
    }

    /// The IPv4 address inside an IPv4-mapped one (`::ffff:1.2.3.4`); any other address itself.
    package var unmapped: IPAddress {
        guard !isIPv4, starts(with: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]) else { return self }
        return IPAddress(bytes: bytes[12...]) ?? self
    }

    func starts(with prefix: [UInt8]) -> Bool { bytes.starts(with: prefix) }
}

/// A range of addresses in CIDR notation (RFC 4632), or a single one: `10.0.0.0/8`, `fd00::/8`, `127.0.0.1`.
package struct AddressRange: Hashable, Sendable, CustomStringConvertible {
    /// An address of the range.
    public let base: IPAddress
    /// The number of leading bits that an address has to share with ``base``.
    public let prefixLength: Int

    /// Parses a range; `nil` when the text is not one.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let base = IPAddress(String(parts[0])) else { return nil }
        let bits = base.bytes.count * 8
        guard parts.count == 2 else {
            (self.base, prefixLength) = (base, bits)
            return
        }
        guard let length = Int(parts[1]), (0...bits).contains(length), parts[1].allSatisfy(\.isWholeNumber) else {
            return nil
        }
        (self.base, prefixLength) = (base, length)
    }

    /// Whether an address is in the range. An IPv4-mapped address counts as the IPv4 address inside it.
    public func contains(_ address: IPAddress) -> Bool {
        let bytes = address.unmapped.bytes
        let own = base.unmapped.bytes
        let length = own.count == base.bytes.count ? prefixLength : max(0, prefixLength - 96)
        guard bytes.count == own.count else { return false }
        for index in 0..<bytes.count {
            let bits = min(8, max(0, length - index * 8))
            let mask = UInt8(truncatingIfNeeded: 0xFF00 >> bits)
            if (bytes[index] ^ own[index]) & mask != 0 { return false }
        }
        return true
    }

    /// The range in CIDR notation.
    public var description: String { "\(base)/\(prefixLength)" }
}

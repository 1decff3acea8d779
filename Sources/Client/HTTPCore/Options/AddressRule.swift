extension NetworkError {
    /// A reason why an address does not belong to the public internet, from the registries of RFC 6890 and the metadata
    /// services of clouds.
    ///
    /// A manager with `blocksPrivateAddresses` refuses to connect to an address to which one of these cases applies.
    public enum AddressRule: String, Hashable, Sendable, CaseIterable {
        /// 127.0.0.0/8, ::1 (RFC 1122 §3.2.1.3), and names for them such as `localhost`.
        case loopback
        /// 0.0.0.0/8, :: (RFC 1122 §3.2.1.3). Linux connects them to the local machine.
        case unspecified
        /// 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 (RFC 1918).
        case privateUse
        /// 100.64.0.0/10 (RFC 6598), shared by a provider and its customers.
        case carrierGradeNAT
        /// 169.254.0.0/16 (RFC 3927), fe80::/10 (RFC 4291).
        case linkLocal
        /// fc00::/7 (RFC 4193).
        case uniqueLocal
        /// fec0::/10, deprecated by RFC 3879 in favour of unique local addresses.
        case siteLocal
        /// Cloud services that give a machine its credentials: 169.254.169.254, 169.254.170.2, 169.254.170.23, fd00:ec2::254,
        /// fd00:ec2::23, fd20:ce::254, 100.100.100.200, 168.63.129.16, 192.0.0.192, `metadata.google.internal` and
        /// `metadata.goog`.
        case metadata
        /// 224.0.0.0/4, ff00::/8.
        case multicast
        /// 255.255.255.255.
        case broadcast
        /// 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24 (RFC 5737), 2001:db8::/32, 3fff::/20 (RFC 9637).
        case documentation
        /// 198.18.0.0/15 (RFC 2544), 2001:2::/48 (RFC 5180).
        case benchmarking
        /// Reserved for protocols or future use: 192.0.0.0/24, 192.88.99.0/24, 240.0.0.0/4, the rest of 2001::/23, and
        /// all of IPv6 outside 2000::/3.
        case reserved
        /// Tunnels, whose destination the address does not show: Teredo (2001::/32), local-use NAT64 (64:ff9b:1::/48).
        case tunnel
        /// A Unix domain socket, which reaches services of the local machine.
        case unixSocket
    }
}

extension IPAddress {
    /// The reason why this address does not belong to the public internet; `nil` when it does.
    ///
    /// An IPv4 address inside an IPv6 address (mapped, compatible, translated, NAT64, 6to4, ISATAP) is checked too.
    public var rule: NetworkError.AddressRule? { isIPv4 ? ruleOfIPv4 : ruleOfIPv6 }

    private var ruleOfIPv4: NetworkError.AddressRule? {
        if Self.metadata.contains(self) { return .metadata }
        switch (bytes[0], bytes[1], bytes[2]) {
        case (0, _, _): return .unspecified
        case (10, _, _), (172, 16...31, _), (192, 168, _): return .privateUse
        case (100, 64...127, _): return .carrierGradeNAT
        case (127, _, _): return .loopback
        case (169, 254, _): return .linkLocal
        case (192, 0, 0), (192, 88, 99): return .reserved
        case (192, 0, 2), (198, 51, 100), (203, 0, 113): return .documentation
        case (198, 18...19, _): return .benchmarking
        case (224...239, _, _): return .multicast
        case (255, 255, 255) where bytes[3] == 255: return .broadcast
        case (240...255, _, _): return .reserved
        default: return nil
        }
    }

    private var ruleOfIPv6: NetworkError.AddressRule? {
        if Self.metadata.contains(self) { return .metadata }
        if bytes.allSatisfy({ $0 == 0 }) { return .unspecified }
        if starts(with: [UInt8](repeating: 0, count: 15)), bytes[15] == 1 { return .loopback }
        switch (bytes[0], bytes[1]) {
        case (0xFF, _): return .multicast
        case (0xFE, 0x80...0xBF): return .linkLocal
        case (0xFE, 0xC0...0xFF): return .siteLocal
        case (0xFC...0xFD, _): return .uniqueLocal
        default: break
        }
        for (prefix, offset, isObsolete) in Self.embeddingPrefixes where starts(with: prefix) {
            let inner = IPAddress(bytes: bytes[offset..<(offset + 4)])
            return inner?.rule ?? (isObsolete ? .reserved : nil)
        }
        // ISATAP (RFC 5214): an interface identifier of 0:5efe or 200:5efe and the IPv4 address.
        if bytes[8] & 0xFD == 0, bytes[9] == 0, bytes[10] == 0x5E, bytes[11] == 0xFE,
            let rule = IPAddress(bytes: bytes[12...])?.rule
        {
            return rule
        }
        if starts(with: [0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01]) { return .tunnel }
        if starts(with: [0x20, 0x01, 0x00, 0x00]) { return .tunnel }
        if starts(with: [0x20, 0x01, 0x00, 0x02, 0x00, 0x00]) { return .benchmarking }
        if starts(with: [0x20, 0x01, 0x0D, 0xB8]) { return .documentation }
        if starts(with: [0x3F, 0xFF]), bytes[2] < 0x10 { return .documentation }
        // The rest of 2001::/23 is reserved for protocols (RFC 2928).
        if starts(with: [0x20, 0x01]), bytes[2] < 2 { return .reserved }
        return bytes[0] & 0xE0 == 0x20 ? nil : .reserved
    }

    /// The prefixes of IPv6 addresses that contain an IPv4 address, and the offset of that address. An address of an obsolete
    /// form is reserved even if its IPv4 address is public.
    private static let embeddingPrefixes: [(prefix: [UInt8], offset: Int, isObsolete: Bool)] = [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], 12, false),  // mapped, RFC 4291 §2.5.5.2
        ([0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0], 12, true),  // translated, RFC 2765
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 12, true),  // compatible, RFC 4291 §2.5.5.1
        ([0x00, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0], 12, false),  // NAT64, RFC 6052
        ([0x20, 0x02], 2, false),  // 6to4, RFC 3056
    ]

    private static let metadata: Set<IPAddress> = Set(
        [
            "169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192",
            "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
        ].compactMap { IPAddress($0) })
}

extension NetworkError.AddressRule {
    /// The rule for the host of a URL, judged by its text alone: an address in any notation, or a name that by definition
    /// means the local machine or a cloud's metadata service. `nil` for every other name, whatever it resolves to.
    package static func ofHost(_ host: String) -> NetworkError.AddressRule? {
        if let address = IPAddress(host: host) { return address.rule }
        var name = host.lowercased()
        while name.hasSuffix(".") { name.removeLast() }
        if name == "metadata.google.internal" || name == "metadata.goog" { return .metadata }
        let loopback = ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"]
        if loopback.contains(name) || name.hasSuffix(".localhost") { return .loopback }  // RFC 6761 §6.3
        return nil
    }
}

import HTTPCore
import Testing

/// The classification of addresses for `blocksPrivateAddresses`, without connections.
@Suite struct AddressRuleTests {
    static let refused: [(String, NetworkError.AddressRule)] = [
        ("0.0.0.0", .unspecified), ("0.1.2.3", .unspecified), ("0.255.255.255", .unspecified),
        ("10.0.0.0", .privateUse), ("10.255.255.255", .privateUse), ("172.16.0.0", .privateUse),
        ("172.31.255.255", .privateUse), ("192.168.0.1", .privateUse), ("192.168.255.255", .privateUse),
        ("100.64.0.0", .carrierGradeNAT), ("100.127.255.255", .carrierGradeNAT), ("127.0.0.0", .loopback),
        ("127.0.0.1", .loopback), ("127.255.255.255", .loopback), ("169.254.0.1", .linkLocal),
        ("169.254.255.255", .linkLocal), ("169.254.169.254", .metadata), ("169.254.170.2", .metadata),
        ("169.254.170.23", .metadata), ("100.100.100.200", .metadata), ("168.63.129.16", .metadata),
        ("192.0.0.192", .metadata), ("192.0.0.1", .reserved), ("192.0.2.1", .documentation),
        ("192.88.99.1", .reserved), ("198.18.0.0", .benchmarking), ("198.19.255.255", .benchmarking),
        ("198.51.100.7", .documentation), ("203.0.113.7", .documentation), ("224.0.0.1", .multicast),
        ("239.255.255.255", .multicast), ("240.0.0.1", .reserved), ("255.255.255.254", .reserved),
        ("255.255.255.255", .broadcast),
        ("::", .unspecified), ("::1", .loopback), ("fe80::1", .linkLocal), ("febf::1", .linkLocal),
        ("fec0::1", .siteLocal), ("feff::1", .siteLocal), ("fc00::1", .uniqueLocal), ("fd12:3456::1", .uniqueLocal),
        ("fd00:ec2::254", .metadata), ("fd00:ec2::23", .metadata), ("fd20:ce::254", .metadata),
        ("ff02::1", .multicast), ("ff0e::1", .multicast), ("2001:db8::1", .documentation),
        ("3fff::1", .documentation), ("3fff:fff::1", .documentation), ("2001:2::1", .benchmarking),
        ("2001::1", .tunnel), ("2001:0:4136:e378:8000:63bf:3fff:fdd2", .tunnel), ("64:ff9b:1::1", .tunnel),
        ("2001:10::1", .reserved), ("2001:20::1", .reserved), ("2001:1::1", .reserved), ("100::1", .reserved),
        ("4000::1", .reserved), ("5f00::1", .reserved), ("200::1", .reserved), ("e000::1", .reserved),
        // IPv4 inside IPv6: mapped, translated, compatible, NAT64, 6to4, ISATAP.
        ("::ffff:127.0.0.1", .loopback), ("::ffff:10.0.0.1", .privateUse), ("::ffff:a9fe:a9fe", .metadata),
        ("::ffff:0.0.0.0", .unspecified), ("::ffff:255.255.255.255", .broadcast), ("::ffff:0:127.0.0.1", .loopback),
        ("::ffff:0:8.8.8.8", .reserved), ("::127.0.0.1", .loopback), ("::10.0.0.1", .privateUse),
        ("::8.8.8.8", .reserved), ("::2", .unspecified), ("64:ff9b::127.0.0.1", .loopback),
        ("64:ff9b::a9fe:a9fe", .metadata), ("64:ff9b::10.1.2.3", .privateUse), ("2002:7f00:1::", .loopback),
        ("2002:a00:1::1", .privateUse), ("2002:a9fe:a9fe::", .metadata), ("2002:c0a8:101::1", .privateUse),
        ("2a00:1450::5efe:10.0.0.1", .privateUse), ("2a00:1450::200:5efe:127.0.0.1", .loopback),
    ]

    @Test(arguments: refused) func nonPublicAddressesHaveARule(_ text: String, _ rule: NetworkError.AddressRule) throws
    {
        #expect(try #require(IPAddress(text)).rule == rule)
        #expect(NetworkError.AddressRule.ofHost(text.contains(":") ? "[\(text)]" : text) == rule)
    }

    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
        "126.255.255.255", "128.0.0.0", "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255",
        "172.32.0.0", "191.255.255.255", "192.0.1.1", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
        "198.20.0.0", "198.51.99.1", "198.51.101.1", "203.0.112.1", "203.0.114.1", "223.255.255.255",
        "2606:4700:4700::1111", "2a00:1450:4001:800::200e", "2001:4860:4860::8888", "2001:200::1", "2003::1",
        "2620:fe::fe", "3ffe::1", "2000::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
        "2a00:1450::5efe:8.8.8.8",
    ])
    func publicAddressesHaveNoRule(_ text: String) throws {
        #expect(try #require(IPAddress(text)).rule == nil)
    }

    /// The notations of `inet_aton(3)`, which resolvers accept as addresses.
    @Test(arguments: [
        ("2130706433", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("0X7F.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"), ("127.1", "127.0.0.1"), ("127.0.1", "127.0.0.1"), ("127.0.0.1.", "127.0.0.1"),
        ("0", "0.0.0.0"), ("0x0", "0.0.0.0"), ("10.1", "10.0.0.1"), ("0xa9fea9fe", "169.254.169.254"),
        ("0251.0376.0251.0376", "169.254.169.254"), ("2852039166", "169.254.169.254"),
        ("4294967295", "255.255.255.255"),
        ("192.168.257", "192.168.1.1"), ("[::1]", "::1"), ("[fe80::1%eth0]", "fe80::1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("[::ffff:7f00:1]", "::ffff:127.0.0.1"), ("010.0.0.1", "8.0.0.1"), ("0x", "0.0.0.0"), ("1.2.3.", "1.2.0.3"),
    ])
    func oldNotationsAreParsed(_ host: String, _ address: String) throws {
        #expect(try #require(IPAddress(host: host)).description == address)
    }

    @Test(arguments: [
        "", ".", "example.org", "127.0.0.1.example.org", "1.2.3.4.5", "256.1.1.1.1", "4294967296", "0x1ffffffff",
        "127.0.0.256",
        "08.1.1.1", "1..2", "-1", "+1", "a", "[::1", "::g", "[]", "١٢٧.0.0.1",
    ])
    func namesAreNotAddresses(_ host: String) {
        #expect(IPAddress(host: host) == nil)
    }

    @Test(arguments: [
        ("localhost", NetworkError.AddressRule.loopback), ("LOCALHOST.", .loopback), ("a.localhost", .loopback),
        ("ip6-localhost", .loopback), ("metadata.google.internal", .metadata), ("Metadata.Google.Internal.", .metadata),
    ])
    func localAndMetadataNamesHaveARule(_ host: String, _ rule: NetworkError.AddressRule) {
        #expect(NetworkError.AddressRule.ofHost(host) == rule)
    }

    @Test(arguments: ["example.org", "localhost.example.org", "notlocalhost", "10.0.0.1.example.org"])
    func otherNamesHaveNoRule(_ host: String) { #expect(NetworkError.AddressRule.ofHost(host) == nil) }

    @Test(arguments: [
        ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.0", false), ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.4", false), ("10.0.0.0/8", "::ffff:10.1.2.3", true), ("0.0.0.0/0", "::1", false),
        ("fd00::/8", "fdff::1", true), ("fd00::/8", "fc00::1", false), ("::1", "::1", true),
        ("192.168.128.0/17", "192.168.127.1", false), ("192.168.128.0/17", "192.168.128.1", true),
        ("::ffff:10.0.0.0/104", "10.9.9.9", true), ("::/0", "10.0.0.1", false), ("10.0.0.0/0", "8.8.8.8", true),
    ])
    func rangesContainTheirAddresses(_ range: String, _ address: String, _ isInside: Bool) throws {
        #expect(try #require(AddressRange(range)).contains(try #require(IPAddress(address))) == isInside)
    }

    @Test(arguments: [
        "", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "fd00::/129", "x/8", "10.0/8", "10.0.0.0/8/8", "1/+8",
    ])
    func malformedRangesAreRejected(_ text: String) { #expect(AddressRange(text) == nil) }
}

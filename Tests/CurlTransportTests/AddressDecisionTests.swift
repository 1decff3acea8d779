import HTTPCore
import Platform
import Testing

@testable import CurlTransport

/// Which address the next connection goes to, and when one is left out; without a socket.
@Suite struct AddressDecisionTests {
    private static func address(_ last: UInt8, isIPv6: Bool = false) -> SocketAddress {
        let host: [UInt8] = isIPv6 ? [0xFD] + [UInt8](repeating: 0, count: 14) + [last] : [10, 0, 0, last]
        return SocketAddress(host: host, port: 80)!
    }

    private static let start = MonotonicTime(nanoseconds: 1_000_000_000)

    private static func name(_ addresses: [SocketAddress], start first: Int = 0) -> NameAddresses {
        var name = NameAddresses()
        name.resolve(addresses.map { ($0, true) }, start: first, at: start)
        return name
    }

    private static let three = [address(1), address(2), address(3)]

    private func choose(
        _ name: inout NameAddresses, _ policy: RequestOptions.Addresses = .roundRobin, family: Int32 = 2,
        tried: [SocketAddress] = [], avoided: Set<String> = [], after seconds: Int = 0
    ) -> UInt8? {
        name.choose(policy, family: family, tried: tried, avoided: avoided, at: Self.start + .seconds(seconds))
            .flatMap(\.host.last)
    }

    private func fail(_ name: inout NameAddresses, _ last: UInt8, after seconds: Int = 0) -> Duration? {
        name.update(Self.address(last)) { $0.circuit.connectionFailed(at: Self.start + .seconds(seconds)) }
    }

    // MARK: Which is next

    @Test func addressesTakeTurns() {
        var name = Self.name(Self.three)
        #expect((0..<7).map { _ in choose(&name) } == [1, 2, 3, 1, 2, 3, 1])
    }

    @Test(arguments: 0..<7) func turnsBeginAnywhere(first: Int) {
        var name = Self.name(Self.three, start: first)
        #expect((0..<3).map { _ in choose(&name) ?? 0 } == (0..<3).map { UInt8((first + $0) % 3 + 1) })
    }

    @Test func fewestRequestsAreChosen() {
        var name = Self.name(Self.three)
        #expect((0..<3).map { _ in choose(&name, .leastRequest) } == [1, 2, 3])
        for text in ["10.0.0.1", "10.0.0.1", "10.0.0.2"] { #expect(name.begin(text) != nil) }
        #expect((0..<2).map { _ in choose(&name, .leastRequest) } == [3, 3])
        #expect(name.begin("10.0.0.3") != nil)
        // Both have one.
        #expect((0..<4).map { _ in choose(&name, .leastRequest) } == [2, 3, 2, 3])
    }

    @Test func eachAddressIsTriedOnce() {
        var name = Self.name(Self.three)
        var tried: [SocketAddress] = []
        for expected: UInt8? in [1, 2, 3, nil, nil] {
            let next = choose(&name, tried: tried)
            #expect(next == expected)
            if let next { tried.append(Self.address(next)) }
        }
    }

    @Test func addressOfTheOtherRequestIsAvoided() {
        var name = Self.name(Self.three)
        #expect((0..<2).map { _ in choose(&name, avoided: ["10.0.0.1", "10.0.0.3"]) } == [2, 2])
        // Better the same one than none.
        #expect(choose(&name, avoided: ["10.0.0.1", "10.0.0.2", "10.0.0.3"]) == 1)
    }

    @Test func familyIsThatOfLibcurl() {
        var name = Self.name([Self.address(8, isIPv6: true), Self.address(1), Self.address(9, isIPv6: true)])
        #expect((0..<3).map { _ in choose(&name, family: 10) } == [8, 9, 8])
        #expect((0..<2).map { _ in choose(&name) } == [1, 1])
        #expect(name.entries.map(\.text) == ["fd00::8", "10.0.0.1", "fd00::9"])
        // Without an address of the first family that works, libcurl goes on to the other one.
        for last: UInt8 in [8, 9] {
            _ = name.update(Self.address(last, isIPv6: true)) { $0.circuit.connectionFailed(at: Self.start) }
        }
        #expect(choose(&name, family: 10) == nil && choose(&name) == 1)
        #expect(choose(&name, family: 10, tried: [Self.address(1)]) == 9)
    }

    // MARK: Names that change

    @Test func listIsCurrentForItsLifetime() {
        let name = Self.name(Self.three)
        func isCurrent(_ last: UInt8, _ seconds: Int) -> Bool {
            name.isCurrent(Self.address(last), lifetime: .seconds(60), at: Self.start + .seconds(seconds))
        }
        #expect(isCurrent(1, 59) && !isCurrent(1, 60) && !isCurrent(4, 0))
    }

    @Test func changedNameKeepsWhatIsKnown() {
        var name = Self.name(Self.three)
        #expect((0..<3).map { _ in choose(&name) } == [1, 2, 3])
        #expect(fail(&name, 2) == .seconds(1))
        name.resolve([2, 3, 4].map { (Self.address($0), $0 != 4) }, start: 1, at: Self.start)
        // The address that may not be connected to is known, and never chosen.
        #expect(name.isCurrent(Self.address(4), lifetime: .seconds(60), at: Self.start))
        #expect((0..<2).map { _ in choose(&name) } == [3, 3])
        #expect(name.entries.map(\.circuit.isOpen) == [true, false])
    }

    @Test func newAddressIsNext() {
        var name = Self.name(Self.three)
        #expect((0..<3).map { _ in choose(&name) } == [1, 2, 3])
        name.resolve((1...4).map { (Self.address($0), true) }, start: 2, at: Self.start)
        #expect((0..<2).map { _ in choose(&name) } == [4, 1])
    }

    @Test func namesThatFailedLongAgoAreForgotten() {
        var name = Self.name(Self.three)
        func isForgettable(_ seconds: Int) -> Bool {
            name.isForgettable(lifetime: .seconds(60), at: Self.start + .seconds(seconds))
        }
        #expect(!isForgettable(59) && isForgettable(60))
        // Left out until 61.
        #expect(fail(&name, 1, after: 60) == .seconds(1))
        #expect(!isForgettable(180) && isForgettable(181))
        #expect(name.begin("10.0.0.2") != nil)
        #expect(!isForgettable(181))
    }

    @Test func numberOfNamesIsLimited() {
        var names: [String: NameAddresses] = [:]
        func add(_ numbers: Range<Int>) {
            for number in numbers {
                var name = NameAddresses()
                name.resolve([(Self.address(1), true)], start: 0, at: Self.start + .milliseconds(number))
                names["http://\(number).example:80"] = name
            }
        }
        func forget(_ seconds: Int) {
            NameAddresses.forget(&names, lifetime: .seconds(60), at: Self.start + .seconds(seconds))
        }
        add(0..<NameAddresses.limit - 1)
        forget(1)
        #expect(names.count == NameAddresses.limit - 1)
        add(NameAddresses.limit - 1..<NameAddresses.limit)
        forget(1)
        #expect(names.count == NameAddresses.limit * 3 / 4)
        #expect(names["http://1023.example:80"] == nil && names["http://1024.example:80"] != nil)
        forget(100)
        #expect(names.isEmpty)
    }

    // MARK: Left out

    @Test func failedAddressIsLeftOut() {
        var name = Self.name(Self.three)
        #expect(fail(&name, 2) == .seconds(1))
        #expect((0..<4).map { _ in choose(&name) } == [1, 3, 1, 3])
        // One connection tries it, and the others leave it out until it has a response.
        #expect((0..<3).map { _ in choose(&name, after: 1) } == [2, 1, 3])
        let isBack = name.update(Self.address(2)) { $0.circuit.responded(isNew: true) }
        #expect(isBack == true && (0..<3).map { _ in choose(&name, after: 1) } == [2, 1, 3])
    }

    @Test func allFailedAddressesAreUsed() {
        var name = Self.name(Self.three)
        for (last, second) in [(UInt8(3), 0), (1, 0), (2, 0)] { _ = fail(&name, last, after: second) }
        #expect(fail(&name, 3) == nil, "it is left out already")
        // The failures of those that are left out change nothing, so none may get all connections.
        #expect((0..<5).map { _ in choose(&name) } == [1, 2, 3, 1, 2])
        #expect(choose(&name, tried: [Self.address(3)]) == 1)
        #expect(choose(&name, avoided: ["10.0.0.3"]) == 2)
        for text in ["10.0.0.1", "10.0.0.3"] { #expect(name.begin(text) != nil) }
        #expect((0..<2).map { _ in choose(&name, .leastRequest) } == [2, 2])
    }

    @Test func pausesGrowUpToTheLongest() {
        var circuit = AddressCircuit()
        var now = Self.start
        var pauses: [Duration] = []
        for _ in 0..<10 {
            circuit.connects(at: now)
            let pause = circuit.connectionFailed(at: now) ?? .zero
            pauses.append(pause)
            now = now + pause
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120].map { .seconds($0) })
        circuit.connects(at: now)
        #expect(circuit.isLeftOut(at: now))
        let isBack = circuit.responded(isNew: true)
        #expect(isBack && !circuit.isOpen)
        let pause = circuit.connectionFailed(at: now)
        #expect(pause == .seconds(1))
    }

    /// The addresses 1 to 3 by TCP, 11 to 13 those of IPv6, and 101 to 103 the first ones by QUIC.
    @Test(
        arguments: [
            ([1, 2, 3], 3, [1, 2]), ([1, 2, 3], 1, []), ([1], 1, []), ([1, 2], 3, []),
            // Happy eyeballs.
            ([11, 1], 1, []), ([11, 1, 12], 12, [11]), ([11, 1, 12, 2], 2, [1]), ([1, 11], 11, []),
            // HTTP/3 and TCP at once.
            ([101, 2], 1, []), ([101, 2], 2, []), ([2, 101], 1, []), ([101, 2, 3], 3, [2]), ([101, 1, 2], 1, []),
        ] as [([UInt8], UInt8, [UInt8])])
    func whoLosesARaceHasNotFailed(tried: [UInt8], used: UInt8, failed: [UInt8]) {
        func address(_ number: UInt8) -> SocketAddress { Self.address(number % 10, isIPv6: number / 10 == 1) }
        let attempts = tried.map { NameAddresses.Attempt(address: address($0), isStream: $0 < 100) }
        #expect(NameAddresses.failed(before: address(used), of: attempts) == failed.map(address))
    }

    @Test func failuresOfOneMomentCountOnce() {
        var circuit = AddressCircuit()
        let pauses = (0..<5).map { _ in circuit.connectionFailed(at: Self.start) }
        #expect(pauses == [.seconds(1), nil, nil, nil, nil])
    }

    @Test func threeSilentRequestsLeaveItOut() {
        var circuit = AddressCircuit()
        func fail() -> Duration? { circuit.requestFailed(isNew: false, at: Self.start) }
        #expect([fail(), fail()] == [nil, nil])
        let isBack = circuit.responded(isNew: false)
        #expect(!isBack && [fail(), fail(), fail()] == [nil, nil, .seconds(1)])
    }

    /// A server that stops lets its last connections end.
    @Test func oldConnectionDoesNotEndAPause() {
        var circuit = AddressCircuit()
        _ = circuit.connectionFailed(at: Self.start)
        let isBack = circuit.responded(isNew: false)
        #expect(!isBack && circuit.isLeftOut(at: Self.start))
    }

    @Test func silentTrialLeavesItOutAgain() {
        var circuit = AddressCircuit()
        _ = circuit.connectionFailed(at: Self.start)
        let later = Self.start + .seconds(1)
        circuit.connects(at: later)
        let pause = circuit.requestFailed(isNew: true, at: later)
        #expect(pause == .seconds(2))
    }

    @Test(
        arguments: [
            (.connect, true, true), (.timeout(.connect), true, true), (.connectionLost, true, true),
            (.protocolViolation, true, true), (.tls(.handshake), true, true), (.tls(.expired), true, true),
            // The time that the caller gives.
            (.timeout(.total), false, true), (.timeout(.deadline), false, true),
            // What this process trusts, and its own certificate.
            (.tls(.pinMismatch), false, false), (.tls(.untrusted), false, false), (.tls(.selfSigned), false, false),
            (.tls(.clientCertificate), false, false), (.tls(.certificateStatus), false, false),
            (.cancelled, false, false), (.addressBlocked(.loopback), false, false),
        ] as [(NetworkError.Kind, Bool, Bool)])
    func faultsOfThisProcessDoNotCount(kind: NetworkError.Kind, beforeConnection: Bool, onConnection: Bool) {
        #expect(kind.saysAddressFails(isConnected: false) == beforeConnection)
        #expect(kind.saysAddressFails(isConnected: true) == onConnection)
    }

    /// With HTTP/2, requests that wait for their timeout keep their connection busy, and libcurl would put the next ones there.
    @Test func requestsLeaveTheConnectionsOfASilentAddress() {
        var name = Self.name(Self.three)
        func stall(_ last: UInt8) {
            _ = name.update(Self.address(last)) { $0.circuit.requestFailed(isNew: false, at: Self.start) }
        }
        #expect(name.begin("10.0.0.2") != nil)
        for _ in 0..<2 { stall(2) }
        #expect(!name.needsNewConnection)
        stall(2)
        #expect(name.needsNewConnection)
        // Also when its pause is over, until it responds on any connection.
        _ = name.update(Self.address(2)) { $0.circuit.responded(isNew: false) }
        #expect(!name.needsNewConnection && name.entries[1].circuit.isOpen)
    }

    @Test func connectionsAreKept() {
        var name = Self.name(Self.three)
        // A connection that failed says nothing about those that are open.
        #expect(name.begin("10.0.0.1") != nil)
        #expect(fail(&name, 1) != nil && !name.needsNewConnection)
        // Nothing is better when all are left out.
        for last: UInt8 in [2, 3] {
            for _ in 0..<3 {
                _ = name.update(Self.address(last)) { $0.circuit.requestFailed(isNew: false, at: Self.start) }
            }
        }
        #expect(name.begin("10.0.0.2") != nil)
        #expect(!name.needsNewConnection)
        _ = name.update(Self.address(3)) { $0.circuit.responded(isNew: true) }
        #expect(name.needsNewConnection)
    }

    // MARK: Other processes

    /// Returns the addresses whose idle connections are closed; `nil` when nothing changes.
    private func adopt(
        _ name: inout NameAddresses, _ report: CircuitReport, of last: UInt8 = 1, after seconds: Int = 0
    ) -> [UInt8]? {
        let change = name.adopt(report, of: "10.0.0.\(last)", at: Self.start + .seconds(seconds))
        guard change.hasChanged else { return nil }
        return change.leaves.map { Array($0.host.suffix(1)) } ?? []
    }

    @Test func reportOfAnotherProcessCounts() {
        var name = Self.name(Self.three)
        #expect(adopt(&name, .opened(.seconds(4))) == [1])
        #expect((0..<2).map { _ in choose(&name, after: 3) } == [2, 3])
        #expect(adopt(&name, .closed) == [])
        #expect(choose(&name, after: 3) == 1)
        #expect(adopt(&name, .closed) == nil, "it is used already")
        #expect(adopt(&name, .opened(.seconds(86_400))) == [1])
        #expect(name.entries[0].circuit.leftOutUntil == Self.start + .seconds(120))
        #expect(adopt(&name, .opened(.seconds(120)), after: 1) == [], "its connections have been closed")
        #expect(adopt(&name, .opened(.seconds(4)), of: 9) == nil)
    }

    @Test func ownResponseCountsMoreThanAReport() {
        var name = Self.name(Self.three)
        _ = name.update(Self.address(1)) { $0.respondedAt = Self.start }
        #expect(adopt(&name, .opened(.seconds(4)), after: 1) == nil)
        #expect(adopt(&name, .opened(.seconds(4)), after: 2) == [1])
    }

    @Test func reportsLeaveOutHalfAtMost() {
        var two = Self.name([Self.address(1), Self.address(2)])
        #expect(adopt(&two, .opened(.seconds(4)), of: 1) == [1])
        #expect(adopt(&two, .opened(.seconds(4)), of: 2) == nil)
        // The pause of the first is over.
        #expect(adopt(&two, .opened(.seconds(4)), of: 2, after: 4) == [2])
        var three = Self.name(Self.three)
        #expect(fail(&three, 3) != nil)
        #expect(adopt(&three, .opened(.seconds(4)), of: 1) == nil)
        var one = Self.name([Self.address(1)])
        #expect(adopt(&one, .opened(.seconds(4))) == nil)
    }

    @Test func reportDoesNotDisturbATrial() {
        var circuit = AddressCircuit()
        _ = circuit.connectionFailed(at: Self.start)
        let later = Self.start + .seconds(1)
        circuit.connects(at: later)
        let isAdopted = circuit.adopt(.opened(.seconds(100)), at: later)
        #expect(!isAdopted && circuit.leftOutUntil == later + .seconds(1))
        // The trial was cancelled.
        let end = later + .seconds(1)
        let isAdoptedThen = circuit.adopt(.opened(.seconds(100)), at: end)
        #expect(isAdoptedThen && circuit.leftOutUntil == end + .seconds(100))
        let isAdoptedAgain = circuit.adopt(.opened(.seconds(50)), at: end)
        #expect(isAdoptedAgain && circuit.leftOutUntil == end + .seconds(50))
    }

    @Test(arguments: [
        ("https://a.example:443 10.0.0.1", true), ("https://a.example:443 fd00::1", true),
        ("https://a.example:443", false), ("shop https://a.example:443", false),
        ("shop get https://a.example:443", false),
        ("", false),
    ])
    func circuitsOfAddressesHaveNamesOfTheirOwn(name: String, isAddress: Bool) {
        #expect(AddressCircuits.isName(name) == isAddress)
    }
}

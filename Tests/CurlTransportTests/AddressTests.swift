import FoundationEssentials
import HTTPCore
import LATTesting
import Platform
import TestSupport
import Testing

@testable import CurlTransport

/// New connections go to the addresses of a name in turn, by real sockets.
@Suite(.timeLimit(.minutes(2))) struct AddressTests {
    private static let all = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]

    private static func configuration(
        _ servers: AddressServers, _ addresses: [String] = all, _ policy: RequestOptions.Addresses = .roundRobin,
        _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) -> EngineConfiguration {
        testConfiguration {
            $0.resolve = ["a.example:\(servers.port)": addresses.joined(separator: ",")]
            $0.addresses = policy
            change(&$0)
        }
    }

    /// The addresses that responded to requests, one after the other.
    private static func responders(
        _ count: Int, _ transport: CurlTransport, _ servers: AddressServers,
        _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> [String] {
        var texts: [String] = []
        for _ in 0..<count {
            let request = HTTPRequest("GET", "http://a.example:\(servers.port)/").with(change)
            texts.append(try await transport.answer(to: request).text ?? "")
        }
        return texts
    }

    // MARK: In turn

    @Test func newConnectionsTakeTurns() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes, "127.0.0.3": .closes])
        try await withTransport(Self.configuration(servers)) { transport async throws in
            let first = try await Self.responders(3, transport, servers)
            #expect(Set(first) == Set(Self.all))
            #expect(try await Self.responders(6, transport, servers) == first + first)
        }
    }

    @Test func libcurlChoosesByDefault() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes])
        let addresses = ["127.0.0.2", "127.0.0.1"]
        try await withTransport(Self.configuration(servers, addresses, .pickFirst)) { transport async throws in
            #expect(try await Self.responders(3, transport, servers) == Array(repeating: "127.0.0.2", count: 3))
            // A request has a policy of its own.
            let chosen = try await Self.responders(4, transport, servers) { $0.addresses = .roundRobin }
            #expect(Set(chosen) == Set(addresses))
            #expect(try await Self.responders(2, transport, servers) == Array(repeating: "127.0.0.2", count: 2))
        }
    }

    @Test func openConnectionsAreReused() async throws {
        let servers = try AddressServers(["127.0.0.1": .responds, "127.0.0.2": .responds])
        try await withTransport(Self.configuration(servers, ["127.0.0.1", "127.0.0.2"])) { transport async throws in
            let texts = try await Self.responders(6, transport, servers)
            #expect(Set(texts).count == 1)
            #expect(await transport.gauges.sockets == 1)
        }
    }

    @Test func responseNamesTheChosenAddress() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes])
        try await withTransport(Self.configuration(servers, ["127.0.0.1", "127.0.0.2"])) { transport async throws in
            for _ in 0..<4 {
                let owner = ObservingOwner()
                let request = HTTPRequest("GET", "http://a.example:\(servers.port)/")
                let response = try await within { try await transport.send(request, for: owner) }
                #expect(response.connection?.remoteAddress == response.text)
            }
        }
    }

    @Test func busyAddressGetsFewerConnections() async throws {
        let servers = try AddressServers(["127.0.0.1": .waits, "127.0.0.2": .closes, "127.0.0.3": .closes])
        try await withTransport(Self.configuration(servers, Self.all, .leastRequest)) { transport async throws in
            let request = HTTPRequest("GET", "http://a.example:\(servers.port)/")
            // Until one waits at the slow server.
            let slow = Task {
                while true {
                    let text = try await transport.send(request).text
                    if text == "127.0.0.1" { return text }
                }
            }
            try await eventually("a request at the slow server") { servers.requests("127.0.0.1") == 1 }
            let texts = try await Self.responders(6, transport, servers)
            #expect(Set(texts) == ["127.0.0.2", "127.0.0.3"])
            #expect(servers.requests("127.0.0.1") == 1)
            servers.release()
            #expect(try await within { try await slow.value } == "127.0.0.1")
        }
    }

    // MARK: Failing addresses

    @Test(.oneAttemptAtATime) func addressThatRefusesIsLeftOut() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.3": .closes], refusing: ["127.0.0.2"])
        try await withTransport(Self.configuration(servers)) { transport async throws in
            let texts = try await Self.responders(12, transport, servers)
            #expect(Set(texts) == ["127.0.0.1", "127.0.0.3"])
            let circuits = transport.addressCircuits.all
            #expect(Array(circuits.keys) == ["http://a.example:\(servers.port) 127.0.0.2"])
        }
    }

    @Test(.oneAttemptAtATime) func addressThatWorksAgainIsUsedAgain() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes], refusing: ["127.0.0.2"])
        let both = ["127.0.0.1", "127.0.0.2"]
        try await withTransport(Self.configuration(servers, both)) { transport async throws in
            _ = try await Self.responders(2, transport, servers)
            #expect(transport.addressCircuits.all.count == 1)
            try servers.start("127.0.0.2", .closes)
            try await eventually("a request to the address") {
                _ = try? await Self.responders(1, transport, servers)
                return servers.requests("127.0.0.2") > 0
            }
            #expect(transport.addressCircuits.all.isEmpty)
            let texts = try await Self.responders(4, transport, servers)
            #expect(texts.sorted() == ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"])
        }
    }

    @Test func allAddressesMayFail() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes])
        let both = ["127.0.0.1", "127.0.0.2"]
        for address in both { servers.stop(address) }
        try await withTransport(Self.configuration(servers, both)) { transport async throws in
            let request = HTTPRequest("GET", "http://a.example:\(servers.port)/")
            for _ in 0..<3 { #expect(try await transport.failure(of: request).kind == .connect) }
            #expect(transport.addressCircuits.all.count == 2)
            // None is refused without a try.
            for address in both { try servers.start(address, .closes) }
            #expect(both.contains(try await transport.answer(to: request).text ?? ""))
        }
    }

    @Test func addressThatIsSilentIsLeftOut() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .stalls, "127.0.0.3": .closes])
        try await withTransport(Self.configuration(servers)) { transport async throws in
            let request = HTTPRequest("GET", "http://a.example:\(servers.port)/").with {
                $0.timeout = .seconds(2)
            }
            let circuit = "http://a.example:\(servers.port) 127.0.0.2"
            for _ in 0..<30 where transport.addressCircuits.all[circuit] == nil {
                _ = try? await transport.send(request)
            }
            #expect(transport.addressCircuits.all[circuit] != nil)
            #expect(servers.requests("127.0.0.2") >= AddressCircuit.requestLimit)
        }
    }

    @Test(.oneAttemptAtATime) func addressThatDoesNotConnectIsLeftOut() async throws {
        let full = try FullBacklogListener()
        let servers = try AddressServers(["127.0.0.2": .closes, "127.0.0.3": .closes], port: full.port)
        let configuration = Self.configuration(servers) { $0.connectTimeout = .seconds(2) }
        try await withTransport(configuration) { transport async throws in
            let texts = try await Self.responders(3, transport, servers)
            #expect(Set(texts) == ["127.0.0.2", "127.0.0.3"])
            #expect(Array(transport.addressCircuits.all.keys) == ["http://a.example:\(servers.port) 127.0.0.1"])
        }
    }

    /// Requests that took idle connections to a server that has stopped would all wait for their timeout.
    @Test func idleConnectionsToAFailingAddressAreClosed() async throws {
        let servers = try AddressServers(["127.0.0.1": .responds, "127.0.0.2": .responds])
        let circuit = "http://a.example:\(servers.port) 127.0.0.2"
        try await withTransport(Self.configuration(servers, ["127.0.0.1", "127.0.0.2"])) { transport async throws in
            // Two connections, as both requests run at once.
            try await within {
                while await transport.gauges.sockets < 2 {
                    async let first = Self.responders(1, transport, servers)
                    async let second = Self.responders(1, transport, servers)
                    _ = try await (first, second)
                }
            }
            let before = servers.requests("127.0.0.2")
            // The report counts when the last response of the address is not a recent one.
            try await eventually("the report to count") {
                transport.adopt(.opened(.seconds(100)), of: circuit)
                return transport.addressCircuits.all == [circuit: true]
            }
            let texts = try await Self.responders(4, transport, servers)
            #expect(texts == Array(repeating: "127.0.0.1", count: 4))
            #expect(servers.requests("127.0.0.2") == before && transport.addressCircuits.all == [circuit: true])
        }
    }

    @Test(.oneAttemptAtATime) func changesAreReported() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes], refusing: ["127.0.0.2"])
        let circuit = "http://a.example:\(servers.port) 127.0.0.2"
        let reports = Box<[String]>([])
        try await withTransport(Self.configuration(servers, ["127.0.0.1", "127.0.0.2"])) { transport async throws in
            transport.addressCircuits.observe { name, report in reports.change { $0.append("\(name) \(report)") } }
            _ = try await Self.responders(2, transport, servers)
            try servers.start("127.0.0.2", .closes)
            try await eventually("the address to be used again") {
                _ = try? await Self.responders(1, transport, servers)
                return transport.addressCircuits.all.isEmpty
            }
        }
        #expect(reports.value.first == "\(circuit) opened(1.0 seconds)")
        #expect(reports.value.last == "\(circuit) closed")
    }

    // MARK: What stays as it is

    @Test func guardRefusesChosenAddresses() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes])
        let guarded = Self.configuration(servers, ["127.0.0.1", "127.0.0.2"]) {
            $0.blocksPrivateAddresses = true
            $0.allowedPrivateAddresses = ["127.0.0.2"]
        }
        try await withTransport(guarded) { transport async throws in
            #expect(try await Self.responders(4, transport, servers) == Array(repeating: "127.0.0.2", count: 4))
        }
        let closed = Self.configuration(servers, ["127.0.0.1", "127.0.0.2"]) { $0.blocksPrivateAddresses = true }
        try await withTransport(closed) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://a.example:\(servers.port)/"))
            #expect(error.kind == .addressBlocked(.loopback))
        }
        #expect(servers.requests("127.0.0.1") == 0)
    }

    @Test(arguments: ["127.0.0.1", "[::1]", "localhost"]) func hostsWithOneAddressWork(host: String) async throws {
        let server = try RawServer(address: host == "[::1]" ? "::1" : "127.0.0.1") { connection in
            _ = connection.read()
            connection.write(Array("HTTP/1.1 204 x\r\nConnection: close\r\n\r\n".utf8))
        }
        try await withTransport(testConfiguration { $0.addresses = .leastRequest }) { transport async throws in
            for _ in 0..<3 { #expect(try await transport.get("http://\(host):\(server.port)/").status == 204) }
        }
    }

    @Test func nameAndCertificateStayThoseOfTheURL() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "-").header("Connection", "close") }
        let configuration = testConfiguration {
            $0.addresses = .roundRobin
            $0.connectTo = ["b.example:80:localhost:\(server.port)"]
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<3 { #expect(try await transport.get("http://b.example/").text == "b.example") }
        }
    }

    @Test func timeoutAndLookUpAreCountedFromTheBegin() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes])
        try await withTransport(Self.configuration(servers, ["127.0.0.1"])) { transport async throws in
            let response = try await transport.answer(to: HTTPRequest("GET", "http://a.example:\(servers.port)/"))
            let timings = response.timings
            #expect((timings.nameLookup ?? .zero) <= (timings.connect ?? .zero))
            #expect((timings.connect ?? .zero) <= (timings.firstByte ?? .zero))
            #expect((timings.total ?? .zero) > .zero)
        }
    }

    @Test func requestsForOneResponseUseDifferentAddresses() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes, "127.0.0.3": .closes])
        try await withTransport(Self.configuration(servers)) { transport async throws in
            for _ in 0..<5 {
                let used = UsedAddresses()
                let texts = try await Self.responders(3, transport, servers) { $0.context.usedAddresses = used }
                #expect(Set(texts) == Set(Self.all))
                // The turn of the next one begins elsewhere.
                _ = try await Self.responders(1, transport, servers)
            }
        }
    }
}

/// An owner that wants to know the connection of its response.
private final class ObservingOwner: TransferOwner {
    let transferState = TransferState()
    let progressHandler: (@Sendable (TransferProgress) -> Void)? = nil
    let isObserved = true

    func attach(_ listener: any TransferListener) {}

    func detach(_ listener: any TransferListener) {}
}

extension Trait where Self == ConditionTrait {
    /// With libcurl 8, the addresses of a name are tried side by side, and one that fails behind one that works does not count.
    fileprivate static var oneAttemptAtATime: Self {
        .enabled(
            if: LibcurlInfo.current.version.hasPrefix("7."), "libcurl 8 tries the addresses of a name side by side")
    }
}

@testable import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite(.needsOpenSSL, .needsPython) struct AltSvcTests {
    private func configuration(
        _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) throws -> EngineConfiguration {
        let authority = try #require(TestCertificates.shared).authority
        return testConfiguration {
            $0.tls.caFile = authority
            $0.altSvc = .memory
            change(&$0)
        }
    }

    @Test func requestsGoToTheAlternative() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\"; ma=600"))
            for _ in 0..<2 {
                let answer = try await transport.get(origin.url())
                #expect(answer.url == origin.url())
                let text = try #require(answer.text)
                #expect(text.contains("Host: localhost:\(origin.port)\n"), "\(text)")
                #expect(text.contains("Alt-Used: localhost:\(other.port)\n"), "\(text)")
            }
            #expect((origin.requests.count, other.requests.count, other.connections) == (1, 2, 1))
            // Other requests on the same handles are not affected.
            let plain = try MockServer()
            plain.fallback { .text($0.headers["Alt-Used"] ?? "none") }
            #expect(try await transport.get(plain.url()).text == "none")
        }
    }

    @Test(arguments: [(0, 600), (100, 500), (600, nil), (.max, nil)] as [(Int64, Int64?)])
    func ageReducesTheLifetime(_ age: Int64, _ left: Int64?) throws {
        var list = AlternativeList()
        let target = try Target("https://a.example/")
        let hasChanged = list.note("h2=\"b.example:443\"; ma=600", of: target, age: age, now: 1_000)
        #expect(hasChanged)
        #expect(list.alternative(for: target, speaking: ["h2"], now: 1_000)?.expires == left.map { 1_000 + $0 })
    }

    @Test func agedResponseAnnouncesNoAlternative() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\"; ma=600", "Age:600"))
            _ = try await transport.get(origin.url())
            #expect((origin.requests.count, other.requests.count) == (2, 0))
        }
    }

    @Test func altSvcIsIgnoredWhenOff() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        try await withTransport(try configuration { $0.altSvc = .off }) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\""))
            _ = try await transport.get(origin.url())
            #expect((origin.requests.count, other.requests.count) == (2, 0))
        }
    }

    @Test func unreachableAlternativeIsSkipped() async throws {
        let origin = try await EchoOrigin()
        let closed = try ClosedPort()
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(closed.port)\""))
            for method in ["POST", "GET"] {
                let request = HTTPRequest(method, origin.url(), body: method == "POST" ? .data(Data("x".utf8)) : nil)
                #expect(try await transport.answer(to: request).status == 200)
            }
            #expect(origin.requests.count == 3)
        }
    }

    /// It may have processed the request, so only the caller may send it again.
    @Test func alternativeThatLosesARequestIsSkipped() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\""))
            let url = origin.url() + "&lose=1"
            let error = try await transport.failure(of: HTTPRequest("POST", url, body: .text("pay")))
            #expect(error.kind == .connectionLost)
            #expect(try await transport.get(url).status == 200)
            #expect((origin.requests.count, other.requests.count) == (2, 1))
        }
    }

    @Test func alternativesShareTheTimeout() async throws {
        let origin = try await EchoOrigin()
        let silent = try (0..<2).map { _ in try RawServer { $0.drain() } }
        let services = silent.map { "h2=\":\($0.port)\"" }.joined(separator: ", ")
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:\(services)"))
            let request = HTTPRequest("GET", origin.url()).with {
                $0.timeout = .seconds(1)
                $0.connectTimeout = .milliseconds(600)
            }
            let kind = try await transport.failure(of: request).kind
            #expect(kind == .timeout(.total) || kind == .timeout(.connect))
            #expect(origin.requests.count == 1)
        }
        // They listen until here, also in an optimized build.
        withExtendedLifetime(silent) {}
    }

    @Test func alternativeWithWrongCertificateIsSkipped() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin("elsewhere"))
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\""))
            #expect(try await transport.get(origin.url()).status == 200)
            #expect((origin.requests.count, other.requests.count) == (2, 0))
        }
    }

    @Test func misdirectedRequestGoesToTheOrigin() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\""))
            // Both answer 421; the origin's response counts.
            #expect(try await transport.get(origin.url("https", status: 421)).status == 421)
            #expect(try await transport.get(origin.url()).status == 200)
            #expect((origin.requests.count, other.requests.count) == (3, 1))
        }
    }

    @Test func guardChecksTheAlternative() async throws {
        let origin = try await EchoOrigin()
        let configuration = try configuration {
            $0.blocksPrivateAddresses = true
            $0.allowedPrivateAddresses = ["127.0.0.1"]
        }
        try await withTransport(configuration) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\"127.0.0.2:\(origin.port)\""))
            // The guard refuses the alternative, so the origin is asked.
            #expect(try await transport.get(origin.url()).status == 200)
            #expect(origin.requests.count == 2)
        }
    }

    @Test func singleUseBodyGoesToTheOrigin() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        try await withTransport(try configuration()) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\""))
            let once = AsyncStream<Data> { $0.finish() }
            let request = HTTPRequest("POST", origin.url(), body: .stream(once, length: 0))
            #expect(try await transport.answer(to: request).status == 200)
            #expect((origin.requests.count, other.requests.count) == (2, 0))
        }
    }

    @Test func alternativesSurviveInTheFile() async throws {
        let (origin, other) = (try await EchoOrigin(), try await EchoOrigin())
        let directory = try TemporaryDirectory()
        let configuration = try configuration { $0.altSvc = .file(directory.path(of: "alt-svc.txt")) }
        try await withTransport(configuration) { transport async throws in
            _ = try await transport.get(origin.url("https", "Alt-Svc:h2=\":\(other.port)\"; persist=1"))
        }
        let text = String(decoding: try #require(directory.read("alt-svc.txt")), as: UTF8.self)
        let line = "h1 localhost \(origin.port) h2 localhost \(other.port) \"20"
        #expect(text.split(whereSeparator: \.isNewline).last?.hasPrefix(line) == true, "\(text)")
        try await withTransport(configuration) { transport async throws in
            _ = try await transport.get(origin.url())
            #expect((origin.requests.count, other.requests.count) == (1, 1))
        }
    }

    @Test(arguments: ["h1 a 443", "h1 a 443 h2 b x \"20271231 00:00:00\" 0 0", "h1 a 443 h2 b 443 soon now 0 0"])
    func malformedFileIsRefusedWithItsLine(line: String) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("# comment\n\(line)\n".utf8), to: "alt-svc")
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.altSvc = .file(file) })
        }
        #expect(error?.kind == .invalidRequest)
        #expect(
            error?.message.contains("altSvc: ") == true && error?.message.contains("line 2") == true, "\(error as Any)")
    }

    // MARK: The list

    private let target: Target

    init() throws { target = try Target("https://Shop.example/x") }

    private func named(_ value: String, speaking protocols: Set<String> = ["h2"], after seconds: Int64 = 0) -> String? {
        var list = AlternativeList()
        _ = list.note(value, of: target, now: 1000)
        return list.alternative(for: target, speaking: protocols, now: 1000 + seconds).map {
            "\($0.protocolName) \($0.host):\($0.port)"
        }
    }

    @Test func altSvcFieldIsParsed() {
        #expect(named("h2=\"alt.example:8443\"") == "h2 alt.example:8443")
        #expect(named("h3=\":443\"; ma=5, h2=\":444\";ma=60;persist=1") == "h2 Shop.example:444")
        #expect(named("h3=\":443\"; ma=5, h2=\":444\"", speaking: ["h3", "h2"]) == "h3 Shop.example:443")
        #expect(named("http%2F1.1=\"a:1\"", speaking: ["http/1.1"]) == "http/1.1 a:1")
        #expect(named("h2=\"[::1]:5\"") == "h2 [::1]:5")
        #expect(named("h2=\":444\"; ma=5", after: 4) != nil)
        #expect(named("h2=\":444\"; ma=5", after: 5) == nil)
        #expect(named("h2=\":444\"", after: 86_399) != nil)
        for wrong in [
            "", "clear", "h2", "h2=", "h2=\"a\"", "h2=\":0\"", "h2=\":70000\"", "h2=\"a b:1\"", "h2=\"x@a:1\"",
        ] {
            #expect(named(wrong) == nil, "\(wrong)")
        }
    }

    @Test func originReplacesAndClearsItsServices() throws {
        var list = AlternativeList()
        #expect(list.note("h2=\":444\"", of: target, now: 0) == true)
        #expect(list.note("h2=\":444\"", of: target, now: 1) == false)
        #expect(list.note("h2=\":555\"", of: target, now: 1) == true)
        #expect(list.alternative(for: target, speaking: ["h2"], now: 1)?.port == 555)
        #expect(list.note("clear", of: target, now: 1) == true)
        #expect(list.alternative(for: target, speaking: ["h2"], now: 1) == nil)
        let other = try Target("https://shop.example:8443/")
        #expect(list.note("h2=\":444\"", of: target, now: 1) == true)
        #expect(list.alternative(for: other, speaking: ["h2"], now: 1) == nil)
    }

    @Test func addressWithAZoneHasNoAlternatives() throws {
        var list = AlternativeList()
        #expect(try list.note("h2=\":444\"", of: Target("https://[fe80::1%25eth0]/"), now: 0) == false)
        #expect(list.services.isEmpty)
    }

    @Test func failedAlternativeIsRetriedLater() throws {
        var list = AlternativeList()
        _ = list.note("h2=\":444\", h2=\":555\"", of: target, now: 0)
        let first = try #require(list.alternative(for: target, speaking: ["h2"], now: 0))
        list.setAside(first, of: target, now: 0)
        #expect(list.alternative(for: target, speaking: ["h2"], now: 1)?.port == 555)
        #expect(list.alternative(for: target, speaking: ["h2"], now: AlternativeList.pause)?.port == 444)
    }

    @Test func persistentServicesSurviveNetworkChange() throws {
        var list = AlternativeList()
        _ = list.note("h2=\":444\", h2=\":555\"; persist=1", of: target, now: 0)
        // Returns whether the list has changed, because only then the file is written.
        #expect(list.forgetUnlessPersisting() == true)
        #expect(list.alternative(for: target, speaking: ["h2"], now: 0)?.port == 555)
        #expect(list.forgetUnlessPersisting() == false)
    }

    @Test func listIsBounded() throws {
        var list = AlternativeList()
        for index in 0..<AlternativeList.limit + 50 {
            _ = list.note("h2=\":444\"; ma=\(1000 + index)", of: try Target("https://h\(index).example/"), now: 0)
        }
        // A full list drops a tenth at once.
        #expect((AlternativeList.limit * 9 / 10...AlternativeList.limit).contains(list.services.count))
        #expect(list.services["https://h0.example:443"] == nil)
    }
}

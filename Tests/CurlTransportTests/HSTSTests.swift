@testable import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite(.needsOpenSSL, .needsPython) struct HSTSTests {
    private func configuration(
        _ change: (inout EngineConfiguration) -> Void
    ) throws -> EngineConfiguration {
        let authority = try #require(TestCertificates.shared).authority
        return testConfiguration {
            $0.tls.caFile = authority
            change(&$0)
        }
    }

    private static let year = "Strict-Transport-Security:max-age=31536000"

    @Test func hostWithPolicyIsRequestedOverTLS() async throws {
        let server = try await EchoOrigin()
        try await withTransport(try configuration { $0.hsts = .memory }) { transport async throws in
            _ = try await transport.get(server.url("https", Self.year))
            let answer = try await transport.get(server.url("http"))
            #expect(answer.status == 200)
            #expect(answer.url == server.url("https"))
            #expect(transport.effectiveURL(of: server.url("http")) == server.url("https"))
        }
    }

    @Test func policyIsIgnoredByDefault() async throws {
        let server = try await EchoOrigin()
        try await withTransport(try configuration { _ in }) { transport async throws in
            _ = try await transport.get(server.url("https", Self.year))
            let error = try await transport.failure(of: HTTPRequest("GET", server.url("http")))
            #expect(error.kind == .connectionLost, "\(error)")
        }
    }

    @Test func policyOfIPAddressIsIgnored() async throws {
        let server = try await EchoOrigin()
        try await withTransport(try configuration { $0.hsts = .memory }) { transport async throws in
            _ = try await transport.get(server.url("https", host: "127.0.0.1", Self.year))
            let clear = server.url("http", host: "127.0.0.1")
            #expect(transport.effectiveURL(of: clear) == clear)
        }
    }

    @Test func policyInClearTextIsIgnored() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").header("Strict-Transport-Security", "max-age=1000") }
        try await withTransport(try configuration { $0.hsts = .memory }) { transport async throws in
            let url = "http://localhost:\(server.port)/"
            for _ in 0..<2 { #expect(try await transport.get(url).url == url) }
        }
    }

    @Test func policyOverUnverifiedTLSIsIgnored() async throws {
        let server = try await EchoOrigin("stranger")
        let configuration = testConfiguration {
            $0.hsts = .memory
            $0.tls.disableCertificateVerification()
            $0.warningHandler = { _ in }
        }
        try await withTransport(configuration) { transport async throws in
            _ = try await transport.get(server.url("https", Self.year))
            #expect(transport.effectiveURL(of: server.url("http")) == server.url("http"))
        }
    }

    @Test func maxAgeZeroRemovesTheHost() async throws {
        let server = try await EchoOrigin()
        try await withTransport(try configuration { $0.hsts = .memory }) { transport async throws in
            _ = try await transport.get(server.url("https", Self.year))
            _ = try await transport.get(server.url("https", "Strict-Transport-Security:max-age=0"))
            #expect(transport.effectiveURL(of: server.url("http")) == server.url("http"))
        }
    }

    @Test func preloadedHostIsRequestedOverTLS() async throws {
        let server = try await EchoOrigin()
        let configuration = try configuration {
            $0.hstsPreload = ["localhost", ".example.org"]
            $0.resolve = ["a.example.org:\(server.port)": "127.0.0.1"]
        }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get(server.url("http")).url == server.url("https"))
            let below = try await transport.get(server.url("http", host: "a.example.org"))
            #expect(below.url == server.url("https", host: "a.example.org"))
            // A host cannot undo a preloaded entry, and its own policy is not stored.
            _ = try await transport.get(server.url("https", "Strict-Transport-Security:max-age=0"))
            #expect(try await transport.get(server.url("http")).url == server.url("https"))
            #expect(transport.effectiveURL(of: "http://example.org:80/a?b#c") == "https://example.org/a?b")
            #expect(transport.effectiveURL(of: "http://example.com/") == "http://example.com/")
        }
    }

    @Test func fileKeepsPolicyForTheNextManager() async throws {
        let server = try await EchoOrigin()
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "hsts.txt")
        let configuration = try configuration { $0.hsts = .file(path) }
        try await withTransport(configuration) { transport async throws in
            _ = try await transport.get(server.url("https", Self.year + "; includeSubDomains"))
        }
        let text = String(decoding: try #require(directory.read("hsts.txt")), as: UTF8.self)
        #expect(text.split(whereSeparator: \.isNewline).last?.hasPrefix(".localhost \"20") == true, "\(text)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["hsts.txt"])
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get(server.url("http")).url == server.url("https"))
        }
    }

    /// What each has changed is in the file, whoever writes it last.
    @Test func storesOfOneFileKeepEachOthersHosts() async throws {
        let directory = try TemporaryDirectory()
        let configuration = testConfiguration { $0.hsts = .file(directory.path(of: "hsts.txt")) }
        func store() throws -> HSTSStore { try #require(try HSTSStore(configuration)) }
        func note(_ host: String, _ value: String = "max-age=1000000", in store: HSTSStore) async throws {
            store.note(["Strict-Transport-Security": value], of: try Target("https://\(host)/"))
            await store.flush()
        }
        func hosts() throws -> [String] {
            let text = String(decoding: try #require(directory.read("hsts.txt")), as: UTF8.self)
            return text.split(separator: "\n").dropFirst().map { String($0.prefix { $0 != " " }) }.sorted()
        }
        try await note("known.test", in: try store())
        let (first, second) = (try store(), try store())
        try await note("first.test", in: first)
        try await note("second.test", in: second)
        #expect(try hosts() == ["first.test", "known.test", "second.test"])
        try await note("known.test", "max-age=0", in: second)
        try await note("late.test", in: first)
        #expect(try hosts() == ["first.test", "late.test", "second.test"])
        try await note("second.test", "max-age=2000000; includeSubDomains", in: first)
        #expect(try hosts() == [".second.test", "first.test", "late.test"])
        // A file that was deleted is made again.
        try FileManager.default.removeItem(atPath: directory.path(of: "hsts.txt"))
        try await note("again.test", in: second)
        #expect(try hosts() == ["again.test", "second.test"] && directory.contents == ["hsts.txt"])
    }

    @Test func unwritableFileWarnsOnce() async throws {
        let server = try await EchoOrigin()
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "folder")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let warnings = Box<[String]>([])
        let configuration = try configuration {
            $0.hsts = .file(folder + "/hsts.txt")
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        try await withTransport(configuration) { transport async throws in
            try FileManager.default.removeItem(atPath: folder)
            for age in [1000, 5000, 9000] {
                _ = try await transport.get(server.url("https", "Strict-Transport-Security:max-age=\(age)"))
            }
            #expect(try await transport.get(server.url("http")).status == 200)
        }
        #expect(warnings.value.count == 1)
        #expect(warnings.value.first?.contains("hsts.txt") == true)
    }

    @Test(arguments: [
        "example.org", "example.org 2027", "a \"soon\"", "a \"20270101\"", "a \"20270231 00:00:00\"",
        "10.0.0.1 \"unlimited\"",
    ])
    func malformedFileIsRefusedWithItsLine(line: String) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("# comment\n\nok.example \"unlimited\"\n\(line)\n".utf8), to: "hsts")
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.hsts = .file(file) })
        }
        #expect(error?.kind == .invalidRequest)
        #expect(
            error?.message.contains("hsts: ") == true && error?.message.contains("line 4") == true, "\(error as Any)")
    }

    @Test func fileInMissingFolderIsRefused() throws {
        let directory = try TemporaryDirectory()
        for path in [directory.path(of: "no/such/hsts"), directory.path] {
            let error = #expect(throws: NetworkError.self) {
                try CurlTransport(configuration: testConfiguration { $0.hsts = .file(path) })
            }
            #expect(error?.kind == .invalidRequest)
        }
    }

    @Test(arguments: [
        "10.0.0.1", "", "[::1]", "https://example.org", "*.example.org", "example.org:443", "example.org/a",
    ])
    func preloadedAddressIsRefused(name: String) throws {
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.hstsPreload = [name] })
        }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("hstsPreload") == true)
    }

    // MARK: The list

    @Test func fieldIsParsedByItsGrammar() {
        func read(_ value: String) -> [Int64]? {
            StrictTransportSecurity(value).map { [$0.maxAge, $0.includesSubdomains ? 1 : 0] }
        }
        #expect(read("max-age=31536000") == [31_536_000, 0])
        #expect(read("MAX-AGE = \"5\" ; IncludeSubDomains; preload;") == [5, 1])
        #expect(read("unknown=\"a;b\"; max-age=0") == [0, 0])
        #expect(read("max-age=99999999999999999999") == [.max, 0])
        for wrong in [
            "", "includeSubDomains", "max-age", "max-age=", "max-age=-1", "max-age=1; max-age=2", "max-age=x",
        ] {
            #expect(read(wrong) == nil, "\(wrong)")
        }
    }

    @Test(.enabled(if: HostName.canBeWritten, "needs libidn2"))
    func internationalNameIsStoredInASCII() {
        var list = HSTSList()
        let lines = [".b\u{FC}cher.example", "https://localhost", "*.localhost", "localhost:80"]
        let areGood = lines.map { list.add(line: "\($0) \"unlimited\"", now: 0) }
        #expect(areGood == [true, false, false, false])
        #expect(list.covers("xn--bcher-kva.example", now: 0) && list.covers("a.xn--bcher-kva.example", now: 0))
    }

    @Test func entryCoversHostAndStatedSubdomains() throws {
        var list = HSTSList()
        let alone = try #require(StrictTransportSecurity("max-age=100"))
        let all = try #require(StrictTransportSecurity("max-age=100; includeSubDomains"))
        #expect(list.note(alone, of: "A.example", now: 1000) == true)
        #expect(list.note(all, of: "b.example.", now: 1000) == true)
        #expect(list.note(all, of: "b.example", now: 1000) == false)
        #expect(list.covers("a.EXAMPLE", now: 1099))
        #expect(!list.covers("a.example", now: 1100))
        #expect(!list.covers("x.a.example", now: 1000))
        #expect(list.covers("y.x.b.example.", now: 1000))
        #expect(!list.covers("xb.example", now: 1000))
        #expect(!list.covers("example", now: 1000))
        #expect(list.note(try #require(StrictTransportSecurity("max-age=0")), of: "b.example", now: 1001) == true)
        #expect(!list.covers("b.example", now: 1001))
    }

    @Test func fullListDropsTheEarliestExpiry() throws {
        var list = HSTSList()
        for index in 0..<HSTSList.limit + 100 {
            _ = list.note(
                try #require(StrictTransportSecurity("max-age=\(index + 1000)")), of: "h\(index).example", now: 0)
        }
        // A full list drops a tenth at once.
        #expect((HSTSList.limit * 9 / 10...HSTSList.limit).contains(list.entries.count))
        #expect(!list.covers("h0.example", now: 0))
        #expect(list.covers("h\(HSTSList.limit + 99).example", now: 0))
    }

    @Test func listSurvivesARoundTripThroughTheFile() throws {
        var list = HSTSList()
        _ = list.note(
            try #require(StrictTransportSecurity("max-age=100; includeSubDomains")), of: "a.example", now: 1_900_000_000
        )
        _ = list.note(
            try #require(StrictTransportSecurity("max-age=99999999999999999999")), of: "b.example", now: 1_900_000_000)
        var copy = HSTSList()
        for line in list.text(now: 1_900_000_000).split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            #expect(copy.add(line: line, now: 1_900_000_000) == true, "\(line)")
        }
        #expect(copy == list)
        #expect(list.text(now: 1_900_000_000).contains(".a.example \"20300317 17:48:20\""))
    }
}

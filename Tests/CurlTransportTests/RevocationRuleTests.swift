import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import Cryptography
@testable import CurlTransport

/// The decisions about revocation lists, as values.
@Suite struct RevocationRuleTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func statement(
        _ finding: RevocationList.Finding, from start: TimeInterval? = -60, until end: TimeInterval? = 60,
        _ place: String = "p"
    ) -> RevocationRule.Statement {
        RevocationRule.Statement(
            finding: finding, validFrom: start.map { now + $0 }, validUntil: end.map { now + $0 }, place: place)
    }

    @Test func oneValidListIsEnough() {
        func status(_ statements: RevocationRule.Statement...) -> RevocationRule.Status {
            RevocationRule.status(statements, at: now)
        }
        let forged = statement(.unusable("is forged"))
        #expect(status() == .unknown([]))
        #expect(status(statement(.good)) == .good)
        #expect(status(statement(.good, from: nil, until: nil)) == .good)
        #expect(status(statement(.good, from: 0, until: 1)) == .good)
        #expect(status(statement(.good, until: 0)) == .unknown(["the one from p has expired"]))
        #expect(
            status(statement(.good, from: 1))
                == .unknown(["the one from p is not valid yet; check this machine's clock"]))
        #expect(status(forged) == .unknown(["the one from p is forged"]))
        #expect(status(forged, statement(.good, until: -1), statement(.good)) == .good)
        #expect(
            status(forged, statement(.good, until: -1))
                == .unknown(["the one from p is forged", "the one from p has expired"]))
        // "revoked" is true at any time, and beats "good".
        #expect(status(statement(.good), statement(.revoked, until: -1, "q")) == .revoked("q", isExpired: true))
        #expect(status(statement(.revoked, from: 1, "q"), forged) == .revoked("q", isExpired: false))
        #expect(status(statement(.revoked, until: 0), statement(.revoked, "q")) == .revoked("q", isExpired: false))
        #expect(status(statement(.revoked, until: nil)) == .revoked("p", isExpired: false))
    }

    @Test func softWaitsOnlyForWhatHasNotFailed() {
        for isHard in [true, false] {
            func verdict(_ due: [Bool], canWait: Bool = true) -> RevocationRule.Verdict {
                RevocationRule.verdict(isHard: isHard, due: due, canWait: canWait)
            }
            let last: RevocationRule.Verdict = isHard ? .refuse : .accept
            #expect(verdict([]) == last && verdict([false], canWait: false) == last)
            #expect(verdict([false]) == .wait && verdict([true, false]) == .wait)
            #expect(verdict([true]) == (isHard ? .wait : .accept))
        }
    }

    @Test func softWaitsForAPartOfTheTime() {
        #expect(RevocationRule.softWait(nil) == .seconds(3) && RevocationRule.softWait(.seconds(60)) == .seconds(3))
        #expect(RevocationRule.softWait(.seconds(8)) == .seconds(2) && RevocationRule.softWait(.zero) == .zero)
    }

    @Test func oldestFindingMakesRoom() {
        var findings = RevocationList.Findings()
        for number in 0..<UInt8(RevocationList.Findings.limit) { findings.insert(.good, about: [number], by: [1]) }
        findings.insert(.revoked, about: [1], by: [1])
        #expect(findings[[0], [1]] == .good && findings[[1], [1]] == .revoked && findings[[1], [2]] == nil)
        findings.insert(.good, about: [200], by: [1])
        #expect(findings[[0], [1]] == nil && findings[[1], [1]] == .revoked && findings[[200], [1]] == .good)
    }

    @Test func pausesGrowAfterFailures() {
        var entry = RevocationEntry()
        #expect(entry.isDue(at: now))
        for (failures, pause) in [1, 5, 60, 60].enumerated() {
            entry.fail("is down", at: now)
            #expect(entry.failures == failures + 1 && entry.failure == "is down")
            #expect(!entry.isDue(at: now + TimeInterval(pause) - 0.5) && entry.isDue(at: now + TimeInterval(pause)))
        }
        // The clock was set back.
        #expect(entry.isDue(at: now - 10))
    }
}

/// What is decided from lists that `openssl` has made.
@Suite(.needsOpenSSL, .timeLimit(.minutes(2))) struct RevocationListTests {
    private let authority: RevocationAuthority

    init() async throws { authority = try await RevocationAuthority() }

    private func lists(_ file: String) throws -> [RevocationList] { try RevocationList.read(authority.data(file)) }

    @Test func findingsAreThoseOfTheAuthority() throws {
        let (good, bad, sub, root) = ("good.pem", "bad.pem", "sub.pem", "root.pem")
        func findings(_ file: String, _ certificate: String, _ issuer: String) throws -> [RevocationList.Finding] {
            RevocationList.findings(
                of: try lists(file), about: authority.der(certificate), by: authority.der(issuer)
            ).map(\.finding)
        }
        for file in ["sub.crl", "sub.der", "old.crl", "many.crl", "users.crl"] {
            #expect(try findings(file, good, sub) == [.good], "\(file)")
            #expect(try findings(file, bad, sub) == [.revoked], "\(file)")
        }
        #expect(try findings("many.crl", sub, root) == [.good] && findings("all.crl", sub, root) == [.revoked])
        // A list of another authority says nothing.
        #expect(try findings("root.crl", bad, sub).isEmpty)
        // One with the right name and a wrong key, whether or not the certificate is in it.
        for certificate in [good, bad] {
            let finding = try findings("forged.crl", certificate, sub).first
            guard case .unusable = finding else {
                Issue.record("\(certificate): \(finding as Any)")
                continue
            }
        }
        #expect(RevocationList.findings(of: try lists("many.crl"), about: [1], by: []).isEmpty)
    }

    @Test func listsSayWhoseTheyAreAndHowLongTheyLast() throws {
        let many = try lists("many.crl")
        // Equal ones count once.
        #expect(many.count == 5 && many[0].issuer == "CN = Stranger 1" && many.contains { $0.issuer == "CN = sub" })
        let old = try #require(try lists("old.crl").first)
        #expect(old.validFrom == Date(timeIntervalSince1970: 1_577_836_800))
        #expect(old.validUntil == Date(timeIntervalSince1970: 1_580_515_200))
        #expect(try lists("sub.der").first?.size == authority.data("sub.der").count)
        #expect(RevocationList.signed(many, by: authority.der("sub.pem")).map(\.issuer) == ["CN = sub"])
        #expect(RevocationList.signed(many, by: authority.der("forger.pem")).isEmpty)
        #expect(CertificateFacts.listURLs(der: authority.der("good.pem")) == [authority.lists.url("/sub.crl")])
    }

    @Test func newerListsAreKept() throws {
        let now = Date.now
        var entry = RevocationEntry()
        entry.take(try lists("old.crl"), at: now)
        // It counts, but another one is fetched soon.
        #expect(entry.lists.count == 1 && entry.failures == 1 && entry.isDue(at: now + 1))
        entry.take(try lists("sub.crl"), at: now)
        #expect(
            entry.failures == 0 && entry.failure == nil && !entry.isDue(at: now + 86_400)
                && entry.isDue(at: now + 4 * 86_400))
        let kept = entry.lists.map(\.validFrom)
        entry.take(try lists("old.crl"), at: now)
        #expect(entry.failure == "sent an older list than before" && entry.lists.map(\.validFrom) == kept)
        entry.fail("is down", at: now)
        #expect(entry.failures == 2 && entry.lists.map(\.validFrom) == kept)
        // Of several lists the first to end counts.
        entry.take(try lists("sub.crl") + lists("old.crl"), at: now)
        #expect(entry.lists.count == 2 && entry.failures == 3)
        // One without an end is fetched daily.
        entry = RevocationEntry()
        entry.take(try lists("endless.crl"), at: now)
        #expect(entry.failures == 0 && !entry.isDue(at: now + 86_399) && entry.isDue(at: now + 86_400))
    }

    @Test func listOfTheFutureMakesRoom() throws {
        let now = Date.now
        var entry = RevocationEntry()
        entry.take(try lists("future.crl"), at: now)
        #expect(entry.lists.count == 1 && entry.failures == 1)
        entry.take(try lists("sub.crl"), at: now)
        let kept = entry.lists.map(\.validFrom)
        let sub = try lists("sub.crl").map(\.validFrom)
        #expect(entry.failures == 0 && kept == sub)
        entry.take(try lists("future.crl"), at: now)
        #expect(entry.failures == 1 && entry.lists.map(\.validFrom) == kept)
        let all = try lists("old.crl") + lists("future.crl") + lists("endless.crl") + lists("later.crl")
        let ends = RevocationRule.newestFirst(all, at: now).map(\.validUntil)
        #expect(ends == [3, 2, 1, 0].map { all[$0].validUntil })
    }

    @Test func passPhrasesAreNotAskedFor() throws {
        // It is tried with an empty one, not with that of a terminal.
        #expect(try lists("locked.crl").map(\.size) == lists("sub.crl").map(\.size))
        let problem = #expect(throws: CertificateFile.Problem.self) { try lists("closed.crl") }
        #expect(problem?.reason.contains("malformed revocation list after 0 good ones") == true)
        let certificate = Data(
            String(decoding: authority.data("closed.crl"), as: UTF8.self)
                .replacing("X509 CRL", with: "CERTIFICATE").utf8)
        #expect(throws: CertificateFile.Problem.self) { try CertificateFile.countCertificates(in: certificate) }
    }

    @Test func equalListsCountOnce() throws {
        let copies = (0..<1_000).reduce(into: Data()) { data, _ in data += authority.data("sub.crl") }
        #expect(try RevocationList.read(copies + authority.data("root.crl")).count == 2)
        let error = #expect(throws: CertificateFile.Problem.self) {
            try RevocationList.read(copies + authority.data("closed.crl"))
        }
        #expect(error?.reason.contains("after 1000 good ones") == true)
    }

    @Test func onlyNamedFaultsAreRemembered() throws {
        let sub = authority.der("sub.pem")
        func isKnown(_ file: [RevocationList], _ certificate: String) -> Bool {
            RevocationList.findings(of: file, about: authority.der(certificate), by: sub, verifying: 0) != nil
        }
        for (file, certificate, isRemembered) in [
            ("sub.crl", "good.pem", true), ("sub.crl", "bad.pem", true), ("delta.crl", "good.pem", true),
            ("elsewhere.crl", "good.pem", true), ("forged.crl", "good.pem", true), ("sub.crl", "root.pem", false),
        ] {
            let lists = try lists(file)
            #expect(!isKnown(lists, certificate))
            #expect(RevocationList.findings(of: lists, about: authority.der(certificate), by: sub).count == 1)
            #expect(isKnown(lists, certificate) == isRemembered, "\(file) \(certificate)")
        }
    }

    /// A check, and what it says about a chain.
    private struct Judge {
        let check: RevocationCheck
        let chain: [[UInt8]]

        /// What has to be there first; `nil` when it is decided.
        func gap(_ now: Date = .now) -> RevocationGap? {
            if case .unknown(_, let gap) = check.outcome(of: chain, from: "o", canWait: true, at: now) {
                gap
            } else {
                nil
            }
        }

        func text(_ now: Date = .now) -> String {
            switch check.outcome(of: chain, from: "o", canWait: false, at: now) {
            case .accepted: "accepted"
            case .revoked: "revoked"
            case .unknown(let reason, _): reason
            }
        }
    }

    private func judge(_ check: RevocationCheck, _ name: String = "good.pem") -> Judge {
        Judge(check: check, chain: [name, "sub.pem", "root.pem"].map(authority.der))
    }

    private func fill(_ gap: RevocationGap?, at now: Date = .now) async throws {
        for task in try #require(gap).fill(at: now) { await task.value }
    }

    @Test(arguments: ["elsewhere", "delta", "indirect", "critical", "authorities"])
    func listOfAnotherScopeDisplacesNothing(_ kind: String) async throws {
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        let check = try #require(checking.transport.tls.own.revocation)
        let (good, bad) = (judge(check), judge(check, "bad.pem"))
        authority.lists.route("GET", "/root.crl") { [authority] _ in .data(authority.data("root.crl")) }
        try await fill(good.gap())
        #expect(good.text() == "accepted" && bad.text() == "revoked")
        // Its authority has signed it, and it is newer.
        authority.lists.route("GET", "/sub.crl") { [authority] _ in .data(authority.data("\(kind).crl")) }
        let later = Date.now + 4 * 86_400
        let gap = good.gap(later)
        try await fill(gap, at: later)
        let need = try #require(gap?.needs.first { $0.source.url.hasSuffix("/sub.crl") })
        let entry = check.lists.entry(need.source)
        #expect(entry.failure?.hasPrefix("sent one that ") == true && entry.failures == 1, "\(entry.failure ?? "")")
        #expect(good.text() == "accepted" && bad.text() == "revoked")
        await checking.transport.shutdown()
    }

    @Test func fetchedListWithoutEndIsValidForADay() async throws {
        authority.lists.route("GET", "/sub.crl") { [authority] _ in .data(authority.data("endless.crl")) }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        let good = judge(try #require(checking.transport.tls.own.revocation))
        try await fill(good.gap())
        #expect(good.text() == "accepted" && good.text(.now + 86_000) == "accepted")
        authority.lists.stop()
        let later = Date.now + 90_000
        #expect(good.gap(later)?.needs.map(\.source.url) == [authority.lists.url("/sub.crl")])
        #expect(good.text(later).contains("has expired"))
        await checking.transport.shutdown()
    }

    @Test(arguments: [true, false]) func expiredListIsRenewedBeforeItRevokes(_ isThere: Bool) async throws {
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        let bad = judge(try #require(checking.transport.tls.own.revocation), "bad.pem")
        try await fill(bad.gap())
        #expect(bad.gap() == nil && bad.text() == "revoked")
        authority.lists.route("GET", "/sub.crl") { [authority] _ in
            isThere ? .data(authority.data("later.crl")) : .status(404)
        }
        let later = Date.now + 4 * 86_400
        let gap = bad.gap(later)
        #expect(gap?.needs.map(\.source.url) == [authority.lists.url("/sub.crl")])
        try await fill(gap, at: later)
        #expect(bad.text(later) == (isThere ? "accepted" : "revoked"))
        await checking.transport.shutdown()
    }

    @Test func manyListsAreVerifiedElsewhere() async throws {
        try ChildProcess.run(
            "bash",
            [
                "-c",
                "for n in {1..20}; do openssl ca -gencrl -config sub.cnf -cert sub.pem -keyfile sub.key; done >many",
            ],
            in: authority.folder.path)
        let lists = RevocationLists()
        var configuration = TLSConfiguration()
        configuration.crlFile = try authority.folder.write(authority.data("many") + authority.data("root.crl"), to: "f")
        let good = judge(try RevocationCheck(configuration, lists, warn: { _ in }))
        let gap = try #require(good.gap())
        #expect(gap.needs.isEmpty && gap.readings.map(\.lists.count) == [21])
        try await fill(gap)
        #expect(good.gap() == nil && good.text() == "accepted")
        // Of a fetch few are kept.
        authority.lists.route("GET", "/sub.crl") { [authority] _ in .data(authority.data("many")) }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        let check = try #require(checking.transport.tls.own.revocation)
        let first = try #require(judge(check).gap())
        try await fill(first)
        #expect(check.lists.entry(first.needs[0].source).lists.count == 16)
        #expect(judge(check).gap() == nil && judge(check).text() == "accepted")
        await checking.transport.shutdown()
    }

    @Test func fileIsSharedAndReadOnce() async throws {
        let lists = RevocationLists()
        let path = try authority.folder.write(authority.data("root.crl"), to: "shared.crl")
        let file = try lists.file(path) { _ in }
        #expect(try lists.file(path) { _ in } === file)
        try authority.folder.write(authority.data("both.crl"), to: "shared.crl")
        #expect(file.hasChanged)
        try await lists.parsing.run {
            // While another one is parsed, all wait for the same.
            #expect(file.readAgain(in: lists.parsing) == file.readAgain(in: lists.parsing))
            #expect(file.hasChanged && file.lists.count == 1)
        }
        await file.readAgain(in: lists.parsing).value
        #expect(!file.hasChanged && file.lists.count == 2)
    }

    @Test func fetchEndsInTheQueueToo() async throws {
        let asked = Event()
        authority.lists.route("GET", "/slow") { _ in
            asked.happen()
            return MockReply.text("never").stalling(.start)
        }
        let checking = try CheckingTransport(authority) { $0.maxConnectionsPerHost = 1 }
        let slow = Task { [authority] in
            try await checking.transport.send(HTTPRequest("GET", authority.lists.url("/slow")))
        }
        await asked.wait()
        let lists = RevocationLists(limits: .init(time: .milliseconds(200)))
        lists.fetch(by: checking.transport)
        let need = need("sub.crl")
        for task in lists.fetch([need]) { await task.value }
        #expect(lists.entry(need.source).failure == "sent nothing within 0.2 seconds")
        slow.cancel()
        _ = await slow.result
        await checking.transport.shutdown()
    }

    private func need(_ path: String) -> RevocationNeed {
        RevocationNeed(
            source: .init(url: authority.lists.url("/\(path)"), authority: authority.der("sub.pem")),
            certificate: authority.der("good.pem"))
    }

    @Test func listThatComesDuringAHandshakeCounts() async throws {
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        let check = try #require(checking.transport.tls.own.revocation)
        let good = judge(check)
        let first = try #require(good.gap())
        #expect(first.needs.map(\.source.url) == ["/sub.crl", "/root.crl"].map { authority.lists.url($0) })
        // Another call fetches them before this one does.
        try await fill(first)
        #expect(first.fill().isEmpty)
        #expect(good.gap() == nil && good.text() == "accepted")
        #expect(judge(check, "bad.pem").text() == "revoked")
        #expect(authority.lists.requestCount == 2)
        // An authority with the same name and the same address has lists of its own, and so takes nothing away from others.
        let forger = authority.der("forger.pem")
        let forged = Judge(check: check, chain: [good.chain[0], forger, good.chain[2]])
        let other = try #require(forged.gap())
        #expect(other.needs.map(\.source.authority) == [forger])
        try await fill(other)
        #expect(forged.text().contains("/sub.crl sent one that is not signed by it"))
        #expect(good.text() == "accepted")
        await checking.transport.shutdown()
    }

    @Test func memoryOfListsIsBounded() async throws {
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        authority.lists.fallback { [authority] _ in .data(authority.data("sub.crl")) }
        let size = try #require(try lists("sub.crl").first?.size)
        for limits in [RevocationLists.Limits(size: 5 * size + 1), RevocationLists.Limits(count: 5)] {
            let lists = RevocationLists(limits: limits)
            lists.fetch(by: checking.transport)
            let needs = (0..<8).map { need("\($0)") }
            for need in needs { for task in lists.fetch([need]) { await task.value } }
            // The oldest are dropped.
            #expect(needs.map { lists.entry($0.source).lists.isEmpty } == (0..<8).map { $0 < 3 })
        }
        await checking.transport.shutdown()
    }
}

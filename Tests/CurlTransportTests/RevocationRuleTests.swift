import FoundationEssentials
import HTTPCore
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
        #expect(status(statement(.good), statement(.revoked, until: -1, "q")) == .revoked("q"))
        #expect(status(statement(.revoked, from: 1, "q"), forged) == .revoked("q"))
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

    init() throws { authority = try RevocationAuthority() }

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
        #expect(many.count == 8 && many[0].issuer == "CN = Stranger 1" && many.contains { $0.issuer == "CN = sub" })
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
    }

    @Test func listThatComesDuringAHandshakeCounts() async throws {
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        let check = try #require(checking.transport.tls.own.revocation)
        let chain = ["good.pem", "sub.pem", "root.pem"].map(authority.der)
        func gap(_ chain: [[UInt8]]) -> RevocationGap? {
            if case .unknown(_, let gap) = check.outcome(of: chain, from: "o", canWait: true) { gap } else { nil }
        }
        func text(_ chain: [[UInt8]]) -> String {
            switch check.outcome(of: chain, from: "o", canWait: false) {
            case .accepted: "accepted"
            case .revoked: "revoked"
            case .unknown(let reason, _): reason
            }
        }
        let first = try #require(gap(chain))
        #expect(first.needs.map(\.source.url) == ["/sub.crl", "/root.crl"].map { authority.lists.url($0) })
        // Another call fetches them before this one does.
        for task in first.fill() { await task.value }
        #expect(first.fill().isEmpty)
        #expect(gap(chain) == nil && text(chain) == "accepted")
        #expect(text([authority.der("bad.pem")] + chain.dropFirst()) == "revoked")
        #expect(authority.lists.requestCount == 2)
        // An authority with the same name and the same address has lists of its own, and so takes nothing away from others.
        let forged = [chain[0], authority.der("forger.pem"), chain[2]]
        let other = try #require(gap(forged))
        #expect(other.needs.map(\.source.authority) == [forged[1]])
        for task in other.fill() { await task.value }
        #expect(text(forged).contains("/sub.crl sent one that is not signed by it"))
        #expect(text(chain) == "accepted")
        await checking.transport.shutdown()
    }

    @Test func memoryOfListsIsBounded() async throws {
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        let lists = checking.transport.tls.own.lists
        let needs = (0..<300).map { number in
            RevocationNeed(
                source: .init(url: authority.lists.url("/\(number)"), authority: authority.der("sub.pem")),
                certificate: authority.der("good.pem"))
        }
        authority.lists.fallback { [authority] _ in .data(authority.data("sub.crl")) }
        for task in lists.fetch(needs) { await task.value }
        #expect(needs.count { !lists.entry($0.source).lists.isEmpty } == 256)
        await checking.transport.shutdown()
    }
}

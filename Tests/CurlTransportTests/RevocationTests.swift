import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport
@testable import HTTPCore

/// A transport that trusts the root of an authority, and its warnings.
struct CheckingTransport: Sendable {
    let transport: CurlTransport
    let warnings = Log<String>()

    init(
        _ authority: RevocationAuthority, trusts file: String = "root.pem",
        _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = testConfiguration()
        configuration.tls.caFile = authority.path(file)
        configuration.warningHandler = { [warnings] in warnings.append($0) }
        change(&configuration)
        transport = try CurlTransport(configuration: configuration)
    }

    /// The failure of a request; `nil` for success.
    func failure(_ server: TLSServer, _ change: (inout HTTPRequest.TLS) -> Void = { _ in }) async throws
        -> NetworkError?
    {
        var request = HTTPRequest("GET", server.url())
        change(&request.tls)
        do {
            _ = try await transport.answer(to: request)
            return nil
        } catch let error as NetworkError {
            return error
        }
    }
}

/// `tls.crlFile`: certificates are checked against the revocation lists of a file, real ones by `openssl`.
@Suite(.needsOpenSSL, .timeLimit(.minutes(5))) struct RevocationTests {
    private static let unknown = NetworkError.Kind.tls(.certificateStatus)

    @Test func fileDecidesAboutEveryAuthorityOfTheChain() async throws {
        let authority = try await RevocationAuthority.silent.value
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        func parts(_ names: String...) -> Data { names.reduce(Data()) { $0 + authority.data($1) } }
        let root = "root.crl"
        let cases: [(String, Data, Bool, NetworkError.Kind?, String)] = [
            ("both", parts(root, "sub.crl"), true, nil, ""),
            ("both", parts(root, "sub.crl"), false, .tls(.revoked), "its own is in the revocation list of CN = sub"),
            ("many", parts("many.crl"), true, nil, ""),
            ("many", parts("many.crl"), false, .tls(.revoked), "its own"),
            ("sub", parts("sub.crl"), true, Self.unknown, "no valid revocation list of CN = Root: tls.crlFile"),
            ("root", parts(root), true, Self.unknown, "no valid revocation list of CN = sub: tls.crlFile"),
            ("DER", parts("sub.der"), false, .tls(.revoked), ""),
            ("parent", parts("all.crl", "sub.crl"), true, .tls(.revoked), "that of CN = sub is in the revocation list"),
            ("expired", parts(root, "old.crl"), true, Self.unknown, "has expired"),
            // It is signed, so what it says about a revoked certificate is true.
            ("expired", parts(root, "old.crl"), false, .tls(.revoked), ""),
            ("future", parts(root, "future.crl"), true, Self.unknown, "is not valid yet"),
            ("forged", parts(root, "forged.crl"), true, Self.unknown, "is not signed by it"),
            ("forged", parts(root, "forged.crl"), false, Self.unknown, "is not signed by it"),
            // A forged, a useless or an old list is not in the way of a good one, before it or after it.
            ("mixed", parts("forged.crl", root, "sub.crl", "old.crl", "delta.crl"), true, nil, ""),
            ("mixed", parts("sub.crl", root, "forged.crl"), false, .tls(.revoked), ""),
            ("users", parts(root, "users.crl"), true, nil, ""),
            ("users", parts(root, "users.crl"), false, .tls(.revoked), ""),
            ("authorities", parts(root, "authorities.crl"), true, Self.unknown, "is about other certificates"),
            ("elsewhere", parts(root, "elsewhere.crl"), true, Self.unknown, "is about other certificates"),
            ("delta", parts(root, "delta.crl"), true, Self.unknown, "is a delta list"),
            ("indirect", parts(root, "indirect.crl"), true, Self.unknown, "indirect or partial"),
            ("critical", parts(root, "critical.crl"), true, Self.unknown, "critical extension"),
        ]
        for (name, content, isGood, kind, words) in cases {
            try authority.folder.write(content, to: "case.crl")
            let checking = try CheckingTransport(authority) { $0.tls.crlFile = authority.path("case.crl") }
            let error = try await checking.failure(isGood ? good : bad)
            let text = error?.message ?? "no error"
            #expect(error?.kind == kind && (words.isEmpty || text.contains(words)), "\(name) \(isGood): \(text)")
            if kind != nil { #expect(text.contains(authority.path("case.crl")), "\(name): \(text)") }
            await checking.transport.shutdown()
        }
        // Nothing but the file was asked.
        #expect(authority.lists.requestCount == 0)
    }

    @Test func softAcceptsWhatCannotBeCheckedAndCounts() async throws {
        let authority = try await RevocationAuthority.silent.value
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        for (file, unchecked) in [("sub.crl", 1), ("old.crl", 2), ("forged.crl", 2)] {
            let checking = try CheckingTransport(authority) {
                $0.tls.crlFile = authority.path(file)
                $0.tls.revocation = .soft
            }
            #expect(try await checking.failure(good) == nil, "\(file)")
            #expect(checking.transport.uncheckedCertificates == unchecked, "\(file)")
            let kind = try await checking.failure(bad)?.kind
            #expect(kind == (file == "forged.crl" ? nil : .tls(.revoked)), "\(file)")
            let text = "\(good.port) was accepted without a check"
            try await eventually("a warning") { checking.warnings.elements.contains { $0.contains(text) } }
            #expect(checking.warnings.elements.count { $0.contains(text) } == 1, "\(checking.warnings.elements)")
            await checking.transport.shutdown()
        }
    }

    @Test func warningsComeOnAnotherThread() async throws {
        let authority = try await RevocationAuthority.silent.value
        let good = try await authority.server("good")
        let threads = Log<String>()
        let checking = try CheckingTransport(authority) {
            $0.tls.revocation = .soft
            $0.warningHandler = { _ in
                threads.append((try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) ?? "unknown")
            }
        }
        #expect(try await checking.failure(good) == nil)
        try await eventually("a warning") { threads.count == 1 }
        #expect(threads.elements.allSatisfy { $0 != "unknown" && $0 != "lat-engine\n" })
    }

    @Test func trustedAuthorityItselfIsNotChecked() async throws {
        let authority = try await RevocationAuthority.silent.value
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        // A part of the chain is trusted. That the root has revoked it does not count, and neither has its list to be there.
        for lists in [["all.crl", "sub.crl"], ["sub.crl"]] {
            try authority.folder.write(lists.reduce(Data()) { $0 + authority.data($1) }, to: "part.crl")
            let part = try CheckingTransport(authority, trusts: "sub.pem") {
                $0.tls.crlFile = authority.path("part.crl")
            }
            #expect(try await part.failure(good) == nil)
            #expect(try await part.failure(bad)?.kind == .tls(.revoked))
        }
        // The server's own certificate is trusted.
        let own = try CheckingTransport(authority, trusts: "bad.pem") { $0.tls.crlFile = authority.path("both.crl") }
        #expect(try await own.failure(bad) == nil)
        #expect(try await own.failure(good)?.kind == .tls(.untrusted))
    }

    @Test func requestAndManagerMayDiffer() async throws {
        let authority = try await RevocationAuthority.silent.value
        let bad = try await authority.server("bad")
        let file = authority.path("both.crl")
        let open = try CheckingTransport(authority)
        #expect(try await open.failure(bad) == nil)
        // The open connection was not checked, so it does not serve a request that asks for that.
        #expect(try await open.failure(bad) { $0.crlFile = file }?.kind == .tls(.revoked))
        #expect(try await open.failure(bad) == nil)
        let strict = try CheckingTransport(authority) { $0.tls.crlFile = file }
        #expect(try await strict.failure(bad)?.kind == .tls(.revoked))
        #expect(try await strict.failure(bad) { $0.revocation = .off } == nil)
        // Nothing is fetched with a file, unless the request itself names an address.
        #expect(authority.lists.requestCount == 0)
        let other = try await RevocationAuthority(points: [])
        let url = other.lists.url("/root.crl")
        #expect(try await strict.failure(bad) { $0.crlURL = url }?.kind == Self.unknown)
        #expect(other.lists.requestCount >= 1)
        #expect(
            try await strict.failure(bad) {
                $0.crlURL = url
                $0.crlFile = file
            }?.kind == .tls(.revoked))
    }

    @Test func fileThatChangesAllTheTimeStopsNobody() async throws {
        let authority = try await RevocationAuthority.silent.value
        let good = try await authority.server("good")
        let path = authority.path("busy.crl")
        try authority.folder.write(authority.data("both.crl"), to: "busy.crl")
        let checking = try CheckingTransport(authority) { $0.tls.crlFile = path }
        let writer = Task {
            var number = 0
            while !Task.isCancelled {
                number += 1
                let new = try authority.folder.write(
                    authority.data(number.isMultiple(of: 2) ? "both.crl" : "many.crl"), to: "busy.new")
                guard rename(new, path) == 0 else { return }
                await Task.yield()
            }
        }
        for _ in 0..<10 { #expect(try await checking.failure(good) == nil) }
        writer.cancel()
        _ = await writer.result
    }

    @Test func changedFileCountsForTheNextConnection() async throws {
        let authority = try await RevocationAuthority.silent.value
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        try authority.folder.write(authority.data("root.crl"), to: "now.crl")
        let checking = try CheckingTransport(authority) {
            $0.tls.crlFile = authority.path("now.crl")
            $0.tls.revocation = .soft
        }
        #expect(try await checking.failure(bad) == nil)
        try await eventually("a warning") { checking.warnings.count == 1 }
        // Of calls that come at once none uses the old lists.
        try authority.folder.write(authority.data("many.crl"), to: "now.crl")
        try await withThrowingTaskGroup(of: NetworkError.Kind?.self) { group in
            for _ in 0..<10 { group.addTask { try await checking.failure(bad)?.kind } }
            for try await kind in group { #expect(kind == .tls(.revoked)) }
        }
        // What cannot be used leaves the lists as they were, and is reported once.
        for content in [Data("nonsense".utf8), Data(authority.data("both.crl").dropLast(100)), Data()] {
            let reported = checking.warnings.count
            try authority.folder.write(content, to: "now.crl")
            for _ in 0..<2 { #expect(try await checking.failure(bad)?.kind == .tls(.revoked)) }
            #expect(checking.warnings.count == reported + 1, "\(checking.warnings.elements)")
            #expect(checking.warnings.elements.last?.contains("remain in use") == true)
        }
        try FileManager.default.removeItem(atPath: authority.path("now.crl"))
        #expect(try await checking.failure(bad)?.kind == .tls(.revoked))
        // Files of rows change too.
        try authority.folder.write(authority.data("both.crl"), to: "row.crl")
        #expect(try await checking.failure(good) { $0.crlFile = authority.path("row.crl") } == nil)
        try authority.folder.write(authority.data("all.crl") + authority.data("sub.crl"), to: "row.crl")
        #expect(
            try await checking.failure(bad) { $0.crlFile = authority.path("row.crl") }?.kind == .tls(.revoked))
    }

    @Test func badFilesAreRefusedWhenTheManagerIsMade() async throws {
        let authority = try await RevocationAuthority.silent.value
        try authority.folder.write(Data(authority.data("both.crl").dropLast(100)), to: "half.crl")
        try authority.folder.write(Data(authority.data("sub.der").dropLast(10)), to: "half.der")
        try authority.folder.write(Data(), to: "empty.crl")
        for (file, words) in [
            ("missing.crl", "cannot be read"), ("empty.crl", "is empty"), ("root.pem", "holds no revocation list"),
            ("half.crl", "malformed revocation list after 1 good"), ("half.der", "no revocation list in DER"),
        ] {
            let error = #expect(throws: NetworkError.self) {
                try CheckingTransport(authority) { $0.tls.crlFile = authority.path(file) }
            }
            let message = error?.message ?? ""
            #expect(error?.kind == .invalidRequest && message.contains(words), "\(file): \(message)")
            #expect(message.contains("tls.crlFile \"\(authority.path(file))\""), "\(message)")
        }
        for url in ["https://a.example/x.crl", "ldap://a.example"] {
            #expect(throws: NetworkError.self) { try CheckingTransport(authority) { $0.tls.crlURL = url } }
        }
        #expect(throws: NetworkError.self) {
            try CheckingTransport(authority) {
                $0.tls.revocation = .soft
                $0.tls.disableCertificateVerification()
            }
        }
    }
}

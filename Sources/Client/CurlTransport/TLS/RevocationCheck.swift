import Cryptography
import FoundationEssentials
internal import HTTPCore

/// What has to be there before a chain can be checked. It is the cause of a failed handshake that is begun again then.
struct RevocationGap: Error {
    /// Lists that are verified elsewhere than on the engine's thread, because that takes a while.
    struct Reading {
        let lists: [RevocationList]
        /// In DER, as its authority's.
        let certificate: [UInt8]
        let authority: [UInt8]
    }

    let lists: RevocationLists
    /// Whether the certificate is refused when the gap cannot be filled.
    let isHard: Bool
    var needs: [RevocationNeed] = []
    var readings: [Reading] = []
    /// A file that has changed.
    var file: RevocationFile?

    /// Starts to get what is missing. All has been tried when the tasks end.
    @discardableResult
    func fill(at now: Date = .now) -> [Task<Void, Never>] {
        var tasks = lists.fetch(needs, at: now)
        if let file { tasks.append(file.readAgain(in: lists.parsing)) }
        if !readings.isEmpty {
            tasks.append(
                Task.detached { [readings, lists] in
                    // One after the other, so that of many who want the same, the first does the work.
                    try? await lists.parsing.run {
                        for reading in readings {
                            _ = RevocationList.findings(
                                of: reading.lists, about: reading.certificate, by: reading.authority)
                        }
                    }
                })
        }
        return tasks
    }
}

/// How the servers of some TLS settings are checked for revocation.
final class RevocationCheck: Sendable {
    enum Outcome {
        case accepted
        /// The sentence says which list revokes which certificate.
        case revoked(String)
        /// The sentence says what is wrong with which list. With the gap filled, another attempt may succeed.
        case unknown(String, RevocationGap?)
    }

    /// Whether a certificate that cannot be checked is refused.
    private let isHard: Bool
    let file: RevocationFile?
    private let url: String?
    let lists: RevocationLists
    private let warn: @Sendable (String) -> Void

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file or a URL that cannot be used.
    init(
        _ configuration: TLSConfiguration, _ lists: RevocationLists, warn: @escaping @Sendable (String) -> Void
    ) throws(NetworkError) {
        isHard = configuration.revocationCheck == .hard
        url = configuration.crlURL
        (self.lists, self.warn) = (lists, warn)
        if let url, !url.lowercased().hasPrefix("http://") {
            throw .invalidRequest(
                "tls.crlURL \"\(url)\" is not an http URL; revocation lists are signed, and are fetched without TLS")
        }
        file = if let path = configuration.crlFile { try lists.file(path, warn: warn) } else { nil }
    }

    /// Checks a chain that was verified: each certificate with a list of the authority that has signed it.
    ///
    /// - Parameters:
    ///   - chain: The certificates in DER, from that of the server to the trusted authority, which is not checked.
    ///   - canWait: Whether somebody waits for the connection who begins it again when a gap is filled.
    func outcome(of chain: [[UInt8]], from origin: String, canWait: Bool, at now: Date = .now) -> Outcome {
        if let file, file.hasChanged {
            let gap = RevocationGap(lists: lists, isHard: isHard, file: file)
            if canWait { return .unknown("tls.crlFile \"\(file.path)\" is read again", gap) }
            gap.fill()
        }
        var (reasons, due): ([String], [Due]) = ([], [])
        var gap = RevocationGap(lists: lists, isHard: isHard)
        for (certificate, authority) in zip(chain, chain.dropFirst()) {
            let sources = sources(of: certificate, by: authority, at: now)
            let statements = sources.all.map { source in
                source.statements(about: certificate, by: authority, atOnce: canWait)
            }
            guard !statements.contains(where: { $0 == nil }) else {
                gap.readings += sources.all.map {
                    RevocationGap.Reading(lists: $0.lists, certificate: certificate, authority: authority)
                }
                continue
            }
            switch RevocationRule.status(statements.flatMap { $0 ?? [] }, at: now) {
            case .good: continue
            case .revoked(let place, let isExpired):
                let name = certificate == chain[0] ? "its own" : "that of \(Self.name(of: certificate))"
                if isExpired, let next = sources.next {
                    let gap = RevocationGap(lists: lists, isHard: isHard, needs: [next.need])
                    // The next list may say something else. Its server's failure leaves the old one.
                    if canWait, !next.hasFailed {
                        return .unknown("the revocation list from \(place) has expired", gap)
                    }
                    gap.fill(at: now)
                }
                return .revoked("\(name) is in the revocation list of \(Self.name(of: authority)) (\(place))")
            case .unknown(let faults):
                let all = sources.failures + faults
                let place =
                    sources.next?.need.source.url ?? file.map { "tls.crlFile \"\($0.path)\" has none" }
                    ?? "\(Self.name(of: certificate)) names no http address of one"
                reasons.append(
                    "there is no valid revocation list of \(Self.name(of: authority)): "
                        + (all.isEmpty ? place : all.joined(separator: "; ")))
                if let next = sources.next { due.append(next) }
            }
        }
        guard !reasons.isEmpty || !gap.readings.isEmpty else { return .accepted }
        let verdict = RevocationRule.verdict(isHard: isHard, due: due.map(\.hasFailed), canWait: canWait)
        gap.needs = due.map(\.need)
        if verdict == .wait { return .unknown(reasons[0], gap) }
        // What is due is fetched, but nobody waits for it.
        lists.fetch(gap.needs, at: now)
        gap.needs = []
        if !gap.readings.isEmpty { return .unknown("the lists of \(origin) are being verified", gap) }
        if verdict == .refuse { return .unknown(reasons[0], nil) }
        if lists.noteUnchecked(reasons.count, origin) {
            let text =
                "a certificate of \(origin) was accepted without a check for revocation, as tls.revocation \"soft\" "
                + "allows: \(reasons[0])"
            // The app's handler must not run in a callback of OpenSSL, nor make all transfers wait.
            Task.detached { [warn] in warn(text) }
        }
        return .accepted
    }

    /// A list that may be fetched, and whether the last fetch of it has failed.
    private typealias Due = (need: RevocationNeed, hasFailed: Bool)

    /// Lists that may say something about a certificate.
    private struct Source {
        let lists: [RevocationList]
        /// Where they come from, for messages.
        let place: String
        /// The end of those that have none; `nil` for never.
        var end: Date?

        /// What they say; `nil` when it takes a while to verify them.
        func statements(
            about certificate: [UInt8], by authority: [UInt8], atOnce: Bool
        ) -> [RevocationRule.Statement]? {
            RevocationList.findings(
                of: lists, about: certificate, by: authority, verifying: atOnce ? RevocationList.verifiedAtOnce : .max
            )?.map { list, finding in
                RevocationRule.Statement(
                    finding: finding, validFrom: list.validFrom, validUntil: list.validUntil ?? end, place: place)
            }
        }
    }

    /// The lists for a certificate, what was wrong with fetches, and which list is fetched next.
    private func sources(
        of certificate: [UInt8], by authority: [UInt8], at now: Date
    ) -> (all: [Source], failures: [String], next: Due?) {
        if let file { return ([Source(lists: file.lists, place: "tls.crlFile \"\(file.path)\"")], [], nil) }
        var (all, failures): ([Source], [String]) = ([], [])
        // The addresses of a certificate are for the same list, so those that have not failed come first.
        var next: (need: RevocationNeed, failures: Int)?
        for url in url.map({ [$0] }) ?? CertificateFacts.listURLs(der: certificate) {
            let source = RevocationNeed.Source(url: url, authority: authority)
            let entry = lists.entry(source)
            all.append(Source(lists: entry.lists, place: url, end: entry.standardEnd))
            if let failure = entry.failure { failures.append("\(url) \(failure)") }
            if entry.isDue(at: now), entry.failures < next?.failures ?? .max {
                next = (RevocationNeed(source: source, certificate: certificate), entry.failures)
            }
        }
        return (all, failures, next.map { ($0.need, $0.failures > 0) })
    }

    private static func name(of certificate: [UInt8]) -> String {
        CertificateFacts(der: certificate)?.subject ?? "a certificate"
    }
}

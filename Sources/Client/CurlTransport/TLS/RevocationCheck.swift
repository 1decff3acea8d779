import Cryptography
import FoundationEssentials
internal import HTTPCore
import Synchronization

/// What has to be there before a chain can be checked. It is the cause of a failed handshake that is begun again then.
struct RevocationGap: Error {
    let needs: [RevocationNeed]
    /// A file that has changed.
    let file: RevocationFile?
    let lists: RevocationLists

    /// Starts to get what is missing. All has been tried when the tasks end.
    @discardableResult
    func fill() -> [Task<Void, Never>] {
        lists.fetch(needs) + (file.map { file in [Task.detached { file.readAgain() }] } ?? [])
    }
}

/// The revocation lists of a file.
final class RevocationFile: Sendable {
    private struct State {
        var lists: [RevocationList]
        /// The file's stamp at the last read, whether that succeeded or failed.
        var stamp: FileStamp?
    }

    let path: String
    private let warn: @Sendable (String) -> Void
    private let state: Mutex<State>

    var lists: [RevocationList] { state.withLock(\.lists) }

    /// Whether the file has changed since it was read. One that is missing is being replaced.
    var hasChanged: Bool {
        guard let stamp = FileStamp(path: path) else { return false }
        return state.withLock { $0.stamp != stamp }
    }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file that cannot be used.
    init(_ path: String, warn: @escaping @Sendable (String) -> Void) throws(NetworkError) {
        self.path = SettingsFile.absolute(path)
        self.warn = warn
        let (lists, stamp) = try Self.read(self.path)
        state = Mutex(State(lists: lists, stamp: stamp))
    }

    private static func read(_ path: String) throws(NetworkError) -> ([RevocationList], FileStamp) {
        let content = try SettingsFile(path, setting: "tls.crlFile")
        do throws(CertificateFile.Problem) {
            return (try RevocationList.read(content.data), content.stamp)
        } catch {
            throw .invalidRequest("tls.crlFile \"\(path)\" \(error.reason)")
        }
    }

    /// Reads the file if it has changed. When it cannot be used, the lists stay, and it is read after its next change.
    func readAgain() {
        let seen = FileStamp(path: path)
        guard let seen, state.withLock({ $0.stamp != seen }) else { return }
        do throws(NetworkError) {
            let (lists, stamp) = try Self.read(path)
            state.withLock { $0 = State(lists: lists, stamp: stamp) }
        } catch {
            let isFirst = state.withLock { state in
                defer { state.stamp = seen }
                return state.stamp != seen
            }
            if isFirst { warn("\(error.message); the lists that were read before remain in use") }
        }
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

    /// - Parameter base: The check of the engine's own settings, whose file is shared.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file or a URL that cannot be used.
    init(
        _ configuration: TLSConfiguration, _ lists: RevocationLists, base: RevocationCheck?,
        warn: @escaping @Sendable (String) -> Void
    ) throws(NetworkError) {
        isHard = configuration.revocationCheck == .hard
        url = configuration.crlURL
        (self.lists, self.warn) = (lists, warn)
        if let url, !url.lowercased().hasPrefix("http://") {
            throw .invalidRequest(
                "tls.crlURL \"\(url)\" is not an http URL; revocation lists are signed, and are fetched without TLS")
        }
        if let path = configuration.crlFile {
            let known = base?.file
            file = try known?.path == SettingsFile.absolute(path) ? known : RevocationFile(path, warn: warn)
        } else {
            file = nil
        }
    }

    /// Checks a chain that was verified: each certificate with a list of the authority that has signed it.
    ///
    /// - Parameters:
    ///   - chain: The certificates in DER, from that of the server to the trusted authority, which is not checked.
    ///   - canWait: Whether somebody waits for the connection who begins it again when a gap is filled.
    func outcome(of chain: [[UInt8]], from origin: String, canWait: Bool, at now: Date = .now) -> Outcome {
        if let file, file.hasChanged {
            let gap = RevocationGap(needs: [], file: file, lists: lists)
            if canWait { return .unknown("tls.crlFile \"\(file.path)\" is read again", gap) }
            gap.fill()
        }
        var (reasons, due): ([String], [Due]) = ([], [])
        for (certificate, authority) in zip(chain, chain.dropFirst()) {
            let (statements, failures, next) = evidence(about: certificate, by: authority, at: now)
            switch RevocationRule.status(statements, at: now) {
            case .good: continue
            case .revoked(let place):
                let name = certificate == chain[0] ? "its own" : "that of \(Self.name(of: certificate))"
                return .revoked("\(name) is in the revocation list of \(Self.name(of: authority)) (\(place))")
            case .unknown(let faults):
                let all = failures + faults
                let place =
                    next?.need.source.url ?? file.map { "tls.crlFile \"\($0.path)\" has none" }
                    ?? "\(Self.name(of: certificate)) names no http address of one"
                reasons.append(
                    "there is no valid revocation list of \(Self.name(of: authority)): "
                        + (all.isEmpty ? place : all.joined(separator: "; ")))
                if let next { due.append(next) }
            }
        }
        guard !reasons.isEmpty else { return .accepted }
        let gap = RevocationGap(needs: due.map(\.need), file: nil, lists: lists)
        switch RevocationRule.verdict(isHard: isHard, due: due.map(\.hasFailed), canWait: canWait) {
        case .wait: return .unknown(reasons[0], gap)
        case .refuse:
            gap.fill()
            return .unknown(reasons[0], nil)
        case .accept:
            gap.fill()
            if lists.noteUnchecked(reasons.count, origin) {
                warn(
                    "a certificate of \(origin) was accepted without a check for revocation, as tls.revocation \"soft\" "
                        + "allows: \(reasons[0])")
            }
            return .accepted
        }
    }

    /// A list that may be fetched, and whether the last fetch of it has failed.
    private typealias Due = (need: RevocationNeed, hasFailed: Bool)

    /// What lists say about a certificate, what was wrong with fetches, and which list is fetched next.
    private func evidence(
        about certificate: [UInt8], by authority: [UInt8], at now: Date
    ) -> (statements: [RevocationRule.Statement], failures: [String], next: Due?) {
        func statements(_ lists: [RevocationList], _ place: String) -> [RevocationRule.Statement] {
            RevocationList.findings(of: lists, about: certificate, by: authority).map { list, finding in
                RevocationRule.Statement(
                    finding: finding, validFrom: list.validFrom, validUntil: list.validUntil, place: place)
            }
        }
        if let file { return (statements(file.lists, "tls.crlFile \"\(file.path)\""), [], nil) }
        var (all, failures): ([RevocationRule.Statement], [String]) = ([], [])
        // The addresses of a certificate are for the same list, so those that have not failed come first.
        var next: (need: RevocationNeed, failures: Int)?
        for url in url.map({ [$0] }) ?? CertificateFacts.listURLs(der: certificate) {
            let source = RevocationNeed.Source(url: url, authority: authority)
            let entry = lists.entry(source)
            all += statements(entry.lists, url)
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

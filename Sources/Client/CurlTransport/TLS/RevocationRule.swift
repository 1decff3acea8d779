import Cryptography
import FoundationEssentials

/// What is decided from revocation lists (CRLs, RFC 5280 §6.3), as values.
enum RevocationRule {
    /// What one list says about a certificate.
    struct Statement: Hashable {
        let finding: RevocationList.Finding
        let validFrom: Date?
        let validUntil: Date?
        /// Where the list comes from, for messages.
        let place: String
    }

    /// What all lists together say about a certificate.
    enum Status: Hashable {
        case good
        /// Revoked by the list from this place. It may have expired, and its successor may say something else.
        case revoked(String, isExpired: Bool)
        /// Nothing that counts; with what is wrong with each list.
        case unknown([String])
    }

    enum Verdict: Hashable { case accept, wait, refuse }

    /// How many handshakes of a request may lack lists: a certificate has up to four addresses, which are tried in turn. The
    /// one after them is decided with what is there.
    static let waitLimit = 4

    /// How long a request waits for lists with `soft`, so that most of its time is left for itself.
    ///
    /// - Parameter left: The time of the request; `nil` for no limit.
    static func softWait(_ left: Duration?) -> Duration { min(.seconds(3), left.map { $0 / 4 } ?? .seconds(3)) }

    /// A list that counts and is valid now is enough. One that says "revoked" is believed at any time, because it is signed.
    static func status(_ statements: [Statement], at now: Date) -> Status {
        let revoking = statements.filter { $0.finding == .revoked }
        let isExpired = { (statement: Statement) in statement.validUntil.map { $0 <= now } ?? false }
        if let statement = revoking.first(where: { !isExpired($0) }) ?? revoking.first {
            return .revoked(statement.place, isExpired: isExpired(statement))
        }
        var reasons: [String] = []
        for statement in statements {
            switch statement.finding {
            case .revoked: break
            case .unusable(let reason): reasons.append("the one from \(statement.place) \(reason)")
            case .good:
                if let fault = fault(from: statement.validFrom, until: statement.validUntil, at: now) {
                    reasons.append("the one from \(statement.place) \(fault)")
                }
            }
        }
        let isGood = statements.contains {
            $0.finding == .good && fault(from: $0.validFrom, until: $0.validUntil, at: now) == nil
        }
        return isGood ? .good : .unknown(reasons)
    }

    /// What is wrong with the times of a list; `nil` when it is valid now.
    static func fault(from start: Date?, until end: Date?, at now: Date) -> String? {
        if let start, start > now { return "is not valid yet; check this machine's clock" }
        if let end, end <= now { return "has expired" }
        return nil
    }

    /// The lists in the order in which they count: those that are valid now, and of these the newest.
    static func newestFirst(_ lists: [RevocationList], at now: Date) -> [RevocationList] {
        let isValid = { (list: RevocationList) in fault(from: list.validFrom, until: list.validUntil, at: now) == nil }
        let ranked = lists.map { (list: $0, isValid: isValid($0), date: $0.validFrom ?? .distantPast) }
        return ranked.sorted { $0.isValid == $1.isValid ? $0.date > $1.date : $0.isValid }.map(\.list)
    }

    /// What is done with a certificate whose status is not known.
    ///
    /// - Parameters:
    ///   - due: the lists that may be fetched now, each with whether its last fetch has failed.
    ///   - canWait: whether somebody waits for the connection who can begin it again.
    static func verdict(isHard: Bool, due: [Bool], canWait: Bool) -> Verdict {
        // With `soft` nobody waits for a server of lists that has failed.
        if canWait, due.contains(where: { hasFailed in isHard || !hasFailed }) { return .wait }
        return isHard ? .refuse : .accept
    }
}

/// What is known of the list at one URL for one authority.
struct RevocationEntry: Sendable {
    /// The lists of the last fetch that brought some. The authority has signed each of them.
    private(set) var lists: [RevocationList] = []
    /// When the last fetch ended; `nil` before the first.
    private(set) var time: Date?
    /// Why the last fetch brought nothing.
    private(set) var failure: String?
    /// The number of fetches in a row that brought nothing that is valid.
    private(set) var failures = 0

    /// The end of the lists that do not say when the next one is to be there. It is fetched daily.
    var standardEnd: Date? { time?.addingTimeInterval(86_400) }

    /// In bytes.
    var size: Int { lists.reduce(0) { $0 + $1.size } }

    /// How long the server is left alone after failures, in seconds.
    var pause: TimeInterval { [1, 5, 60][min(max(failures, 1), 3) - 1] }

    /// Whether the list has to be fetched. Of several lists the first to end counts.
    func isDue(at now: Date) -> Bool {
        guard let time else { return true }
        let age = now.timeIntervalSince(time)
        // The clock was set back.
        if age < 0 { return true }
        return failures > 0
            ? age >= pause : lists.contains { $0.validUntil ?? standardEnd ?? now <= now }
    }

    /// Takes the lists of a fetch, unless those that are there are newer. A list that is not valid yet is newer than none.
    mutating func take(_ new: [RevocationList], at now: Date = .now) {
        func made(_ lists: [RevocationList]) -> Date {
            lists.compactMap(\.validFrom).filter { $0 <= now }.max() ?? .distantPast
        }
        guard made(new) >= made(lists) else { return fail("sent an older list than before", at: now) }
        lists = new
        (time, failure) = (now, nil)
        let areValid = new.allSatisfy {
            RevocationRule.fault(from: $0.validFrom, until: $0.validUntil, at: now) == nil
        }
        failures = areValid ? 0 : failures + 1
    }

    /// Notes that a fetch brought nothing. The lists stay.
    mutating func fail(_ reason: String, at now: Date = .now) {
        (time, failure) = (now, reason)
        failures += 1
    }
}

/// The last challenge of each origin and user, so that the next request goes out with its answer and is not challenged again:
/// a nonce may be used more than once, and counts its uses (RFC 7616 §3.3, §3.4).
///
/// It holds no password. Belongs to the engine's thread.
struct DigestCache {
    /// Whom a challenge was for. Nothing is answered for another user, nor sent to another origin.
    struct Key: Hashable {
        let origin: String
        let user: String
        /// A socket that is connected to in the origin's place.
        let unixSocketPath: String?
    }

    private struct Entry {
        var challenge: DigestChallenge
        /// How often the nonce was used.
        var count: UInt32
        var lastUse: UInt64
    }

    /// More challenges are not kept; the one that was used longest ago goes first.
    static let limit = 256

    private var entries: [Key: Entry] = [:]
    private var useCount: UInt64 = 0

    var count: Int { entries.count }

    /// A server has challenged.
    ///
    /// - Parameter isAnswered: Whether the request that was challenged is about to answer it, with a count of 1.
    mutating func note(_ challenge: DigestChallenge, for key: Key, isAnswered: Bool) {
        // Some servers give every request the same nonce: its count goes on.
        let known = entries[key].flatMap { $0.challenge.nonce == challenge.nonce ? $0.count : nil } ?? 0
        useCount += 1
        entries[key] = Entry(challenge: challenge, count: max(known, isAnswered ? 1 : 0), lastUse: useCount)
        guard entries.count > Self.limit else { return }
        if let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse })?.key { entries[oldest] = nil }
    }

    /// What the next request answers, and how often the nonce is used with that.
    mutating func use(_ key: Key) -> (challenge: DigestChallenge, count: UInt32)? {
        guard let index = entries.index(forKey: key), entries.values[index].count < .max else { return nil }
        useCount += 1
        entries.values[index].count += 1
        entries.values[index].lastUse = useCount
        return (entries.values[index].challenge, entries.values[index].count)
    }

    /// A server has said which nonce it wants to see next (RFC 7616 §3.5).
    mutating func renew(_ key: Key, nonce: String) {
        guard let entry = entries[key], entry.challenge.nonce != nonce else { return }
        entries[key]?.challenge.nonce = nonce
        entries[key]?.count = 0
    }

    /// A challenge that cannot be answered beforehand has taken the place of the one that was known.
    mutating func forget(_ key: Key) { entries[key] = nil }
}

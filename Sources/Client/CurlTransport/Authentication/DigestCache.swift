/// The last Digest challenge of each origin and user, which lets the next request authenticate without being challenged
/// again. A nonce may be used repeatedly; each use is counted (RFC 7616 §3.3, §3.4).
///
/// Holds no password. Belongs to the engine's thread.
struct DigestCache {
    /// The origin and user of a challenge. No other user or origin uses it.
    struct Key: Hashable {
        let origin: String
        let user: String
        /// The Unix domain socket that replaces the origin's address.
        let unixSocketPath: String?
    }

    private struct Entry {
        var challenge: DigestChallenge
        /// How often the nonce was used.
        var count: UInt32
        var lastUse: UInt64
    }

    /// The maximum number of challenges. The least recently used one is dropped first.
    static let limit = 256

    private var entries: [Key: Entry] = [:]
    private var useCount: UInt64 = 0

    var count: Int { entries.count }

    /// Stores a server's challenge.
    ///
    /// - Parameter isAnswered: Whether libcurl answers the challenge, which is the first use of the nonce.
    mutating func note(_ challenge: DigestChallenge, for key: Key, isAnswered: Bool) {
        // Some servers repeat the same nonce; its count continues.
        let known = entries[key].flatMap { $0.challenge.nonce == challenge.nonce ? $0.count : nil } ?? 0
        useCount += 1
        entries[key] = Entry(challenge: challenge, count: max(known, isAnswered ? 1 : 0), lastUse: useCount)
        guard entries.count > Self.limit else { return }
        if let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse })?.key { entries[oldest] = nil }
    }

    /// Returns the challenge for the next request, and how often its nonce was used, including this use.
    mutating func use(_ key: Key) -> (challenge: DigestChallenge, count: UInt32)? {
        guard let index = entries.index(forKey: key),
            entries.values[index].count < (entries.values[index].challenge.isForOneRequest ? 1 : .max)
        else { return nil }
        useCount += 1
        entries.values[index].count += 1
        entries.values[index].lastUse = useCount
        return (entries.values[index].challenge, entries.values[index].count)
    }

    /// Stores the nonce that a server wants next (RFC 7616 §3.5).
    mutating func renew(_ key: Key, nonce: String) {
        guard let entry = entries[key], entry.challenge.nonce != nonce else { return }
        entries[key]?.challenge.nonce = nonce
        entries[key]?.count = 0
    }

    /// Drops the challenge, because the server has sent one that cannot be answered in advance.
    mutating func forget(_ key: Key) { entries[key] = nil }
}

import Cryptography
package import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization

/// Encodes texts for the columns of the index and entries for its rows, encrypted if there is a key.
///
/// Without a key, a text of 64 hexadecimal digits is stored as its 32 bytes, any other text as its bytes, and an entry is
/// followed by its SHA-256 digest. With a key, only the size, times and flags of an entry are readable:
/// - Columns that are searched by equality hold HMAC-SHA256 of the text, so that a guess cannot be confirmed without the
///   key. Order and prefixes are lost, so a search by prefix decrypts every row.
/// - The entry is sealed with AES-256-GCM, and its searched columns are the associated data. It does not open in another
///   row or with other columns.
/// - The body is sealed in chunks (``BodyCipher``).
///
/// Each stored version has keys derived from its own random salt, so that no nonce repeats under a key.
package struct EntrySealer: Sendable {
    /// Identifies the key of a row: 0 without a key, else a number derived from it. Rows with other keys cannot be read.
    package let keyNumber: Int64
    private let keys: (columns: [UInt8], entries: [UInt8], changes: [UInt8])?

    /// - Parameter key: 32 bytes; `nil` for no encryption.
    package init(key: Data?) throws {
        guard let key else {
            keyNumber = 0
            keys = nil
            return
        }
        guard key.count == AuthenticatedCipher.keyByteCount else {
            throw NetworkError(
                .cache,
                message: "the cache's encryption key has \(key.count) bytes; use \(AuthenticatedCipher.keyByteCount)"
            )
        }
        keys = (
            columns: try MessageDigest.hmac(Array("columns".utf8), key: key),
            entries: try MessageDigest.hmac(Array("entries".utf8), key: key),
            changes: try MessageDigest.hmac(Array("changes".utf8), key: key)
        )
        let number = try MessageDigest.hmac(Array("number".utf8), key: key).prefix(8)
        keyNumber = Int64(number.reduce(0 as UInt64) { $0 << 8 | UInt64($1) } >> 1) | 1
    }

    package var isSealing: Bool { keys != nil }

    package func column(_ name: String, _ text: String) throws -> [UInt8] {
        guard let keys else { return Self.digest(text) ?? Array(text.utf8) }
        return try MessageDigest.hmac(Array((name + "\0" + text).utf8), key: keys.columns)
    }

    /// The bytes of 64 lower-case hexadecimal digits, which are half as long; `nil` for any other text.
    private static func digest(_ text: String) -> [UInt8]? {
        guard text.utf8.count == 64 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        var high: UInt8?
        for character in text.utf8 {
            let value: UInt8
            switch character {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = character - UInt8(ascii: "a") + 10
            default: return nil
            }
            if let upper = high {
                bytes.append(upper << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return bytes
    }

    /// The bytes of a change for the change log, sealed if there is a key.
    package func sealChange(_ bytes: [UInt8]) throws -> [UInt8] {
        guard let keys else { return bytes }
        let nonce = try randomBytes(AuthenticatedCipher.nonceByteCount)
        return nonce
            + (try AuthenticatedCipher.aes256GCM.seal(bytes, key: keys.changes, nonce: nonce))
    }

    /// A change from the change log; `nil` when it was not sealed with this key.
    package func openChange(_ sealed: [UInt8]) -> [UInt8]? {
        guard let keys, sealed.count > AuthenticatedCipher.nonceByteCount else { return nil }
        return try? AuthenticatedCipher.aes256GCM.open(
            Array(sealed.dropFirst(AuthenticatedCipher.nonceByteCount)), key: keys.changes,
            nonce: Array(sealed.prefix(AuthenticatedCipher.nonceByteCount)))
    }

    /// How many bytes are stored of a body; `nil` for a number that no body has.
    static func storedByteCount(_ byteCount: Int64, isSealed: Bool) -> Int64? {
        guard CacheIndex.plausible.contains(byteCount) else { return nil }
        let chunks = max(1, (byteCount - 1) / Int64(BodyCipher.chunkByteCount) + 1)
        return isSealed ? byteCount + chunks * Int64(AuthenticatedCipher.tagByteCount) : byteCount
    }

    /// A salt for one version of an entry; empty without encryption.
    func salt() throws -> [UInt8] { isSealing ? try randomBytes(16) : [] }

    /// The cipher for the body of one version; `nil` without encryption.
    package func bodyCipher(salt: [UInt8]) throws -> BodyCipher? {
        guard let keys else { return nil }
        return BodyCipher(key: try MessageDigest.hmac(Array("body".utf8) + salt, key: keys.entries))
    }

    /// The values of the searched columns: key, variant, url, domain, server, partition.
    func columns(of entry: CacheEntry) throws -> [[UInt8]?] {
        let texts: [(String, String?)] = [
            ("key", entry.key.primary), ("variant", entry.key.variant), ("url", entry.url), ("domain", entry.domain),
            ("server", entry.server), ("partition", entry.partition),
        ]
        return try texts.map { name, text in try text.map { try column(name, $0) } }
    }

    private static func associated(_ columns: [[UInt8]?]) -> [UInt8] {
        var bytes: [UInt8] = []
        for column in columns {
            // A missing column differs from an empty one.
            bytes.append(column == nil ? 0 : 1)
            withUnsafeBytes(of: UInt32(column?.count ?? 0).bigEndian) { bytes.append(contentsOf: $0) }
            bytes.append(contentsOf: column ?? [])
        }
        return bytes
    }

    func seal(_ entry: CacheEntry, salt: [UInt8]) throws -> [UInt8] {
        try seal(EntryCoding.encode(entry), salt: salt) { try Self.associated(columns(of: entry)) }
    }

    /// The bytes of an entry, sealed with their associated data; without a key, followed by their digest.
    package func seal(_ bytes: [UInt8], salt: [UInt8], associated: () throws -> [UInt8]) throws -> [UInt8] {
        guard let keys else { return bytes + (try MessageDigest.of(bytes, .sha256)) }
        let nonce = try randomBytes(AuthenticatedCipher.nonceByteCount)
        let key = try MessageDigest.hmac(Array("head".utf8) + salt, key: keys.entries)
        return nonce
            + (try AuthenticatedCipher.aes256GCM.seal(bytes, key: key, nonce: nonce, associated: associated()))
    }

    /// The entry of a row with these ``columns(of:)``; `nil` when the row is damaged or sealed with another key.
    func open(_ sealed: [UInt8], salt: [UInt8], columns: () -> [[UInt8]?]) -> CacheEntry? {
        open(sealed, salt: salt) { Self.associated(columns()) }.flatMap(EntryCoding.decode)
    }

    /// What ``seal(_:salt:associated:)`` sealed; `nil` when it is damaged or sealed with another key.
    package func open(_ sealed: [UInt8], salt: [UInt8], associated: () -> [UInt8]) -> [UInt8]? {
        guard let keys else {
            guard sealed.count > 32 else { return nil }
            let bytes = Array(sealed.dropLast(32))
            guard let digest = try? MessageDigest.of(bytes, .sha256), digest.elementsEqual(sealed.suffix(32)) else {
                return nil
            }
            return bytes
        }
        guard sealed.count > AuthenticatedCipher.nonceByteCount,
            let key = try? MessageDigest.hmac(Array("head".utf8) + salt, key: keys.entries)
        else { return nil }
        return try? AuthenticatedCipher.aes256GCM.open(
            Array(sealed.dropFirst(AuthenticatedCipher.nonceByteCount)), key: key,
            nonce: Array(sealed.prefix(AuthenticatedCipher.nonceByteCount)), associated: associated())
    }
}

/// Seals a body in chunks, so that it is written and read with one chunk in memory at a time.
///
/// Each chunk has the tag of AES-256-GCM. Its nonce holds its number and whether it is the last one, so that no chunk can be
/// omitted, added or moved (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár).
package struct BodyCipher: Sendable {
    /// The bytes of a chunk before sealing; the last one may have fewer.
    static let chunkByteCount = 64 << 10
    /// The bytes of a full chunk after sealing.
    static let sealedChunkByteCount = chunkByteCount + AuthenticatedCipher.tagByteCount

    fileprivate let key: [UInt8]

    package func seal(_ chunk: Data, number: UInt64, isLast: Bool) throws -> [UInt8] {
        try AuthenticatedCipher.aes256GCM.seal(chunk, key: key, nonce: Self.nonce(number, isLast))
    }

    package func open(_ chunk: Data, number: UInt64, isLast: Bool) throws -> [UInt8] {
        try AuthenticatedCipher.aes256GCM.open(chunk, key: key, nonce: Self.nonce(number, isLast))
    }

    func open(_ body: Data) throws -> Data {
        var plain = Data(capacity: body.count)
        var rest = body[...]
        var number: UInt64 = 0
        repeat {
            let chunk = rest.prefix(Self.sealedChunkByteCount)
            rest = rest.dropFirst(chunk.count)
            plain.append(contentsOf: try open(Data(chunk), number: number, isLast: rest.isEmpty))
            number += 1
        } while !rest.isEmpty
        return plain
    }

    private static func nonce(_ number: UInt64, _ isLast: Bool) -> [UInt8] {
        [0, 0, 0] + (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) } + [isLast ? 1 : 0]
    }
}

/// The secret key with which ``RequestIdentity`` digests credentials. It is saved in the store's folder, readable by the
/// owner only, because the next process needs it to find the entries that were stored for a sender.
package final class IdentityKey: Sendable {
    private let path: String?
    private let state = Mutex((key: Data?.none, isSaved: false))
    private static let byteCount = 32

    /// - Parameter directory: The folder of the store; `nil` for a store in memory.
    package init(directory: String?) { path = directory.map { $0 + "/identity.key" } }

    /// The key, read from the folder or generated.
    package var bytes: Data {
        state.withLock { state in
            if let key = state.key, state.isSaved { return key }
            // While no entry depends on this process's key, the key that another process saved is used.
            if let saved = path.flatMap(Self.read) {
                state.key = saved
                state.isSaved = true
                return saved
            }
            let key = state.key ?? Data((try? randomBytes(Self.byteCount)) ?? [])
            state.key = key
            state.isSaved = path == nil
            return key
        }
    }

    /// Saves the key in the folder, before the first entry that depends on it. If another process was first, its key is used
    /// from now on. A failure is ignored: the next process then does not find these entries.
    package func save() {
        guard let path, let own = state.withLock({ $0.isSaved ? nil : $0.key }) else { return }
        try? DiskLayout(PathParts(path).folder).makeFolders()
        // If several processes save at the same time, one writes the complete file and the others find it.
        try? AtomicFile.write(own, to: path, isShared: true, replaces: false, followsLinks: false)
        let saved = Self.read(path)
        // An existing file that holds no key is damaged.
        if saved == nil { try? AtomicFile.write(own, to: path, isShared: true, followsLinks: false) }
        state.withLock { state in
            state.key = saved ?? own
            state.isSaved = true
        }
    }

    private static func read(_ path: String) -> Data? {
        guard let bytes = try? OwnFile.bytes(of: path, limit: byteCount), bytes.count == byteCount else { return nil }
        return Data(bytes)
    }
}

internal import Cryptography
internal import FoundationEssentials
internal import HTTPCore
internal import ResponseCache

/// The names of the keys in Redis, and the bytes of their values.
///
/// ```
/// PREFIX:c1:KEY:e:DIGEST              the entries of a primary key: a hash with h… (head), m… (record), b… (small body) and t…
///                                     (last use) for each variant, and f (the earliest start of a fetch that is accepted)
/// PREFIX:c1:KEY:e:DIGEST:ID:N         chunk N of a larger body, or of a small one of a response that has many variants
/// PREFIX:c1:KEY:g:DIGEST              the generation of a tag, URL, server, domain or partition
/// PREFIX:c1:KEY:r                     the rules: the epoch (the generation of everything), the mark (which changes with any
///                                     other generation), and the removals that no generation covers
/// PREFIX:c1:KEY:l:DIGEST              a lease
/// ```
///
/// `1` is the format and `KEY` names the encryption key, so processes with different formats or keys share nothing.
struct FleetCacheCoding: Sendable {
    static let format = "c1"

    let channel: String
    let rulesKey: String
    let generationPrefix: String
    private let prefix: String
    private let sealer: EntrySealer

    init(_ fleet: Fleet, key: Data?) throws {
        sealer = try EntrySealer(key: key)
        let name = key == nil ? "0" : String(UInt64(bitPattern: sealer.keyNumber), radix: 16)
        prefix = fleet.key(Self.format, name)
        channel = fleet.channel("\(Self.format):\(name)")
        rulesKey = prefix + ":r"
        generationPrefix = prefix + ":g:"
    }

    // MARK: Names

    private func digest(_ name: String, _ text: String) -> String {
        // A primary key is a digest already.
        if !sealer.isSealing, name == "key", text.utf8.count == 64,
            text.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) })
        {
            return text
        }
        let bytes =
            sealer.isSealing
            ? try? sealer.column(name, text) : try? MessageDigest.of(Data((name + "\0" + text).utf8), .sha256)
        return MessageDigest.hexadecimal((bytes ?? []).prefix(20))
    }

    func entryKey(_ primaryKey: String) -> String { prefix + ":e:" + digest("key", primaryKey) }

    func leaseKey(_ name: String) -> String { prefix + ":l:" + digest("lease", name) }

    /// The suffix of a variant's fields.
    func variantField(_ variant: String) -> String { variant.isEmpty ? "" : digest("variant", variant) }

    /// The key of a selection's generation; `nil` for a selection that has none.
    func generationKey(_ selection: CacheSelection) -> String? {
        switch selection {
        case .tag(let text): generationPrefix + digest("tag", text)
        case .url(let text): generationPrefix + digest("url", text)
        case .server(let text): generationPrefix + digest("server", text)
        case .domain(let text): generationPrefix + digest("domain", text)
        case .partition(let text): generationPrefix + digest("partition", text)
        case .all, .key, .primaryKey, .urlPrefix, .storedBefore: nil
        }
    }

    /// The keys of the generations that an entry depends on.
    func generationKeys(of entry: CacheEntry) -> [String] {
        var selections = entry.tags.map { CacheSelection.tag($0) }
        selections.append(.url(entry.url))
        if let server = entry.server { selections.append(.server(server)) }
        if let domain = entry.domain { selections.append(.domain(domain)) }
        if let partition = entry.partition { selections.append(.partition(partition)) }
        return selections.compactMap { generationKey($0) }
    }

    // MARK: Records

    private static let isExpired: UInt8 = 1
    private static let isPinned: UInt8 = 2

    private func associated(_ primaryKey: String, _ variantField: String, _ id: String) -> [UInt8] {
        Array((digest("key", primaryKey) + ":" + variantField + ":" + id).utf8)
    }

    /// The record of an entry. `id` is the random name of its body.
    func record(of entry: CacheEntry, id: String) throws -> [UInt8] {
        var bytes: [UInt8] = [(entry.isExpired ? Self.isExpired : 0) | (entry.isPinned ? Self.isPinned : 0)]
        bytes += Self.bytes(of: entry.lastUse)
        bytes += EntryCoding.encode(entry)
        guard sealer.isSealing else { return Self.summed(bytes, id, .max) }
        return try sealer.seal(bytes, salt: Array(id.utf8)) {
            associated(entry.key.primary, variantField(entry.key.variant), id)
        }
    }

    /// The entry of a record; `nil` when it is damaged, or belongs to another key.
    func entry(of record: Data, primaryKey: String, variantField: String, id: String) -> CacheEntry? {
        guard sealer.isSealing else {
            return record.withUnsafeBytes { record in
                Checksum.count(of: record, seed: Self.seed(id, .max)).flatMap {
                    Self.entry(of: UnsafeRawBufferPointer(rebasing: record[..<$0]))
                }
            }
        }
        let bytes = sealer.open(Array(record), salt: Array(id.utf8)) { associated(primaryKey, variantField, id) }
        return bytes?.withUnsafeBytes { Self.entry(of: $0) }
    }

    private static func entry(of bytes: UnsafeRawBufferPointer) -> CacheEntry? {
        guard bytes.count > 9, let lastUse = date(bytes[1..<9]),
            var entry = EntryCoding.decode(UnsafeRawBufferPointer(rebasing: bytes[9...]))
        else { return nil }
        entry.isExpired = bytes[0] & isExpired != 0
        entry.isPinned = bytes[0] & isPinned != 0
        entry.lastUse = lastUse
        return entry
    }

    static func bytes(of date: Date) -> [UInt8] {
        withUnsafeBytes(of: date.timeIntervalSinceReferenceDate.bitPattern.bigEndian) { Array($0) }
    }

    static func date(_ bytes: some Collection<UInt8>) -> Date? {
        guard bytes.count == 8 else { return nil }
        let time = Double(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
        return time.isFinite ? Date(timeIntervalSinceReferenceDate: time) : nil
    }

    // MARK: Bodies

    /// The largest body that is kept with its entry.
    static let inlineLimit = 64 << 10
    /// The bytes of a chunk before encryption.
    static let chunkByteCount = 256 << 10
    /// The largest number of chunks that a look-up accepts.
    static let chunkLimit = 4_096

    /// The largest body of an entry with this number of chunks, at most ``chunkLimit``.
    static func longestBody(_ chunkCount: UInt64) -> UInt64 {
        chunkCount == 0 ? UInt64(inlineLimit) : chunkCount * UInt64(chunkByteCount)
    }

    /// A chunk of a body: encrypted, or followed by a checksum that covers its place.
    func seal(_ chunk: Data, number: Int, isLast: Bool, id: String) throws -> Data {
        if let cipher = try sealer.bodyCipher(salt: Array(id.utf8)) {
            return Data(try cipher.seal(chunk, number: UInt64(number), isLast: isLast))
        }
        return Self.summed(chunk, id, Self.place(number, isLast))
    }

    /// The bytes of a chunk; `nil` when it is damaged, or was stored for another place.
    func open(_ chunk: Data, number: Int, isLast: Bool, id: String) -> Data? {
        if sealer.isSealing {
            guard let cipher = try? sealer.bodyCipher(salt: Array(id.utf8)) else { return nil }
            return (try? cipher.open(chunk, number: UInt64(number), isLast: isLast)).map { Data($0) }
        }
        let seed = Self.seed(id, Self.place(number, isLast))
        return chunk.withUnsafeBytes { Checksum.count(of: $0, seed: seed) }.map { chunk.prefix($0) }
    }

    private static func summed<Bytes: RangeReplaceableCollection<UInt8> & ContiguousBytes>(
        _ bytes: Bytes, _ id: String, _ place: UInt64
    ) -> Bytes {
        bytes + bytes.withUnsafeBytes { Checksum.bytes(of: $0, seed: seed(id, place)) }
    }

    /// The seed of the checksum of a chunk or a record. It covers the place, so bytes in another place count as damaged.
    private static func seed(_ id: String, _ place: UInt64) -> UInt64 {
        var id = id
        return id.withUTF8 { Checksum.of(UnsafeRawBufferPointer($0), seed: place) }
    }

    private static func place(_ number: Int, _ isLast: Bool) -> UInt64 { UInt64(number) << 1 | (isLast ? 1 : 0) }

    // MARK: Messages

    enum Message {
        /// These entries have changed.
        case changed(CacheSelection)
        /// The lease with this key is free.
        case free(String)
    }

    private static let changed = UInt8(ascii: "S")
    private static let free = UInt8(ascii: "L")

    func message(_ message: Message, from sender: [UInt8]) throws -> Data {
        switch message {
        case .changed(let selection): Data([Self.changed] + sender + (try sealer.sealChange(selection.encoded)))
        case .free(let key): Data([Self.free] + sender + key.utf8)
        }
    }

    /// The message of another process; `nil` for one of this process. A message that cannot be read counts as a change of
    /// everything.
    func message(_ bytes: Data, unlessFrom sender: [UInt8]) -> Message? {
        guard bytes.count > sender.count, let kind = bytes.first else { return .changed(.all) }
        if bytes.dropFirst().starts(with: sender) { return nil }
        let rest = Array(bytes.dropFirst(1 + sender.count))
        switch kind {
        case Self.free: return .free(String(decoding: rest, as: UTF8.self))
        case Self.changed: return .changed(selection(rest) ?? .all)
        default: return .changed(.all)
        }
    }

    /// A selection in the form in which it is stored among the removals.
    func rule(_ selection: CacheSelection) throws -> Data { Data(try sealer.sealChange(selection.encoded)) }

    func selection(_ bytes: [UInt8]) -> CacheSelection? {
        (sealer.isSealing ? sealer.openChange(bytes) : bytes).flatMap { CacheSelection(encoded: $0) }
    }
}

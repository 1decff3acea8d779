import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization

/// The writer of ``DiskStore``, which collects a small body in memory and writes a larger one to a file. It holds the last
/// appended data and at most a few hundred kilobytes more, however large the body is.
final class DiskWriter: CacheWriter {
    /// The largest body that is stored in the index rather than in a file.
    static let inlineByteCount: Int64 = 16 << 10
    /// The number of collected bytes beyond which they are written.
    private static let bufferByteCount = 128 << 10

    private struct State: ~Copyable {
        var plain = Data()
        /// The bytes, sealed if there is a key, that are not written yet.
        var stored = Data()
        var digest: MessageDigest? = MessageDigest(.sha256)
        var chunkNumber: UInt64 = 0
        var file: BodyFile?
        var byteCount: Int64 = 0
        var storedByteCount: Int64 = 0
        var isOver = false
    }

    private let core: DiskCore
    private let entry: CacheEntry
    private let replacing: CacheReplacement
    private let salt: [UInt8]
    private let cipher: BodyCipher?
    private let state = Mutex(State())

    init(_ entry: CacheEntry, _ replacing: CacheReplacement, _ core: DiskCore) throws {
        self.core = core
        self.entry = entry.bare
        self.replacing = replacing
        salt = try core.sealer.salt()
        cipher = try core.sealer.bodyCipher(salt: salt)
    }

    func append(_ data: Data) async throws {
        let (isDue, size) = try state.withLock { state in
            guard !state.isOver else { throw Self.isOverError }
            state.plain.append(data)
            state.byteCount += Int64(data.count)
            return (state.plain.count > Self.bufferByteCount, state.byteCount + entry.headByteCount)
        }
        guard size <= core.rule.byteLimit else {
            await discard()
            throw CacheEntryTooLarge(byteCount: size, limit: core.rule.byteLimit).error
        }
        if isDue { try await work(isLast: false) }
    }

    func commit() async throws -> CacheCommit {
        let isSmall = try state.withLock { state in
            guard !state.isOver else { throw Self.isOverError }
            return state.byteCount <= Self.inlineByteCount
        }
        // A small body needs no file and no switch of threads.
        if isSmall {
            try state.withLock { state in try sealAndDigest(&state, isLast: true) }
        } else {
            try await work(isLast: true)
        }
        do {
            let prepared = try finish()
            return try await withCheckedThrowingContinuation { core.write(.store(prepared, $0)) }
        } catch {
            throw CacheFault.error(error, in: core.layout.directory)
        }
    }

    func discard() async {
        state.withLock { state in
            state.isOver = true
            state.plain = Data()
            state.stored = Data()
            state.file = nil
        }
    }

    private static var isOverError: NetworkError {
        NetworkError(.cache, message: "the cache writer was already committed or discarded; make another one")
    }

    // MARK: Work

    /// Writes the collected bytes to disk. If the disk is full, it makes room and retries once.
    private func work(isLast: Bool) async throws {
        do {
            do {
                try await core.bodies.run { try self.spill(isLast: isLast) }
            } catch let error as SystemError where error.isFull {
                let needed = state.withLock { $0.byteCount }
                _ = try await withCheckedThrowingContinuation { core.write(.prune(max(needed, 1 << 20), $0)) }
                try await core.bodies.run { try self.spill(isLast: isLast) }
            }
        } catch {
            await discard()
            throw CacheFault.error(error, in: core.layout.directory)
        }
    }

    /// Seals and digests the appended bytes.
    private func sealAndDigest(_ state: inout State, isLast: Bool) throws {
        var bytes = Data()
        if let cipher {
            // A full chunk is held back, since it may be the last one.
            var rest = state.plain[...]
            while rest.count > BodyCipher.chunkByteCount {
                let chunk = Data(rest.prefix(BodyCipher.chunkByteCount))
                bytes.append(contentsOf: try cipher.seal(chunk, number: state.chunkNumber, isLast: false))
                state.chunkNumber += 1
                rest = rest.dropFirst(BodyCipher.chunkByteCount)
            }
            state.plain = Data(rest)
            if isLast, !state.isOver {
                bytes.append(contentsOf: try cipher.seal(state.plain, number: state.chunkNumber, isLast: true))
                state.plain = Data()
            }
        } else {
            swap(&bytes, &state.plain)
        }
        if isLast { state.isOver = true }
        state.digest?.update(bytes)
        state.storedByteCount += Int64(bytes.count)
        if state.stored.isEmpty { state.stored = bytes } else { state.stored.append(bytes) }
    }

    private func spill(isLast: Bool) throws {
        try state.withLock { state in
            // At the second attempt everything is sealed already.
            if !(isLast && state.isOver) { try sealAndDigest(&state, isLast: isLast) }
            let layout = core.layout
            if let free = layout.freeBytes, free - Int64(state.stored.count) < core.rule.freeFloor {
                throw SystemError(
                    "writing a body to \(layout.bodies), which must leave minimumFreeBytes free", code: ENOSPC)
            }
            if state.file == nil {
                core.removeCutBodies()
                state.file = try BodyFile.make(layout, name: MessageDigest.hexadecimal(randomBytes(16)))
            }
            try state.file?.write(&state.stored)
        }
    }

    private func finish() throws -> PreparedEntry {
        try state.withLock { state in
            guard let digest = state.digest.take() else { throw Self.isOverError }
            var entry = entry
            entry.bodyByteCount = state.byteCount
            defer { state.file = nil }
            return PreparedEntry(
                entry: entry, replacing: replacing, inline: state.file == nil ? state.stored : Data(), file: state.file,
                storedByteCount: state.storedByteCount, checksum: try digest.finalize(), salt: salt)
        }
    }
}

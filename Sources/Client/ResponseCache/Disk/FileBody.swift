import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization

/// A body in a file, which is checked completely and then read in chunks. The file stays open, so removing the entry does
/// not disturb the reader.
final class FileBody: ResponseBody.Source {
    /// The largest body that the check keeps in memory and that is returned in one piece.
    static let wholeByteCount: Int64 = 1 << 20
    private static let chunkByteCount = 256 << 10
    /// The bytes that are checked between two checks for cancellation.
    private static let stepByteCount: Int64 = 8 << 20

    private struct Check: ~Copyable {
        var digest: MessageDigest? = MessageDigest(.sha256)
        var whole = Data()
        var offset: Int64 = 0
    }

    private let descriptor: Int32
    private let path: String
    private let stored: StoredBody
    private let cipher: BodyCipher?
    private let core: DiskCore
    private let check = Mutex(Check())
    private let place = Mutex((offset: Int64(0), chunkNumber: UInt64(0)))

    private init(_ descriptor: Int32, _ path: String, _ stored: StoredBody, _ cipher: BodyCipher?, _ core: DiskCore) {
        self.descriptor = descriptor
        self.path = path
        self.stored = stored
        self.core = core
        self.cipher = cipher
    }

    deinit { close(descriptor) }

    /// Opens a body and checks it against damage; returns `nil` when it is missing or damaged.
    static func open(_ name: String, _ stored: StoredBody, _ core: DiskCore) async throws -> ResponseBody? {
        let body = try await core.bodies.run { () -> FileBody? in
            let path = core.layout.path(ofBody: name)
            let cipher = try core.sealer.bodyCipher(salt: stored.salt)
            let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
            guard descriptor >= 0 else {
                if errno == ENOENT { return nil }
                throw SystemError("opening \(path)")
            }
            var facts = stat()
            guard fstat(descriptor, &facts) == 0, Int64(facts.st_size) == stored.storedByteCount else {
                close(descriptor)
                return nil
            }
            let body = FileBody(descriptor, path, stored, cipher, core)
            try body.checkStep()
            return body
        }
        guard let body else { return nil }
        while body.check.withLock({ $0.offset }) < stored.storedByteCount {
            try Task.checkCancellation()
            try await core.bodies.run { try body.checkStep() }
        }
        return try body.checked()
    }

    private func checkStep() throws {
        try check.withLock { check in
            let end = min(check.offset + Self.stepByteCount, stored.storedByteCount)
            let isKept = stored.storedByteCount <= Self.wholeByteCount
            while check.offset < end {
                let chunk = try read(at: check.offset, min(Int64(Self.chunkByteCount), end - check.offset))
                check.digest?.update(chunk)
                if isKept { check.whole.append(chunk) }
                check.offset += Int64(chunk.count)
            }
        }
    }

    private func checked() throws -> ResponseBody? {
        let (digest, whole) = try check.withLock { check in
            (try check.digest.take()?.finalize(), check.whole)
        }
        guard digest == stored.checksum else { return nil }
        guard stored.storedByteCount <= Self.wholeByteCount else { return ResponseBody(self) }
        guard let cipher else { return ResponseBody(whole) }
        return (try? cipher.open(whole)).map { ResponseBody($0) }
    }

    func next() async throws -> Data? {
        try Task.checkCancellation()
        do {
            return try await core.bodies.run { try self.readNext() }
        } catch {
            throw CacheFault.error(error, in: core.layout.directory)
        }
    }

    private func readNext() throws -> Data? {
        try place.withLock { place in
            let rest = stored.storedByteCount - place.offset
            guard rest > 0 else { return nil }
            let count = min(rest, Int64(cipher == nil ? Self.chunkByteCount : BodyCipher.sealedChunkByteCount))
            let bytes = try read(at: place.offset, count)
            place.offset += Int64(bytes.count)
            guard let cipher else { return bytes }
            defer { place.chunkNumber += 1 }
            let plain = Data(
                try cipher.open(bytes, number: place.chunkNumber, isLast: place.offset == stored.storedByteCount))
            return plain.isEmpty ? nil : plain
        }
    }

    private func read(at offset: Int64, _ count: Int64) throws -> Data {
        var data = Data(count: Int(count))
        var done = 0
        while done < data.count {
            let read = data.withUnsafeMutableBytes { bytes in
                pread(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + off_t(done))
            }
            if read < 0, errno == EINTR { continue }
            guard read > 0 else { throw SystemError("reading \(path)", code: read == 0 ? EIO : errno) }
            done += read
        }
        return data
    }
}

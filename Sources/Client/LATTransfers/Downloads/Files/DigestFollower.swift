import Cryptography
import Glibc
import HTTPCore
import LATClient

/// The digest of a file, computed while the file is written.
///
/// Chunks in order are hashed as they arrive. Other bytes, from an earlier run or out of order, are read back from the
/// file, some of them after each chunk, so that hardly any are left at the end.
final class DigestFollower: @unchecked Sendable {
    // Sendable: the lock of the owning job guards it.

    private let algorithm: MessageDigest.Algorithm
    private var digest: MessageDigest
    private var position: Int64 = 0
    /// Whether bytes that had been hashed were written again, so that all are hashed at the end.
    private var isRewritten = false
    private var buffer: [UInt8] = []
    private static let bufferSize = 1 << 20

    init(_ algorithm: MessageDigest.Algorithm) {
        self.algorithm = algorithm
        digest = MessageDigest(algorithm)
    }

    /// Records a chunk that was written.
    ///
    /// - Parameter frontier: The offset of the first missing byte.
    func note(
        _ bytes: UnsafeRawBufferPointer, at offset: Int64, frontier: Int64, in file: PartFile
    ) throws(NetworkError) {
        if offset < position, !bytes.isEmpty {
            startOver()
            isRewritten = true
        }
        guard !isRewritten else { return }
        if offset == position {
            digest.update(bytes)
            position += Int64(bytes.count)
        }
        if position < frontier { try catchUp(to: min(frontier, position + 4 * Int64(Self.bufferSize)), in: file) }
    }

    /// Reads back and hashes the bytes that have not been hashed yet.
    ///
    /// - Parameter check: called from time to time; throws when it is to end.
    func catchUp(
        to end: Int64, in file: PartFile, check: () throws(NetworkError) -> Void = {}
    ) throws(NetworkError) {
        if buffer.isEmpty { buffer = [UInt8](repeating: 0, count: Self.bufferSize) }
        while position < end {
            try check()
            let wanted = Int(min(end - position, Int64(buffer.count)))
            let count = try buffer.withUnsafeMutableBufferPointer { bytes throws(NetworkError) in
                let bytes = UnsafeMutableBufferPointer(rebasing: bytes[..<wanted])
                return try file.read(UnsafeMutableRawBufferPointer(bytes), at: position)
            }
            guard count > 0 else {
                throw NetworkError(.storage, message: "\(file.path) became shorter while it was written; start again")
            }
            buffer.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            position += Int64(count)
        }
    }

    func startOver() {
        digest = MessageDigest(algorithm)
        position = 0
        isRewritten = false
    }

    func finish() throws(NetworkError) -> String {
        // The digest can only be consumed if another one is put in its place.
        var whole = MessageDigest(algorithm)
        swap(&whole, &digest)
        return try FileDigest.text(of: whole, algorithm)
    }
}

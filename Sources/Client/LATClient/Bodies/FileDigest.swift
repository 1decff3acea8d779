import Cryptography
import Glibc
import HTTPCore

/// The digest of a whole file.
package enum FileDigest {
    /// The digest as lowercase hexadecimal digits.
    ///
    /// - Parameter failure: Makes the error for a file that cannot be read, from `errno`.
    package static func hexadecimal(
        _ path: String, _ algorithm: MessageDigest.Algorithm,
        failure: (_ path: String) -> NetworkError
    ) throws(NetworkError) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        var digest = MessageDigest(algorithm)
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(path) }
            if count == 0 { break }
            buffer.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
        return try text(of: digest, algorithm)
    }

    package static func text(
        of digest: consuming MessageDigest, _ algorithm: MessageDigest.Algorithm
    ) throws(NetworkError) -> String {
        do {
            return MessageDigest.hexadecimal(try digest.finalize())
        } catch {
            throw NetworkError(
                .unsupported, message: "libcrypto does not support \(algorithm.rawValue); give a SHA-256 instead",
                underlying: error)
        }
    }
}

import Cryptography
import Glibc
import HTTPCore

/// The digest of a file that is there.
enum FileDigest {
    /// As hexadecimal digits, in lower case.
    static func hexadecimal(_ path: String, _ algorithm: MessageDigest.Algorithm) throws(NetworkError) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StorageFailure.system("read", path) }
        defer { close(descriptor) }
        var digest = MessageDigest(algorithm)
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw StorageFailure.system("read", path) }
            if count == 0 { break }
            buffer.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
        do {
            return MessageDigest.hexadecimal(try digest.finalize())
        } catch {
            throw NetworkError(
                .unsupported, message: "libcrypto does not offer \(algorithm.rawValue) here; expect a SHA-256 instead",
                underlying: error)
        }
    }
}

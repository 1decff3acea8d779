import Cryptography
public import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// A digest algorithm, implemented by libcrypto.
///
/// ```swift
/// try Digest.sha256.hexadecimal(of: "hello")              // "2cf24dba5fb0a30e…"
/// try Digest.sha256.hexadecimal(ofFile: "/tmp/big.iso")   // reads the file in pieces
/// ```
///
/// MD5 and SHA-1 are broken. Use them only to compare with published digests, never for secrets.
public enum Digest: String, CaseIterable, Hashable, Sendable {
    /// 128 bits, RFC 1321. Broken.
    case md5
    /// 160 bits, RFC 3174. Broken.
    case sha1
    /// 256 bits, RFC 6234.
    case sha256
    /// 384 bits, RFC 6234.
    case sha384
    /// 512 bits, RFC 6234.
    case sha512

    private var algorithm: MessageDigest.Algorithm {
        switch self {
        case .md5: .md5
        case .sha1: .sha1
        case .sha256: .sha256
        case .sha384: .sha384
        case .sha512: .sha512
        }
    }

    /// Returns the digest of bytes.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.unsupported` when this libcrypto does not offer the
    ///   algorithm, such as MD5 in a restricted build.
    public func bytes(of data: some ContiguousBytes) throws -> Data {
        do { return Data(try MessageDigest.of(data, algorithm)) } catch { throw unsupported }
    }

    /// Returns the digest of bytes as lower-case hexadecimal digits.
    ///
    /// - Throws: the same as ``bytes(of:)``.
    public func hexadecimal(of data: some ContiguousBytes) throws -> String { try bytes(of: data).hexadecimal }

    /// Returns the digest of a text's UTF-8 as lower-case hexadecimal digits.
    ///
    /// - Throws: the same as ``bytes(of:)``.
    public func hexadecimal(of text: String) throws -> String { try hexadecimal(of: Data(text.utf8)) }

    /// Returns the digest of a file. The file is read in pieces, so that memory does not grow with its size.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage` when the file cannot be read to its end;
    ///   otherwise the same as ``bytes(of:)``.
    public func bytes(ofFile path: String) throws -> Data {
        let operation = "compute the \(rawValue) of \(path)"
        // The system would read the file whose path ends before the NUL.
        guard !path.utf8.contains(0) else { throw Self.unreadable(operation, EINVAL) }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.unreadable(operation, errno) }
        defer { close(descriptor) }
        var digest = MessageDigest(algorithm)
        var code: Int32 = 0
        withUnsafeTemporaryAllocation(byteCount: 1 << 17, alignment: 16) { buffer in
            while code == 0 {
                let count = read(descriptor, buffer.baseAddress, buffer.count)
                if count == 0 { return }
                if count > 0 {
                    digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                } else if errno != EINTR {
                    code = errno
                }
            }
        }
        guard code == 0 else { throw Self.unreadable(operation, code) }
        do { return Data(try digest.finalize()) } catch { throw unsupported }
    }

    /// Returns the digest of a file as lower-case hexadecimal digits.
    ///
    /// - Throws: the same as ``bytes(ofFile:)``.
    public func hexadecimal(ofFile path: String) throws -> String { try bytes(ofFile: path).hexadecimal }

    private var unsupported: NetworkError {
        NetworkError(.unsupported, message: "this libcrypto offers no \(rawValue); use sha256")
    }

    private static func unreadable(_ operation: String, _ code: Int32) -> NetworkError {
        .storage(.unreadable, operation, "\(SystemError(code: code).text); check the file and its permissions")
    }
}

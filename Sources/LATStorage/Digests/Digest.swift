import Cryptography
public import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// A digest of bytes, by libcrypto.
///
/// ```swift
/// try Digest.sha256.hexadecimal(of: "hello")              // "2cf24dba5fb0a30e…"
/// try Digest.sha256.hexadecimal(ofFile: "/tmp/big.iso")   // with the memory of one piece
/// ```
///
/// MD5 and SHA-1 are for comparing with what others published, never for secrets: both are broken.
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

    /// The digest of bytes.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/unsupported`` when this libcrypto does not offer it,
    /// MD5 in
    ///   a restricted build for one.
    public func bytes(of data: some ContiguousBytes) throws -> Data {
        do { return Data(try MessageDigest.of(data, algorithm)) } catch { throw unsupported }
    }

    /// The digest of bytes as lower-case digits.
    ///
    /// - Throws: as ``bytes(of:)``.
    public func hexadecimal(of data: some ContiguousBytes) throws -> String { try bytes(of: data).hexadecimal }

    /// The digest of a text's UTF-8 as lower-case digits.
    ///
    /// - Throws: as ``bytes(of:)``.
    public func hexadecimal(of text: String) throws -> String { try hexadecimal(of: Data(text.utf8)) }

    /// The digest of a file, read piece by piece: memory does not grow with it.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage`` when the file cannot be read to its end; as
    ///   ``bytes(of:)``.
    public func bytes(ofFile path: String) throws -> Data {
        let operation = "work out the \(rawValue) of \(path)"
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

    /// The digest of a file as lower-case digits.
    ///
    /// - Throws: as ``bytes(ofFile:)``.
    public func hexadecimal(ofFile path: String) throws -> String { try bytes(ofFile: path).hexadecimal }

    private var unsupported: NetworkError {
        NetworkError(.unsupported, message: "this libcrypto offers no \(rawValue); use sha256")
    }

    private static func unreadable(_ operation: String, _ code: Int32) -> NetworkError {
        .storage(.unreadable, operation, "\(SystemError(code: code).text); look at the file and its rights")
    }
}

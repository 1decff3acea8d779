import Cryptography
public import HTTPCore
import LATClient

/// Options of a download.
///
/// ```swift
/// var options = DownloadOptions()
/// options.digest = .sha256("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
/// options.existingFile = .skip
/// let download = central.download(url, to: "/srv/images/", segments: 4, options: options)
/// ```
public struct DownloadOptions: Sendable {
    /// What to do about a file that exists at the target. Default ``DownloadOptions/ExistingFile/overwrite``. Until it is set, a
    /// file whose name only the server chose (`Content-Disposition`, for a target that is a folder) replaces none: the
    /// download fails as with ``DownloadOptions/ExistingFile/fail`` (RFC 2183 §2.3).
    public var existingFile: ExistingFile {
        get { chosenExistingFile ?? .overwrite }
        set { chosenExistingFile = newValue }
    }
    /// `nil` until it is set.
    var chosenExistingFile: ExistingFile?
    /// Called when the file is complete and about to get its name.
    var willFinish: (@Sendable (FinishedFile) -> Void)?
    /// The digest that the whole file must have. Default `nil`: it is not checked. If the digest is wrong, the download
    /// fails with ``NetworkError/Kind/integrity``, and its bytes are removed without appearing at the target. If an earlier
    /// run left the whole file, the right digest completes it without a request.
    public var digest: Digest?
    /// Whether to continue from the bytes that an earlier run left beside the target. Default `true`. They are used
    /// only if the server confirms that the content is unchanged, and only for the same user: the cache partition, and the
    /// user of the credentials. If they are the whole file, the last byte is requested.
    public var resumesEarlierRun = true
    /// The identity of the content in the journal. Default `nil`: its URL. Set one when the links to the same content
    /// differ each time, as signed links do.
    public var identity: String?
    /// Whether the space for the whole file is reserved before its first byte (posix_fallocate(3)). Default `false`:
    /// free space is only checked. Where the file system cannot reserve space, the C library writes to every block, which
    /// is slow.
    public var reservesSpace = false
    /// Whether the download sends nothing before ``Download/resume()``. Default `false`.
    public var startsPaused = false
    /// Supplies another URL for the same content when the server refuses the present one with 401, 403, 404 or 410, as
    /// it does for expired links. The download then continues. If the new URL is refused too, before any byte was
    /// received, the hook is not called again and the download fails. A hook that a pause has cancelled is called
    /// again. A URL of another origin gets none of the request's credentials, secret fields, client certificate and
    /// pins. Default `nil`: the refusal ends the download.
    public var refreshURL: LinkRefresh?

    /// Creates options with the default values.
    public init() {}
}

/// Returns a new URL for content whose link the server refused; `refusal` has the response. An error that it throws
/// ends the download with ``NetworkError/Kind/provider``.
public typealias LinkRefresh = @Sendable (_ refusal: NetworkError) async throws -> String

extension DownloadOptions {
    /// What a download does about a file that exists at its target.
    public enum ExistingFile: String, Hashable, Sendable, CaseIterable {
        /// Replaces it once the new file is complete, and keeps its permissions, but not those to run as its owner or group.
        case overwrite
        /// Keeps it and succeeds with ``DownloadedFile/isSkipped``. Nothing is sent if the name is known. If a digest is
        /// expected and the file has another one, it is downloaded again.
        case skip
        /// Fails with ``NetworkError/Kind/storage``, before anything is sent if the name is known.
        case fail
    }

    /// The digest that a file is expected to have.
    public struct Digest: Hashable, Sendable {
        /// The available functions. MD5 and SHA-1 detect transmission errors, not attacks.
        public enum Algorithm: String, Hashable, Sendable, CaseIterable {
            /// 128 bits, for sources that publish nothing better.
            case md5
            /// 160 bits, for sources that publish nothing better.
            case sha1
            /// 256 bits.
            case sha256
            /// 384 bits.
            case sha384
            /// 512 bits.
            case sha512

            var function: MessageDigest.Algorithm {
                switch self {
                case .md5: .md5
                case .sha1: .sha1
                case .sha256: .sha256
                case .sha384: .sha384
                case .sha512: .sha512
                }
            }
        }

        /// The function.
        public let algorithm: Algorithm
        /// The digest as hexadecimal digits, in upper or lower case.
        public let hexadecimal: String

        /// Creates a digest. It is checked when the download starts, which throws ``NetworkError/Kind/invalidRequest`` for
        /// a wrong number of digits or other characters.
        public init(_ algorithm: Algorithm, _ hexadecimal: String) {
            self.algorithm = algorithm
            self.hexadecimal = hexadecimal
        }

        /// A SHA-256 of 64 hexadecimal digits.
        public static func sha256(_ hexadecimal: String) -> Digest { Digest(.sha256, hexadecimal) }

        func check() throws(NetworkError) {
            let digits = 2 * algorithm.function.byteCount
            guard hexadecimal.utf8.count == digits, hexadecimal.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
                throw .invalidRequest(
                    "the expected \(algorithm.rawValue) is \"\(URLText.visible(hexadecimal))\"; give \(digits) hexadecimal digits"
                )
            }
        }
    }
}

/// The name of ``DownloadOptions/ExistingFile`` in 1.0.
public typealias ExistingFilePolicy = DownloadOptions.ExistingFile

/// The name of ``DownloadOptions/Digest`` in 1.0.
public typealias DownloadDigest = DownloadOptions.Digest

/// A downloaded file.
public struct DownloadedFile: Sendable {
    /// The path. If the target was a folder, the name of the file comes from the server or the URL.
    public let path: String
    /// The size in bytes.
    public let byteCount: Int64
    /// The response without its body; the last one if there were several. If no content was received (a skipped file,
    /// or one that only had to be compared with its digest and renamed), it is a 304 without headers.
    public let response: HTTPResponse
    /// Whether the file existed and was kept (``DownloadOptions/ExistingFile/skip``).
    public let isSkipped: Bool
    /// The number of bytes that were kept from an earlier run.
    public let resumedByteCount: Int64
    /// The number of bytes of content received in this run, including repeated ones.
    public let receivedByteCount: Int64
    /// The digest in lower case; `nil` if none was expected.
    public let digest: String?
}

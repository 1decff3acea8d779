import Cryptography
public import HTTPCore

/// How a download is done, beside what is asked for and where it goes.
///
/// ```swift
/// var options = DownloadOptions()
/// options.digest = .sha256("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
/// options.existingFile = .skip
/// let download = central.download(url, to: "/srv/images/", segments: 4, options: options)
/// ```
public struct DownloadOptions: Sendable {
    /// What to do about a file that is at the target already. Default ``ExistingFilePolicy/overwrite``.
    public var existingFile = ExistingFilePolicy.overwrite
    /// The digest that the whole file must have. Default `nil`: it is not checked. A file with another one never appears
    /// at the target: the download fails with ``NetworkError/Kind/integrity`` and its bytes are thrown away.
    public var digest: DownloadDigest?
    /// Whether what an earlier run left beside the target is gone on with. Default `true`; it is only when the server
    /// confirms that the content is still the same.
    public var resumesEarlierRun = true
    /// What names the content in the journal in place of its URL. Default `nil`: the URL. Give one when links to the
    /// same content differ each time, as signed ones do.
    public var identity: String?
    /// Whether the space for the whole file is taken before its first byte (posix_fallocate(3)). Default `false`: only
    /// looked at. On file systems that cannot do it the C library writes every block, which takes as long as it takes.
    public var reservesSpace = false
    /// Whether it waits for ``Download/resume()`` before it sends anything. Default `false`.
    public var startsPaused = false
    /// Asked for another URL of the same content when the server refuses the present one with 401, 403, 404 or 410:
    /// links that expire. The download goes on from where it is. Asked once, and again only after bytes have come.
    /// Default `nil`: the refusal is the end.
    public var refreshURL: LinkRefresh?

    /// The default choices.
    public init() {}
}

/// Gives a new URL for a content whose link the server refuses; `refusal` holds its answer. What it throws ends the
/// download with ``NetworkError/Kind/provider``.
public typealias LinkRefresh = @Sendable (_ refusal: NetworkError) async throws -> String

/// What a download does about a file that is at its target already.
public enum ExistingFilePolicy: String, Hashable, Sendable, CaseIterable {
    /// Puts the new file in its place once it is whole; until then the old one stays. Its permissions are kept.
    case overwrite
    /// Leaves it, sends nothing, and ends well with ``DownloadedFile/isSkipped``. When a digest is expected and the file
    /// has another, it is fetched anew.
    case skip
    /// Fails with ``NetworkError/Kind/storage``, before anything is sent where the name is known.
    case fail
}

/// The digest a file is expected to have.
public struct DownloadDigest: Hashable, Sendable {
    /// The functions on offer. MD5 and SHA-1 tell mistakes from the whole, not attacks.
    public enum Algorithm: String, Hashable, Sendable, CaseIterable {
        /// 128 bits, for what publishes nothing better.
        case md5
        /// 160 bits, for what publishes nothing better.
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
    /// The digest as hexadecimal digits, in any case.
    public let hexadecimal: String

    /// A digest. Whether the digits are some, and as many as they have to be, is looked at when the download starts:
    /// ``NetworkError/Kind/invalidRequest`` says that they are not.
    public init(_ algorithm: Algorithm, _ hexadecimal: String) {
        self.algorithm = algorithm
        self.hexadecimal = hexadecimal
    }

    /// A SHA-256, 64 hexadecimal digits.
    public static func sha256(_ hexadecimal: String) -> DownloadDigest { DownloadDigest(.sha256, hexadecimal) }

    func check() throws(NetworkError) {
        let digits = 2 * algorithm.function.byteCount
        guard hexadecimal.utf8.count == digits, hexadecimal.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
            throw .invalidRequest(
                "the expected \(algorithm.rawValue) is not \(digits) hexadecimal digits; nothing was sent")
        }
    }
}

/// A file that was downloaded.
public struct DownloadedFile: Sendable {
    /// Where it is. In a folder that was named as target it has the name that the server or the URL gave it.
    public let path: String
    /// Its size in bytes.
    public let byteCount: Int64
    /// The head of the answer that brought it, of the last one when there were several; its body is empty. Where nothing
    /// was asked of the server (a skipped file, or one that only had to be given its name) it is 304 without headers.
    public let response: HTTPResponse
    /// Whether it was there already and was left alone (``ExistingFilePolicy/skip``).
    public let isSkipped: Bool
    /// How many bytes an earlier run had left and did not have to come again.
    public let resumedByteCount: Int64
    /// How many bytes of content came over the network in this run, repeated ones included.
    public let receivedByteCount: Int64
    /// The digest, when one was expected: in lower case.
    public let digest: String?
}

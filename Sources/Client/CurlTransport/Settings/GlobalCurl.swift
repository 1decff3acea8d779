import CLibcurl
import Glibc
internal import HTTPCore
import Platform

/// The process-wide initialization of libcurl, and facts about the loaded library.
enum GlobalCurl {
    private static let result: CURLcode = {
        // Must run before libcurl initializes OpenSSL, whose exit handler would free what engine threads still use.
        lat_keep_openssl_past_exit()
        return curl_global_init(Int(CURL_GLOBAL_ALL))
    }()

    /// What the loaded library says about itself.
    ///
    /// It is read through the pointer: a copy would read beyond the shorter structure of an older library.
    static var info: UnsafeMutablePointer<curl_version_info_data>? { curl_version_info(CURLVERSION_TENTH) }

    /// The version of the loaded library, as in `LIBCURL_VERSION_NUM`.
    static let runtimeVersion: UInt32 = info?.pointee.version_num ?? 0

    /// Whether libcurl checks pooled connections once a second only, not before each use (8.22 and newer).
    static let checksPoolOncePerSecond = runtimeVersion >= 0x08_16_00

    /// What only old versions need, one name for each. When a version is not supported any more, its names go, and with them
    /// what asks for them; Architecture lists what is done for all versions because of an old one.
    enum Old {
        /// Before 8.0: reusing a connection that was opened with HTTP/2 prior knowledge fails with a framing error.
        static let breaksPriorKnowledge = runtimeVersion < 0x08_00_00
        /// Before 8.0: the head of a response to `CONNECT` can be mended when it ends at an interim one (``InterimAnswer``). Later
        /// versions (8.23) end it there, too, and the call fails.
        static let endsTunnelAtInterim = runtimeVersion < 0x08_00_00
        /// Before 8.0: a connection in clear text that has carried no request is used for the next one (``WarmUp``).
        static let reusesUnusedClearText = runtimeVersion < 0x08_00_00
        /// Before 8.1: an HTTP/2 stream whose head or frame did not fit into the buffer at once may stall.
        static let overflowStalls = runtimeVersion < 0x08_01_00
        /// Before 8.1: HTTP/2 reads nothing more, not even the window of the upload, when the announced bytes have arrived.
        static let endsReadingAtLength = runtimeVersion < 0x08_01_00
        /// Before 8.2: a transfer does not tell the number of its connection.
        static let hidesConnectionID = runtimeVersion < 0x08_02_00
    }

    /// The features of the library, as in `curl_version_info_data.features`.
    private static let features = Int(info?.pointee.features ?? 0)

    /// Whether the library has a feature (`CURL_VERSION_…`).
    static func has(_ feature: CInt) -> Bool { features & Int(feature) != 0 }

    /// Whether libcurl was built with c-ares, which is required for choosing DNS servers.
    static let hasAres = info?.pointee.ares != nil

    /// Whether libcurl uses OpenSSL for TLS. `ssl_version` names the library in use first, and others in parentheses.
    static let usesOpenSSL = (info?.pointee.ssl_version).map { String(cString: $0).hasPrefix("OpenSSL/") } ?? false

    static func start() throws(NetworkError) {
        guard result == CURLE_OK else {
            throw NetworkError(
                .other, message: "libcurl does not start: \(String(cString: curl_easy_strerror(result)))",
                curlCode: Int(result.rawValue))
        }
        guard runtimeVersion >= 0x075800 else {
            let version = String(cString: curl_version())
            throw NetworkError(
                .unsupported, message: "libcurl 7.88 or newer is required, and \(version) is loaded; update libcurl"
            )
        }
    }
}

/// An object that C code passes to callbacks as their context.
protocol CallbackContext: AnyObject {}

extension CallbackContext {
    static func from(_ context: UnsafeMutableRawPointer) -> Self {
        Unmanaged<Self>.fromOpaque(context).takeUnretainedValue()
    }
}

/// The default `User-Agent` field: `LATNetworking/1.1 (Debian 12; x86_64)` (RFC 9110 §10.1.5).
enum DefaultUserAgent {
    /// Computed once per process.
    static let value: String = {
        let files = SystemFiles(root: "")
        return text(
            version: CurlTransport.version, release: files.text("etc/os-release") ?? files.text("usr/lib/os-release"),
            architecture: files.uname { $0.machine })
    }()

    /// - Parameter release: The content of os-release, if the file exists.
    static func text(version: String, release: String?, architecture: String?) -> String {
        let release = release.map { SystemRelease(parsing: $0) }
        let system = [release?.name ?? "Linux", release?.version].compactMap { $0 }.joined(separator: " ")
        let comment = [system, architecture].compactMap { $0.map(plain) }.filter { !$0.isEmpty }
        return "LATNetworking/\(version) (\(comment.joined(separator: "; ")))"
    }

    /// Removes the characters that a comment must escape, and the separator `;`.
    private static func plain(_ text: String) -> String {
        String(
            decoding: text.utf8.filter { byte in
                (0x20...0x7E).contains(byte) && !"()\\;".utf8.contains(byte)
            }, as: UTF8.self)
    }
}

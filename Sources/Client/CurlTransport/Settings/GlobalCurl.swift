import CLibcurl
import Glibc
internal import HTTPCore

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

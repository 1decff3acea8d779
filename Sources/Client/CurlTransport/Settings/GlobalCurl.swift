import CLibcurl
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

import CLibcurl

/// What the libcurl that is loaded can do (`curl_version_info`).
package struct LibcurlFacts: Hashable, Sendable {
    /// `7.88.1`.
    package let version: String
    /// The library for TLS and its version, `OpenSSL/3.0.19`; `nil` without TLS.
    package let tls: String?
    /// What it has of the things this package uses: `HTTP/2`, `brotli` and so on.
    package let features: [String]
    /// What it lacks of those.
    package let missing: [String]

    /// Those of this process.
    package static var current: LibcurlFacts {
        let info = curl_version_info(CURLVERSION_TENTH)?.pointee
        let bits = info.map { UInt32(bitPattern: $0.features) } ?? 0
        func has(_ bit: UInt32) -> Bool { bits & bit != 0 }
        let all: [(String, Bool)] = [
            ("TLS", has(1 << 2)), ("HTTP/2", has(1 << 16)), ("HTTP/3", has(1 << 25)), ("gzip", has(1 << 3)),
            ("br", has(1 << 23)), ("zstd", has(1 << 26)), ("IPv6", has(1 << 0)),
            ("international names", has(1 << 10)), ("public suffixes", has(1 << 20)),
            ("look-ups in the background", has(1 << 7)),
            ("DNS servers", GlobalCurl.hasAres), ("HTTPS proxies", has(1 << 21)),
            ("Unix domain sockets", has(1 << 19)),
        ]
        return LibcurlFacts(
            version: info.map { String(cString: $0.version) } ?? "",
            tls: info?.ssl_version.map { String(cString: $0) },
            features: all.filter(\.1).map(\.0), missing: all.filter { !$0.1 }.map(\.0))
    }
}

import CLibcurl

/// The features of the loaded libcurl (`curl_version_info`), and the consequences of those it lacks.
package struct LibcurlInfo: Hashable, Sendable {
    /// The version, `7.88.1`.
    package let version: String
    /// The TLS library and its version, `OpenSSL/3.0.19`; `nil` without TLS.
    package let tls: String?
    /// The available features, of those that this package reports: `HTTP/2`, `br` and so on.
    package let features: [String]
    /// The missing features, of those that this package reports.
    package let missing: [String]
    /// What follows from the missing features: settings that are refused when a manager is made or a call is sent, and
    /// changed behaviour.
    package let consequences: [Consequence]

    /// The consequence of a missing feature.
    package struct Consequence: Hashable, Sendable {
        /// One of ``LibcurlInfo/missing``.
        package let feature: String
        /// The refused setting as it is written in code, `version = .http3`; `nil` when none is refused.
        package let refused: String?
        /// The effect, in a sentence.
        package let effect: String
    }

    /// A feature that this package reports: one that it uses, or one that it implements itself.
    struct Feature {
        let name: String
        let isThere: Bool
        /// The setting that is refused without it.
        var refused: String?
        /// What happens without it.
        let effect: String
    }

    init(version: String, tls: String?, _ all: [Feature]) {
        self.version = version
        self.tls = tls
        features = all.filter(\.isThere).map(\.name)
        let lacking = all.filter { !$0.isThere }
        missing = lacking.map(\.name)
        consequences = lacking.map { Consequence(feature: $0.name, refused: $0.refused, effect: $0.effect) }
    }

    /// The facts of the libcurl in this process.
    package static var current: LibcurlInfo {
        let info = GlobalCurl.info
        return LibcurlInfo(
            version: (info?.pointee.version).map { String(cString: $0) } ?? "",
            tls: (info?.pointee.ssl_version).map { String(cString: $0) },
            all(UInt32(bitPattern: info?.pointee.features ?? 0), protocols, hasAres: GlobalCurl.hasAres))
    }

    /// Returns all features that this package reports.
    ///
    /// - Parameter bits: `curl_version_info_data.features`.
    static func all(_ bits: UInt32, _ protocols: Set<String>, hasAres: Bool) -> [Feature] {
        func has(_ bit: UInt32) -> Bool { bits & (1 << bit) != 0 }
        // The engine decodes by itself, whatever libcurl was built with.
        func coding(_ name: String, _ package: String) -> Feature {
            Feature(
                name: name, isThere: ContentCodings.hasDecoder(name),
                effect: "responses are not requested in \(name); install \(package)")
        }
        return [
            Feature(name: "TLS", isThere: has(2), refused: "https URLs", effect: "nothing can be sent to https URLs"),
            Feature(
                name: "HTTP/2", isThere: has(16), refused: "version = .http2PriorKnowledge",
                effect: "requests use HTTP/1.1"),
            Feature(
                name: "HTTP/3", isThere: has(25), refused: "version = .http3 and .http3Only",
                effect: "requests use HTTP/2 or HTTP/1.1"),
            coding("gzip", "zlib1g"), coding("br", BrotliLibrary.package), coding("zstd", ZstdLibrary.package),
            Feature(name: "IPv6", isThere: has(0), effect: "hosts with IPv6 addresses only cannot be reached"),
            Feature(
                name: "international names", isThere: has(10) || HostName.canBeWritten,
                refused: "hosts with letters beyond ASCII", effect: "write such hosts in Punycode (xn--…)"),
            Feature(
                // The manager's jar loads libpsl itself, whatever libcurl was built with.
                name: "public suffixes", isThere: PublicSuffixList.shared != nil, refused: "cookies other than .off",
                effect: "no cookies are kept, as one could be set for all of .com; install libpsl (Debian: libpsl5)"),
            Feature(
                name: "asynchronous name look-ups", isThere: has(7),
                effect: "each name look-up blocks all transfers of its manager"),
            Feature(
                name: "DNS servers", isThere: hasAres, refused: "nameResolver = .servers",
                effect: "names are looked up by the system, or over HTTPS"),
            Feature(
                name: "DNS over HTTPS", isThere: takesResolverURL, refused: "nameResolver = .https",
                effect: "names are looked up by the system"),
            Feature(
                name: "HTTPS proxies", isThere: has(21), refused: "proxy = .url(\"https://…\")",
                effect: "proxies are reached over HTTP or SOCKS only"),
            Feature(
                name: "Unix domain sockets", isThere: has(19), refused: "unixSocketPath",
                effect: "hosts are reached by TCP only"),
            // This package does not use libcurl's own implementation of these; they are listed for information.
            Feature(name: "HSTS", isThere: has(28), effect: "none; the manager has its own implementation"),
            Feature(name: "alt-svc", isThere: has(24), effect: "none; the manager has its own implementation"),
            Feature(
                name: "WebSocket", isThere: protocols.contains("ws"),
                effect: "none; LATRealtime has its own implementation"),
        ]
    }

    private static var protocols: Set<String> {
        var names = Set<String>()
        var next = GlobalCurl.info?.pointee.protocols
        while let name = next?.pointee {
            names.insert(String(cString: name))
            next = next?.advanced(by: 1)
        }
        return names
    }

    /// Whether libcurl supports DNS over HTTPS. It has no feature bit, but a libcurl without it refuses the option.
    private static var takesResolverURL: Bool {
        guard let handle = curl_easy_init() else { return false }
        defer { curl_easy_cleanup(handle) }
        return lat_setopt_string(handle, CURLOPT_DOH_URL, "https://127.0.0.1/") == CURLE_OK
    }
}

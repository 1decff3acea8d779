import FoundationEssentials

/// The real servers that `scripts/test` starts. Tests that need one are skipped without it.
enum Servers {
    static let nginx = value("LAT_TEST_NGINX_HTTP")
    static let nginxTLS = value("LAT_TEST_NGINX_HTTPS")
    static let nginxClearHTTP2 = value("LAT_TEST_NGINX_H2C")
    static let nginxGoAway = value("LAT_TEST_NGINX_GOAWAY")
    static let authority = value("LAT_TEST_CA")
    static let httpbin = value("LAT_TEST_HTTPBIN")

    private static func value(_ name: String) -> String? { ProcessInfo.processInfo.environment[name] }
}

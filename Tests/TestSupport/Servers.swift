import FoundationEssentials

/// The real servers that `scripts/test` starts. Tests that need one are skipped without it.
package enum Servers {
    package static let nginx = value("LAT_TEST_NGINX_HTTP")
    package static let nginxTLS = value("LAT_TEST_NGINX_HTTPS")
    package static let nginxClearHTTP2 = value("LAT_TEST_NGINX_H2C")
    package static let nginxGoAway = value("LAT_TEST_NGINX_GOAWAY")
    package static let authority = value("LAT_TEST_CA")
    package static let httpbin = value("LAT_TEST_HTTPBIN")
    package static let forms = value("LAT_TEST_FORMS")

    private static func value(_ name: String) -> String? { ProcessInfo.processInfo.environment[name] }
}

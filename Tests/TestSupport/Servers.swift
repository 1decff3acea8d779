import FoundationEssentials
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test when nginx is not running.
    package static var needsNginx: Self {
        .enabled(
            if: Servers.nginx != nil && Servers.nginxTLS != nil && Servers.authority != nil,
            "needs nginx; scripts/test starts it")
    }

    /// Skips a test when httpbin is not running.
    package static var needsHTTPBin: Self {
        .enabled(if: Servers.httpbin != nil, "needs httpbin; scripts/test starts it")
    }
}

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

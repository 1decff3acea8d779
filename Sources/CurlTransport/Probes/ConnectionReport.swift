package import HTTPCore

/// How a connection is tried.
package struct ConnectionOptions: Hashable, Sendable {
    /// Whether the server's certificate is checked. Default `true`; `false` is for looking at one that fails, and sends
    /// nothing over it.
    package var verifiesCertificate = true

    package init() {}
}

/// What came of a connection that was tried and closed again.
package struct ConnectionReport: Sendable {
    /// The address that was connected to: the proxy's when there is one; `nil` when none answered.
    package var address: String?
    /// The port that was connected to; 0 when none was.
    package var port = 0
    /// The address of this side.
    package var localAddress: String?
    /// How long the name, the connection and the TLS handshake took.
    package var timings = Timings.none
    /// Why there is no connection; `nil` when there was one.
    package var error: NetworkError?
    /// The system's error for the connection that was tried last (`CURLINFO_OS_ERRNO`); 0 for none.
    package var systemError: Int32 = 0
    /// What a SOCKS proxy said of the way behind it (`CURLINFO_PROXY_ERROR`); `nil` when it said nothing.
    package var proxyVerdict: ProxyVerdict?
    /// Whether the name was resolved when it failed.
    package var isResolved = true
    /// The proxy the way led through, without its password; `nil` for none.
    package var proxy: String?
    /// The certificates that the server sent, its own first.
    package var certificates: [CertificateFacts] = []

    package init(error: NetworkError? = nil) { self.error = error }

    /// How long the connection took, without the look-up of the name; with the handshake of the proxy when there is
    /// one.
    package var latency: Duration? {
        guard error == nil else { return nil }
        let connect = timings.connect ?? timings.total ?? .zero
        return max(.microseconds(1), connect - min(connect, timings.nameLookup ?? .zero))
    }
}

/// What a SOCKS proxy says of a server it could not connect to (RFC 1928 §6).
package enum ProxyVerdict: Hashable, Sendable {
    /// The name was not found.
    case nameNotFound
    /// The server refused.
    case refused
    /// There is no way from the proxy to the server.
    case unreachable
    /// The server did not answer.
    case expired
    /// The proxy itself said no, or broke off.
    case failed
}

/// What a certificate says of itself, in OpenSSL's words (`CURLINFO_CERTINFO`).
package struct CertificateFacts: Hashable, Sendable {
    /// Whom it is for: `CN = example.org`.
    package var subject = ""
    /// Who signed it.
    package var issuer = ""
    /// From when it is valid: `Nov 21 00:00:00 2026 GMT`.
    package var validFrom = ""
    /// Until when it is valid.
    package var validUntil = ""
    /// The names it is for: `example.org`, `*.example.org`, `127.0.0.1`.
    package var names: [String] = []

    package init(_ lines: [String]) {
        for line in lines {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = String(line[line.index(after: colon)...])
            switch line[..<colon] {
            case "Subject": subject = value
            case "Issuer": issuer = value
            case "Start date": validFrom = value
            case "Expire date": validUntil = value
            case "X509v3 Subject Alternative Name": names = Self.names(value)
            default: break
            }
        }
    }

    /// `DNS:example.org, IP Address:127.0.0.1`.
    private static func names(_ text: String) -> [String] {
        text.split(separator: ",").compactMap { entry in
            let entry = entry.drop { $0 == " " }
            guard let colon = entry.firstIndex(of: ":") else { return nil }
            return entry[entry.index(after: colon)...].split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
    }
}

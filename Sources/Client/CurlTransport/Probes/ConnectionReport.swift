package import HTTPCore

/// The settings of a connection probe.
package struct ConnectionOptions: Hashable, Sendable {
    /// Whether the server's certificate is verified. Default `true`. `false` is for reading a certificate that fails
    /// verification; no request is sent over such a connection.
    package var verifiesCertificate = true

    package init() {}
}

/// The result of a connection probe, which opens a connection and closes it again.
package struct ConnectionReport: Sendable {
    /// The address that was connected to, which is the proxy's if one is used; `nil` when no connection was made.
    package var address: String?
    /// The port that was connected to; 0 when no connection was made.
    package var port = 0
    /// The local address of the connection.
    package var localAddress: String?
    /// How long the name look-up, the TCP connection and the TLS handshake took.
    package var timings = Timings.none
    /// Why no connection was made; `nil` when one was.
    package var error: NetworkError?
    /// The system's error of the last connection attempt (`CURLINFO_OS_ERRNO`); 0 for none.
    package var systemError: Int32 = 0
    /// The failure that a SOCKS proxy reported (`CURLINFO_PROXY_ERROR`); `nil` for none.
    package var proxyVerdict: ProxyFailure?
    /// Whether the host name had been resolved when the probe failed.
    package var isResolved = true
    /// The URL of the proxy, without its password; `nil` for none.
    package var proxy: String?
    /// The certificates that the server sent, its own first.
    package var certificates: [CertificateInfo] = []

    package init(error: NetworkError? = nil) { self.error = error }

    /// The time to connect, without the name look-up but with a proxy's handshake; `nil` when no connection was made.
    package var latency: Duration? {
        guard error == nil else { return nil }
        let connect = timings.connect ?? timings.total ?? .zero
        return max(.microseconds(1), connect - min(connect, timings.nameLookup ?? .zero))
    }
}

/// Why a SOCKS proxy could not connect to the server (RFC 1928 §6).
package enum ProxyFailure: Hashable, Sendable {
    /// The proxy could not resolve the name.
    case nameNotFound
    /// The server refused the connection.
    case refused
    /// The proxy has no route to the server.
    case unreachable
    /// The time to live (TTL) of the packets expired on the way to the server.
    case expired
    /// The proxy refused the request or closed the connection.
    case failed
}

/// The fields of a certificate, in OpenSSL's notation (`CURLINFO_CERTINFO`).
package struct CertificateInfo: Hashable, Sendable {
    /// The subject: `CN = example.org`.
    package var subject = ""
    /// The issuer.
    package var issuer = ""
    /// The start of its validity: `Nov 21 00:00:00 2026 GMT`.
    package var validFrom = ""
    /// The end of its validity.
    package var validUntil = ""
    /// The subject's alternative names: `example.org`, `*.example.org`, `127.0.0.1`.
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

    /// Parses `DNS:example.org, IP Address:127.0.0.1`.
    private static func names(_ text: String) -> [String] {
        text.split(separator: ",").compactMap { entry in
            let entry = entry.drop { $0 == " " }
            guard let colon = entry.firstIndex(of: ":") else { return nil }
            return entry[entry.index(after: colon)...].split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
    }
}

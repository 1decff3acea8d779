public import FoundationEssentials
public import HTTPCore

/// How servers are verified, and how the client identifies itself.
///
/// ```swift
/// configuration.tls.caFile = "ca.pem"
/// configuration.tls.pins = ["api.example.com": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]]
/// configuration.tls.clientCertificate = .pkcs12(path: "id.p12", password: "…")
/// ```
///
/// All settings are checked when the manager is made. A missing file, a wrong password or an unknown cipher fails there
/// with ``NetworkError/Kind/invalidRequest``. HTTPS proxies are verified with the same authorities and versions; pins
/// and the client certificate are for servers only.
public struct TLSConfiguration: Hashable, Sendable {
    /// A PEM file of trusted certificates, in place of the system's (`CURLOPT_CAINFO`). Default `nil`.
    ///
    /// The file is read and parsed once per manager, and so are the system's certificates. If the file has changed when a
    /// connection is opened, its new content counts for that connection; a file of more than 64 KiB is read in the background
    /// and counts for later ones. If it has become unusable, ``EngineConfiguration/warningHandler`` is called, and the
    /// certificates read before remain in use.
    public var caFile: String?
    /// Trusted certificates in PEM, in place of the system's (`CURLOPT_CAINFO_BLOB`). They are added to ``caFile``.
    /// Default `nil`.
    public var caData: Data?
    /// The public keys that hosts must have, each as `sha256//` and the Base64 of the SHA-256 of its
    /// SubjectPublicKeyInfo. One match is enough (`CURLOPT_PINNEDPUBLICKEY`). Default none.
    ///
    /// Hosts are named without port. `*.example.com` matches names with exactly one more label, as in certificates; an
    /// entry for the host itself takes precedence. A domain's pins in the domain table, or a request's, replace these.
    /// Pins apply in addition to the verification of certificates, and also when that is disabled.
    public var pins: [String: [String]] = [:]
    /// The certificate that the client sends to a server that requests one. Default `nil`.
    ///
    /// When its files have changed, requests made afterwards open new connections with the new certificate; running transfers
    /// continue. If a file has become unusable, ``EngineConfiguration/warningHandler`` is called, and the certificate read
    /// before remains in use.
    public var clientCertificate: ClientCertificate?
    /// The oldest version that is offered (`CURLOPT_SSLVERSION`). Default ``TLSVersion/v1_2``; older ones are
    /// deprecated (RFC 8996) and not available.
    public var minimumVersion = TLSVersion.v1_2
    /// The newest version that is offered. Default `nil`: the newest of the TLS library.
    public var maximumVersion: TLSVersion?
    /// The ciphers for TLS 1.2 in OpenSSL's notation, `ECDHE+AESGCM:!aNULL` (`CURLOPT_SSL_CIPHER_LIST`). Default `nil`:
    /// libcurl's.
    public var cipherList: String?
    /// The cipher suites for TLS 1.3, `TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256`
    /// (`CURLOPT_TLS13_CIPHERS`). Default `nil`: the TLS library's.
    public var cipherSuites: String?
    /// Whether handshakes may resume earlier sessions (RFC 8446 §2.2, `CURLOPT_SSL_SESSIONID_CACHE`). Default `true`.
    ///
    /// The newest session of each of the last 1,024 hosts is kept in memory. ``requiresOCSPStapling`` disables resumption.
    public var reusesSessions = true
    /// Whether a server must prove by a stapled OCSP response that its certificate is not revoked (RFC 6066 §8,
    /// `CURLOPT_SSL_VERIFYSTATUS`). Default `false`.
    ///
    /// A missing or invalid response fails with ``NetworkError/TLSFailure/certificateStatus``, a revoked certificate
    /// with ``NetworkError/TLSFailure/revoked``. The server must also send the certificate of the issuing authority, as
    /// servers with an intermediate authority do. HTTPS proxies are not checked. Each connection then has a full
    /// handshake, because a resumed one carries no OCSP response. Making a manager fails with
    /// ``NetworkError/Kind/unsupported`` when libcurl's TLS library lacks this.
    public var requiresOCSPStapling = false
    /// A file with revocation lists (CRLs) in PEM, or one in DER, with which the certificates of servers are checked, in the
    /// manner of `CURLOPT_CRLFILE`: there must be a list of each authority in the chain. Read again when it has changed; one
    /// that has become unusable is reported to ``EngineConfiguration/warningHandler``, and the earlier lists stay. With a
    /// file, nothing is fetched. Default `nil`.
    public var crlFile: String?
    /// The `http` URL of the revocation list, in place of those that the certificates name. Default `nil`.
    public var crlURL: String?
    /// Whether the certificates of servers are checked for revocation. Default `nil`: ``HTTPRequest/TLS/Revocation/hard`` with
    /// ``crlFile`` or ``crlURL``, else not. HTTPS proxies are not checked. Each connection then has a full handshake.
    public var revocation: HTTPRequest.TLS.Revocation?
    /// Whether the secrets of connections are written to a file, with which programs such as Wireshark decrypt recorded
    /// traffic. Default ``TLSConfiguration/KeyLog/off``.
    public var keyLog = KeyLog.off
    /// Whether certificates are verified. Default `true`; only ``disableCertificateVerification()`` changes it.
    public private(set) var verifiesCertificates = true

    /// Makes a configuration with the system's authorities, and TLS 1.2 and newer.
    public init() {}

    /// Accepts every certificate, from any issuer and for any host. Anyone on the network path can then read and change
    /// all traffic.
    ///
    /// For tests against one's own server; ``caFile`` or ``pins`` is nearly always better. Each manager with this
    /// setting warns once, through ``EngineConfiguration/warningHandler`` or on standard error.
    public mutating func disableCertificateVerification() { verifiesCertificates = false }
}

extension TLSConfiguration {
    package var revocationCheck: HTTPRequest.TLS.Revocation {
        revocation ?? (crlFile == nil && crlURL == nil ? .off : .hard)
    }

    /// Where the secrets of TLS connections are written, in the NSS format that Wireshark reads.
    ///
    /// Anyone with the file can decrypt the traffic. Lines are appended; a new file is readable by its owner only (0600).
    /// Each manager that writes one warns once, through ``EngineConfiguration/warningHandler`` or on standard error.
    public enum KeyLog: Hashable, Sendable {
        /// To no file, even if `SSLKEYLOGFILE` is set in the environment. libcurl may create that file, but it stays empty.
        case off
        /// To the file that `SSLKEYLOGFILE` names when the manager is made; to none when it is not set.
        case environment
        /// To a file. Making the manager fails with ``NetworkError/Kind/invalidRequest`` when it cannot be written.
        case file(path: String)
    }
}

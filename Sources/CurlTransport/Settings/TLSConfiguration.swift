public import FoundationEssentials

/// How servers' certificates are checked, and how this client shows who it is.
///
/// ```swift
/// configuration.tls.caFile = "ca.pem"
/// configuration.tls.pins = ["api.example.com": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]]
/// configuration.tls.clientCertificate = .pkcs12(path: "id.p12", password: "…")
/// ```
///
/// All of it is looked at when the manager is made: a file that is missing, a password that does not open it, a name of
/// no cipher fail there, with ``NetworkError/Kind/invalidRequest``. HTTPS proxies are held to the same authorities
/// and versions; pins and the client's certificate are for servers only.
public struct TLSConfiguration: Hashable, Sendable {
    /// A PEM file of trusted certificates, in place of the system's (`CURLOPT_CAINFO`). Default `nil`.
    ///
    /// It is read and parsed once for a manager, as the system's are. When the file has changed by the time a connection
    /// is opened, it is read again in the background: what it holds then counts for the connections opened after that. A
    /// file that has become unusable is told to ``EngineConfiguration/warningHandler``, and those read before still count.
    public var caFile: String?
    /// Trusted certificates in PEM, in place of the system's (`CURLOPT_CAINFO_BLOB`); together with ``caFile`` both count.
    /// Default `nil`.
    public var caData: Data?
    /// The public keys that hosts must have, each as `sha256//` and the Base64 of the SHA-256 of its SubjectPublicKeyInfo;
    /// one of the list is enough (`CURLOPT_PINNEDPUBLICKEY`). Default none.
    ///
    /// A host is named without port. `*.example.com` stands for the names with one label more, as in certificates; a
    /// host that is named itself wins over it. Pins of a domain row or a request replace these. They narrow what the
    /// certificate check lets through, and count when that is switched off.
    public var pins: [String: [String]] = [:]
    /// What the client shows a server that asks who it is. Default `nil`.
    public var clientCertificate: ClientCertificate?
    /// The oldest version that is spoken (`CURLOPT_SSLVERSION`). Default ``TLSVersion/v1_2``; older ones are deprecated
    /// (RFC 8996) and not offered.
    public var minimumVersion = TLSVersion.v1_2
    /// The newest version that is spoken. Default `nil`: what the TLS library has.
    public var maximumVersion: TLSVersion?
    /// The ciphers for TLS 1.2 in OpenSSL's notation, `ECDHE+AESGCM:!aNULL` (`CURLOPT_SSL_CIPHER_LIST`). Default `nil`:
    /// libcurl's.
    public var cipherList: String?
    /// The cipher suites for TLS 1.3, `TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256`
    /// (`CURLOPT_TLS13_CIPHERS`). Default `nil`: the TLS library's.
    public var cipherSuites: String?
    /// Whether a handshake may take up the session of an earlier one (RFC 8446 §2.2, `CURLOPT_SSL_SESSIONID_CACHE`).
    /// Default `true`.
    ///
    /// The newest session of each of the last 1,024 hosts is kept in memory. ``requiresOCSPStapling`` switches it off.
    public var reusesSessions = true
    /// Whether a server must send along that its certificate was not revoked, signed by its authority (OCSP stapling,
    /// RFC 6066 §8, `CURLOPT_SSL_VERIFYSTATUS`). Default `false`.
    ///
    /// A server that sends nothing, or nothing valid, fails with ``NetworkError/TLSFailure/certificateStatus``, one whose
    /// certificate was revoked with ``NetworkError/TLSFailure/revoked``. The server has to send the
    /// certificate of that authority too, as those do whose chain has an intermediate one. HTTPS proxies are not asked. Every connection has
    /// a full handshake then, since a session that is taken up again brings no such answer. Fails with
    /// ``NetworkError/Kind/unsupported`` when libcurl's TLS library cannot.
    public var requiresOCSPStapling = false
    /// Whether the secrets of connections are written to a file, for programs that decrypt a recorded connection, such as
    /// Wireshark. Default ``TLSKeyLog/off``.
    public var keyLog = TLSKeyLog.off
    /// Whether certificates are verified. Only ``disableCertificateVerification()`` makes it `false`.
    public private(set) var verifiesCertificates = true

    /// The system's authorities, TLS 1.2 and newer.
    public init() {}

    /// Accepts every certificate, whoever signed it and whatever host it is for. Anybody on the way can then read and
    /// change everything.
    ///
    /// For tests against a server of one's own; ``caFile`` or ``pins`` is nearly always the better way. Each manager
    /// made so says it once, to ``EngineConfiguration/warningHandler`` or on standard error.
    public mutating func disableCertificateVerification() { verifiesCertificates = false }
}

/// A version of TLS.
public enum TLSVersion: String, Hashable, Sendable, Comparable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v1_2 = "TLS 1.2"
    /// TLS 1.3 (RFC 8446).
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v1_3 = "TLS 1.3"

    /// Older is less.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs == .v1_2 && rhs == .v1_3 }
}

/// Where the secrets of TLS connections are written, in the format of NSS that Wireshark reads.
///
/// Whoever has the file can read all that was sent. Lines are appended; a file that is not there is made for its owner
/// only (0600). Each manager that writes one says so once, to ``EngineConfiguration/warningHandler`` or on standard error.
public enum TLSKeyLog: Hashable, Sendable {
    /// Nowhere, also when `SSLKEYLOGFILE` is set in the environment. libcurl may make that file, but nothing is in it.
    case off
    /// To the file that `SSLKEYLOGFILE` names when the manager is made; nowhere when it is not set.
    case environment
    /// To a file. One that cannot be written fails with ``NetworkError/Kind/invalidRequest`` when the manager is made.
    case file(path: String)
}

/// A certificate of the client with its private key.
public enum ClientCertificate: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// A PKCS#12 file (`.p12`, `.pfx`) with certificate, key, and the authorities between.
    case pkcs12(path: String, password: String)
    /// PEM files: the certificate, followed by those of the authorities between, and its key. The password is for an
    /// encrypted key.
    case pem(certificate: String, key: String, password: String? = nil)

    /// The paths, without the password.
    public var description: String {
        switch self {
        case .pkcs12(let path, _): "PKCS#12 \(path)"
        case .pem(let certificate, let key, _): "PEM \(certificate) with key \(key)"
        }
    }

    /// Nothing beside ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// How an HTTP proxy is told user and password.
public enum ProxyAuthentication: Hashable, Sendable {
    /// Basic (RFC 7617), at once.
    case basic
    /// Digest (RFC 7616), in answer to the proxy's challenge.
    case digest
    /// The strongest of the schemes that the proxy offers.
    case any
}

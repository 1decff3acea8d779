extension HTTPRequest {
    /// The TLS settings of a request, an entity or a domain's row. A setting that is `nil` comes from the manager.
    ///
    /// ```swift
    /// request.tls = HTTPRequest.TLS(caFile: "ca.pem", clientCertificate: .pkcs12(path: "id.p12", password: "…"))
    /// ```
    ///
    /// The files are read and checked when a request with these settings first needs TLS. A missing file or a wrong password
    /// then fails with ``NetworkError/Kind/invalidRequest``. A connection or TLS session is reused only by requests with equal
    /// settings. They are for the server of the URL: an HTTPS proxy is verified as the manager says.
    public struct TLS: Hashable, Sendable {
        /// A PEM file of trusted certificates, in place of those that the manager trusts. Default `nil`.
        ///
        /// When the file changes, connections that are opened afterwards use its new content. The same holds for the
        /// manager's file and for the files of ``clientCertificate``.
        public var caFile: String?
        /// The certificate that the client sends to a server that requests one. Responses to requests with their own
        /// certificate are cached like those to requests with credentials. Default `nil`.
        public var clientCertificate: ClientCertificate?
        /// The lowest version that is offered. Default `nil`.
        public var minimumVersion: TLSVersion?
        /// The accepted public keys of the server, each as `sha256//` and the Base64 of the SHA-256 of its
        /// SubjectPublicKeyInfo (`CURLOPT_PINNEDPUBLICKEY`); empty for those of the manager alone, whatever the row says.
        /// Default `nil`.
        public var pins: [String]?
        /// A file with revocation lists (CRLs) in PEM, or one in DER, with which the server's certificates are checked: there
        /// must be a list of each authority in the chain. A change of the file counts for the next connection. With a file,
        /// nothing is fetched. Default `nil`.
        public var crlFile: String?
        /// The `http` URL of the revocation list, in place of those that the certificates name, and of a ``crlFile`` of the row
        /// or the manager. Default `nil`.
        public var crlURL: String?
        /// Whether the server's certificates are checked for revocation. Default `nil`: the row's or the manager's choice; else
        /// ``Revocation/hard`` with a ``crlFile`` or ``crlURL``, and not at all without.
        public var revocation: Revocation?
        /// What set the values, for error messages. Ignored when settings are compared.
        package var place: String?

        /// Whether certificates are checked against the revocation lists (CRLs, RFC 5280) of their authorities.
        ///
        /// The lists are those of ``HTTPRequest/TLS/crlFile``, else that of ``HTTPRequest/TLS/crlURL``, else those at the CRL
        /// distribution points of the certificates. Lists from URLs are fetched over `http` when a connection first needs them,
        /// which then begins anew within the request's timeout, and kept in memory until their `nextUpdate`. One that could
        /// not be had is tried again after 1, 5, then every 60 seconds. They must be signed by their authority. The trusted
        /// authority itself is not checked, nor are connections that are open already.
        public enum Revocation: String, Hashable, Sendable, CaseIterable {
            /// Not at all.
            case off
            /// A revoked certificate fails with ``NetworkError/TLSFailure/revoked``. One whose list cannot be had, has expired
            /// or is not valid is accepted: after at most 3 seconds and a quarter of the request's timeout, and at once if a
            /// fetch has failed before. It is counted (`uncheckedCertificates` of the manager's load), and reported once for
            /// each server to the manager's `warningHandler`.
            case soft
            /// Such a certificate fails with ``NetworkError/TLSFailure/certificateStatus``.
            case hard
        }

        /// Makes settings. Each parameter has the default of its property.
        public init(
            caFile: String? = nil, clientCertificate: ClientCertificate? = nil, minimumVersion: TLSVersion? = nil,
            pins: [String]? = nil
        ) {
            self.caFile = caFile
            self.clientCertificate = clientCertificate
            self.minimumVersion = minimumVersion
            self.pins = pins
        }

        /// Compares the settings, and paths byte by byte.
        public static func == (lhs: Self, rhs: Self) -> Bool {
            lhs.caFile.hasSameBytes(as: rhs.caFile) && lhs.clientCertificate == rhs.clientCertificate
                && lhs.minimumVersion == rhs.minimumVersion && lhs.pins == rhs.pins
                && lhs.crlFile.hasSameBytes(as: rhs.crlFile) && lhs.crlURL.hasSameBytes(as: rhs.crlURL)
                && lhs.revocation == rhs.revocation
        }

        /// Hashes the settings.
        public func hash(into hasher: inout Hasher) {
            hasher.combine(caFile)
            hasher.combine(clientCertificate)
            hasher.combine(minimumVersion)
            hasher.combine(pins)
            hasher.combine(crlFile)
            hasher.combine(crlURL)
            hasher.combine(revocation)
        }
    }
}

/// A version of TLS.
public enum TLSVersion: String, Hashable, Sendable, Comparable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v1_2 = "TLS 1.2"
    /// TLS 1.3 (RFC 8446).
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v1_3 = "TLS 1.3"

    /// Whether the left version is older.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs == .v1_2 && rhs == .v1_3 }
}

/// A client certificate with its private key.
public enum ClientCertificate: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// A PKCS#12 file (`.p12`, `.pfx`) with certificate, key, and intermediate certificates.
    case pkcs12(path: String, password: String)
    /// PEM files: the certificate, followed by the intermediate ones, and its key. The password is for an encrypted
    /// key; default `nil`.
    case pem(certificate: String, key: String, password: String? = nil)

    /// Whether paths and password have the same bytes.
    public static func == (lhs: ClientCertificate, rhs: ClientCertificate) -> Bool {
        switch (lhs, rhs) {
        case (.pkcs12(let path, let password), .pkcs12(let otherPath, let otherPassword)):
            path.hasSameBytes(as: otherPath) && password.hasSameBytes(as: otherPassword)
        case (.pem(let certificate, let key, let password), .pem(let other, let otherKey, let otherPassword)):
            certificate.hasSameBytes(as: other) && key.hasSameBytes(as: otherKey)
                && password.hasSameBytes(as: otherPassword)
        case (.pkcs12, _), (.pem, _): false
        }
    }

    /// The paths of the files, without the password.
    public var description: String {
        switch self {
        case .pkcs12(let path, _): "PKCS#12 \(path)"
        case .pem(let certificate, let key, _): "PEM \(certificate) with key \(key)"
        }
    }

    /// An empty mirror, so that reflection shows no password.
    public var customMirror: Mirror { Mirror(self, children: [:]) }

    package func with(password: String) -> ClientCertificate {
        switch self {
        case .pkcs12(let path, _): .pkcs12(path: path, password: password)
        case .pem(let certificate, let key, _): .pem(certificate: certificate, key: key, password: password)
        }
    }
}

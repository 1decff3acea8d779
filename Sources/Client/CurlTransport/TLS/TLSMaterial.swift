import CLibcurl
import Cryptography
import FoundationEssentials
internal import HTTPCore
import Synchronization

/// A checked ``TLSConfiguration`` with the content of its files, ready for libcurl.
///
/// Certificates and keys are in memory from here on, so a file that changes later cannot break a working manager.
final class TLSMaterial: Sendable {
    let configuration: TLSConfiguration
    /// The certificates that verify servers; `nil` when servers are not verified, and when libcurl does not use OpenSSL.
    let trust: TrustStore?
    /// How servers are checked for revocation; `nil` for not at all.
    let revocation: RevocationCheck?
    /// The lists that the engine has fetched.
    let lists: RevocationLists
    /// The authorities in PEM for a TLS library other than OpenSSL; `nil` for the system's.
    let authorities: Data?
    let keyLog: TLSKeyLogFile?
    let identity: Identity?
    /// The digest of the certificate's file, by which the client is known; `nil` without one.
    let identityDigest: String?
    /// The files of ``identity``; `nil` without one.
    let identityFiles: IdentityFiles?
    /// The value of `CURLOPT_SSLVERSION`.
    let versions: Int
    /// Distinguishes the settings of an engine. The engine's own have the number 0 until their client certificate is read
    /// again.
    let number: UInt64
    private let pinsByHost: [String: String]

    private static let count = Atomic<UInt64>(0)

    /// The client's certificate and key, as read from their files.
    enum Identity: Sendable {
        case pkcs12(Data, password: String)
        case pem(certificate: Data, key: Data, password: String?)

        /// `nil` when libcrypto cannot compute it.
        fileprivate var digest: String? {
            let data =
                switch self {
                case .pkcs12(let data, _), .pem(let data, _, _): data
                }
            return (try? MessageDigest.of(data, .sha256)).map(MessageDigest.hexadecimal)
        }
    }

    /// - Parameters:
    ///   - base: The engine's own settings, if the new ones are for a request. Both share the parts that are equal.
    ///   - warn: Receives warnings, also after the initialization.
    init(
        _ configuration: TLSConfiguration, over base: TLSMaterial? = nil, warn: @escaping @Sendable (String) -> Void
    ) throws(NetworkError) {
        // The checks below may use libcurl's OpenSSL, so libcurl starts first.
        try GlobalCurl.start()
        self.configuration = configuration
        let maximum = configuration.maximumVersion
        if let maximum, maximum < configuration.minimumVersion {
            throw .invalidRequest(
                "tls.maximumVersion is \(maximum.rawValue), older than tls.minimumVersion, "
                    + "\(configuration.minimumVersion.rawValue); no version is left, so raise the one or lower the other"
            )
        }
        versions = Self.code(configuration.minimumVersion) | (maximum.map(Self.code) ?? 0) << 16
        pinsByHost = try Self.pins(configuration.pins)
        try Self.checkCiphers(configuration)
        if configuration.requiresOCSPStapling { try Self.checkStapling(configuration) }
        let known = base?.configuration
        if let base, configuration.caFile == known?.caFile, configuration.caData == known?.caData {
            (trust, authorities) = (base.trust, base.authorities)
        } else if OpenSSL.shared != nil {
            let trust = try TrustStore(configuration, warn: warn)
            self.trust = configuration.verifiesCertificates ? trust : nil
            authorities = nil
        } else {
            trust = nil
            authorities = try Self.authorities(configuration)
        }
        lists = base?.lists ?? RevocationLists()
        revocation = try Self.revocation(configuration, trust, lists, warn)
        if let base, configuration.clientCertificate == known?.clientCertificate {
            (identity, identityFiles) = (base.identity, base.identityFiles)
        } else {
            (identity, identityFiles) = try Self.identity(configuration)
        }
        identityDigest = identity?.digest
        keyLog = try base == nil ? TLSKeyLogFile.opened(for: configuration.keyLog, warn: warn) : base?.keyLog
        number = base == nil ? 0 : Self.count.add(1, ordering: .relaxed).newValue
    }

    /// Makes the same settings, with the client certificate read from its files again.
    init(renewing old: TLSMaterial) throws(NetworkError) {
        configuration = old.configuration
        versions = old.versions
        pinsByHost = old.pinsByHost
        (trust, authorities, keyLog) = (old.trust, old.authorities, old.keyLog)
        (revocation, lists) = (old.revocation, old.lists)
        (identity, identityFiles) = try Self.identity(configuration)
        identityDigest = identity?.digest
        number = Self.count.add(1, ordering: .relaxed).newValue
    }

    /// Whether handshakes resume earlier sessions. Only a full handshake brings a stapled OCSP response, and the certificates
    /// that are checked for revocation.
    var resumesSessions: Bool {
        configuration.reusesSessions && !configuration.requiresOCSPStapling && revocation == nil
    }

    private static func revocation(
        _ configuration: TLSConfiguration, _ trust: TrustStore?, _ lists: RevocationLists,
        _ warn: @escaping @Sendable (String) -> Void
    ) throws(NetworkError) -> RevocationCheck? {
        guard configuration.revocationCheck != .off else { return nil }
        guard configuration.verifiesCertificates else {
            throw .invalidRequest(
                "tls.revocation needs certificates to be verified; leave out disableCertificateVerification()")
        }
        guard trust != nil else {
            throw NetworkError(
                .unsupported, message: "tls.revocation: this libcurl does not use OpenSSL 3; use one that does")
        }
        return try RevocationCheck(configuration, lists, warn: warn)
    }

    private static func code(_ version: TLSVersion) -> Int {
        switch version {
        case .v1_2: Int(CURL_SSLVERSION_TLSv1_2)
        case .v1_3: Int(CURL_SSLVERSION_TLSv1_3)
        }
    }

    // MARK: Pins

    /// Returns the pins of a host in the notation of `CURLOPT_PINNEDPUBLICKEY`; `nil` for none.
    func pins(forHost host: String) -> String? { Self.pins(forHost: host, in: pinsByHost) }

    /// Returns the pins of a host: those for its own name, or else those for its name with `*` as the first label.
    ///
    /// - Parameter byHost: The pins by the names of hosts in lower case.
    static func pins<Pins>(forHost host: String, in byHost: [String: Pins]) -> Pins? {
        guard !byHost.isEmpty else { return nil }
        var name = HostName.bare(host)
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        if let own = byHost[name] { return own }
        guard let dot = name.firstIndex(of: "."), dot != name.startIndex else { return nil }
        return byHost["*" + name[dot...]]
    }

    private static func pins(_ pins: [String: [String]]) throws(NetworkError) -> [String: String] {
        var byHost: [String: String] = [:]
        for (host, keys) in pins {
            guard isHost(host) else {
                throw .invalidRequest(
                    "tls.pins: \"\(host)\" is not a host; write its name or address without scheme and port, or "
                        + "*.example.com")
            }
            guard !keys.isEmpty else {
                throw .invalidRequest("tls.pins: \"\(host)\" has no key; add one, or leave the host out")
            }
            byHost[host.lowercased()] = try joined(keys, "tls.pins: \"\(host)\"")
        }
        return byHost
    }

    private static func isHost(_ host: String) -> Bool {
        let name = host.hasPrefix("*.") ? host.dropFirst(2) : host[...]
        if IPAddress(String(name)) != nil { return name.count == host.count }
        return !name.isEmpty
            && name.utf8.allSatisfy { byte in
                byte > 0x20 && byte != 0x7F && !":/?#[]@*\\".utf8.contains(byte)
            }
    }

    /// Joins pins for libcurl. A malformed pin must not reach it: libcurl would read it as the path of a key.
    static func joined(_ keys: [String], _ place: String) throws(NetworkError) -> String {
        for key in keys where !isPin(key) {
            throw .invalidRequest(
                "\(place): \"\(key)\" is not a pin; expected sha256// and the Base64 of the 32 bytes of a SHA-256")
        }
        return keys.joined(separator: ";")
    }

    private static func isPin(_ key: String) -> Bool {
        guard key.hasPrefix("sha256//") else { return false }
        return Data(base64Encoded: String(key.dropFirst("sha256//".count)))?.count == 32
    }

    // MARK: Files

    private static func checkCiphers(_ configuration: TLSConfiguration) throws(NetworkError) {
        if let list = configuration.cipherList, OpenSSL.knows(cipherList: list) == false || list.isEmpty {
            throw .invalidRequest(
                "tls.cipherList \"\(list)\" names no TLS 1.2 cipher that OpenSSL knows; `openssl ciphers -s -tls1_2` lists them"
            )
        }
        if let suites = configuration.cipherSuites, OpenSSL.knows(cipherSuites: suites) == false || suites.isEmpty {
            throw .invalidRequest(
                "tls.cipherSuites \"\(suites)\" names an unknown TLS 1.3 cipher suite; `openssl ciphers -s -tls1_3` lists them"
            )
        }
    }

    private static func checkStapling(_ configuration: TLSConfiguration) throws(NetworkError) {
        guard configuration.verifiesCertificates else {
            throw .invalidRequest(
                "tls.requiresOCSPStapling needs certificates to be verified; leave out disableCertificateVerification()"
            )
        }
        guard let handle = curl_easy_init() else { throw EngineFailure.noResources("memory for libcurl") }
        defer { curl_easy_cleanup(handle) }
        guard lat_setopt_long(handle, CURLOPT_SSL_VERIFYSTATUS, 1) == CURLE_OK else {
            throw NetworkError(
                .unsupported,
                message: "tls.requiresOCSPStapling: this libcurl's TLS library lacks it; use a libcurl with OpenSSL")
        }
    }

    private static func authorities(_ configuration: TLSConfiguration) throws(NetworkError) -> Data? {
        var pem = Data()
        if let data = configuration.caData {
            try check("tls.caData") { () throws(CertificateFile.Problem) in
                try CertificateFile.countCertificates(in: data)
            }
            pem = data
        }
        guard let path = configuration.caFile else { return pem.isEmpty ? nil : pem }
        let file = try SettingsFile(path, setting: "tls.caFile").data
        try check("tls.caFile \"\(path)\"") { () throws(CertificateFile.Problem) in
            try CertificateFile.countCertificates(in: file)
        }
        return pem + Data("\n".utf8) + file
    }

    private static func identity(
        _ configuration: TLSConfiguration
    ) throws(NetworkError) -> (Identity?, IdentityFiles?) {
        let place = "tls.clientCertificate"
        switch configuration.clientCertificate {
        case nil: return (nil, nil)
        case .pkcs12(let path, let password):
            let file = try SettingsFile(path, setting: place)
            let data = try check("\(place) \"\(path)\"") { () throws(CertificateFile.Problem) in
                try CertificateFile.checkedPKCS12(file.data, password: password)
            }
            return (.pkcs12(data, password: password), IdentityFiles([file]))
        case .pem(let certificatePath, let keyPath, let password):
            let certificate = try SettingsFile(certificatePath, setting: place)
            let key = try SettingsFile(keyPath, setting: "\(place), key")
            try check("\(place) \"\(certificatePath)\" (key \"\(keyPath)\")") { () throws(CertificateFile.Problem) in
                try CertificateFile.checkPEM(certificate: certificate.data, key: key.data, password: password)
            }
            return (
                .pem(certificate: certificate.data, key: key.data, password: password),
                IdentityFiles([certificate, key])
            )
        }
    }

    @discardableResult
    private static func check<Value>(
        _ place: String, _ body: () throws(CertificateFile.Problem) -> Value
    ) throws(NetworkError) -> Value {
        do throws(CertificateFile.Problem) {
            return try body()
        } catch {
            throw .invalidRequest("\(place) \(error.reason)")
        }
    }
}

/// The files of a client certificate, and their stamps when they were last read.
final class IdentityFiles: Sendable {
    private let paths: [String]
    private let stamps: Mutex<[FileStamp]>

    init(_ files: [SettingsFile]) {
        paths = files.map(\.path)
        stamps = Mutex(files.map(\.stamp))
    }

    /// Whether a file has changed since the last call. A file that is missing, because it
    /// is being replaced, does not count as changed.
    func haveChanged() -> Bool {
        let now = paths.compactMap(FileStamp.init(path:))
        return stamps.withLock { stamps in
            guard now.count == paths.count, now != stamps else { return false }
            stamps = now
            return true
        }
    }
}

/// The checked TLS settings of an engine: its own, and those of requests that have some.
final class TLSMaterials: Sendable {
    private struct State {
        /// The engine's own settings with the client certificate as it was last read.
        var own: TLSMaterial
        var ofRequests: [HTTPRequest.TLS: TLSMaterial] = [:]
    }

    /// The engine's own settings as they were when it was made.
    let own: TLSMaterial
    private let warn: @Sendable (String) -> Void
    private let state: Mutex<State>

    /// The largest number of requests' settings that are kept. Beyond that they are read anew.
    static let limit = 64

    init(_ own: TLSMaterial, warn: @escaping @Sendable (String) -> Void) {
        self.own = own
        self.warn = warn
        state = Mutex(State(own: own))
    }

    /// Returns the settings of a request, read and checked at their first use, and again when the files of the client
    /// certificate have changed; `nil` when they are ``own``.
    func material(for settings: HTTPRequest.TLS) throws(NetworkError) -> TLSMaterial? {
        var tls = settings
        // libcurl compares the pins on each connection; see `TransferPlan.pins`.
        tls.pins = nil
        let own = own.identityFiles == nil ? own : currentOwn()
        guard tls.isSet else { return own === self.own ? nil : own }
        if let known = state.withLock({ $0.ofRequests[tls] }) {
            guard let files = known.identityFiles, files !== own.identityFiles, files.haveChanged(),
                let new = renewed(known)
            else { return known }
            state.withLock { $0.ofRequests[tls] = new }
            return new
        }
        var configuration = own.configuration
        // The address of a narrower level counts, although a file would come first on its own level.
        if tls.crlFile != nil || tls.crlURL != nil { configuration.crlFile = tls.crlFile }
        if let url = tls.crlURL { configuration.crlURL = url }
        if let revocation = tls.revocation { configuration.revocation = revocation }
        if let file = tls.caFile { (configuration.caFile, configuration.caData) = (file, nil) }
        if let certificate = tls.clientCertificate { configuration.clientCertificate = certificate }
        if let version = tls.minimumVersion { configuration.minimumVersion = version }
        let material: TLSMaterial
        do throws(NetworkError) {
            material = try TLSMaterial(configuration, over: own, warn: warn)
        } catch {
            guard let place = tls.place else { throw error }
            throw NetworkError(error.kind, message: "\(error.message) (\(place))")
        }
        return state.withLock { state in
            // Another thread may have been faster.
            if let known = state.ofRequests[tls] { return known }
            // The engine's certificate was renewed meanwhile, so the request's settings are not kept.
            guard state.own === own else { return material }
            if state.ofRequests.count >= Self.limit { state.ofRequests = [:] }
            state.ofRequests[tls] = material
            return material
        }
    }

    /// The digest of the client certificate that requests with these settings send; `nil` for none that can be read.
    func identityDigest(for settings: HTTPRequest.TLS) -> String? {
        do {
            return try (material(for: settings) ?? own).identityDigest
        } catch {
            return nil
        }
    }

    /// The engine's own settings, read again if the files of the client certificate have changed.
    private func currentOwn() -> TLSMaterial {
        let known = state.withLock(\.own)
        guard known.identityFiles?.haveChanged() == true, let new = renewed(known) else { return known }
        state.withLock { state in
            state.own = new
            // Requests without a certificate of their own send the engine's, so their settings must have the new one.
            state.ofRequests = state.ofRequests.filter { $0.value.identityFiles !== known.identityFiles }
        }
        return new
    }

    /// Returns the same settings with the client certificate read again; `nil`, after a warning, when it is unusable.
    private func renewed(_ material: TLSMaterial) -> TLSMaterial? {
        do throws(NetworkError) {
            return try TLSMaterial(renewing: material)
        } catch {
            warn("\(error.message); the client certificate that was read before remains in use")
            return nil
        }
    }
}

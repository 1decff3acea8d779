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
    /// The authorities in PEM for a TLS library other than OpenSSL; `nil` for the system's.
    let authorities: Data?
    let keyLog: TLSKeyLogFile?
    let identity: Identity?
    /// The value of `CURLOPT_SSLVERSION`.
    let versions: Int
    /// Distinguishes the settings of an engine. The engine's own have the number 0.
    let number: UInt64
    private let pinsByHost: [String: String]

    private static let count = Atomic<UInt64>(0)

    /// The client's certificate and key, as read from their files.
    enum Identity: Sendable {
        case pkcs12(Data, password: String)
        case pem(certificate: Data, key: Data, password: String?)
    }

    /// - Parameters:
    ///   - base: The engine's own settings, when these are a request's. What both have in common is shared.
    ///   - warn: Receives warnings, also after the initialization.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the setting, ``NetworkError/Kind/unsupported`` for
    ///   what this libcurl cannot do.
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
                    + "\(configuration.minimumVersion.rawValue); no version is left")
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
        if let base, configuration.clientCertificate == known?.clientCertificate {
            identity = base.identity
        } else {
            identity = try configuration.clientCertificate.map { certificate throws(NetworkError) in
                try Self.identity(certificate)
            }
        }
        if let base {
            keyLog = base.keyLog
        } else {
            keyLog = try TLSKeyLogFile.opened(for: configuration.keyLog, warn: warn)
        }
        number = base == nil ? 0 : Self.count.add(1, ordering: .relaxed).newValue
    }

    /// Whether handshakes resume earlier sessions. Only a full handshake brings a stapled OCSP response.
    var resumesSessions: Bool { configuration.reusesSessions && !configuration.requiresOCSPStapling }

    private static func code(_ version: TLSVersion) -> Int {
        switch version {
        case .v1_2: Int(CURL_SSLVERSION_TLSv1_2)
        case .v1_3: Int(CURL_SSLVERSION_TLSv1_3)
        }
    }

    // MARK: Pins

    /// Returns the pins of a host in the notation of `CURLOPT_PINNEDPUBLICKEY`; `nil` for none.
    func pins(forHost host: String) -> String? {
        guard !pinsByHost.isEmpty else { return nil }
        var name = host.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        if let own = pinsByHost[name] { return own }
        guard let dot = name.firstIndex(of: "."), dot != name.startIndex else { return nil }
        return pinsByHost["*" + name[dot...]]
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
            throw .invalidRequest("tls.cipherList \"\(list)\" names no TLS 1.2 cipher that OpenSSL knows")
        }
        if let suites = configuration.cipherSuites, OpenSSL.knows(cipherSuites: suites) == false || suites.isEmpty {
            throw .invalidRequest("tls.cipherSuites \"\(suites)\" names an unknown TLS 1.3 cipher suite")
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
        let file = try read(path, "tls.caFile")
        try check("tls.caFile \"\(path)\"") { () throws(CertificateFile.Problem) in
            try CertificateFile.countCertificates(in: file)
        }
        return pem + Data("\n".utf8) + file
    }

    private static func identity(_ certificate: ClientCertificate) throws(NetworkError) -> Identity {
        let place = "tls.clientCertificate"
        switch certificate {
        case .pkcs12(let path, let password):
            let data = try read(path, place)
            try check("\(place) \"\(path)\"") { () throws(CertificateFile.Problem) in
                try CertificateFile.checkPKCS12(data, password: password)
            }
            return .pkcs12(data, password: password)
        case .pem(let certificatePath, let keyPath, let password):
            let certificate = try read(certificatePath, place)
            let key = try read(keyPath, "\(place), key")
            try check("\(place) \"\(certificatePath)\" (key \"\(keyPath)\")") { () throws(CertificateFile.Problem) in
                try CertificateFile.checkPEM(certificate: certificate, key: key, password: password)
            }
            return .pem(certificate: certificate, key: key, password: password)
        }
    }

    private static func read(_ path: String, _ place: String) throws(NetworkError) -> Data {
        try SettingsFile(path, setting: place).data
    }

    private static func check(
        _ place: String, _ body: () throws(CertificateFile.Problem) -> some Any
    ) throws(NetworkError) {
        do throws(CertificateFile.Problem) {
            _ = try body()
        } catch {
            throw .invalidRequest("\(place) \(error.reason)")
        }
    }
}

/// The checked TLS settings of an engine: its own, and those of requests that have some.
final class TLSMaterials: Sendable {
    let own: TLSMaterial
    private let warn: @Sendable (String) -> Void
    private let ofRequests = Mutex<[HTTPRequest.TLS: TLSMaterial]>([:])

    /// The largest number of requests' settings that are kept. Beyond that they are read anew.
    static let limit = 64

    init(_ own: TLSMaterial, warn: @escaping @Sendable (String) -> Void) {
        self.own = own
        self.warn = warn
    }

    /// Returns the settings of a request, read and checked at their first use; `nil` for the engine's own.
    ///
    /// - Throws: as ``TLSMaterial/init(_:over:warn:)``, with the place of the settings.
    func material(for tls: HTTPRequest.TLS?) throws(NetworkError) -> TLSMaterial? {
        guard let tls, !tls.isEmpty else { return nil }
        if let known = ofRequests.withLock({ $0[tls] }) { return known }
        var configuration = own.configuration
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
        return ofRequests.withLock { all in
            // Another thread may have been faster.
            if let known = all[tls] { return known }
            if all.count >= Self.limit { all = [:] }
            all[tls] = material
            return material
        }
    }
}

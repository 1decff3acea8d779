import CLibcurl
import Cryptography
import FoundationEssentials
import HTTPCore

/// A ``TLSConfiguration`` that was looked at and read: what libcurl is given.
///
/// Certificates and keys are in memory from here on, so that a file that changes later changes nothing in a manager that
/// was found to work.
struct TLSMaterial: Sendable {
    let configuration: TLSConfiguration
    /// The authorities in PEM; `nil` for the file as it is, or the system's.
    private(set) var authorities: Data?
    private(set) var identity: Identity?
    /// `CURLOPT_SSLVERSION`.
    let versions: Int
    private let pinsByHost: [String: String]

    /// The client's certificate, read.
    enum Identity: Sendable {
        case pkcs12(Data, password: String)
        case pem(certificate: Data, key: Data, password: String?)
    }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the setting, ``NetworkError/Kind/unsupported`` for what
    ///   this libcurl cannot do.
    init(_ configuration: TLSConfiguration) throws(NetworkError) {
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
        authorities = try Self.authorities(configuration)
        identity = try configuration.clientCertificate.map { certificate throws(NetworkError) in
            try Self.identity(certificate)
        }
    }

    private static func code(_ version: TLSVersion) -> Int {
        switch version {
        case .v1_2: Int(CURL_SSLVERSION_TLSv1_2)
        case .v1_3: Int(CURL_SSLVERSION_TLSv1_3)
        }
    }

    // MARK: Pins

    /// The pins of a host in the notation of `CURLOPT_PINNEDPUBLICKEY`; `nil` for none.
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
                    "tls.pins: \"\(host)\" is no host; write its name or address without scheme and port, or "
                        + "*.example.com")
            }
            guard !keys.isEmpty else {
                throw .invalidRequest("tls.pins: \"\(host)\" has no key; nothing could be connected to, leave it out")
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

    /// Pins as libcurl takes them. What is none must not reach it: libcurl would take it for the path of a key.
    static func joined(_ keys: [String], _ place: String) throws(NetworkError) -> String {
        for key in keys where !isPin(key) {
            throw .invalidRequest(
                "\(place): \"\(key)\" is no pin; expected sha256// and the Base64 of the 32 bytes of a SHA-256")
        }
        return keys.joined(separator: ";")
    }

    private static func isPin(_ key: String) -> Bool {
        guard key.hasPrefix("sha256//") else { return false }
        return Data(base64Encoded: String(key.dropFirst("sha256//".count)))?.count == 32
    }

    // MARK: Files

    private static func checkCiphers(_ configuration: TLSConfiguration) throws(NetworkError) {
        if let list = configuration.cipherList, lat_tls_knows_ciphers(list, nil) == 0 || list.isEmpty {
            throw .invalidRequest("tls.cipherList \"\(list)\" names no cipher for TLS 1.2 that OpenSSL knows")
        }
        if let suites = configuration.cipherSuites, lat_tls_knows_ciphers(nil, suites) == 0 || suites.isEmpty {
            throw .invalidRequest("tls.cipherSuites \"\(suites)\" names something that is no cipher suite of TLS 1.3")
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
        // libcurl reads the file by itself, and keeps what it made of it for all connections.
        return pem.isEmpty ? nil : pem + Data("\n".utf8) + file
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
        do {
            return try Data(contentsOf: URL(filePath: path))
        } catch {
            throw NetworkError(
                .invalidRequest,
                message: "\(place) \"\(path)\" cannot be read; give the path of a file that this user may read",
                underlying: error)
        }
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

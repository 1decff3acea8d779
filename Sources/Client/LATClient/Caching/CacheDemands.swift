import CurlTransport
import FoundationEssentials
import HTTPCore
import LATSealing

/// What calls demand of a response besides its URL: which server it may come from, what is checked of it, and whether it is
/// sealed. A stored response was checked when it was fetched, so only calls with the same demands find it.
struct CacheDemands: Sendable {
    /// Those of all calls of the manager.
    private let ofManager: [String]
    let sealsByDefault: Bool

    init(_ configuration: CentralRequestManager.Configuration) {
        let tls = configuration.engine.tls
        var demands: [String] = []
        if !tls.verifiesCertificates { demands.append("unverified") }
        var settings = HTTPRequest.TLS(caFile: tls.caFile, minimumVersion: tls.minimumVersion)
        (settings.crlFile, settings.crlURL, settings.revocation) = (tls.crlFile, tls.crlURL, tls.revocation)
        demands += Self.parts("", settings)
        if let data = tls.caData { demands.append("authorities \(data.base64EncodedString())") }
        if tls.requiresOCSPStapling { demands.append("stapling") }
        for (host, address) in configuration.engine.resolve.sorted(by: { $0.key < $1.key }) {
            demands.append("at \(host) \(address)")
        }
        demands += configuration.engine.connectTo.map { "to \($0)" }
        for (host, keys) in tls.pins.sorted(by: { $0.key < $1.key }) {
            demands.append("pins \(host) \(keys.sorted().joined(separator: " "))")
        }
        ofManager = demands
        sealsByDefault = configuration.sealer != nil
    }

    /// The demands of TLS that a manager and a request can have.
    private static func parts(_ prefix: String, _ tls: HTTPRequest.TLS) -> [String] {
        var parts: [String] = []
        if let file = tls.caFile { parts.append("\(prefix)authorities \(file)") }
        if let revocation = tls.revocation { parts.append("\(prefix)revocation \(revocation)") }
        if let lists = tls.crlFile ?? tls.crlURL { parts.append("\(prefix)lists \(lists)") }
        if let version = tls.minimumVersion, version > .v1_2 { parts.append("\(prefix)\(version.rawValue)") }
        if let pins = tls.pins, !pins.isEmpty { parts.append("\(prefix)pins \(pins.sorted().joined(separator: " "))") }
        return parts
    }

    /// The demands of a request as parts of its key; none for one that demands nothing special.
    func parts(of request: HTTPRequest) -> [String] {
        var parts = ofManager
        if sealsByDefault, request.sealing == .automatic { parts.append("sealed") }
        if request.hasNoSettings { return parts }
        parts += Self.parts("own ", request.tls)
        if request.digests.checks == false { parts.append("any digest") }
        if case .sealed(let name) = request.sealing { parts.append("sealed \(name)") }
        return parts
    }
}

/// The credentials that are no header fields of a request: the client certificate and the signer.
struct ManagerCredentials: Sendable {
    let certificate: ClientCertificate?
    let sign: SignStage
    let engine: CurlTransport?
    /// Stands for signers that do not say who they are.
    private let own = "\(UInt64.random(in: 0 ... .max))"

    init(certificate: ClientCertificate?, sign: SignStage, engine: CurlTransport?) {
        (self.certificate, self.sign, self.engine) = (certificate, sign, engine)
    }

    func texts(for request: HTTPRequest) -> [String] {
        var texts: [String] = []
        if let certificate = request.tls.clientCertificate ?? certificate {
            // The same path may lead to another certificate tomorrow, or in another folder.
            texts.append("certificate \(engine?.certificateDigest(for: request) ?? certificate.description)")
        }
        if let signer = sign.signer(for: request) {
            // Two signers of one type may have two keys.
            let isNamed = signer.identity != String(reflecting: type(of: signer))
            texts.append("signer \(signer.identity)\(isNamed ? "" : " \(own) \(request.signer)")")
        }
        return texts
    }
}

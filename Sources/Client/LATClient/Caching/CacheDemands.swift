import CurlTransport
import FoundationEssentials
import HTTPCore
import LATSealing

/// What calls demand of a response besides its URL: which server it may come from, what is checked of it, and whether it is
/// sealed. A stored response was checked when it was fetched, so only calls with the same demands find it.
struct CacheDemands: Sendable {
    /// Those of all calls of the manager.
    private let ofManager: [String]
    private let sealsByDefault: Bool

    init(_ configuration: CentralRequestManager.Configuration) {
        let tls = configuration.engine.tls
        var demands: [String] = []
        if !tls.verifiesCertificates { demands.append("unverified") }
        if let file = tls.caFile { demands.append("authorities \(file)") }
        if let data = tls.caData { demands.append("authorities \(data.base64EncodedString())") }
        if tls.requiresOCSPStapling { demands.append("stapling") }
        demands += Self.parts("", tls.revocation, tls.crlFile, tls.crlURL)
        if tls.minimumVersion > .v1_2 { demands.append(tls.minimumVersion.rawValue) }
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

    private static func parts(
        _ prefix: String, _ revocation: HTTPRequest.TLS.Revocation?, _ file: String?, _ url: String?
    ) -> [String] {
        [revocation.map { "\(prefix)revocation \($0)" }, (file ?? url).map { "\(prefix)lists \($0)" }].compactMap(
            \.self)
    }

    /// The demands of a request as parts of its key; none for one that demands nothing special.
    func parts(of request: HTTPRequest) -> [String] {
        var parts = ofManager
        if sealsByDefault, request.sealing == .automatic { parts.append("sealed") }
        if request.hasNoSettings { return parts }
        let tls = request.tls
        if let file = tls.caFile { parts.append("own authorities \(file)") }
        parts += Self.parts("own ", tls.revocation, tls.crlFile, tls.crlURL)
        if let version = tls.minimumVersion, version > .v1_2 { parts.append("own \(version.rawValue)") }
        if let pins = tls.pins, !pins.isEmpty { parts.append("own pins \(pins.sorted().joined(separator: " "))") }
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

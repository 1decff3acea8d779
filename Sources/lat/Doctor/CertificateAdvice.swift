import FoundationEssentials
import LATNetworking

/// What to say of a certificate.
enum CertificateAdvice {
    /// Less than this left is worth a word.
    static let soon: TimeInterval = 14 * 86_400

    static func facts(of certificate: CertificateFacts) -> [String] {
        var facts = ["for \(certificate.subject)", "signed by \(certificate.issuer)"]
        facts.append("valid from \(certificate.validFrom) until \(certificate.validUntil)")
        if !certificate.names.isEmpty {
            let names = certificate.names.prefix(8).joined(separator: ", ")
            facts.append("names: \(names)" + (certificate.names.count > 8 ? ", …" : ""))
        }
        return facts
    }

    /// `nil` while there is time.
    static func ofExpiry(_ certificate: CertificateFacts, now: Date) -> String? {
        guard let end = date(certificate.validUntil) else { return nil }
        let left = end.timeIntervalSince(now)
        guard left < soon else { return nil }
        return "the certificate expires in \(Quantity.duration(.seconds(max(0, left)))); have it renewed"
    }

    /// `Nov 21 04:30:38 2026 GMT`, as OpenSSL writes it: asctime's form with the zone in place of the weekday.
    static func date(_ text: String) -> Date? {
        text.hasSuffix(" GMT") ? HTTPDate.parse("Sun \(text.dropLast(4))") : nil
    }

    private static let isItTLS = "is it TLS that is spoken at this port? Try http:// in place of https://"

    static func next(after error: NetworkError, _ certificate: CertificateFacts?, host: String) -> String {
        guard case .tls(let failure) = error.kind else {
            return "the connection stands but the handshake does not end; is it TLS that is spoken at this port?"
        }
        // What OpenSSL says of an answer that is no TLS.
        if error.message.contains("wrong version number") { return Self.isItTLS }
        switch failure {
        case .expired: return "renew the certificate on the server; if it is not expired, look at this machine's clock"
        case .notYetValid: return "this machine's clock is behind, or the certificate was made ahead of time"
        case .wrongHost:
            let names = certificate.map { $0.names.isEmpty ? $0.subject : $0.names.joined(separator: ", ") } ?? "others"
            return "the certificate is for \(names), not for \(host); use one of these names, or another certificate"
        case .selfSigned, .untrusted:
            return "give the authority that signed it with --ca FILE (tls.caFile), or have the server send its chain"
        case .revoked: return "the authority has revoked the certificate; the server needs a new one"
        case .certificateStatus:
            return "the server does not show that its certificate is not revoked; have it staple OCSP responses"
        case .pinMismatch: return "the key is not one of the pinned; pin the new one if the change is known of"
        case .clientCertificate: return "the server wants a certificate of the client, or refuses the one it got"
        case .protocolVersion: return "the two sides share no version or cipher; the server needs TLS 1.2 or newer"
        case .handshake: return Self.isItTLS
        }
    }
}

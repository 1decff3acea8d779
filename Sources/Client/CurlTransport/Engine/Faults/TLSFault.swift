import CLibcurl
import Cryptography
import FoundationEssentials
internal import HTTPCore

/// Finds the reason for a TLS failure. libcurl has one code for most of them; OpenSSL's verification result
/// (`CURLINFO_SSL_VERIFYRESULT`) and the recorded handshake distinguish them.
enum TLSFault {
    /// Returns the reason; `nil` when the failure is not a failure of TLS.
    static func reason(of code: CURLcode, detail: String, handle: EasyHandle) -> NetworkError.TLSFailure? {
        switch code {
        case CURLE_SSL_INVALIDCERTSTATUS: detail.contains("revocation reason") ? .revoked : .certificateStatus
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR:
            verdict(handle.long(CURLINFO_SSL_VERIFYRESULT), detail)
        case CURLE_SSL_PINNEDPUBKEYNOTMATCH: .pinMismatch
        case CURLE_SSL_CERTPROBLEM, CURLE_SSL_CLIENTCERT: .clientCertificate
        case CURLE_SSL_CIPHER: .protocolVersion
        case CURLE_SSL_CACERT_BADFILE: .untrusted
        case CURLE_SSL_CONNECT_ERROR, CURLE_USE_SSL_FAILED, CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED,
            CURLE_SSL_CRL_BADFILE:
            broken(detail, handle.handshake)
        // In TLS 1.3 the client ends its handshake before the server checks the client's certificate (RFC 8446 §4.4.2),
        // so a refusal arrives in place of the response.
        case CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_GOT_NOTHING, CURLE_HTTP2, CURLE_HTTP2_STREAM:
            isAboutClient(handle.handshake) || detail.contains("certificate required") ? .clientCertificate : nil
        default: nil
        }
    }

    /// Converts OpenSSL's result (`X509_V_ERR_*`), or libcurl's own message about the name.
    private static func verdict(_ result: Int, _ detail: String) -> NetworkError.TLSFailure {
        // libcurl checks the name itself, after the chain was verified and before it sets the verification result.
        if detail.contains("subject name") || detail.contains("host name") || detail.contains("hostname") {
            return .wrongHost
        }
        return switch result {
        // Over QUIC, libcurl reports a wrong name with a general message about the peer's certificate. The chain has no
        // error then.
        case 0...1 where detail.contains("peer certificate"): .wrongHost
        case 9: .notYetValid
        case 10: .expired
        case 18: .selfSigned
        case Int(OpenSSL.revoked): .revoked
        case Int(OpenSSL.notChecked): .certificateStatus
        case 62...64: .wrongHost
        default: .untrusted
        }
    }

    /// The message of a failure that a revocation list has caused; `nil` for any other.
    static func revocation(
        _ kind: NetworkError.Kind, _ transfer: Transfer, _ handshake: TLSHandshake?
    ) -> String? {
        guard let fault = handshake?.revocationFault else { return nil }
        let origin = transfer.target.origin
        return switch kind {
        case .tls(.revoked): "a certificate of \(origin) was revoked: \(fault); replace it on the server"
        case .tls(.certificateStatus):
            "the certificate of \(origin) cannot be checked for revocation: \(fault); have the list there and renewed in "
                + "time, or set tls.revocation to \"soft\""
        default: nil
        }
    }

    private static func broken(_ detail: String, _ handshake: TLSHandshake?) -> NetworkError.TLSFailure {
        if isAboutClient(handshake) || detail.contains("certificate required") { return .clientCertificate }
        // handshake_failure, protocol_version, insufficient_security, inappropriate_fallback.
        if let alert = handshake?.alert, [40, 70, 71, 86].contains(alert) { return .protocolVersion }
        let signs = ["unsupported protocol", "no protocols available", "protocol version", "handshake failure"]
        return signs.contains { detail.contains($0) } ? .protocolVersion : .handshake
    }

    /// Whether the server asked for a certificate and then sent an alert that can be about it (RFC 8446 §6.2).
    private static func isAboutClient(_ handshake: TLSHandshake?) -> Bool {
        guard let handshake, let alert = handshake.alert else { return false }
        switch alert {
        case 116: return true  // certificate_required
        // handshake_failure, bad, unsupported, revoked, expired and unknown certificate, unknown_ca, access_denied.
        case 40...46, 48, 49: return handshake.wantsCertificate
        default: return false
        }
    }

    static func message(
        _ reason: NetworkError.TLSFailure, detail: String, transfer: Transfer, _ certificate: CertificateFacts?
    ) -> String {
        let origin = transfer.target.origin
        let host = transfer.target.host
        return switch reason {
        case .expired:
            expiry(of: origin, certificate)
        case .notYetValid:
            "the certificate of \(origin) is not valid "
                + (certificate.map { "before \(HTTPDate.format($0.validFrom))" } ?? "yet")
                + "; check this machine's clock, which says \(HTTPDate.format(.now))"
        case .wrongHost:
            "the certificate of \(origin) is for \(certificate?.nameList ?? "another host"), not for \(host) (\(detail)); "
                + "use a host that it names, or give the server a certificate for \(host)"
        case .selfSigned:
            "the certificate of \(origin) is self-signed\(certificate.map { " by \($0.subject)" } ?? "") (\(detail)); if "
                + "that is intended, give it as tls.caFile"
        case .untrusted:
            "the certificate of \(origin)\(certificate.map { ", issued by \($0.issuer)," } ?? "") is not signed by an "
                + "authority that this machine trusts (\(detail)); give its authority as tls.caFile, and have the server "
                + "send the intermediate certificates"
        case .revoked:
            "the certificate of \(origin) was revoked by its authority (\(detail)); replace it on the server"
        case .certificateStatus:
            "\(origin) did not prove that its certificate is not revoked (\(detail)); have the server staple OCSP "
                + "responses, or leave out tls.requiresOCSPStapling"
        case .pinMismatch:
            "the public key of \(origin)\(certificate?.pin.map { " (\($0))" } ?? "") matches no pin: the connection is "
                + "intercepted, or the server has a new key and the pins (tls.pins, or a domain's pins) "
                + "must be updated"
        case .clientCertificate:
            "\(origin) requires a client certificate that it trusts (\(detail)); give one as "
                + "tls.clientCertificate, and add its authority on the server"
        case .protocolVersion:
            "this client and \(origin) share no TLS version or cipher (\(detail)); check tls.minimumVersion and "
                + "the server's settings"
        case .handshake:
            "the TLS handshake with \(origin) failed: \(detail); "
                + (detail.contains("wrong version number")
                    ? "does this port speak plain http?" : "lat doctor \(origin) examines the server")
        }
    }

    /// The expired certificate may be one of an authority in the chain.
    private static func expiry(of origin: String, _ certificate: CertificateFacts?) -> String {
        guard let certificate else { return "the certificate of \(origin) has expired; renew it on the server" }
        let end = HTTPDate.format(certificate.validUntil)
        return certificate.validUntil < .now
            ? "the certificate of \(origin) expired on \(end); renew it on the server"
            : "a certificate that signs the one of \(origin) has expired (the server's own is valid until \(end)); replace "
                + "the intermediate certificates on the server, or tls.caFile"
    }
}

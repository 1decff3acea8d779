import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

@Suite struct RequestIdentityTests {
    private func credentials(_ certificate: String?) -> String? {
        var request = HTTPRequest("GET", "https://a/")
        request.tls = HTTPRequest.TLS(clientCertificate: certificate.map { .pkcs12(path: $0, password: "") })
        return RequestIdentity(
            of: request, partition: nil, secrets: .standard, cookies: nil, key: { Data([7]) }
        ).credentials
    }

    @Test func clientCertificateCountsAsCredentials() {
        #expect(credentials(nil) == nil)
        #expect(credentials("a.p12") != nil && credentials("a.p12") == credentials("a.p12"))
        #expect(credentials("a.p12") != credentials("b.p12"))
    }

    @Test func whatTheManagerAddsCountsAsCredentials() {
        func credentials(_ manager: [String]) -> String? {
            RequestIdentity(
                of: HTTPRequest("GET", "https://a/"), partition: nil, secrets: .standard, cookies: nil,
                manager: manager,
                key: { Data([7]) }
            ).credentials
        }
        #expect(credentials([]) == nil)
        #expect(
            Set([credentials(["signer a"]), credentials(["signer b"]), credentials(["signer a", "b"])]).count == 3)
    }
}

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
}

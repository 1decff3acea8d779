import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

@Suite struct RequestIdentityTests {
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

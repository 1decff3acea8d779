import LATNetworking
import Testing

@testable import HTTPCore

@Suite struct SettingNamesTests {
    @Test func entityHasEverySettingOfARequest() {
        let own = Set(Mirror(reflecting: LATNetworking.RequestOptions()).children.compactMap(\.label))
        let all = Set(Mirror(reflecting: HTTPCore.RequestOptions()).children.compactMap(\.label))
        // Set by rows, by redirects, by the way in which a call is made, and as `accessories`.
        let others: Set = [
            "rowHeaders", "rowSecrets", "hasLeftOrigin", "signatureFields", "streamsBody", "isLive", "upgrades",
            "opensConnection", "observers",
        ]
        #expect(all.subtracting(own) == others)
    }
}

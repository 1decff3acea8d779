import Testing

@testable import LATFleet

@Suite struct FleetContentsTests {
    @Test(arguments: ["shop", "shop:eu"]) func keysHaveTheirKind(prefix: String) {
        func kind(_ rest: String) -> String? { FleetContents.kind(of: prefix + rest, prefix: prefix) }
        #expect(kind(":c2:0:e:key") == "cache" && kind(":c2:0:l:key") == "lease" && kind(":c2:0:t:tag") == "generation")
        #expect(kind(":c1:0:r") == "rules" && kind(":table:lease") == "table" && kind(":token:lease") == "token")
        #expect(kind(":rate:api") == "rate" && kind(":token:api:lease") == "lease" && kind(":7f") == "other")
        #expect(kind(":token:api") == "token" && kind(":tokens:api:lease:value") == "token")
        #expect(kind(":tables") == nil && kind("ping:rate:api") == nil && kind("") == nil)
    }
}

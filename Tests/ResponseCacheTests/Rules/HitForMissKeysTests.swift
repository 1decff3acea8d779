import Testing

@testable import ResponseCache

/// The keys whose last response could not be stored.
@Suite struct HitForMissKeysTests {
    private let start = ContinuousClock.now

    @Test func keyIsForgottenAfterItsLifetime() {
        var keys = HitForMissKeys(life: .seconds(30))
        #expect(!keys.contains("k", at: start))
        keys.insert("k", at: start)
        #expect(keys.contains("k", at: start + .seconds(29)))
        #expect(!keys.contains("k", at: start + .seconds(30)))
        #expect(!keys.contains("other", at: start))
    }

    @Test func storedResponseForgetsItsKey() {
        var keys = HitForMissKeys()
        keys.insert("k", at: start)
        keys.remove("k")
        #expect(!keys.contains("k", at: start))
    }

    @Test func tableIsBounded() {
        var keys = HitForMissKeys(life: .seconds(30), limit: 100)
        for number in 0..<100 { keys.insert("\(number)", at: start) }
        // The first hundred have expired.
        keys.insert("100", at: start + .seconds(40))
        for number in 101..<150 { keys.insert("\(number)", at: start + .seconds(41)) }
        #expect(keys.contains("100", at: start + .seconds(41)))
        for number in 150..<201 { keys.insert("\(number)", at: start + .seconds(41)) }
        #expect(keys.contains("200", at: start + .seconds(41)))
        #expect(!keys.contains("100", at: start + .seconds(41)))
    }
}

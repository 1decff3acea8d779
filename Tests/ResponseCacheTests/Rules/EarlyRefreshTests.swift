import Testing

@testable import ResponseCache

/// The early refresh, with given random numbers.
struct EarlyRefreshTests {
    private func isDue(_ remaining: Double, duration: Double = 0.4, factor: Double = 1, _ random: Double) -> Bool {
        EarlyRefresh.isDue(remaining: remaining, fetchDuration: duration, factor: factor, random: random)
    }

    @Test func chanceIsThatOfXFetch() {
        // exp(−2 / 0.4) is 0.0067: only a random number below it refreshes.
        #expect(isDue(2, 0.006_7))
        #expect(!isDue(2, 0.006_8))
        #expect(isDue(0.4, 0.367))
        #expect(!isDue(0.4, 0.368))
        #expect(!isDue(2, 1))
    }

    @Test func shareOfRefreshesMatchesTheFormula() {
        let count = 100_000
        let due = (1...count).count { isDue(0.4, Double($0) / Double(count)) }
        #expect(abs(Double(due) / Double(count) - 0.367_879) < 0.000_02)
    }

    @Test func factorScalesTheDuration() {
        #expect(isDue(2, factor: 2, 0.082) && !isDue(2, factor: 2, 0.083))
        #expect(!isDue(0.001, factor: 0, 1e-300))
    }

    @Test func oddValuesNeverRefresh() {
        for remaining in [0, -1, .nan, .infinity] { #expect(!isDue(remaining, 1e-300)) }
        for duration in [0, -1, .nan] { #expect(!isDue(1, duration: duration, 1e-300)) }
        // Far from its end no random number is drawn.
        var draws = 0
        func random() -> Double {
            draws += 1
            return 0.5
        }
        let isRefreshed = EarlyRefresh.isDue(remaining: 100, fetchDuration: 0.1, factor: 1, random: random())
        #expect(!isRefreshed && draws == 0)
    }
}

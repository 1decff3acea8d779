import FoundationEssentials
import HTTPCore
import Testing

@testable import ResponseCache

@Suite struct RecentRemovalsTests {
    private let start = Date(timeIntervalSince1970: 1_000_000)
    private var later: Date { start.addingTimeInterval(86_400) }

    private func entry(_ url: String, requestedAt seconds: Double) -> CacheEntry {
        // Its request was sent a second before its response.
        Make.entry(url, url: url, at: start.addingTimeInterval(seconds + 1))
    }

    @Test func onlyOlderRequestsOfTheSelectionAreConcerned() {
        var removals = RecentRemovals()
        removals.note(.url("a"), at: start)
        removals.note(.url("b"), at: start.addingTimeInterval(10))
        #expect(removals.concern(entry("a", requestedAt: -1), at: later))
        #expect(removals.concern(entry("b", requestedAt: 5), at: later))
        #expect(!removals.concern(entry("a", requestedAt: 5), at: later))
        #expect(!removals.concern(entry("b", requestedAt: 11), at: later))
        #expect(!removals.concern(entry("c", requestedAt: -1), at: later))
    }

    @Test func removalsThatWereForgottenCountForAll() {
        var removals = RecentRemovals()
        for index in 0...(3 * RecentRemovals.limit) {
            removals.note(.url("u\(index)"), at: start.addingTimeInterval(Double(index) / 16))
        }
        let known = Double(2 * RecentRemovals.limit) / 16
        #expect(removals.concern(entry("x", requestedAt: known - 10), at: later))
        #expect(!removals.concern(entry("x", requestedAt: known + 10), at: later))
        #expect(removals.concern(entry("u\(3 * RecentRemovals.limit)", requestedAt: known + 10), at: later))
    }

    @Test func oldRemovalsAreForgotten() {
        var removals = RecentRemovals()
        removals.note(.all, at: start)
        removals.note(.url("b"), at: start.addingTimeInterval(RecentRemovals.memory + 1))
        #expect(!removals.concern(entry("a", requestedAt: -1), at: later))
        #expect(removals.concern(entry("b", requestedAt: 1), at: later))
    }

    /// Else nothing would be stored for an hour after the clock was set back by one.
    @Test func removalsInTheFutureConcernNothing() {
        var removals = RecentRemovals()
        removals.note(.all, at: start)
        let back = start.addingTimeInterval(-3_600)
        #expect(!removals.concern(entry("a", requestedAt: -3_601), at: back))
        #expect(removals.concern(entry("a", requestedAt: -3_601), at: start))
        removals.note(.url("a"), at: back)
        #expect(removals.concern(entry("a", requestedAt: -3_601), at: back))
        #expect(!removals.concern(entry("b", requestedAt: -3_601), at: back))
    }
}

import LATNetworking
import Testing

@testable import LATRealtime

@Suite struct ReconnectionPlanTests {
    private let brief = ReconnectionPlan.End.lost(after: .seconds(1), hadEvents: false)

    @Test func withoutAPolicyThereIsNoOtherConnection() {
        var plan = ReconnectionPlan(nil)
        #expect(plan.wait(after: brief, chance: 1) == nil)
        var never = ReconnectionPlan(.never)
        #expect(never.wait(after: brief, chance: 1) == nil)
    }

    @Test func waitsDoubleUpToTheLongest() {
        var plan = ReconnectionPlan(Reconnection(firstWait: .seconds(1), longestWait: .seconds(10)))
        let waits = (0..<6).map { _ in plan.wait(after: .failed, chance: 1) }
        #expect(waits == [1, 2, 4, 8, 10, 10].map { Duration.seconds($0) as Duration? })
    }

    @Test func jitterIsFull() {
        var plan = ReconnectionPlan(Reconnection(firstWait: .seconds(8)))
        #expect(plan.wait(after: brief, chance: 0) == .zero)
        #expect(plan.wait(after: brief, chance: 0.25) == .seconds(4))
    }

    @Test func serverSetsTheFirstWaitWithinALimit() {
        var plan = ReconnectionPlan(Reconnection(longestWait: .seconds(10)))
        plan.serverWait = .seconds(3)
        #expect(plan.wait(after: brief, chance: 1) == .seconds(3))
        plan.serverWait = .seconds(3_600)
        #expect(plan.wait(after: brief, chance: 1) == .seconds(10))
    }

    @Test(arguments: [Duration.zero, .milliseconds(1), .nanoseconds(1), .milliseconds(99)])
    func tinyServerWaitIsRaisedAndDoubled(_ asked: Duration) {
        var plan = ReconnectionPlan(Reconnection(longestWait: .seconds(1)))
        plan.serverWait = asked
        let waits = (0..<6).map { _ in plan.wait(after: .lost(after: .zero, hadEvents: true), chance: 1) }
        #expect(waits == [100, 200, 400, 800, 1_000, 1_000].map { Duration.milliseconds($0) as Duration? })
    }

    @Test func floorIsThePolicysOwn() {
        var plan = ReconnectionPlan(Reconnection(longestWait: .seconds(1), shortestWait: .milliseconds(300)))
        plan.serverWait = .zero
        #expect(plan.wait(after: brief, chance: 1) == .milliseconds(300))
        var short = ReconnectionPlan(Reconnection(longestWait: .milliseconds(20)))
        short.serverWait = .zero
        #expect(short.wait(after: brief, chance: 1) == .milliseconds(20))
    }

    @Test func zeroFirstWaitGrowsFromTheFloor() {
        var plan = ReconnectionPlan(Reconnection(firstWait: .zero))
        let waits = (0..<4).map { _ in plan.wait(after: .failed, chance: 1) }
        #expect(waits == [0, 100, 200, 400].map { Duration.milliseconds($0) as Duration? })
    }

    @Test func hugeServerWaitAndManyFailuresAreBounded() {
        var plan = ReconnectionPlan(Reconnection(longestWait: .seconds(30)))
        plan.serverWait = .milliseconds(1 << 40)
        for _ in 0..<200 { #expect(plan.wait(after: .failed, chance: 1) == .seconds(30)) }
    }

    @Test func stableConnectionResetsTheWaits() {
        var plan = ReconnectionPlan(Reconnection(firstWait: .seconds(1), stableAfter: .seconds(60)))
        for _ in 0..<3 { _ = plan.wait(after: .failed, chance: 1) }
        #expect(plan.wait(after: .lost(after: .seconds(59), hadEvents: true), chance: 1) == .seconds(8))
        #expect(plan.wait(after: .lost(after: .seconds(60), hadEvents: false), chance: 1) == .seconds(1))
    }

    @Test func attemptsInARowAreLimited() {
        var plan = ReconnectionPlan(Reconnection(attempts: 2))
        #expect(plan.wait(after: brief, chance: 0) != nil)
        #expect(plan.wait(after: .failed, chance: 0) != nil)
        #expect(plan.wait(after: .failed, chance: 0) == nil)
        // An event shows that the server works.
        var other = ReconnectionPlan(Reconnection(attempts: 1))
        for _ in 0..<5 { #expect(other.wait(after: .lost(after: .zero, hadEvents: true), chance: 0) != nil) }
    }

    @Test func onlyGivenStatusesAreTriedAgain() {
        var plan = ReconnectionPlan(Reconnection(firstWait: .seconds(1), longestWait: .seconds(30), statuses: [503]))
        #expect(plan.wait(after: .refused(status: 500, retryAfter: nil), chance: 1) == nil)
        #expect(plan.wait(after: .refused(status: 503, retryAfter: nil), chance: 1) == .seconds(1))
        #expect(plan.wait(after: .refused(status: 503, retryAfter: .seconds(20)), chance: 0.5) == .seconds(21))
        #expect(plan.wait(after: .refused(status: 503, retryAfter: .seconds(31)), chance: 0) == nil)
    }

    // MARK: Rows

    private func row(_ change: (inout DomainTable.EventSettings) -> Void) -> DomainTable.EventSettings {
        var row = DomainTable.EventSettings()
        change(&row)
        return row
    }

    @Test func rowsReconnectionIsForSafeMethods() {
        let row = row {
            $0.reconnect = true
            $0.firstWait = .seconds(2)
            $0.attempts = 5
            $0.statuses = [503]
        }
        let expected = Reconnection(firstWait: .seconds(2), attempts: 5, statuses: [503])
        #expect(EventRules(EventOptions(), row, isSafe: true, isReplayable: true).reconnection == expected)
        #expect(EventRules(EventOptions(), row, isSafe: false, isReplayable: true).reconnection == nil)
        let own = EventOptions(reconnection: .quick)
        #expect(EventRules(own, row, isSafe: false, isReplayable: true).reconnection == .quick)
        #expect(EventRules(own, row, isSafe: false, isReplayable: false).reconnection == nil)
        let never = EventOptions(reconnection: .never)
        #expect(EventRules(never, row, isSafe: true, isReplayable: true).reconnection == .never)
    }

    @Test func rowWithoutReconnectDoesNotReconnect() {
        let row = row { $0.firstWait = .seconds(2) }
        #expect(EventRules(EventOptions(), row, isSafe: true, isReplayable: true).reconnection == nil)
    }

    @Test func optionsWinOverTheRow() {
        let row = row {
            $0.endsAt = "[DONE]"
            $0.eventLimit = 100
        }
        let rules = EventRules(EventOptions(), row, isSafe: true, isReplayable: true)
        #expect(rules.endsAt == "[DONE]" && rules.eventLimit == 100)
        let own = EventRules(EventOptions(endsAt: "end", eventLimit: 7), row, isSafe: true, isReplayable: true)
        #expect(own.endsAt == "end" && own.eventLimit == 7)
        let none = EventRules(EventOptions(), DomainTable.EventSettings(), isSafe: true, isReplayable: true)
        #expect(none.endsAt == nil && none.eventLimit == 1 << 20)
    }
}

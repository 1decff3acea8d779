import LATClient
import Platform
import TestSupport
import Testing

@testable import LATClient

/// When the first requests of a row's calls are sent again, with one alarm for all of them.
@Suite struct HedgeWaitsTests {
    private let stage = HedgeStage(
        nil, RetryStage(policy: RetryPolicy(retries: 0)), MirrorStage(memory: .seconds(1)),
        TimeLimits(), hasProviders: false)
    private let row = HedgeStage.Row()

    private func chain() -> Chain {
        Chain(
            Call(HTTPRequest("GET", "http://h/")),
            StageTable([:], .custom(FunctionTransport { _ in throw CancellationError() })), [])
    }

    private func race(_ chain: Chain) -> HedgeRace {
        HedgeRace(RequestOptions.Hedge(), chain.call.request, chain, row, stage)
    }

    private func wait(_ chain: Chain, _ delay: Int?) -> HedgeWaits.Wait {
        HedgeWaits.Wait(chain, after: delay.map { .milliseconds($0) })
    }

    @Test func oneAlarmServesAllRequests() {
        var waits = HedgeWaits()
        let chains = [chain(), chain(), chain()]
        let places = chains.map { waits.begin(wait($0, 100)) }
        var alarms: [Duration?] = []
        for (index, chain) in chains.enumerated() {
            alarms.append(waits.start(places[index], of: chain.call, at: .milliseconds(10 * index)))
        }
        #expect(alarms == [.milliseconds(100), nil, nil])
        // The first is answered in time, the second is not.
        #expect(waits.end(places[0]).slow == nil)
        let early = waits.takeDue(at: .milliseconds(100), race: race)
        #expect(early.due.isEmpty && early.alarm == .milliseconds(110))
        let due = waits.takeDue(at: .milliseconds(115), race: race)
        #expect(due.due.map(\.chain?.call.id) == [chains[1].call.id] && due.alarm == .milliseconds(120))
        #expect(due.due[0].race != nil && due.due[0].startedAt == .milliseconds(10))
        #expect(waits.end(places[1]).slow?.isSlow == true)
        #expect(waits.end(places[2]).slow == nil)
        let last = waits.takeDue(at: .seconds(1), race: race)
        #expect(last.due.isEmpty && last.alarm == nil)
    }

    @Test func shorterDelaySetsTheAlarmAnew() {
        var waits = HedgeWaits()
        let (slow, fast) = (chain(), chain())
        let places = [waits.begin(wait(slow, 500)), waits.begin(wait(fast, 20))]
        #expect(waits.start(places[0], of: slow.call, at: .zero) == .milliseconds(500))
        #expect(waits.start(places[1], of: fast.call, at: .zero) == .milliseconds(20))
        let due = waits.takeDue(at: .milliseconds(20), race: race)
        #expect(due.due.map(\.chain?.call.id) == [fast.call.id] && due.alarm == .milliseconds(500))
    }

    @Test func requestWithoutADelayHasNoTime() {
        var waits = HedgeWaits()
        let chain = chain()
        let place = waits.begin(wait(chain, nil))
        #expect(waits.start(place, of: chain.call, at: .zero) == nil)
        #expect(waits.takeDue(at: .seconds(100), race: race).due.isEmpty)
        #expect(waits.end(place).startedAt == .zero)
    }

    @Test func lateStartIsNotThatOfTheNextRequest() {
        var waits = HedgeWaits()
        let (cancelled, next) = (chain(), chain())
        let place = waits.begin(wait(cancelled, 10))
        #expect(waits.end(place).startedAt == nil)
        // The place is used again; then the engine begins what was cancelled.
        #expect(waits.begin(wait(next, 10)) == place)
        #expect(waits.start(place, of: cancelled.call, at: .zero) == nil)
        #expect(waits.start(place, of: next.call, at: .milliseconds(5)) == .milliseconds(15))
        // A redirect is no new start.
        #expect(waits.start(place, of: next.call, at: .milliseconds(9)) == nil)
        #expect(waits.takeDue(at: .milliseconds(14), race: race).due.isEmpty)
        #expect(waits.takeDue(at: .milliseconds(15), race: race).due.count == 1)
        #expect(waits.takeDue(at: .milliseconds(16), race: race).due.isEmpty)
    }

    @Test func recordOfALateRaceHasTheFirstRequest() {
        let chain = chain()
        let race = HedgeRace(RequestOptions.Hedge(), chain.call.request, chain, row, stage, isLate: true)
        #expect(chain.call.attempts == 1 && race.request.url == "http://h/")
    }
}

import LATRealtime
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct EventObserverTests {
    /// Two connections are one call for accessories, and two outcomes for outcome observers.
    @Test func streamIsOneCall() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .cut), .status(500))
        let accessory = StepRecorder()
        let outcomes = Log<Bool>()
        let manager = try CentralRequestManager.make {
            $0.accessories = [accessory]
            $0.outcomeObservers = [
                { outcome, _ in
                    if case .success = outcome { outcomes.append(true) } else { outcomes.append(false) }
                }
            ]
        }
        let stream = manager.events(server.url(), options: EventOptions(reconnection: .quick))
        #expect(await stream.outcome().data == ["a"])
        #expect(accessory.events.elements == ["willStart", "didStart", "willFinish", "didFinish"])
        #expect(outcomes.elements == [true, false])
    }
}

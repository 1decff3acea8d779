import FoundationEssentials
import HTTPCore
import TestSupport
import Testing

@testable import LATClient

/// What is decided about single attempts, and what the stage does with it in virtual time.
@Suite struct ChaosDecisionTests {
    private typealias Chaos = RequestOptions.Chaos

    private func decisions(_ chaos: Chaos, _ count: Int = 20_000) -> [Chaos.Decision] {
        var generator = SeededGenerator(seed: 7)
        return (0..<count).map { _ in chaos.decision(using: &generator) }
    }

    @Test func sharesAreKept() {
        let all = decisions(Chaos(failures: 0.1, cut: 0.2))
        let refused = all.count { $0.fault == .refusal }
        let lost = all.count { $0.fault == .loss }
        let cut = all.count { $0.fault == .cut }
        #expect((800...1_200).contains(refused) && (800...1_200).contains(lost))
        // Only what has not failed can be cut: 0.9 · 0.2 of all.
        #expect((3_300...3_900).contains(cut))
        #expect(all.allSatisfy { $0.delay == nil && (0..<1).contains($0.rest) })
        #expect(decisions(Chaos(failures: 1), 500).allSatisfy { $0.fault == .refusal || $0.fault == .loss })
        #expect(decisions(Chaos(cut: 1), 500).allSatisfy { $0.fault == .cut })
        #expect(decisions(.off, 500).allSatisfy { $0.fault == nil })
    }

    @Test func delaysFillTheirRange() {
        let range = Duration.milliseconds(200)...Duration.seconds(2)
        let delays = decisions(Chaos(latency: range)).compactMap(\.delay)
        #expect(delays.count == 20_000 && delays.allSatisfy(range.contains))
        #expect((delays.min() ?? .zero) < .milliseconds(210) && (delays.max() ?? .zero) > .milliseconds(1_990))
    }

    @Test func aShareChangesNoOtherChance() {
        let one = decisions(Chaos(failures: 0, latency: .zero ... .seconds(1), cut: 0.3))
        let other = decisions(Chaos(failures: 0.5, latency: .zero ... .seconds(1), cut: 0.3))
        #expect(zip(one, other).allSatisfy { $0.delay == $1.delay && $0.rest == $1.rest })
        #expect(zip(one, other).allSatisfy { $1.fault == .refusal || $1.fault == .loss || $0.fault == $1.fault })
    }

    @Test(arguments: [-0.1, 1.1, .nan]) func badShareIsRefused(_ share: Double) throws {
        let error = #expect(throws: NetworkError.self) { try Chaos(failures: share).check("configuration.chaos") }
        #expect(error?.kind == .invalidRequest && error?.message.contains("configuration.chaos") == true)
        #expect(throws: NetworkError.self) {
            try CentralRequestManager.make { $0.chaos = RequestOptions.Chaos(cut: share) }
        }
    }

    // MARK: The stage

    private let clock = VirtualClock()

    private func stage(_ chaos: Chaos, timeout: Duration? = .seconds(60)) -> ChaosStage {
        ChaosStage(chaos, timeout: timeout, clock: clock.callClock, isProduction: { false }, warn: { _ in })
    }

    @Test func delayLeavesLessTimeForTheRequest() async throws {
        let stage = stage(Chaos(latency: .seconds(2) ... .seconds(2)), timeout: .seconds(5))
        async let answer = stage.intercept(HTTPRequest("GET", "http://a.example")) { request in
            HTTPResponse(status: request.timeout == .seconds(3) ? 200 : 500, url: request.url)
        }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(2))
        #expect(try await answer.status == 200)
    }

    @Test func delayBeyondTheTimeoutIsATimeout() async throws {
        let stage = stage(Chaos(latency: .seconds(9) ... .seconds(9)))
        var request = HTTPRequest("GET", "http://a.example")
        request.timeout = .seconds(1)
        let failed = Task { [request] in
            await failure { try await stage.intercept(request) { HTTPResponse(status: 200, url: $0.url) } }
        }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        let error = await failed.value
        #expect(error?.kind == .timeout(.total) && error?.underlying as? Chaos.Fault == .delay(.seconds(9)))
    }

    @Test func seedRepeatsTheSequence() async throws {
        let chaos = Chaos(failures: 0.5, seed: 42)
        var generator = SeededGenerator(seed: 42)
        let expected = (0..<40).map { _ in chaos.decision(using: &generator).fault }
        for _ in 0..<2 {
            let stage = stage(chaos)
            var faults: [Chaos.Fault?] = []
            for _ in expected {
                do {
                    _ = try await stage.intercept(HTTPRequest("GET", "http://a.example")) {
                        HTTPResponse(status: 200, url: $0.url)
                    }
                    faults.append(nil)
                } catch let error as NetworkError {
                    faults.append(error.underlying as? Chaos.Fault)
                }
            }
            #expect(faults == expected)
        }
    }
}

import Testing

@testable import LATClient

/// The ledger as a pure value, with times given by the test.
@Suite struct ProbeLedgerTests {
    private let start = ContinuousClock.now

    private func ledger() -> ProbeLedger<String, Int> { ProbeLedger(ttl: .seconds(10), failureTTL: .seconds(2)) }

    private func word(_ action: ProbeLedger<String, Int>.Action) -> String {
        switch action {
        case .take(let answer): "take \(answer)"
        case .join: "join"
        case .start: "start"
        }
    }

    @Test func concurrentQuestionsShareOneProbe() {
        var ledger = ledger()
        #expect(word(ledger.ask("a", at: start)) == "start")
        for _ in 0..<100 { #expect(word(ledger.ask("a", at: start)) == "join") }
        #expect(word(ledger.ask("a", isFresh: true, at: start)) == "join")
        #expect(word(ledger.ask("b", at: start)) == "start")
        #expect(ledger.finish("a", 1, isReachable: true, at: start) == false)
        #expect(word(ledger.ask("a", at: start)) == "take 1")
    }

    @Test func resultExpiresAtTheEndOfItsTTL() {
        var ledger = ledger()
        _ = ledger.ask("a", at: start)
        _ = ledger.finish("a", 1, isReachable: true, at: start)
        #expect(word(ledger.ask("a", at: start + .milliseconds(9_999))) == "take 1")
        #expect(word(ledger.ask("a", at: start + .seconds(10))) == "start")
        _ = ledger.finish("a", 2, isReachable: false, at: start + .seconds(10))
        #expect(word(ledger.ask("a", at: start + .milliseconds(11_999))) == "take 2")
        #expect(word(ledger.ask("a", at: start + .seconds(12))) == "start")
    }

    @Test func freshQuestionIgnoresTheLastResult() {
        var ledger = ledger()
        _ = ledger.ask("a", at: start)
        _ = ledger.finish("a", 1, isReachable: true, at: start)
        #expect(word(ledger.ask("a", isFresh: true, at: start)) == "start")
        #expect(ledger.answer(of: "a") == 1)
    }

    @Test func observedTargetsAreNotForgotten() {
        var ledger = ProbeLedger<String, Int>(ttl: .seconds(10), failureTTL: .seconds(2), capacity: 4)
        let observed = Set((0..<20).map { "o\($0)" })
        for number in 0..<200 {
            let target = number % 10 == 0 ? "o\(number / 10)" : "\(number)"
            #expect(word(ledger.ask(target, at: start, observed: { observed })) == "start")
            _ = ledger.finish(target, number, isReachable: true, at: start)
        }
        #expect(observed.allSatisfy { ledger.answer(of: $0) != nil })
        #expect(ledger.answers.count <= 4 + 2 * observed.count)
    }

    @Test func networkChangeRepeatsTheProbeOnce() {
        var ledger = ledger()
        _ = ledger.ask("a", at: start)
        _ = ledger.finish("a", 1, isReachable: true, at: start)
        ledger.networkChanged()
        // The last result remains known until there is a new one.
        #expect(ledger.answer(of: "a") == 1)
        #expect(word(ledger.ask("a", at: start)) == "start")
        ledger.networkChanged()
        #expect(ledger.finish("a", 2, isReachable: false, at: start) == true)
        #expect(ledger.answer(of: "a") == 1)
        #expect(word(ledger.ask("a", at: start)) == "join")
        #expect(ledger.finish("a", 3, isReachable: true, at: start) == false)
        #expect(word(ledger.ask("a", at: start)) == "take 3")
    }

    @Test func repeatedProbeEndsWhileTheNetworkChanges() {
        var ledger = ledger()
        for round in 0..<3 {
            #expect(word(ledger.ask("a", at: start)) == "start")
            ledger.networkChanged()
            #expect(ledger.finish("a", round, isReachable: true, at: start) == true)
            ledger.networkChanged()
            #expect(ledger.finish("a", round, isReachable: true, at: start) == false)
            // The waiters get the result, but it is from before the last change, so that the next caller probes.
            #expect(ledger.answer(of: "a") == round && ledger.nextTry(of: "a", at: start) == start)
        }
    }

    @Test func probesOfUnreachableHostsSlowDown() {
        var ledger = ledger()
        var pauses: [Duration] = []
        var now = start
        for _ in 0..<6 {
            _ = ledger.ask("a", isFresh: true, at: now)
            _ = ledger.finish("a", 0, isReachable: false, at: now)
            let next = ledger.nextTry(of: "a", at: now)
            pauses.append(next - now)
            now = next
        }
        #expect(pauses == [2, 4, 8, 10, 10, 10].map { .seconds($0) })
        _ = ledger.ask("a", isFresh: true, at: now)
        _ = ledger.finish("a", 1, isReachable: true, at: now)
        #expect(ledger.nextTry(of: "a", at: now) == now + .seconds(10))
        ledger.networkChanged()
        #expect(ledger.nextTry(of: "a", at: now) == now)
    }

    @Test(arguments: [true, false]) func resultThatIsNotKeptIsAskedForEachSecond(isReachable: Bool) {
        var ledger = ProbeLedger<String, Int>(ttl: .zero, failureTTL: .zero)
        for _ in 0..<3 {
            #expect(word(ledger.ask("a", at: start)) == "start")
            _ = ledger.finish("a", 1, isReachable: isReachable, at: start)
            #expect(ledger.nextTry(of: "a", at: start) == start + .seconds(1))
        }
    }

    @Test func resultsAreBounded() {
        var ledger = ProbeLedger<String, Int>(ttl: .seconds(10), failureTTL: .seconds(2), capacity: 8)
        _ = ledger.ask("running", at: start)
        for number in 0..<100 {
            _ = ledger.ask("\(number)", at: start)
            _ = ledger.finish("\(number)", number, isReachable: true, at: start)
        }
        #expect(ledger.answers.count <= 8)
        #expect(word(ledger.ask("running", at: start)) == "join")
    }

    @Test func resultMayBeValidForEver() {
        var ledger = ProbeLedger<String, Int>(ttl: .seconds(Int64.max), failureTTL: .seconds(Int64.max))
        for _ in 0..<20 {
            _ = ledger.ask("a", isFresh: true, at: start)
            _ = ledger.finish("a", 0, isReachable: false, at: start)
            #expect(ledger.nextTry(of: "a", at: start) > start + .seconds(86_400))
        }
        #expect(word(ledger.ask("a", at: start + .seconds(86_400))) == "take 0")
    }
}

import FoundationEssentials
import HTTPCore
import LATNetworking
import Testing

@testable import LATTransfers

/// What an upload makes of answers that do not tell whether it is complete, without a server.
@Suite struct UploadDoubtTests {
    typealias Step = UploadPlan.Step

    /// An upload by the draft with an address, of which the server has `stored` bytes.
    private func plan(repeats: Bool = false, stored: Int64 = 0) -> UploadPlan {
        var plan = UploadPlan(total: 100, .standard, repeatsEffects: repeats)
        _ = plan.note(.probed, to: .probe)
        _ = plan.noteInterim("u", UploadPlan.Facts(), to: .create(lane: 0, 0..<100))
        _ = plan.note(.offset(stored), to: .ask(lane: 0))
        return plan
    }

    private let last = Step.send(lane: 0, 0..<100)

    @Test func unrepeatedPartStopsTheWorkers() {
        var plan = plan(stored: 100)
        #expect(plan.step(of: 0) == .send(lane: 0, 100..<100), "the server has all bytes, and says that more follow")
        #expect(plan.note(.unrepeated, to: .send(lane: 0, 100..<100), status: 400) == .proceed)
        #expect(plan.step(of: 0) == nil && plan.serialStep == .verify)
    }

    @Test(
        arguments: [
            (.again(.busy), 504, true), (.again(.busy), 408, true), (.refused, 500, true),
            (.again(.conflict), 404, true),
            (.again(.conflict), 409, true), (.again(.busy), 429, false), (.refused, 400, false),
            (.tooLarge(nil), 413, false),
        ] as [(UploadPlan.Answer, Int, Bool)])
    func onlyARefusalEndsTheDoubt(answer: UploadPlan.Answer, status: Int, isInDoubt: Bool) {
        var plan = plan()
        plan.noteCompletion()
        _ = plan.note(answer, to: last, status: status)
        #expect(plan.mayBeComplete == isInDoubt)
        var gone = plan
        #expect(gone.note(.gone, to: .ask(lane: 0)) == (isInDoubt ? .violation(UploadPlan.doubt) : .startOver))
        // The doubt of an earlier request is not that of this one.
        plan.noteCompletion()
        plan.fail(last, isLost: true)
        plan.noteCompletion()
        _ = plan.note(answer, to: last, status: status)
        #expect(plan.mayBeComplete)
        plan.noteCompletion()
        plan.fail(last)
        #expect(plan.mayBeComplete, "the last request was not sent, but the one before")
        _ = plan.note(.offset(60), to: .ask(lane: 0))
        #expect(!plan.mayBeComplete)
    }

    @Test func refusalByAnotherPlaceLeavesTheDoubt() {
        var plan = plan()
        plan.noteCompletion()
        _ = plan.note(.refused, to: last, status: 404, isMoved: true)
        #expect(plan.mayBeComplete)
    }

    @Test func wholeUploadThatIsGoneStaysInDoubt() {
        var plan = plan()
        #expect(plan.note(.whole, to: .ask(lane: 0)) == .proceed && plan.mayBeComplete)
        plan.noteCompletion()
        #expect(plan.note(.gone, to: .complete, status: 404) == .violation(UploadPlan.doubt))
        #expect(plan.mayBeComplete, "the next run does not send it again")
    }

    @Test func lostJoinIsNotRepeated() {
        var facts = UploadPlan.Facts()
        facts.canJoin = true
        var plan = UploadPlan(total: 100, .tus(parallel: 2), repeatsEffects: false)
        plan.take(facts)
        _ = plan.note(.probed, to: .probe)
        for lane in 0..<2 {
            let step = Step.create(lane: lane, plan.lanes[lane].range)
            _ = plan.note(.created("u\(lane)", stored: 50), to: step, status: 201)
        }
        #expect(plan.serialStep == .complete)
        plan.noteCompletion()
        #expect(plan.note(.again(.busy), to: .complete, status: 504) == .again(.busy))
        #expect(plan.mayBeComplete && !plan.mayRepeat(.complete))
    }

    @Test func creationWithoutAddressLeavesNothingToAsk() {
        var plan = UploadPlan(total: 100, .standard, repeatsEffects: false)
        _ = plan.note(.probed, to: .probe)
        plan.noteCompletion()
        #expect(plan.note(.again(.busy), to: .create(lane: 0, 0..<100), status: 503) == .again(.busy))
        #expect(!plan.mayBeComplete)
    }

    @Test(arguments: [true, false]) func completeUploadThatIsGoneIsDoubt(repeats: Bool) {
        var plan = plan(repeats: repeats, stored: 100)
        _ = plan.note(.unrepeated, to: .send(lane: 0, 100..<100), status: 400)
        let outcome = plan.note(.gone, to: .verify, status: 404)
        #expect(outcome == (repeats ? .startOver : .violation(UploadPlan.doubt)))
    }

    @Test func unconfirmedResultIsAskedFor() {
        var plan = plan()
        plan.noteCompletion()
        #expect(plan.note(.unconfirmed, to: last) == .again(.conflict) && plan.mayBeComplete)
        #expect(plan.step(of: 0) == .ask(lane: 0))
        var confirmed = plan
        #expect(confirmed.note(.whole, to: .ask(lane: 0)) == .finished && confirmed.isFinished)

        #expect(plan.note(.offset(60), to: .ask(lane: 0)) == .proceed)
        #expect(plan.step(of: 0) == .send(lane: 0, 60..<100))
        #expect(plan.note(.whole, to: .ask(lane: 0)) == .proceed, "it was the result of nothing")
        #expect(plan.serialStep == .complete)
        #expect(plan.note(.unconfirmed, to: .complete) == .proceed && plan.serialStep == .verify)
        #expect(plan.note(.finished, to: .verify) == .finished)
    }

    @Test func failedUploadIsOver() {
        var plan = plan()
        plan.noteCompletion()
        #expect(plan.note(.failed, to: last, status: 422) == .failed && !plan.isFinished)
    }

    @Test func unconfirmedObjectIsPutTogetherAgain() {
        var plan = UploadPlan(total: 10, .s3)
        _ = plan.note(.created("id", stored: nil), to: .begin)
        plan.noteCompletion()
        var outcomes: [UploadPlan.Outcome] = []
        for _ in 0..<4 {
            #expect(plan.note(.unrepeated, to: .complete) == .proceed && plan.serialStep == .verify)
            outcomes.append(plan.note(.gone, to: .verify))
            if outcomes.last != .refused { #expect(plan.serialStep == .list(after: 0)) }
        }
        #expect(outcomes == [.again(.conflict), .again(.conflict), .again(.conflict), .refused])
    }

    @Test func listEndsWithTheParts() {
        var plan = UploadPlan(total: 10, .s3(partSize: 5))
        _ = plan.note(.created("id", stored: nil), to: .begin)
        #expect(plan.note(.listed([:], next: 1), to: .list(after: 0)) == .proceed)
        #expect(plan.serialStep == .list(after: 1))
        #expect(plan.note(.listed([:], next: 2), to: .list(after: 1)) == .proceed)
        #expect(plan.serialStep == nil, "a third part is of no interest")
    }
}

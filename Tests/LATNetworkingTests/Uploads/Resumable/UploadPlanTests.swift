import FoundationEssentials
import HTTPCore
import LATNetworking
import Testing

@testable import LATTransfers

/// The decisions about uploads that can go on, without a server.
@Suite struct UploadPlanTests {
    typealias Step = UploadPlan.Step

    private static let file = FileVersion(
        size: 100, seconds: 1, nanoseconds: 2, changeSeconds: 5, changeNanoseconds: 6, inode: 3)

    private func probed(_ upload: ResumableUpload, total: Int64 = 100, facts: UploadPlan.Facts = .init()) -> UploadPlan
    {
        var plan = UploadPlan(total: total, upload)
        if plan.serialStep == .probe {
            plan.take(facts)
            #expect(plan.note(.probed, to: .probe) == .proceed)
        }
        return plan
    }

    @Test func sequenceIsCreatedSentAndFinished() {
        var plan = probed(.tus(partSize: 40))
        #expect(plan.serialStep == nil)
        #expect(plan.workerCount == 1)
        #expect(plan.step(of: 0) == .create(lane: 0, 0..<0))
        #expect(plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0)) == .proceed)
        for range in [0..<40, 40..<80] as [Range<Int64>] {
            #expect(plan.step(of: 0) == .send(lane: 0, range))
            #expect(plan.note(.offset(range.upperBound), to: .send(lane: 0, range)) == .proceed)
        }
        #expect(plan.step(of: 0) == .send(lane: 0, 80..<100))
        #expect(plan.stored == 80)
        #expect(plan.note(.offset(100), to: .send(lane: 0, 80..<100)) == .finished)
        #expect(plan.step(of: 0) == nil)
        #expect(plan.serialStep == nil)
        #expect(plan.isFinished)
    }

    @Test func failureAsksForTheOffset() {
        var plan = probed(.tus(partSize: 40))
        _ = plan.step(of: 0)
        _ = plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0))
        plan.fail(.send(lane: 0, 0..<40))
        #expect(plan.step(of: 0) == .ask(lane: 0))
        #expect(plan.note(.offset(25), to: .ask(lane: 0)) == .proceed)
        #expect(plan.step(of: 0) == .send(lane: 0, 25..<65))
        #expect(plan.note(.again(.conflict), to: .send(lane: 0, 25..<65)) == .again(.conflict))
        #expect(plan.step(of: 0) == .ask(lane: 0))
        #expect(
            plan.note(.offset(101), to: .ask(lane: 0)) == .again(.conflict), "an odd answer does not destroy the upload"
        )
        plan.startOver()
        #expect(plan.step(of: 0) == .create(lane: 0, 0..<0))
        #expect(plan.stored == 0)
    }

    @Test func offsetThatStandsStillIsAConflict() {
        var plan = probed(.tus(partSize: 40))
        _ = plan.step(of: 0)
        _ = plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0))
        #expect(plan.note(.offset(0), to: .send(lane: 0, 0..<40)) == .again(.conflict))
    }

    @Test func lanesAreJoinedAtTheEnd() {
        var facts = UploadPlan.Facts()
        facts.canJoin = true
        var plan = probed(.tus(parallel: 3), facts: facts)
        #expect(plan.shape == .joined)
        #expect(plan.lanes.map(\.range) == [0..<33, 33..<66, 66..<100])
        #expect(plan.workerCount == 3)
        for worker in 0..<3 {
            guard case .create(let lane, _)? = plan.step(of: worker) else {
                Issue.record("no creation")
                return
            }
            #expect(lane == worker)
            _ = plan.note(.created("u\(lane)", stored: 0), to: .create(lane: lane, 0..<0))
            guard case .send(_, let range)? = plan.step(of: worker) else {
                Issue.record("nothing to send")
                return
            }
            #expect(plan.serialStep == nil)
            #expect(plan.note(.offset(Int64(range.count)), to: .send(lane: lane, range)) == .proceed)
        }
        #expect(plan.serialStep == .complete)
        #expect(plan.note(.finished, to: .complete) == .finished)
    }

    @Test func partsOfAnyFileAreCounted() {
        let most = Int(UploadPlan.maxParts) + 1
        #expect(UploadPlan(total: .max, .s3(partSize: 5 << 30)).lanes.count == most)
        let lanes = UploadPlan(total: .max, .s3()).lanes
        #expect(lanes.count < most && lanes.last?.range.upperBound == .max)
        #expect(UploadPlan(total: 0, .s3()).lanes.map(\.range) == [0..<0])
    }

    @Test func partsAreListedAndPutTogether() {
        var plan = probed(.s3(partSize: 40, parallel: 2))
        #expect(plan.serialStep == .begin)
        #expect(plan.note(.created("id", stored: nil), to: .begin) == .proceed)
        #expect(plan.serialStep == nil)
        #expect(plan.lanes.map(\.range) == [0..<40, 40..<80, 80..<100])
        #expect(plan.step(of: 0) == .send(lane: 0, 0..<40))
        #expect(plan.step(of: 1) == .send(lane: 1, 40..<80))
        #expect(plan.note(.stored(.init(tag: "b")), to: .send(lane: 1, 40..<80)) == .proceed)

        var resumed = UploadPlan(total: 100, .s3(partSize: 7))
        guard let journal = plan.journal(identity: "i", Self.file) else {
            Issue.record("no journal")
            return
        }
        resumed.resume(from: journal)
        #expect(resumed.lanes.count == 3, "the size of the parts is that of the journal")
        #expect(resumed.serialStep == .list(after: 0))
        let parts: [Int: UploadPlan.Part] = [1: .init(tag: "a", size: 39), 2: .init(tag: "b", size: 40)]
        #expect(resumed.note(.listed(parts, next: 2), to: .list(after: 0)) == .proceed)
        #expect(resumed.serialStep == .list(after: 2))
        #expect(resumed.note(.listed([3: .init(tag: "c")], next: nil), to: .list(after: 2)) == .proceed)
        #expect(resumed.step(of: 0) == .send(lane: 0, 0..<40), "a part of another size does not count")
        _ = resumed.note(.stored(.init(tag: "d")), to: .send(lane: 0, 0..<40))
        #expect(resumed.serialStep == .complete)
        resumed.noteCompletion()
        #expect(resumed.note(.gone, to: .complete) == .proceed)
        #expect(resumed.serialStep == .verify)
        #expect(resumed.note(.gone, to: .verify) == .startOver)
    }

    @Test func standardUploadIsOptimisticUntilItKnows() {
        var plan = probed(.standard(partSize: 40))
        #expect(plan.step(of: 0) == .create(lane: 0, 0..<100))
        let isNew = ["u", "v"].map { plan.noteInterim($0, UploadPlan.Facts(), to: .create(lane: 0, 0..<100)) }
        #expect(isNew == [true, false], "the address stays")
        plan.fail(.create(lane: 0, 0..<100), isLost: true)
        #expect(plan.version == 8, "the server has named it")
        #expect(plan.step(of: 0) == .ask(lane: 0))
        #expect(plan.note(.whole, to: .ask(lane: 0)) == .proceed)
        #expect(plan.serialStep == .complete)

        var unanswered = probed(.standard)
        for version in [7, 6, 5, 4, 3, 3] {
            unanswered.fail(.create(lane: 0, 0..<100), isLost: true)
            #expect(unanswered.version == version)
        }
    }

    @Test func partialCreationNeedsANamedVersion() {
        var facts = UploadPlan.Facts()
        facts.maxPart = 40
        var plan = probed(.standard, facts: facts)
        #expect(plan.step(of: 0) == .create(lane: 0, 0..<100), "another server might take nothing for the whole file")
        #expect(plan.note(.tooLarge(40), to: .create(lane: 0, 0..<100)) == .refused)

        facts.version = 6
        plan = probed(.standard, facts: facts)
        #expect(plan.step(of: 0) == .create(lane: 0, 0..<0))
        #expect(plan.version == 6)
        plan.fail(.create(lane: 0, 0..<0), isLost: true)
        #expect(plan.version == 6, "a named version is not lowered")

        facts.minSize = 101
        plan = probed(.standard, facts: facts)
        #expect(plan.step(of: 0) == .create(lane: 0, 0..<100), "the file is too small to be continued")
        facts.version = 9
        plan = probed(.standard, facts: facts)
        #expect(plan.version == 8 && !plan.isVersionKnown, "an unknown version does not count")
    }

    @Test func answerDoesNotLowerTheVersion() {
        var plan = probed(.standard)
        _ = plan.note(.again(.busy), to: .create(lane: 0, 0..<100))
        plan.fail(.create(lane: 0, 0..<100))
        #expect(plan.version == 8)
    }

    @Test(arguments: [Step.create(lane: 0, 0..<40), .send(lane: 0, 0..<40)])
    func offsetBeyondWhatWasSentIsRefused(step: Step) {
        var plan = probed(.tus(partSize: 40))
        _ = plan.step(of: 0)
        _ = plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0))
        let answer =
            if case .create = step { UploadPlan.Answer.created("u", stored: 41) } else { UploadPlan.Answer.offset(41) }
        guard case .violation(let reason) = plan.note(answer, to: step) else {
            Issue.record("the offset is believed")
            return
        }
        #expect(reason.contains("41 bytes") && reason.contains("40 were sent") && !plan.isFinished)
    }

    @Test func otherAddressInTheResponseIsRefused() {
        var plan = probed(.standard)
        _ = plan.noteInterim("u", UploadPlan.Facts(), to: .create(lane: 0, 0..<100))
        guard case .violation = plan.note(.created("v", stored: 0), to: .create(lane: 0, 0..<100)) else {
            Issue.record("both addresses are believed")
            return
        }
    }

    @Test func onlyNewBytesAreProgress() {
        var plan = probed(.tus(partSize: 40))
        _ = plan.step(of: 0)
        _ = plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0))
        var heights: [Int64] = []
        for _ in 0..<3 {
            _ = plan.note(.offset(40), to: .send(lane: 0, 0..<40))
            plan.fail(.send(lane: 0, 40..<80))
            _ = plan.note(.offset(0), to: .ask(lane: 0))
            heights.append(plan.highest)
        }
        #expect(heights == [40, 40, 40] && plan.stored == 0)
    }

    @Test func unusablePartsAreListedThreeTimes() {
        var plan = UploadPlan(total: 10, .s3)
        _ = plan.note(.created("id", stored: nil), to: .begin)
        var outcomes: [UploadPlan.Outcome] = []
        for _ in 0..<4 {
            plan.noteCompletion()
            outcomes.append(plan.note(.again(.conflict), to: .complete))
        }
        #expect(outcomes == [.again(.conflict), .again(.conflict), .again(.conflict), .refused])
    }

    @Test func listHasToGoOn() {
        var plan = UploadPlan(total: 10, .s3)
        _ = plan.note(.created("id", stored: nil), to: .begin)
        #expect(plan.note(.listed([:], next: 8), to: .list(after: 7)) == .proceed)
        for next in [7, 8] {
            guard case .violation = plan.note(.listed([:], next: next), to: .list(after: 8)) else {
                Issue.record("the list never ends")
                return
            }
        }
    }

    @Test func lostEffectIsNotRepeated() {
        for (repeats, isRepeated) in [(true, true), (false, false)] {
            var plan = UploadPlan(total: 100, .standard, repeatsEffects: repeats)
            _ = plan.note(.probed, to: .probe)
            let creation = Step.create(lane: 0, 0..<100)
            #expect(plan.completes(creation) && plan.mayRepeat(creation) == isRepeated)
            _ = plan.noteInterim("u", UploadPlan.Facts(), to: creation)
            #expect(plan.mayRepeat(creation), "with an address the server is asked")
            plan.noteCompletion()
            let outcome = plan.note(.gone, to: .ask(lane: 0))
            #expect(outcome == (isRepeated ? .startOver : .violation(UploadPlan.doubt)))

            plan.noteCompletion()
            _ = plan.note(.offset(50), to: .ask(lane: 0))
            #expect(!plan.mayBeComplete && plan.note(.gone, to: .ask(lane: 0)) == .startOver)
        }
        var facts = UploadPlan.Facts()
        (facts.canJoin, facts.createsWithContent) = (true, true)
        var joined = UploadPlan(total: 100, .tus(parallel: 2), repeatsEffects: false)
        joined.take(facts)
        _ = joined.note(.probed, to: .probe)
        #expect(joined.step(of: 0) == .create(lane: 0, 0..<50), "a part has no effect of its own")
        #expect(!joined.mayRepeat(.complete))
    }

    @Test func requestThatWasNotSentLeavesNoDoubt() {
        var plan = UploadPlan(total: 100, .standard, repeatsEffects: false)
        _ = plan.note(.probed, to: .probe)
        let creation = Step.create(lane: 0, 0..<100)
        for (isLost, isInDoubt) in [(false, false), (true, true)] {
            plan.noteCompletion()
            plan.fail(creation, isLost: isLost)
            #expect(plan.mayBeComplete == isInDoubt)
        }
    }

    @Test func tusCreatesEmptyUnlessItMayRepeat() {
        var facts = UploadPlan.Facts()
        facts.createsWithContent = true
        for (repeats, content) in [(true, 0..<100), (false, 0..<0)] as [(Bool, Range<Int64>)] {
            var plan = UploadPlan(total: 100, .tus, repeatsEffects: repeats)
            plan.take(facts)
            _ = plan.note(.probed, to: .probe)
            #expect(plan.step(of: 0) == .create(lane: 0, content))
        }
    }

    @Test func unrepeatedResultIsVerified() {
        var plan = probed(.standard)
        _ = plan.note(.created("u", stored: 100), to: .create(lane: 0, 0..<100))
        _ = plan.note(.whole, to: .ask(lane: 0))
        #expect(plan.serialStep == .complete)
        #expect(plan.note(.unrepeated, to: .complete) == .proceed)
        #expect(plan.serialStep == .verify)
        #expect(plan.note(.finished, to: .verify) == .finished && plan.isFinished)
    }

    @Test func refusedSizeIsHalved() {
        var plan = probed(.tus(partSize: 64))
        _ = plan.step(of: 0)
        _ = plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0))
        #expect(plan.note(.tooLarge(nil), to: .send(lane: 0, 0..<64)) == .proceed)
        #expect(plan.partSize == 32)
        #expect(plan.note(.tooLarge(10), to: .send(lane: 0, 0..<32)) == .proceed)
        #expect(plan.partSize == 10)
        #expect(plan.note(.tooLarge(nil), to: .send(lane: 0, 0..<1)) == .refused)
    }

    @Test(
        arguments: [
            (0, 4 << 20), (100 << 20, 4 << 20), (1 << 30, (1 << 30) / 100), (100 << 30, 64 << 20),
        ] as [(Int64, Int64)])
    func partIsAHundredthOfTheFile(total: Int64, size: Int64) {
        #expect(UploadPlan(total: total, .tus).partSize == size)
    }

    @Test func largestObjectHasAllowedParts() {
        let plan = UploadPlan(total: 5 << 40, .s3)
        #expect(plan.lanes.count <= 10_000)
        #expect(plan.partSize >= 5 << 20)
        #expect(plan.partSize % (1 << 20) == 0)
        #expect(plan.lanes.last?.range.upperBound == 5 << 40)
    }

    // MARK: The journal

    @Test(arguments: ResumableUpload.Style.allCases) func journalIsReadAsItWasWritten(style: ResumableUpload.Style)
        throws
    {
        var plan = UploadPlan(total: 100, ResumableUpload(style, partSize: 40))
        if style == .s3 {
            _ = plan.note(.created("id &\"", stored: nil), to: .begin)
            plan.noteCompletion()
        } else {
            _ = plan.note(.probed, to: .probe)
            _ = plan.note(.created("http://h/ü?a=b", stored: 0), to: .create(lane: 0, 0..<0))
        }
        let journal = try #require(plan.journal(identity: "i", Self.file))
        #expect(UploadJournal(decoding: try journal.encoded()) == journal)
    }

    @Test func journalOfAnEmptyObjectIsRead() throws {
        var plan = UploadPlan(total: 0, .s3)
        _ = plan.note(.created("id", stored: nil), to: .begin)
        var journal = try #require(plan.journal(identity: "i", Self.file))
        journal.isRemoved = true
        #expect(UploadJournal(decoding: try journal.encoded()) == journal)
        journal.partSize = .max
        #expect(UploadJournal(decoding: try journal.encoded()) == nil, "S3 has no such parts")
    }

    @Test func damagedJournalIsNotRead() throws {
        var plan = UploadPlan(total: 100, .tus)
        _ = plan.note(.created("u", stored: 0), to: .create(lane: 0, 0..<0))
        let data = try #require(plan.journal(identity: "i", Self.file)).encoded()
        #expect(UploadJournal(decoding: data.dropLast()) == nil)
        for index in data.indices {
            var damaged = data
            damaged[index] ^= 1
            #expect(UploadJournal(decoding: damaged) == nil, "byte \(index)")
        }
        var short = try #require(UploadJournal(decoding: data))
        short.lanes = [.init(range: 0..<50, address: "u")]
        #expect(UploadJournal(decoding: try short.encoded()) == nil, "the lanes have to cover the file")
    }

    @Test func uploadWithoutAddressHasNoJournal() {
        #expect(UploadPlan(total: 1, .tus).journal(identity: "i", Self.file) == nil)
    }

    // MARK: Texts

    @Test func elementsOfDocumentsAreFound() {
        let text = "<A><Part><ETag>&quot;a&amp;lt;&quot;</ETag></Part><Part><ETag>b</ETag></Part></A>"
        #expect(
            XMLText.elements("Part", in: text).compactMap { XMLText.value(of: "ETag", in: $0) } == ["\"a&lt;\"", "b"])
        #expect(XMLText.value(of: "Code", in: "<Code>a") == nil && XMLText.escaped("<&\"") == "&lt;&amp;&quot;")
    }

    @Test(arguments: [
        ("a.txt", "inline; filename=\"a.txt\""),
        ("a\"b\\.txt", "inline; filename=\"a_b_.txt\"; filename*=UTF-8''a%22b%5C.txt"),
        ("ü%\r\n", "inline; filename=\"____\"; filename*=UTF-8''%C3%BC%25%0D%0A"),
    ])
    func fileNameIsWrittenSafely(name: String, field: String) {
        #expect(ContentDisposition.inline(name) == field)
    }
}

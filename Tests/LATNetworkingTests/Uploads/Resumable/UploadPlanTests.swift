import FoundationEssentials
import HTTPCore
import LATNetworking
import Testing

@testable import LATTransfers

/// The decisions about uploads that can go on, without a server.
@Suite struct UploadPlanTests {
    typealias Step = UploadPlan.Step

    private static let file = FileVersion(size: 100, seconds: 1, nanoseconds: 2, inode: 3, device: 4)

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
            plan.note(.offset(101), to: .ask(lane: 0)) == .startOver, "an offset behind the end is of other content")
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
        var facts = UploadPlan.Facts()
        facts.isKnown = true
        let isNew = ["u", "v"].map { plan.noteInterim($0, facts, to: .create(lane: 0, 0..<100)) }
        #expect(isNew == [true, false], "the address stays")
        plan.fail(.create(lane: 0, 0..<100))
        #expect(plan.version == 8)
        #expect(plan.step(of: 0) == .ask(lane: 0))
        #expect(plan.note(.whole, to: .ask(lane: 0)) == .proceed)
        #expect(plan.serialStep == .complete)

        var known = probed(.standard(partSize: 40), facts: facts)
        #expect(known.step(of: 0) == .create(lane: 0, 0..<0))
        var unanswered = probed(.standard)
        for version in [7, 6, 5, 4, 3, 3] {
            unanswered.fail(.create(lane: 0, 0..<100))
            #expect(unanswered.version == version)
        }
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

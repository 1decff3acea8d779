import HTTPCore
import ResponseCache
import Testing

@testable import LATClient
@testable import LATTransfers

/// The decisions of a download as pure values.
@Suite struct DownloadPlanTests {
    private let mebibyte: Int64 = 1 << 20
    private let tag = ContentValidator.entityTag("\"v1\"")

    /// Returns a plan whose first worker has a response: a part of `total` bytes, or the whole.
    private func begun(_ total: Int64, segments: Int, isPart: Bool = true) -> DownloadPlan {
        var plan = DownloadPlan(segments: segments, usesRanges: true)
        #expect(plan.take(0) == true)
        #expect(plan.ask(0) == (segments > 1 ? .probe : .whole))
        plan.begin(0, answer(0..<total, total: total, isPart: isPart))
        return plan
    }

    private func answer(
        _ range: Range<Int64>, total: Int64?, isPart: Bool = true, invalidatesReceived: Bool = false
    ) -> ContentResponse {
        ContentResponse(
            start: range.lowerBound, end: range.upperBound, total: total, validator: tag, isPart: isPart,
            deniesRanges: false, invalidatesReceived: invalidatesReceived || range.lowerBound == 0)
    }

    /// Claims `count` bytes for a worker and marks them as written.
    private func fetch(_ plan: inout DownloadPlan, _ worker: Int, _ count: Int) throws -> DownloadPlan.Claim {
        let place = plan.claim(worker, count)
        let claim = try #require(place)
        plan.write(claim.offset..<(claim.offset + Int64(claim.count)))
        return claim
    }

    @Test func workersShareTheContentEvenly() throws {
        var plan = begun(8 * mebibyte, segments: 4)
        #expect(plan.workerCount == 4)
        for worker in 1..<4 { #expect(plan.take(worker) == true) }
        #expect(plan.ask(1) == .part(from: 2 * mebibyte, end: 4 * mebibyte, tag))
        #expect(plan.ask(2) == .part(from: 4 * mebibyte, end: 6 * mebibyte, tag))
        #expect(plan.ask(3) == .part(from: 6 * mebibyte, end: nil, tag))
    }

    @Test func freeWorkerTakesHalfOfTheLongestRest() throws {
        var plan = begun(8 * mebibyte, segments: 2)
        #expect(plan.take(1) == true)
        plan.begin(1, answer((4 * mebibyte)..<(8 * mebibyte), total: 8 * mebibyte))
        _ = try fetch(&plan, 1, 1 << 20)
        _ = try fetch(&plan, 0, 4 << 20)
        #expect(plan.end(0) == 0 && plan.take(0) == true)
        // The other worker has 3 MiB left, so each takes 1.5 MiB.
        #expect(plan.ask(0) == .part(from: 6 * mebibyte + mebibyte / 2, end: nil, tag))
        plan.begin(0, answer((6 * mebibyte + mebibyte / 2)..<(8 * mebibyte), total: 8 * mebibyte))
        let claim = try fetch(&plan, 1, 2 << 20)
        #expect(claim.count == 3 << 19 && claim.isLast)
    }

    @Test func bodyWithoutALengthThatEndsEarlyIsShort() throws {
        var plan = DownloadPlan(segments: 1, usesRanges: true)
        #expect(plan.take(0) == true)
        let unknown = ContentResponse(
            start: 0, end: nil, total: nil, validator: tag, isPart: false, deniesRanges: false,
            invalidatesReceived: false)
        plan.begin(0, unknown)
        _ = try fetch(&plan, 0, 100)
        plan.release(0)
        #expect(plan.take(0) == true)
        plan.begin(0, unknown)
        _ = try fetch(&plan, 0, 60)
        #expect(plan.end(0) == 40 && !plan.isComplete && plan.total == nil)
    }

    @Test func largestTotalIsShared() throws {
        var plan = begun(.max, segments: 4)
        for worker in 1..<4 { #expect(plan.take(worker) == true) }
    }

    @Test func smallContentIsNotSplit() throws {
        #expect(begun(mebibyte, segments: 8).workerCount == 2)
        #expect(begun(1_000, segments: 8).workerCount == 1)
        #expect(begun(8 * mebibyte, segments: 4, isPart: false).workerCount == 1)
        #expect(DownloadPlan(segments: 4, usesRanges: false).segments == 1)
    }

    @Test func everyByteIsFetchedOnceInAnyOrder() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<50 {
            let total = Int64.random(in: (4 * mebibyte)...(32 * mebibyte), using: &random)
            var plan = begun(total, segments: Int.random(in: 2...8, using: &random))
            var busy: Set<Int> = [0]
            var fetched: Int64 = 0
            while !plan.isComplete {
                for worker in 0..<plan.segments where !busy.contains(worker) && plan.take(worker) {
                    guard case .part(let start, let end, _) = plan.ask(worker) else { break }
                    plan.begin(worker, answer(start..<(end ?? total), total: total))
                    busy.insert(worker)
                }
                let worker = try #require(busy.randomElement(using: &random))
                var count = Int.random(in: 1...600_000, using: &random)
                var claim = plan.claim(worker, count)
                while claim == nil, count > 1 {
                    count /= 2
                    claim = plan.claim(worker, count)
                }
                if let claim {
                    plan.write(claim.offset..<(claim.offset + Int64(claim.count)))
                    fetched += Int64(claim.count)
                }
                // The response has ended, or the rest of it is not needed.
                if claim?.isLast ?? true {
                    #expect(plan.end(worker) == 0)
                    busy.remove(worker)
                } else if Int.random(in: 0..<40, using: &random) == 0 {
                    plan.release(worker)
                    busy.remove(worker)
                }
            }
            #expect(fetched == total && plan.done.ranges == [0..<total])
        }
    }

    @Test func responseLongerThanItsRangeIsDetected() throws {
        var plan = begun(100, segments: 1)
        #expect(plan.claim(0, 60) != nil)
        #expect(plan.claim(0, 41) == nil)
    }

    @Test func bodyThatEndsEarlyIsShort() throws {
        var plan = begun(100, segments: 1)
        _ = try fetch(&plan, 0, 60)
        #expect(plan.end(0) == 40)
        #expect(plan.take(0) == true && plan.ask(0) == .part(from: 60, end: nil, tag))
    }

    @Test func endOfABodyWithoutLengthSetsTheTotal() throws {
        var plan = DownloadPlan(segments: 1, usesRanges: true)
        #expect(plan.take(0) == true)
        var whole = answer(0..<1, total: nil, isPart: false)
        whole.end = nil
        plan.begin(0, whole)
        _ = try fetch(&plan, 0, 70)
        #expect(plan.total == nil && plan.end(0) == 0 && plan.total == 70 && plan.isComplete)
    }

    @Test func journalIsContinuedGapByGap() throws {
        var journal = DownloadJournal(identity: "u")
        journal.validator = tag
        journal.total = 100
        journal.done = ByteRanges([0..<10, 20..<50])
        var plan = DownloadPlan(segments: 1, usesRanges: true)
        plan.resume(from: journal)
        #expect(plan.isResumable && plan.take(0) == true && plan.ask(0) == .part(from: 10, end: 20, tag))
        plan.begin(0, answer(10..<20, total: 100))
        _ = try fetch(&plan, 0, 10)
        #expect(plan.end(0) == 0 && plan.take(0) == true && plan.ask(0) == .part(from: 50, end: nil, tag))
        var post = DownloadPlan(segments: 1, usesRanges: false)
        post.resume(from: journal)
        #expect(post.done.count == 0 && !post.isResumable)
    }

    @Test func wholeResponseKeepsUnchangedRanges() throws {
        var plan = begun(100, segments: 1)
        _ = try fetch(&plan, 0, 60)
        plan.release(0)
        #expect(plan.take(0) == true)
        var whole = answer(0..<100, total: 100, isPart: false)
        whole.invalidatesReceived = false
        plan.begin(0, whole)
        #expect(plan.done.count == 60)
        let again = try fetch(&plan, 0, 50)
        #expect(again.offset == 0 && plan.done.count == 60)
        let rest = try fetch(&plan, 0, 50)
        #expect(rest.offset == 50 && plan.isComplete)
    }

    @Test func changedContentVoidsFetchedRanges() throws {
        var plan = begun(100, segments: 1)
        _ = try fetch(&plan, 0, 60)
        plan.release(0)
        #expect(plan.take(0) == true)
        plan.begin(0, answer(0..<90, total: 90, isPart: false))
        #expect(plan.done.count == 0 && plan.total == 90 && plan.restarts == 1)
        plan.startOver(.wrongRange)
        #expect(!plan.isResumable && plan.take(0) == true && plan.ask(0) == .whole)
    }
}

/// The decision about a response, from its status and header fields.
@Suite struct ResponseRuleTests {
    private static let tag = ContentValidator.entityTag("\"v1\"")
    private let part = ContentRequest.part(from: 10, end: nil, tag)
    private let known = ResponseRule.Known(validator: tag, total: 100, contiguous: 10)

    private func judge(
        _ status: Int, _ headers: HTTPHeaders, to ask: ContentRequest, known: ResponseRule.Known? = nil
    ) -> ResponseRule.Verdict {
        ResponseRule.judge(status: status, headers: headers, to: ask, known ?? self.known)
    }

    @Test func matchingPartIsAccepted() {
        let verdict = judge(206, ["Content-Range": "bytes 10-99/100", "ETag": "\"v1\""], to: part)
        #expect(
            verdict
                == .content(
                    ContentResponse(
                        start: 10, end: 100, total: 100, validator: Self.tag, isPart: true, deniesRanges: false,
                        invalidatesReceived: false)))
    }

    /// rclone answers a range so.
    @Test(arguments: [200, 203]) func partWithTheStatusOfAWholeIsAPart(status: Int) {
        let headers: HTTPHeaders = ["Content-Range": "bytes 10-99/100", "ETag": "\"v1\"", "Content-Length": "90"]
        #expect(judge(status, headers, to: part) == judge(206, headers, to: part))
        let changed = headers.merging(["ETag": "\"v2\""])
        #expect(judge(status, changed, to: part) == .startOver(.changed))
        let multipart: HTTPHeaders = ["Content-Type": "multipart/byteranges; boundary=b", "ETag": "\"v1\""]
        #expect(judge(status, multipart, to: part) == .startOver(.wrongRange))
        guard case .unusable = judge(status, headers, to: .whole) else {
            Issue.record("a part was taken for the whole")
            return
        }
        // The field is what is wrong in these.
        for range in ["bytes 0-99/100", "bytes 10-99/100"] {
            let whole: HTTPHeaders = ["Content-Range": range, "ETag": "\"v1\"", "Content-Length": "100"]
            guard case .content(let content) = judge(status, whole, to: part) else {
                Issue.record("refused: \(range)")
                continue
            }
            #expect(content.start == 0 && content.total == 100 && !content.isPart && !content.invalidatesReceived)
        }
    }

    @Test func otherLengthOfTheSameVersionStartsOver() {
        let headers: HTTPHeaders = ["ETag": "\"v1\"", "Content-Length": "90"]
        #expect(judge(200, headers, to: part) == .startOver(.wrongRange))
        let coded = headers.merging(["Transfer-Encoding": "chunked"])
        guard case .content = judge(200, coded, to: part) else {
            Issue.record("a length that does not count was believed")
            return
        }
    }

    /// The size was unknown when the first bytes were received.
    @Test func versionShorterThanWhatWasReceivedStartsOver() {
        let known = ResponseRule.Known(validator: Self.tag, contiguous: 10, end: 10)
        let whole: HTTPHeaders = ["ETag": "\"v1\"", "Content-Length": "9"]
        #expect(judge(200, whole, to: part, known: known) == .startOver(.wrongRange))
        guard case .content(let content) = judge(200, whole.merging(["Content-Length": "10"]), to: part, known: known)
        else {
            Issue.record("the whole was refused")
            return
        }
        #expect(content.total == 10 && !content.invalidatesReceived)
        // A gap is filled before what was received.
        let first: HTTPHeaders = ["ETag": "\"v1\"", "Content-Range": "bytes 0-4/9"]
        let gap = ContentRequest.part(from: 0, end: 5, Self.tag)
        #expect(judge(206, first, to: gap, known: known) == .startOver(.wrongRange))
    }

    @Test(
        arguments: [
            ["Content-Range": "bytes 11-99/100"], ["Content-Range": "bytes 9-99/100"],
            ["Content-Range": "bytes 10-99/101"],
            ["Content-Range": "bytes 10-100/100"], ["Content-Range": "bytes 10-9/100"],
            ["Content-Range": "bytes */100"],
            ["Content-Range": "bytes=10-99/100"], ["Content-Range": "bytes +10-99/100"],
            ["Content-Range": "items 10-99/100"],
            ["Content-Range": "bytes 10-99/100", "Content-Length": "91"], [:],
            ["Content-Range": "bytes 10-99/100", "Content-Type": "Multipart/ByteRanges; boundary=b"],
            ["Content-Range": "bytes 10-9223372036854775807/*"], ["Content-Range": "bytes 10-100/*"],
            ["Content-Range": "bytes 10-99/100", "Content-Encoding": "gzip"],
        ] as [[String: String]]) func mismatchedPartStartsOver(_ fields: [String: String])
    {
        var headers: HTTPHeaders = ["ETag": "\"v1\""]
        for (name, value) in fields { headers[name] = value }
        guard case .startOver(.wrongRange) = judge(206, headers, to: part) else {
            Issue.record("accepted: \(fields)")
            return
        }
    }

    @Test func tagsAreComparedStrongly() {
        let range = "bytes 10-99/100"
        #expect(judge(206, ["Content-Range": range, "ETag": "\"v2\""], to: part) == .startOver(.changed))
        #expect(judge(206, ["Content-Range": range, "ETag": "W/\"v1\""], to: part) == .startOver(.changed))
        guard case .startOver(.wrongRange) = judge(206, ["Content-Range": range], to: part) else {
            Issue.record("a part without an entity tag was accepted")
            return
        }
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let dated = ContentRequest.part(from: 10, end: nil, .modified(date))
        if case .content = judge(206, ["Content-Range": range], to: dated) {} else { Issue.record("refused") }
        #expect(
            judge(206, ["Content-Range": range, "Last-Modified": "Mon, 07 Nov 1994 08:49:37 GMT"], to: dated)
                == .startOver(.changed))
    }

    @Test func wholeResponseVoidsChangedRanges() {
        func voids(_ headers: HTTPHeaders, _ ask: ContentRequest) -> Bool? {
            if case .content(let answer) = judge(200, headers, to: ask) { answer.invalidatesReceived } else { nil }
        }
        #expect(voids(["ETag": "\"v1\"", "Content-Length": "100"], part) == false)
        #expect(voids(["ETag": "\"v2\"", "Content-Length": "100"], part) == true)
        #expect(voids([:], part) == true)
        #expect(voids(["ETag": "\"v1\"", "Content-Length": "100"], .whole) == true)
        #expect(voids(["ETag": "\"v1\""], part) == true)
        #expect(voids(["ETag": "\"v1\"", "Content-Length": "100", "Content-Encoding": "gzip"], part) == true)
        let dated = ContentRequest.part(from: 10, end: nil, .entityTag("\"v1\"", modified: Self.dates[0]))
        for (date, isVoid) in [(Self.dates[0], false), (Self.dates[1], true), ("yesterday", true)] {
            let headers: HTTPHeaders = ["ETag": "\"v1\"", "Content-Length": "100", "Last-Modified": date]
            #expect(voids(headers, dated) == isVoid && voids(headers, part) == false)
        }
    }

    private static let dates = ["Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT"]

    /// The same time in another of the formats of RFC 9110 §5.6.7 is the same version.
    @Test func datesAreComparedWhereBothHaveOne() {
        let own = ContentValidator.entityTag("\"v1\"", modified: Self.dates[0])
        func compare(_ date: String?) -> ContentValidator.Comparison {
            var headers: HTTPHeaders = ["ETag": "\"v1\""]
            headers["Last-Modified"] = date
            return own.compare(with: headers)
        }
        #expect(compare(Self.dates[0]) == .same && compare(nil) == .same)
        #expect(compare("Sunday, 06-Nov-94 08:49:37 GMT") == .same)
        #expect(compare(Self.dates[1]) == .different && compare("") == .different)
        let learned = ContentValidator.entityTag("\"v1\"").adding(["Last-Modified": Self.dates[0]])
        #expect(learned == own && own.adding(["Last-Modified": Self.dates[1]]) == own)
    }

    @Test func refusedRangeCompletesOnlyAtTheEnd() {
        let unknown = ResponseRule.Known(validator: Self.tag, total: nil, contiguous: 10)
        let sized = ResponseRule.Known(validator: Self.tag, total: 10, contiguous: 10)
        let same: HTTPHeaders = ["Content-Range": "bytes */10", "ETag": "\"v1\""]
        #expect(judge(416, same, to: part, known: unknown) == .complete(total: 10))
        #expect(judge(416, ["Content-Range": "bytes */10"], to: part, known: sized) == .complete(total: 10))
        // Another version may be as long as what was received.
        #expect(judge(416, ["Content-Range": "bytes */10"], to: part, known: unknown) == .startOver(.refusedRange))
        #expect(judge(416, ["Content-Range": "bytes */11"], to: part, known: unknown) == .startOver(.refusedRange))
        #expect(judge(416, ["Content-Range": "bytes */10"], to: part) == .startOver(.refusedRange))
        #expect(
            judge(416, ["Content-Range": "bytes */10", "ETag": "\"v2\""], to: part, known: unknown)
                == .startOver(.refusedRange))
        #expect(judge(416, [:], to: .probe) == .startOver(.refusedRange))
        #expect(judge(416, [:], to: .whole) == .refused)
    }

    @Test func otherStatusesBringNoContent() {
        for status in [202, 204, 205, 226, 304, 400, 404, 500] { #expect(judge(status, [:], to: .whole) == .refused) }
        guard case .unusable = judge(206, ["Content-Range": "bytes 0-9/10"], to: .whole) else {
            Issue.record("an unrequested part was accepted")
            return
        }
    }

    @Test func onlyStrongValidatorsAreUsed() {
        let old = "Sun, 06 Nov 1994 08:49:37 GMT"
        func validator(_ headers: HTTPHeaders) -> ContentValidator? { ContentValidator(headers) }
        #expect(validator(["ETag": "\"a\""]) == .entityTag("\"a\""))
        #expect(validator(["ETag": "\"\""]) == .entityTag("\"\""))
        #expect(
            validator(["ETag": "W/\"a\""]) == nil && validator(["ETag": "a"]) == nil
                && validator(["ETag": "\"a\"b\""]) == nil)
        #expect(validator(["Last-Modified": old, "Date": "Sun, 06 Nov 1994 08:50:37 GMT"]) == .modified(old))
        #expect(validator(["Last-Modified": old, "Date": "Sun, 06 Nov 1994 08:50:36 GMT"]) == nil)
        #expect(
            validator(["Last-Modified": old]) == nil && validator(["Last-Modified": "yesterday", "Date": old]) == nil)
        #expect(validator(["ETag": "W/\"a\"", "Last-Modified": old, "Date": "Mon, 07 Nov 1994 08:50:37 GMT"]) == nil)
    }
}

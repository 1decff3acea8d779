import HTTPCore
import ResponseCache
import Testing

@testable import LATClient
@testable import LATTransfers

/// What the workers of a download do when others are refused, and where a response is read on, as pure values.
@Suite struct DownloadWorkerTests {
    private let mebibyte: Int64 = 1 << 20
    private let tag = ContentValidator.entityTag("\"v1\"")

    private func part(_ range: Range<Int64>, of total: Int64) -> ContentResponse {
        ContentResponse(
            start: range.lowerBound, end: range.upperBound, total: total, validator: tag, isPart: true,
            deniesRanges: false, invalidatesReceived: range.lowerBound == 0)
    }

    /// Returns a plan of 8 MiB whose first worker has the response, and whose others have taken a piece of 2 MiB each.
    private func begun(workers: Int = 4) -> DownloadPlan {
        var plan = DownloadPlan(segments: 4, usesRanges: true)
        #expect(plan.take(0) == true)
        plan.begin(0, part(0..<8 * mebibyte, of: 8 * mebibyte))
        for worker in 1..<workers { #expect(plan.take(worker) == true) }
        return plan
    }

    /// Claims and writes `count` bytes of a worker's response.
    private func fetch(_ plan: inout DownloadPlan, _ worker: Int, _ count: Int64) throws -> DownloadPlan.Claim {
        let place = plan.claim(worker, Int(count))
        let claim = try #require(place)
        plan.write(claim.offset..<(claim.offset + Int64(claim.count)))
        return claim
    }

    // MARK: Reading on

    @Test func responseIsReadOnIntoFreeBytes() throws {
        var plan = begun(workers: 1)
        let claim = try fetch(&plan, 0, 2 * mebibyte)
        #expect(claim.count == 2 << 20 && !claim.isLast)
        let rest = try fetch(&plan, 0, 6 * mebibyte)
        #expect(rest.count == 6 << 20 && !rest.isLast && plan.isComplete)
    }

    @Test func responseIsReadOnIntoARefusedPiece() throws {
        var plan = begun()
        for worker in 1..<4 { #expect(plan.fail(worker, .refused, canRetry: true) == .leave) }
        for _ in 0..<8 { #expect(try fetch(&plan, 0, mebibyte).count == 1 << 20) }
        #expect(plan.isComplete && plan.end(0) == 0 && !plan.take(0))
    }

    @Test func responseIsReadOnIntoAPieceWithoutAResponse() throws {
        var plan = begun()
        let claim = try fetch(&plan, 0, 2 * mebibyte)
        #expect(!claim.isLast)
        // Nobody needs the late response to the request for that piece.
        plan.begin(1, part(2 * mebibyte..<4 * mebibyte, of: 8 * mebibyte))
        #expect(plan.claim(1, 1_000) == .init(offset: 0, count: 0, isLast: true) && plan.end(1) == 0)
        // Only one piece is taken over at a time.
        plan.begin(2, part(4 * mebibyte..<6 * mebibyte, of: 8 * mebibyte))
        #expect(try fetch(&plan, 0, 2 * mebibyte).isLast)
    }

    /// Before its request, a worker may wait for a new link or for a connection.
    @Test func workerWhosePieceIsGoneAsksForTheNext() throws {
        var plan = begun()
        #expect(plan.ask(1) == .part(from: 2 * mebibyte, end: 4 * mebibyte, tag))
        plan.begin(2, part(4 * mebibyte..<6 * mebibyte, of: 8 * mebibyte))
        plan.begin(3, part(6 * mebibyte..<8 * mebibyte, of: 8 * mebibyte))
        for worker in 2..<4 { _ = try fetch(&plan, worker, mebibyte) }
        // The first worker reads on into the piece of worker 1, who takes half of the longest rest.
        _ = try fetch(&plan, 0, 2 * mebibyte)
        #expect(plan.ask(1) == .part(from: 3 * mebibyte, end: 4 * mebibyte, tag))
        #expect(try fetch(&plan, 0, 2 * mebibyte).count == 2 << 20)
        for worker in 2..<4 { _ = try fetch(&plan, worker, mebibyte) }
        #expect(plan.isComplete && plan.ask(1) == nil)
    }

    @Test func responseEndsAtWhatOthersReceive() throws {
        var plan = begun()
        plan.begin(1, part(2 * mebibyte..<4 * mebibyte, of: 8 * mebibyte))
        let claim = try fetch(&plan, 0, 3 * mebibyte)
        #expect(claim.count == 2 << 20 && claim.isLast)
    }

    @Test func responseEndsAtWhatWasReceived() throws {
        var journal = DownloadJournal(identity: "u")
        journal.validator = tag
        journal.total = 8 * mebibyte
        journal.done = ByteRanges([mebibyte..<(2 * mebibyte)])
        var plan = DownloadPlan(segments: 1, usesRanges: true)
        plan.resume(from: journal)
        #expect(plan.take(0) == true && plan.ask(0) == .part(from: 0, end: mebibyte, tag))
        // The server sends more than was requested.
        plan.begin(0, part(0..<mebibyte, of: 8 * mebibyte))
        #expect(try fetch(&plan, 0, mebibyte).isLast == false && plan.claim(0, 1) == nil)
    }

    // MARK: Failures

    @Test func refusalIsNotFinalWhileAnotherIsActive() {
        for failure in [DownloadPlan.Failure.broken, .unanswered, .refused, .rejected] {
            var plan = begun()
            #expect(plan.fail(0, failure, canRetry: false) == .leave)
            #expect(plan.fail(1, failure, canRetry: false) == .leave)
            #expect(plan.fail(2, failure, canRetry: false) == .leave)
            #expect(plan.fail(3, failure, canRetry: false) != .leave)
        }
        var plan = begun()
        #expect(plan.fail(1, .final, canRetry: true) == .fail)
    }

    /// Also between two pieces, a worker is active.
    @Test func workerBetweenPiecesIsActive() throws {
        var plan = begun(workers: 2)
        _ = try fetch(&plan, 0, mebibyte)
        plan.release(0)
        #expect(plan.fail(1, .refused, canRetry: false) == .leave)
        #expect(plan.take(0) == true)
    }

    @Test func lastOfSeveralWaitsBeforeItFails() throws {
        var plan = begun(workers: 2)
        #expect(plan.fail(1, .refused, canRetry: false) == .leave)
        var total = Duration.zero
        for _ in 0..<DownloadPlan.patience {
            guard case .wait(let time) = plan.fail(0, .refused, canRetry: true) else {
                Issue.record("not patient")
                return
            }
            total += time
            #expect(plan.take(0) == true)
        }
        #expect(total == .milliseconds(3_100) && plan.fail(0, .refused, canRetry: true) == .fail)
        // A response makes it patient again.
        #expect(plan.take(0) == true)
        plan.begin(0, part(0..<8 * mebibyte, of: 8 * mebibyte))
        #expect(plan.fail(0, .refused, canRetry: true) == .wait(.milliseconds(100)))
    }

    @Test func onlyConnectionFailsAtOnce() {
        var plan = DownloadPlan(segments: 4, usesRanges: true)
        #expect(plan.take(0) == true && plan.fail(0, .refused, canRetry: true) == .fail)
        #expect(plan.take(0) == true && plan.fail(0, .unanswered, canRetry: false) == .fail)
        #expect(plan.take(0) == true && plan.fail(0, .broken, canRetry: true) == .retry)
    }

    @Test func failureAfterTheLastByteIsNone() throws {
        var plan = begun()
        for worker in 1..<4 { plan.release(worker) }
        _ = try fetch(&plan, 0, 8 * mebibyte)
        #expect(plan.isComplete)
        for failure in [DownloadPlan.Failure.broken, .refused, .final] {
            #expect(plan.fail(1, failure, canRetry: true) == .leave)
        }
    }
}

import HTTPCore
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

@Suite struct UploadLedgerTests {
    private static func ledger(_ totals: [Int64?]) -> UploadLedger {
        UploadLedger(totals.enumerated().map { UploadItem(name: "n\($0)", fileName: "f\($0)", total: $1) })
    }

    private func states(_ ledger: UploadLedger) -> [TransferProgress.File.State] { ledger.progress.files.map(\.state) }

    @Test func fileStatesFollowTheBytesRead() {
        var ledger = Self.ledger([10, 20])
        #expect(states(ledger) == [.waiting, .waiting])
        #expect(ledger.progress.fraction == 0 && ledger.progress.total == 30)
        ledger.note(.read(4), of: 0, at: .zero)
        #expect(states(ledger) == [.uploading, .waiting])
        #expect(ledger.progress.files[0].fraction == 0.4)
        ledger.note(.read(6), of: 0, at: .zero)
        #expect(states(ledger) == [.done, .waiting])
        ledger.note(.read(20), of: 1, at: .zero)
        #expect(states(ledger) == [.done, .done])
        #expect(ledger.progress.completed == 30 && ledger.progress.fraction == 1)
        ledger.finish(isSuccess: true)
        #expect(states(ledger) == [.done, .done] && ledger.progress.bytesPerSecond == nil)
    }

    /// The body of a response that is followed by a retry comes between two uploads.
    @Test func progressDoesNotFallBackAtARetry() {
        let seen = Log<TransferProgress>()
        let report = ProgressGate({ seen.append($0) }, .immediate).handler
        let events: [(TransferProgress.Direction, Int64)] = [
            (.upload, 5), (.upload, 10), (.download, 3), (.upload, 4), (.upload, 10), (.download, 2), (.download, 8),
        ]
        for (direction, completed) in events {
            report(TransferProgress(direction: direction, completed: completed, total: 10))
        }
        #expect(seen.elements.map(\.completed) == [5, 10, 3, 8])
        #expect(seen.elements.map(\.direction) == [.upload, .upload, .download, .download])
    }

    /// Readers are cancelled just as progress is sent, and their cancellation handlers use the sender.
    @Test(.timeLimit(.minutes(1))) func cancelledReadersUseTheirTransfer() async {
        for _ in 1...3_000 {
            let monitor = UploadMonitor([UploadItem(name: "n", fileName: "f", total: 2)])
            let board = CallProgress(.upload)
            let note = { @Sendable (count: Int64) in
                board.note(TransferProgress(direction: .upload, completed: count, total: 3))
            }
            let (uploading, calling) = (monitor.updates.latest.values(), board.updates.latest.values())
            let (isUploading, isCalling) = (Event(), Event())
            let first = Task {
                await withTaskCancellationHandler {
                    for await _ in uploading { isUploading.happen() }
                } onCancel: {
                    _ = monitor.progress
                }
            }
            let second = Task {
                await withTaskCancellationHandler {
                    for await _ in calling { isCalling.happen() }
                } onCancel: {
                    note(2)
                }
            }
            await isUploading.wait()
            await isCalling.wait()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { monitor.handler(.read(1), 0) }
                group.addTask { first.cancel() }
            }
            await withTaskGroup(of: Void.self) { group in
                group.addTask { note(1) }
                group.addTask { second.cancel() }
            }
            await first.value
            await second.value
        }
    }

    /// However many pieces are read, a reader is told at most twenty times a second, and of the end.
    @Test func readersAreToldTwentyTimesASecond() async {
        let pieces: Int64 = 20_000
        let monitor = UploadMonitor([UploadItem(name: "n", fileName: "f", total: pieces)])
        let start = ContinuousClock.now
        let updates = monitor.updates
        async let collected = updates.reduce(into: [TransferProgress]()) { $0.append($1) }
        for piece in 0..<pieces {
            monitor.handler(.read(1), 0)
            // Lets the reader run, and time pass.
            if piece % 100 == 0 { await Task.yield() }
        }
        monitor.finish(isSuccess: true)
        let values = await collected
        let intervals = (ContinuousClock.now - start) / ProgressUpdates.interval
        #expect(values.count <= Int(intervals) + 2, "\(values.count) values in \(intervals) intervals")
        #expect(values.last?.completed == pieces && values.last?.fraction == 1)
        #expect(values.map(\.completed) == values.map(\.completed).sorted())
    }

    /// The second of two bytes comes so soon after a report that it has to wait for the next one; then the body pauses.
    @Test func byteBeforeAPauseIsReported() async throws {
        let monitor = UploadMonitor([UploadItem(name: "n", fileName: "f", total: 100)])
        let seen = Mutex<Int64>(0)
        let updates = monitor.updates
        async let reader: Void = { for await progress in updates { seen.withLock { $0 = progress.completed } } }()
        for round in 1...4 {
            // The reader waits again when the bytes come.
            try await Task.sleep(for: ProgressUpdates.interval * 2)
            monitor.handler(.rewound, 0)
            monitor.handler(.read(2 * round), 0)
            try await eventually("the second byte") { seen.withLock { $0 } == 2 * round }
        }
        monitor.finish(isSuccess: true)
        await reader
    }

    @Test func filesBeforeTheCurrentOneAreDone() {
        var ledger = Self.ledger([0, nil, 5])
        ledger.note(.read(1), of: 2, at: .zero)
        #expect(states(ledger) == [.done, .done, .uploading])
    }

    @Test func streamOfUnknownLengthHasATotalAtItsEnd() {
        var ledger = Self.ledger([nil])
        ledger.note(.read(7), of: 0, at: .zero)
        #expect(ledger.progress.total == nil && ledger.progress.fraction == nil)
        #expect(ledger.progress.files[0].total == nil && ledger.progress.estimatedTimeRemaining == nil)
        ledger.note(.end, of: 0, at: .zero)
        #expect(states(ledger) == [.done] && ledger.progress.total == 7 && ledger.progress.fraction == 1)
    }

    @Test func resendingAFileNeverDecreasesProgress() {
        var ledger = Self.ledger([10, 10])
        ledger.note(.read(10), of: 0, at: .zero)
        ledger.note(.read(3), of: 1, at: .zero)
        ledger.note(.rewound, of: 0, at: .zero)
        ledger.note(.rewound, of: 1, at: .zero)
        ledger.note(.read(5), of: 0, at: .zero)
        #expect(ledger.progress.files.map(\.completed) == [10, 3] && states(ledger) == [.done, .uploading])
        ledger.note(.read(5), of: 0, at: .zero)
        ledger.note(.read(10), of: 1, at: .zero)
        #expect(ledger.progress.completed == 20)
    }

    @Test func failureFailsEveryFileForGood() {
        var ledger = Self.ledger([2, 2, 2])
        ledger.note(.read(2), of: 0, at: .zero)
        ledger.finish(isSuccess: false)
        ledger.note(.read(2), of: 1, at: .zero)
        ledger.finish(isSuccess: true)
        #expect(states(ledger) == [.failed, .failed, .failed])
        #expect(ledger.progress.completed == 2 && ledger.progress.estimatedTimeRemaining == nil)
    }

    @Test func successWithoutReadingMarksFilesDone() {
        var ledger = Self.ledger([5, 0])
        ledger.finish(isSuccess: true)
        #expect(ledger.progress.completed == 5 && ledger.progress.fraction == 1)
        #expect(ledger.progress.files.allSatisfy { $0.fraction == 1 && $0.state == .done })
    }

    @Test func estimateFollowsTheSpeed() throws {
        var ledger = Self.ledger([1_000_000])
        ledger.note(.read(100_000), of: 0, at: .milliseconds(10))
        #expect(ledger.progress.bytesPerSecond == nil)
        for tenth in 2...6 { ledger.note(.read(10_000), of: 0, at: .milliseconds(tenth * 100)) }
        let speed = try #require(ledger.progress.bytesPerSecond)
        #expect(abs(speed - 100_000) < 1)
        let left = try #require(ledger.progress.estimatedTimeRemaining)
        #expect(abs(left / .seconds(1) - 8.5) < 0.01)
    }

    @Test func hugeRemainderGivesNoEstimate() {
        var ledger = Self.ledger([.max])
        for second in 1...3 { ledger.note(.read(1), of: 0, at: .seconds(second)) }
        #expect(ledger.progress.bytesPerSecond != nil && ledger.progress.estimatedTimeRemaining == nil)
    }

    @Test func earlierBytesSayNothingAboutTheRate() {
        var (ledger, fresh) = (Self.ledger([1_000_000]), Self.ledger([1_000_000]))
        // One lane sends while the server is asked what it has of another one.
        for (second, position) in [(1, 1_000), (2, 501_000), (3, 502_000)] as [(Int, Int64)] {
            ledger.reach(position, isEarlier: second == 2, at: .seconds(second))
            fresh.reach(position, isEarlier: false, at: .seconds(second))
        }
        #expect((ledger.progress.bytesPerSecond ?? .infinity) < 10_000)
        #expect((fresh.progress.bytesPerSecond ?? 0) > 10_000)
    }
}

import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `central.download` against a conforming server.
@Suite(.timeLimit(.minutes(2))) struct DownloadTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make()
    }

    private var target: String { directory.path(of: "big.bin") }

    @Test func fileIsDownloadedWhole() async throws {
        let bytes = content(3_000_000)
        let server = try RangeServer(bytes)
        let file = try await manager.download(server.url, to: target).value
        #expect(file.path == target && file.byteCount == 3_000_000 && file.response.status == 200)
        #expect(file.response.headers["ETag"] == "\"v1\"" && file.response.data.isEmpty)
        #expect(file.receivedByteCount == 3_000_000 && file.resumedByteCount == 0 && !file.isSkipped)
        #expect(directory.read("big.bin") == bytes)
        #expect(directory.contents == ["big.bin"])
        let request = try #require(server.mock.requests.first)
        #expect(request.headers["Accept-Encoding"] == "identity" && request.headers["Range"] == nil)
    }

    @Test func emptyFileIsCreated() async throws {
        let server = try RangeServer(Data())
        for segments in [1, 4] {
            let file = try await manager.download(server.url, to: target, segments: segments).value
            #expect(file.byteCount == 0 && directory.contents == ["big.bin"] && directory.read("big.bin") == Data())
        }
    }

    @Test func chunkedBodyIsDownloadedWhole() async throws {
        let bytes = content(900_000)
        let server = try RangeServer(bytes) { _, _, honest in honest.inChunks(of: 10_000) }
        let file = try await manager.download(server.url, to: target).value
        #expect(file.byteCount == 900_000 && directory.read("big.bin") == bytes)
    }

    /// The server streams without a length, and keeps its ETag although the content becomes shorter.
    @Test func contentShorterThanWhatWasReceivedStartsOver() async throws {
        let short = content(50_000, seed: 1)
        let server = try RangeServer(content(900_000)) { _, number, honest in
            number == 1
                ? honest.inChunks(of: 10_000).closing(afterBytes: 200_000)
                : MockReply(headers: ["ETag": "\"v1\""], body: .bytes(short))
        }
        let manager = try CentralRequestManager.make { $0.retries = 2 }
        let file = try await manager.download(server.url, to: target).value
        #expect(directory.read("big.bin") == short && file.byteCount == 50_000 && directory.contents == ["big.bin"])
        #expect(server.ranges.count == 3 && server.ranges[1].hasPrefix("bytes=") && server.ranges[2] == "-")
    }

    @Test func segmentsFetchTheFileTogether() async throws {
        let bytes = content(8 << 20)
        let server = try RangeServer(bytes) { $1 <= 4 ? $2.stalling(.afterBodyBytes(1 << 20)) : $2 }
        let download = manager.download(server.url, to: target, segments: 4)
        try await server.mock.waitForRequests(4)
        #expect(server.mock.openConnections == 4)
        // Continues after the stall.
        download.pause()
        download.resume()
        let file = try await download.value
        #expect(directory.read("big.bin") == bytes && file.byteCount == 8 << 20)
        #expect(server.ranges.first == "bytes=0-" && server.ranges.count >= 4)
        #expect(server.mock.requests.dropFirst().allSatisfy { $0.headers["If-Range"] == "\"v1\"" })
        #expect(directory.contents == ["big.bin"])
    }

    @Test func segmentsMayExceedTheConnectionLimit() async throws {
        let bytes = content(8 << 20)
        let held = Event()
        let server = try RangeServer(bytes) { _, number, honest in
            // The first four responses are slow, so they still run when the sixth request arrives.
            if number >= 6 { held.happen() }
            return number <= 4 ? honest.throttled(bytesPerSecond: 2 << 20) : honest
        }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 2 }
        let download = manager.download(server.url, to: target, segments: 6)
        await held.wait()
        _ = try await download.value
        #expect(directory.read("big.bin") == bytes)
    }

    @Test func idleWorkerTakesHalfOfTheSlowest() async throws {
        let bytes = content(8 << 20)
        // The second range is slow.
        let server = try RangeServer(bytes) { request, _, honest in
            request.headers["Range"]?.hasPrefix("bytes=4194304-") == true
                ? honest.throttled(bytesPerSecond: 400 << 10) : honest
        }
        _ = try await manager.download(server.url, to: target, segments: 2).value
        #expect(directory.read("big.bin") == bytes)
        // The other worker fetched the end of the slow range.
        let starts = server.ranges.compactMap { Int($0.dropFirst("bytes=".count).prefix { $0 != "-" }) }
        #expect(starts.contains { $0 > 4_194_304 })
    }

    @Test func serverWithoutRangesGivesOneStream() async throws {
        let bytes = content(4 << 20)
        let server = try RangeServer(bytes) { _, _, honest in
            MockReply(headers: ["ETag": "\"v1\"", "Accept-Ranges": "none"], body: .bytes(bytes))
        }
        _ = try await manager.download(server.url, to: target, segments: 4).value
        #expect(server.ranges == ["bytes=0-"] && directory.read("big.bin") == bytes)
    }

    // MARK: Progress

    @Test func progressIncreasesToTheTotal() async throws {
        let server = try RangeServer(content(3_000_000)) { $2.throttled(bytesPerSecond: 1_500_000) }
        let start = ContinuousClock.now
        let download = manager.download(server.url, to: target)
        async let other = collect(download.progress)
        let values = await collect(download.progress)
        for values in [values, await other] {
            #expect(values.count >= 3)
            #expect(zip(values, values.dropFirst()).allSatisfy { $0.completed <= $1.completed })
            #expect(values.last?.completed == 3_000_000 && values.last?.total == 3_000_000)
            #expect(values.last?.bytesPerSecond == nil)
            #expect(values.contains { ($0.bytesPerSecond ?? 0) > 0 && $0.estimatedTimeRemaining != nil })
        }
        // At most ten updates a second, besides the current value at the start, the first update and the last.
        let tenths = (ContinuousClock.now - start) / .milliseconds(100)
        #expect(values.count <= Int(tenths) + 3, "\(values.count) values in \(tenths) tenths of a second")
        #expect(await collect(download.progress).count == 1)
        _ = try await download.value
    }

    @Test func progressOfAStalledDownloadIsUpToDate() async throws {
        let server = try RangeServer(content(6 << 20)) { $2.stalling(.afterBodyBytes(2 << 20)) }
        let download = manager.download(server.url, to: target)
        await wait(for: download) { $0.completed == 2 << 20 }
        #expect(download.currentProgress.completed == 2 << 20)
        download.cancel()
    }

    private func collect(_ progress: some AsyncSequence<TransferProgress, Never>) async -> [TransferProgress] {
        var values: [TransferProgress] = []
        for await value in progress { values.append(value) }
        return values
    }

    // MARK: Pause, resume and cancel

    @Test(arguments: [1, 3]) func pauseDisconnectsAndResumeContinues(segments: Int) async throws {
        let bytes = content(6 << 20)
        let server = try RangeServer(bytes) { _, number, honest in
            number <= segments ? honest.stalling(.afterBodyBytes(1_500_000)) : honest
        }
        let download = manager.download(server.url, to: target, segments: segments)
        try await server.mock.waitForRequests(segments)
        await wait(for: download) { $0.completed > 1 << 20 }
        download.pause()
        try await server.mock.waitUntilDisconnected()
        #expect(download.state == .paused)
        let kept = try #require(directory.read("big.bin.part.journal"))
        #expect(kept.starts(with: Data("LATNetworking-download-journal 1 sha256:".utf8)))
        let before = server.ranges.count
        download.resume()
        let file = try await download.value
        #expect(directory.read("big.bin") == bytes && directory.contents == ["big.bin"])
        #expect(server.ranges.count > before && !server.ranges[before...].contains("-"))
        // Only bytes that were received but not yet written are fetched twice.
        #expect(file.receivedByteCount < 6 << 20 + 600_000 * segments)
    }

    @Test(arguments: [1, 4]) func repeatedPausesLoseNoBytes(segments: Int) async throws {
        let bytes = content(8 << 20)
        let server = try RangeServer(bytes) { $2.throttled(bytesPerSecond: (6 << 20) / segments) }
        let download = manager.download(server.url, to: target, segments: segments)
        for _ in 0..<12 {
            let before = download.currentProgress.completed
            await wait(for: download) { $0.completed > before }
            download.pause()
            // The rate becomes `nil` only after the connections are closed.
            await wait(for: download) { $0.bytesPerSecond == nil }
            download.resume()
        }
        _ = try await download.value
        #expect(directory.read("big.bin") == bytes && directory.contents == ["big.bin"])
    }

    @Test func cancelledDownloadMayContinueLater() async throws {
        let bytes = content(6 << 20)
        let server = try RangeServer(bytes) { _, number, honest in
            number == 1 ? honest.stalling(.afterBodyBytes(2 << 20)) : honest
        }
        let first = manager.download(server.url, to: target)
        await wait(for: first) { $0.completed > 1 << 20 }
        first.cancel(keepingProgress: true)
        let error = try #require(await failure { try await first.value })
        #expect(error.kind == .cancelled && error.message.contains("kept"))
        #expect(first.state == .cancelled)
        #expect(directory.contents == ["big.bin.part", "big.bin.part.journal"])

        let second = manager.download(server.url, to: target)
        let file = try await second.value
        #expect(file.resumedByteCount > 1 << 20 && file.response.status == 206)
        #expect(file.resumedByteCount + file.receivedByteCount == 6 << 20)
        #expect(directory.read("big.bin") == bytes && directory.contents == ["big.bin"])
    }

    @Test func cancelledDownloadLeavesNoFiles() async throws {
        let server = try RangeServer(content(6 << 20)) { $2.stalling(.afterBodyBytes(2 << 20)) }
        let download = manager.download(server.url, to: target)
        await wait(for: download) { $0.completed > 1 << 20 }
        download.cancel()
        #expect(await failure { try await download.value }?.kind == .cancelled)
        #expect(directory.contents.isEmpty)
        try await server.mock.waitUntilDisconnected()
    }

    @Test func downloadStartedPausedWaitsForResume() async throws {
        let server = try RangeServer(content(1_000))
        var options = DownloadOptions()
        options.startsPaused = true
        let download = manager.download(server.url, to: target, options: options)
        #expect(download.state == .paused)
        let cancelled = manager.download(server.url, to: target + "2", options: options)
        cancelled.cancel()
        #expect(await failure { try await cancelled.value }?.kind == .cancelled)
        #expect(server.mock.requestCount == 0)
        download.resume()
        #expect(try await download.value.byteCount == 1_000)
    }

    @Test func cancelledWaiterLeavesTheDownloadRunning() async throws {
        let server = try RangeServer(content(1_000_000))
        var options = DownloadOptions()
        options.startsPaused = true
        let download = manager.download(server.url, to: target, options: options)
        let waiter = Task { try await download.value }
        waiter.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.value }
        download.resume()
        #expect(try await download.value.byteCount == 1_000_000)
    }

    @Test func pausedPostIsHeldNotResent() async throws {
        let bytes = content(2 << 20)
        let server = try RangeServer(bytes) { _, number, honest in
            number == 1 ? honest.throttled(bytesPerSecond: 700_000) : honest.stalling(.afterBodyBytes(200_000))
        }
        let request = HTTPRequest("POST", server.url, body: .data(Data("query".utf8)))
        let download = manager.download(request, to: target, segments: 4)
        await wait(for: download) { $0.completed > 100_000 }
        #expect(!download.isResumable)
        download.pause()
        #expect(download.state == .paused)
        download.resume()
        _ = try await download.value
        #expect(server.mock.requestCount == 1 && directory.read("big.bin") == bytes)
        #expect(server.mock.requests[0].text == "query" && server.ranges == ["-"])

        let second = manager.download(request, to: target + "2")
        await wait(for: second) { $0.completed > 100_000 }
        second.cancel(keepingProgress: true)
        let error = try #require(await failure { try await second.value })
        #expect(error.message.contains("a POST download cannot be resumed"))
        #expect(directory.contents == ["big.bin"])
    }

    private func wait(for download: Download, until isReached: (TransferProgress) -> Bool) async {
        for await progress in download.progress where isReached(progress) { return }
    }
}

import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `central.download` against servers that send wrong ranges, change the content or break the connection.
@Suite(.timeLimit(.minutes(2))) struct DownloadFaultTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make { $0.retries = 2 }
    }

    private var target: String { directory.path(of: "big.bin") }
    private static let size = 3 << 20
    private let bytes = content(Self.size)

    /// Returns a server that breaks its first response after a mebibyte, so that the next request asks for the rest.
    private func breaking(
        headers: HTTPHeaders = ["ETag": "\"v1\""], then falsify: @escaping RangeServer.Falsification = { $2 }
    ) throws -> RangeServer {
        try RangeServer(bytes, headers: headers) { request, number, honest in
            number == 1 ? honest.resetting(afterBytes: 1 << 20) : falsify(request, number, honest)
        }
    }

    @Test func brokenDownloadContinuesAtTheBreak() async throws {
        let server = try breaking()
        let file = try await manager.download(server.url, to: target).value
        #expect(directory.read("big.bin") == bytes)
        #expect(server.ranges.count == 2 && server.ranges[1] != "bytes=0-" && server.ranges[1].hasPrefix("bytes="))
        #expect(server.mock.requests[1].headers["If-Range"] == "\"v1\"")
        #expect(file.receivedByteCount == Int64(Self.size) && file.response.status == 206)
    }

    /// rclone's S3 server answers a range with 200, `Content-Range` and the part.
    @Test func partWithTheStatusOfAWholeIsJoined() async throws {
        let server = try breaking { _, _, honest in
            var reply = honest
            reply.status = 200
            return reply
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.read("big.bin") == bytes)
        #expect(server.ranges.count == 2)
    }

    private struct Repairing: FailureResolver {
        let repair: @Sendable (NetworkError, HTTPRequest) async throws -> Resolution

        func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
            try await repair(error, request)
        }
    }

    /// After the resolver's repair, the download continues with the missing bytes.
    @Test(arguments: [1, 3]) func resolverRepairsADownload(segments: Int) async throws {
        let isRepaired = Event()
        let server = try RangeServer(bytes) { _, number, honest in
            if number == 1 { return honest.resetting(afterBytes: 1 << 20) }
            return isRepaired.hasHappened ? honest : .status(419)
        }
        let asked = Log<NetworkError>()
        let manager = try CentralRequestManager.make {
            $0.retries = 2
            $0.resolver = Repairing { error, request in
                asked.append(error)
                #expect(request.url == server.url)
                guard error.response?.status == 419 else { return .deliver }
                isRepaired.happen()
                return .replay
            }
        }
        let file = try await manager.download(server.url, to: target, segments: segments).value
        #expect(directory.read("big.bin") == bytes)
        #expect(asked.elements.map(\.response?.status) == [419])
        #expect(server.ranges.last != "-" && file.receivedByteCount < 2 * Int64(Self.size))
    }

    @Test func resolverIsAskedAsOftenAsForOtherCalls() async throws {
        let server = try RangeServer(bytes) { _, _, _ in .status(419) }
        let asked = Log<NetworkError>()
        func kind(_ resolution: Result<Resolution, TestFailure>) async throws -> NetworkError.Kind? {
            let manager = try CentralRequestManager.make {
                $0.maxReplays = 2
                $0.resolver = Repairing { error, _ in
                    asked.append(error)
                    return try resolution.get()
                }
            }
            return await failure { try await manager.download(server.url, to: target).value }?.kind
        }
        #expect(try await kind(.success(.replay)) == .httpStatus)
        #expect(asked.count == 2 && server.ranges.count == 3)
        #expect(try await kind(.success(.deliver)) == .httpStatus)
        #expect(asked.count == 3)
        #expect(try await kind(.failure(TestFailure())) == .provider)
        #expect(asked.count == 4)
    }

    private struct TestFailure: Error {}

    /// A server that ignores `Range`: more than a megabyte of the same bytes each time is no progress.
    @Test func bytesThatComeAgainDoNotCount() async throws {
        let plain = try MockServer()
        plain.fallback { [bytes] _ in
            MockReply(headers: ["ETag": "\"v1\""], body: .bytes(bytes)).closing(afterBytes: 2 << 20)
        }
        let error = try #require(await failure { try await manager.download(plain.url("/big.bin"), to: target).value })
        #expect(error.kind == .connectionLost && error.attempts == 3 && plain.requestCount == 3)
        // The end of the part that was there is the place where the count goes on.
        let again = try #require(await failure { try await manager.download(plain.url("/big.bin"), to: target).value })
        #expect(again.attempts == 3 && plain.requestCount == 6)
    }

    /// Each new megabyte begins the count again.
    @Test func progressBeginsTheCountAgain() async throws {
        let server = try RangeServer(bytes) { _, _, honest in honest.closing(afterBytes: 600_000) }
        let slow = await failure { try await manager.download(server.url, to: target).value }
        #expect(slow?.attempts == 3)
        let fast = try RangeServer(content(8 << 20)) { _, _, honest in honest.closing(afterBytes: 1_200_000) }
        let file = try await manager.download(fast.url, to: directory.path(of: "fast.bin")).value
        #expect(file.byteCount == 8 << 20 && fast.ranges.count >= 7)
    }

    @Test func failedDownloadKeepsItsPart() async throws {
        let server = try RangeServer(bytes) { _, _, honest in honest.closing(afterBytes: 300_000) }
        let error = try #require(await failure { try await manager.download(server.url, to: target).value })
        #expect(error.kind == .connectionLost && error.attempts == 3)
        #expect(directory.contents == ["big.bin.part", "big.bin.part.journal"])
        // The next download continues where this one ended.
        _ = await failure { try await manager.download(server.url, to: target).value }
        #expect(server.ranges.filter { $0 == "-" }.count == 1)
    }

    @Test func breakWithoutStrongValidatorStartsOver() async throws {
        for headers: HTTPHeaders in [
            ["ETag": "W/\"v1\""], [:], ["Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"],
            [
                "ETag": "W/\"v1\"", "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT",
                "Date": "Mon, 07 Nov 1994 08:49:37 GMT",
            ],
        ] {
            let server = try breaking(headers: headers)
            let download = manager.download(server.url, to: target)
            _ = try await download.value
            #expect(!download.isResumable)
            #expect(server.ranges == ["-", "-"] && directory.read("big.bin") == bytes)
        }
    }

    @Test func oldLastModifiedIsAStrongValidator() async throws {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let server = try breaking(headers: ["Last-Modified": date, "Date": "Mon, 07 Nov 1994 08:49:37 GMT"])
        _ = try await manager.download(server.url, to: target).value
        #expect(server.mock.requests[1].headers["If-Range"] == date && server.ranges[1] != "-")
        #expect(directory.read("big.bin") == bytes)
    }

    @Test func changedContentStartsOver() async throws {
        let other = content(Self.size - 7, seed: 9)
        let server = try breaking { request, _, _ in
            RangeServer.honest(request, .init(data: other, headers: ["ETag": "\"v2\""]))
        }
        let download = manager.download(server.url, to: target)
        async let values = completed(download)
        let file = try await download.value
        #expect(directory.read("big.bin") == other && file.byteCount == Int64(Self.size - 7))
        #expect(server.ranges.count == 2)
        let seen = await values
        #expect(zip(seen, seen.dropFirst()).allSatisfy { $0 <= $1 })
    }

    private func completed(_ download: Download) async -> [Int64] {
        var values: [Int64] = []
        for await progress in download.progress { values.append(progress.completed) }
        return values
    }

    /// Faults of a partial response, after which a download requests the whole content.
    static let lies: [(name: String, change: @Sendable (inout MockReply) -> Void)] = [
        ("another start", { $0.headers["Content-Range"] = "bytes 5-9/\(size)" }),
        ("no Content-Range", { $0.headers["Content-Range"] = nil }),
        ("another total", { $0.headers["Content-Range"] = $0.headers["Content-Range"].map { $0 + "0" } }),
        ("nonsense", { $0.headers["Content-Range"] = "bytes -1-x/y" }),
        ("another unit", { $0.headers["Content-Range"] = "lines 0-9/10" }),
        ("multipart", { $0.headers["Content-Type"] = "multipart/byteranges; boundary=x" }),
        ("another ETag", { $0.headers["ETag"] = "\"v2\"" }),
        ("no ETag", { $0.headers["ETag"] = nil }),
        ("416", { $0 = MockReply(status: 416, headers: ["Content-Range": "bytes */\(size)"]) }),
    ]

    @Test(arguments: lies.indices) func wrongPartStartsOver(_ index: Int) async throws {
        let server = try breaking { request, _, honest in
            guard request.headers["Range"] != nil else { return honest }
            return changed(honest, Self.lies[index].change)
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.read("big.bin") == bytes, "\(Self.lies[index].name)")
        #expect(server.ranges.last == "-")
    }

    @Test(arguments: lies.indices) func wrongSegmentFallsBackToOneStream(_ index: Int) async throws {
        let server = try RangeServer(bytes) { request, _, honest in
            guard request.headers["If-Range"] != nil else { return honest.throttled(bytesPerSecond: 4 << 20) }
            return changed(honest, Self.lies[index].change)
        }
        _ = try await manager.download(server.url, to: target, segments: 3).value
        #expect(directory.read("big.bin") == bytes, "\(Self.lies[index].name)")
    }

    @Test func versionsOfSegmentsAreNotMixed() async throws {
        let other = content(Self.size, seed: 5)
        let server = try RangeServer(bytes) { request, number, honest in
            let version = RangeServer.Content(data: other, headers: ["ETag": "\"v2\""])
            return number == 1 ? honest.throttled(bytesPerSecond: 2 << 20) : RangeServer.honest(request, version)
        }
        _ = try await manager.download(server.url, to: target, segments: 3).value
        #expect(directory.read("big.bin") == other)
    }

    @Test func everChangingContentFails() async throws {
        let server = try RangeServer(bytes) { request, number, _ in
            RangeServer.honest(
                request, .init(data: content(Self.size, seed: Int64(number)), headers: ["ETag": "\"\(number)\""])
            )
            .closing(afterBytes: 1_500_000)
        }
        let error = try #require(await failure { try await manager.download(server.url, to: target).value })
        #expect(error.kind == .integrity)
        #expect(directory.contents.isEmpty)
    }

    @Test func wholeResponseToASegmentYieldsTheFile() async throws {
        let server = try RangeServer(bytes) { request, number, honest in
            number == 1
                ? honest.throttled(bytesPerSecond: 4 << 20)
                : MockReply(headers: ["ETag": "\"v1\""], body: .bytes(content(Self.size)))
        }
        _ = try await manager.download(server.url, to: target, segments: 3).value
        #expect(directory.read("big.bin") == bytes)
    }

    @Test func otherSegmentsTakeOverRefusedOnes() async throws {
        let server = try RangeServer(bytes) { request, number, honest in
            number == 1 ? honest.throttled(bytesPerSecond: 500_000) : number <= 3 ? .status(503) : honest
        }
        _ = try await manager.download(server.url, to: target, segments: 3).value
        #expect(directory.read("big.bin") == bytes)
    }

    // MARK: Lengths

    @Test func partLongerThanItsRangeStartsOver() async throws {
        let server = try breaking { request, _, honest in
            guard request.headers["Range"] != nil else { return honest }
            var reply = honest
            if case .bytes(let data) = reply.body { reply.body = .bytes(data + data) }
            return reply.inChunks(of: 50_000)
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.read("big.bin") == bytes)
    }

    @Test func partShorterThanItsRangeIsContinued() async throws {
        let server = try breaking { request, number, honest in
            guard number == 2 else { return honest }
            var reply = honest
            if case .bytes(let data) = reply.body { reply.body = .bytes(data.prefix(500_000)) }
            return reply.inChunks(of: 50_000)
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(server.ranges.count == 3 && directory.read("big.bin") == bytes)
    }

    @Test func smallerRangeThanRequestedIsContinued() async throws {
        let server = try breaking { request, number, honest in
            guard number == 2, let first = request.headers["Range"].flatMap({ Int($0.dropFirst(6).dropLast()) }) else {
                return honest
            }
            var reply = honest
            reply.headers["Content-Range"] = "bytes \(first)-\(first + 99_999)/\(Self.size)"
            reply.body = .bytes(content(Self.size)[first..<(first + 100_000)])
            return reply
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(server.ranges.count == 3 && directory.read("big.bin") == bytes)
    }

    /// Without a strong validator, a partial first response cannot be joined with later parts.
    @Test(arguments: ["\(size)", "*"]) func shortPartWithoutValidatorStartsOver(total: String) async throws {
        let server = try RangeServer(bytes, headers: [:]) { request, _, honest in
            guard request.headers["Range"] != nil else { return honest }
            var reply = honest
            reply.headers["Content-Range"] = "bytes 0-99999/\(total)"
            reply.body = .bytes(content(100_000))
            return reply
        }
        _ = try await manager.download(server.url, to: target, segments: 3).value
        #expect(server.ranges == ["bytes=0-", "-"] && directory.read("big.bin") == bytes)
    }

    /// A 416 without a validator does not show that what was received is the whole of the same version.
    @Test func rangeErrorAtTheEndWithoutValidatorStartsOver() async throws {
        // The server sends no length, and stalls after the last byte.
        let server = try RangeServer(bytes) { _, number, honest in
            number == 1 ? honest.inChunks(of: Self.size).stalling(.afterBodyBytes(Int64(Self.size))) : honest
        }
        let manager = try CentralRequestManager.make {
            $0.retries = 1
            $0.idleTimeout = .seconds(2)
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(server.ranges == ["-", "bytes=\(Self.size)-", "-"] && directory.read("big.bin") == bytes)
    }

    // MARK: Errors

    @Test func errorBodyNeverReachesTheTarget() async throws {
        for status in [204, 304, 400, 404, 500] {
            let server = try RangeServer(bytes) { _, _, _ in .text("sorry", status: status) }
            try directory.write(Data("old".utf8), to: "big.bin")
            let error = try #require(await failure { try await manager.download(server.url, to: target).value })
            #expect(error.kind == .httpStatus && error.response?.status == status)
            if status >= 400 { #expect(error.response?.text == "sorry") }
            #expect(directory.contents == ["big.bin"] && directory.read("big.bin") == Data("old".utf8))
        }
    }

    @Test func redirectsAreFollowedAndReported() async throws {
        let server = try RangeServer(bytes)
        let front = try MockServer()
        front.route("GET", "/link") { _ in .redirect(to: server.url) }
        let file = try await manager.download(front.url("/link"), to: target).value
        #expect(file.response.url == server.url && file.response.redirects.map(\.status) == [302])
        #expect(directory.read("big.bin") == bytes)
    }

    /// A new link would have the server process the request a second time.
    @Test func redirectedPostGetsNoFreshLink() async throws {
        let server = try MockServer()
        server.fallback { $0.method == "POST" ? .redirect(to: "/report", status: 303) : .status(410) }
        var options = DownloadOptions()
        options.refreshURL = { [url = server.url("/again")] _ in url }
        let download = manager.download(HTTPRequest("POST", server.url("/reports")), to: target, options: options)
        #expect(await failure { try await download.value }?.response?.status == 410)
        #expect(server.requests.map(\.method) == ["POST", "GET"])
    }

    @Test func callAndProviderHeadersAreSent() async throws {
        let server = try RangeServer(bytes)
        let manager = try CentralRequestManager.make {
            $0.headerProvider = { _ in ["Authorization": "Bearer t"] }
            $0.baseURL = server.mock.url("/files")
        }
        _ = try await manager.download("big.bin", to: target, segments: 2, headers: ["X-A": "1"]).value
        #expect(
            server.mock.requests.allSatisfy { $0.headers["Authorization"] == "Bearer t" && $0.headers["X-A"] == "1" })
        #expect(server.mock.requests.allSatisfy { $0.path == "/files/big.bin" })
    }

    @Test func expiredLinkIsRefreshedAndContinued() async throws {
        let server = try breaking { request, _, honest in request.query == "fresh" ? honest : .status(403) }
        let asked = Log<Int>()
        var options = DownloadOptions()
        options.refreshURL = { [url = server.url] refusal in
            asked.append(refusal.response?.status ?? 0)
            return url + "?fresh"
        }
        _ = try await manager.download(server.url, to: target, options: options).value
        #expect(asked.elements == [403] && directory.read("big.bin") == bytes)
        #expect(server.mock.requests.last?.headers["If-Range"] == "\"v1\"")
    }

    /// Returns options whose hook waits for its cancellation the first time, and the event of that wait.
    private func waitingOptions(_ url: String, _ asked: Log<Int>) -> (DownloadOptions, Event) {
        let isWaiting = Event()
        var options = DownloadOptions()
        options.refreshURL = { _ in
            asked.append(1)
            guard !isWaiting.hasHappened else { return url + "?fresh" }
            let isCancelled = Event()
            await withTaskCancellationHandler {
                isWaiting.happen()
                await isCancelled.wait()
            } onCancel: {
                isCancelled.happen()
            }
            throw CancellationError()
        }
        return (options, isWaiting)
    }

    @Test func pauseDuringARefreshPauses() async throws {
        let server = try breaking { request, _, honest in request.query == "fresh" ? honest : .status(403) }
        let asked = Log<Int>()
        let (options, isWaiting) = waitingOptions(server.url, asked)
        let download = manager.download(server.url, to: target, options: options)
        await isWaiting.wait()
        download.pause()
        download.resume()
        _ = try await download.value
        #expect(asked.count == 2 && directory.read("big.bin") == bytes)
    }

    @Test func cancellationDuringARefreshCancels() async throws {
        let server = try breaking { _, _, _ in .status(403) }
        let (options, isWaiting) = waitingOptions(server.url, Log())
        let download = manager.download(server.url, to: target, options: options)
        await isWaiting.wait()
        download.cancel()
        #expect(await failure { try await download.value }?.kind == .cancelled)
    }

    /// A request to a new link at another origin loses the same fields as a redirect to it.
    @Test func refreshedLinkElsewhereGetsNoSecret() async throws {
        let server = try RangeServer(bytes) { _, _, _ in .status(403) }
        let foreign = try RangeServer(bytes)
        let manager = try CentralRequestManager.make { $0.headers = ["X-Api-Key": "manager", "X-Default": "d"] }
        var options = DownloadOptions()
        options.refreshURL = { [url = foreign.url] _ in url }
        var request = HTTPRequest(
            "GET", server.url, headers: ["Cookie": "c=1", "X-Api-Key": "own", "X-Plain": "p", "X-Auth-Token": nil])
        request.authentication = .basic(user: "u", password: "p")
        _ = try await manager.download(request, to: target, options: options).value
        let sent = try #require(server.mock.requests.first?.headers)
        #expect(sent["Authorization"] != nil && sent["Cookie"] == "c=1" && sent["X-Api-Key"] == "own")
        let headers = try #require(foreign.mock.requests.first?.headers)
        #expect(headers["X-Plain"] == "p" && headers["X-Default"] == "d")
        for name in ["Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"] { #expect(headers[name] == nil) }
    }

    @Test func linkIsRefreshedOnlyOnce() async throws {
        let server = try RangeServer(bytes) { _, _, _ in .status(410) }
        let asked = Log<Int>()
        var options = DownloadOptions()
        options.refreshURL = { [url = server.url] _ in
            asked.append(1)
            return url
        }
        let error = try #require(
            await failure { try await manager.download(server.url, to: target, segments: 3, options: options).value })
        #expect(error.response?.status == 410 && asked.count == 1)
    }
}

private func changed(_ reply: MockReply, _ change: (inout MockReply) -> Void) -> MockReply {
    var reply = reply
    change(&reply)
    return reply
}

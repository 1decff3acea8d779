import FoundationEssentials
import LATTesting
import Testing

@testable import LATClient
@testable import LATTransfers

/// Cancels a call in every way, at every place where it can wait: before the wait, during it and at its end.
@Suite(.timeLimit(.minutes(5))) struct CancelMatrixTests {
    /// How a call is cancelled.
    enum Way: String, CaseIterable, Sendable {
        case task, swiftTask, key, keys, tag, url, wholeURL, entityType, entity, all

        func fits(_ form: CallForm) -> Bool {
            switch self {
            case .task, .key, .keys: form.hasClosures
            case .swiftTask: !form.hasClosures
            case .entityType, .entity: form == .entity || form == .entityClosure
            case .tag, .url, .wholeURL, .all: true
            }
        }

        func cancel(_ call: WaitingCall, _ fixture: WaitingFixture) {
            let manager = fixture.manager
            switch self {
            case .task: call.task?.cancel()
            case .swiftTask: call.work?.cancel()
            case .key: manager.cancelRequests(.key(call.task?.key ?? ""))
            case .keys: manager.cancelRequests(.keys(["other", call.task?.key ?? ""]))
            case .tag: manager.cancelRequests(.tag(WaitingFixture.tag))
            case .url: manager.cancelRequests(.url(WaitingFixture.path))
            case .wholeURL:
                manager.cancelRequests(.url(RequestBuilder.absoluteURL(WaitingFixture.path, base: manager.baseURL)))
            case .entityType: manager.cancelRequests(.entity(FetchWaiting.self))
            case .entity: manager.cancelRequests(.entity(FetchWaiting()))
            case .all: manager.cancelRequests(.all)
            }
        }

        /// The expected end of the call.
        var ending: CallEnding { self == .swiftTask ? .cancellationError : .error(.cancelled) }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let place: WaitingPlace
        let form: CallForm
        let way: Way

        var testDescription: String { "\(place.rawValue), \(form.rawValue), \(way.rawValue)" }

        static let all = WaitingPlace.allCases.flatMap { place in
            Way.allCases.flatMap { way in
                CallForm.allCases.filter { $0.fits(place) && way.fits($0) }.map {
                    Case(place: place, form: $0, way: way)
                }
            }
        }

        /// The cases in which the call is certain not to have started.
        static let early = all.filter { $0.form.hasClosures || $0.way == .swiftTask }
    }

    @Test(arguments: Case.all) func waitingCallEndsAtOnce(_ item: Case) async throws {
        let fixture = try await WaitingFixture(item.place)
        let call = fixture.start(item.form)
        try await fixture.waitForArrival()
        #expect(call.endings.isEmpty && fixture.manager.runningRequests(.tag(WaitingFixture.tag)) == 1)
        item.way.cancel(call, fixture)
        // Only the cancellation ends the wait. A closure also needs its executor to be released.
        if item.place == .callbacks, item.form.hasClosures { fixture.release() }
        #expect(await call.ending(in: fixture) == item.way.ending)
        #expect(fixture.manager.runningRequests(.tag(WaitingFixture.tag)) == 0)
        try await fixture.expectNothingLeft()
        #expect(call.endings.count == 1)
    }

    @Test(arguments: Case.early) func unstartedCallEndsAtOnce(_ item: Case) async throws {
        let fixture = try await WaitingFixture(item.place)
        let call = fixture.start(item.form, beforehand: item.way == .swiftTask)
        item.way.cancel(call, fixture)
        if item.place == .callbacks, item.form.hasClosures { fixture.release() }
        #expect(await call.ending(in: fixture) == item.way.ending)
        try await fixture.expectNothingLeft()
        #expect(call.endings.count == 1)
    }

    /// The call is cancelled at about the moment when its wait ends by itself.
    @Test(arguments: Case.all) func raceWithTheWaitsEndEndsTheCallOnce(_ item: Case) async throws {
        let fixture = try await WaitingFixture(item.place, .init(isBrief: true))
        let call = fixture.start(item.form)
        let releasing = Task {
            for _ in 0..<Int.random(in: 0..<200) { await Task.yield() }
            fixture.release()
        }
        for _ in 0..<Int.random(in: 0..<400) { await Task.yield() }
        item.way.cancel(call, fixture)
        await releasing.value
        let ending = try #require(await call.ending(in: fixture))
        var possible: Set<CallEnding> = [item.way.ending, .value]
        if item.place == .connect { possible.insert(.error(.timeout(.connect))) }
        if item.place == .network { possible.insert(.error(.connect)) }
        #expect(possible.contains(ending), "\(ending)")
        try await fixture.expectNothingLeft()
        #expect(call.endings.count == 1)
    }

    @Test func callCancelledTwiceEndsOnce() async throws {
        let fixture = try await WaitingFixture(.head)
        let call = fixture.start(.closure)
        try await fixture.waitForArrival()
        #expect(fixture.manager.cancelRequests(.all) == 1)
        #expect(fixture.manager.cancelRequests(.tag(WaitingFixture.tag)) == 0)
        call.task?.cancel()
        #expect(await call.ending(in: fixture) == .error(.cancelled))
        try await fixture.expectNothingLeft()
        #expect(call.endings.count == 1)
    }

    @Test(arguments: WaitingPlace.allCases) func cancellingOneCallLeavesTheOther(_ place: WaitingPlace) async throws {
        let form = CallForm.asynchronous.fits(place) ? CallForm.asynchronous : .stream
        let fixture = try await WaitingFixture(place, .init(isBrief: true))
        let (leaving, staying) = (fixture.start(form), fixture.start(form))
        for _ in 0..<Int.random(in: 0..<100) { await Task.yield() }
        leaving.work?.cancel()
        fixture.release()
        _ = await leaving.ending(in: fixture)
        let ending = await staying.ending(in: fixture)
        switch place {
        case .connect: #expect(ending == .error(.timeout(.connect)))
        case .network: #expect(ending == .error(.connect))
        default: #expect(ending == .value)
        }
        try await fixture.expectNothingLeft()
    }
}

/// Every selection finds and cancels an upload, as any other call.
@Suite(.timeLimit(.minutes(2))) struct CancelledUploadTests {
    private struct SavePhoto: RequestEntity {
        static let route = Route("POST", url: "/photo")
        var files: [UploadFile]
        var parameters: Parameters? { [:] }
    }

    enum Way: String, CaseIterable, Sendable {
        case task, key, keys, url, entityType, entity, all
    }

    private func cancel<Value>(_ way: Way, _ upload: UploadTask<Value>, _ manager: CentralRequestManager) -> Int {
        switch way {
        case .task:
            upload.cancel()
            return 1
        case .key: return manager.cancelRequests(.key(upload.key))
        case .keys: return manager.cancelRequests(.keys([upload.key, "other"]))
        case .url: return manager.cancelRequests(.url("/photo"))
        case .entityType: return manager.cancelRequests(.entity(SavePhoto.self))
        case .entity: return manager.cancelRequests(.entity(SavePhoto(files: [])))
        case .all: return manager.cancelRequests(.all)
        }
    }

    private func ending<Value>(_ upload: UploadTask<Value>) async -> CallEnding {
        do {
            _ = try await upload.value
            return .value
        } catch {
            return CallEnding(error)
        }
    }

    private func check<Value>(
        _ way: Way, _ server: MockServer, _ manager: CentralRequestManager, isUnderWay: Bool,
        _ start: () -> UploadTask<Value>
    ) async throws {
        let upload = start()
        if isUnderWay { try await server.waitForBodyBytes(1) }
        #expect(cancel(way, upload, manager) == 1)
        #expect(await ending(upload) == .error(.cancelled))
        #expect(manager.runningRequests() == 0)
        #expect(cancel(way, upload, manager) == (way == .task ? 1 : 0))
        // A late reader gets the last progress and nothing after it.
        let late = await upload.progress.reduce(into: []) { $0.append($1) }
        #expect(late == [upload.currentProgress] && upload.state == .cancelled)
        server.bodyReadRate = nil
        try await server.waitUntilDisconnected()
    }

    @Test(arguments: Way.allCases, [true, false])
    func everySelectionCancelsTheUpload(_ way: Way, isUnderWay: Bool) async throws {
        let server = try MockServer()
        server.bodyReadRate = 20_000
        server.fallback { _ in .json("{}") }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let files = [UploadFile(name: "f", fileName: "f.bin", data: Data(count: 8 << 20))]
        if way == .entity || way == .entityType {
            try await check(way, server, manager, isUnderWay: isUnderWay) {
                SavePhoto(files: files).upload(on: manager)
            }
        } else {
            try await check(way, server, manager, isUnderWay: isUnderWay) { manager.upload("/photo", files: files) }
        }
    }

    @Test func queuedUploadIsCancelledByKey() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.maxConnectionsPerHost = 1
        }
        let blocker = Task { try await manager.startRequest("GET", "/blocker") }
        try await server.waitForRequests(1)
        let upload = manager.upload("/photo", body: .data(Data(count: 10), contentType: "a/b"))
        #expect(manager.runningRequests(.url("/photo")) == 1)
        #expect(manager.cancelRequests(.key(upload.key)) == 1)
        #expect(await ending(upload) == .error(.cancelled))
        #expect(server.requestCount == 1)
        blocker.cancel()
        _ = await blocker.result
        #expect(manager.runningRequests() == 0)
    }
}

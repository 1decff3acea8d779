import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A download is a call: selections cancel it, and its partial file is kept.
@Suite(.timeLimit(.minutes(1))) struct CancelledDownloadTests {
    enum Way: CaseIterable { case key, keys, tag, url, all }

    @Test(arguments: Way.allCases, [1, 3])
    func cancelledDownloadKeepsItsPart(_ way: Way, segments: Int) async throws {
        let directory = try TemporaryDirectory()
        let bytes = content(3_000_000)
        let server = try RangeServer(bytes) { _, _, honest in honest.stalling(.afterBodyBytes(400_000)) }
        let manager = try CentralRequestManager.make()
        var request = HTTPRequest("GET", server.url)
        request.tag = "big"
        let target = directory.path(of: "big.bin")
        let download = manager.download(request, to: target, segments: segments)
        for await progress in download.progress where progress.completed >= 300_000 { break }
        #expect(manager.runningRequests() == 1)
        let count =
            switch way {
            case .key: manager.cancelRequests(.key(download.key))
            case .keys: manager.cancelRequests(.keys(["other", download.key]))
            case .tag: manager.cancelRequests(.tag("big"))
            case .url: manager.cancelRequests(.url(server.url))
            case .all: manager.cancelRequests(.all)
            }
        #expect(count == 1)
        #expect(await failure { try await download.value }?.kind == .cancelled)
        #expect(download.state == .cancelled)
        #expect(manager.runningRequests() == 0)
        #expect(directory.contents.count == 2, "the part and its journal: \(directory.contents)")
    }

    @Test func downloadIsOneCallInEvents() async throws {
        let directory = try TemporaryDirectory()
        let server = try RangeServer(content(3_000_000))
        let manager = try CentralRequestManager.make()
        var events = manager.events.makeAsyncIterator()
        let download = manager.download(server.url, to: directory.path(of: "big.bin"), segments: 3)
        _ = try await download.value
        var (begun, sent) = (0, 0)
        while let event = await events.next() {
            #expect(event.call.key == download.key)
            if case .started = event.kind { begun += 1 }
            if case .sending = event.kind { sent += 1 }
            if case .finished = event.kind { break }
        }
        #expect(begun == 1 && sent >= 1)
        #expect(manager.runningRequests() == 0)
    }
}

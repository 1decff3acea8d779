import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// What the errors of a download say about its received bytes. `DownloadDiskTests` do the same with a full disk.
@Suite(.timeLimit(.minutes(1))) struct DownloadFateTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager
    private let bytes = content(1 << 20)

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make { $0.retries = 1 }
    }

    private var target: String { directory.path(of: "f") }

    private struct HookFailure: Error {}

    /// Makes a download fail in its hook, after the first half of its content if `breaks`.
    private func messageOfHook(_ tag: String?, breaks: Bool = true) async throws -> String {
        let headers = tag.map { ["ETag": $0] as HTTPHeaders } ?? [:]
        let server = try RangeServer(bytes, headers: headers) { _, number, honest in
            breaks && number == 1 ? honest.resetting(afterBytes: 512 << 10) : .status(403)
        }
        var options = DownloadOptions()
        options.refreshURL = { _ in throw HookFailure() }
        let download = manager.download(server.url, to: target, options: options)
        let error = try #require(await failure { try await download.value })
        #expect(error.kind == .provider && error.underlying is HookFailure)
        return error.message
    }

    @Test func failedHookSaysHowMuchIsKept() async throws {
        let message = try await messageOfHook("\"a\"")
        let count = try #require(message.split(separator: " ").compactMap { Int($0) }.first)
        let fate = "\(count) bytes are kept beside the target, and the same download continues with the rest"
        #expect(message == "refreshURL threw: HookFailure(); \(fate)")
        #expect(directory.contents == ["f.part", "f.part.journal"])
    }

    @Test func failedHookSaysThatNothingIsKept() async throws {
        #expect(try await messageOfHook(nil).contains("nothing is kept, because the server sends no strong validator"))
        #expect(try await messageOfHook("\"a\"", breaks: false) == "refreshURL threw: HookFailure(); nothing is kept")
        #expect(directory.contents.isEmpty)
    }

    @Test(arguments: [(true, "\"a\""), (true, nil), (false, "\"a\"")] as [(Bool, String?)])
    func cancelledDownloadSaysWhatIsKept(keeps: Bool, tag: String?) async throws {
        let headers = tag.map { ["ETag": $0] as HTTPHeaders } ?? [:]
        let server = try RangeServer(bytes, headers: headers) { $2.stalling(.afterBodyBytes(512 << 10)) }
        let download = manager.download(server.url, to: target)
        for await progress in download.progress where progress.completed >= 512 << 10 { break }
        download.cancel(keepingProgress: keeps)
        let message = try #require(await failure { try await download.value }).message
        let fate =
            if keeps, tag != nil {
                "524288 bytes are kept beside the target, and the same download continues with the rest"
            } else if keeps {
                "nothing is kept, because the server sends no strong validator (ETag) or does not support ranges"
            } else {
                "nothing is kept"
            }
        #expect(message == "the download was cancelled; \(fate)")
        #expect(directory.contents == (keeps && tag != nil ? ["f.part", "f.part.journal"] : []))
    }
}

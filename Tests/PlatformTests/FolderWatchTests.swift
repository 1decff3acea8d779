import Foundation
import LATTesting
import Platform
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct FolderWatchTests {
    @Test func otherFilesDoNotCallTheHandler() async throws {
        let directory = try TemporaryDirectory()
        let calls = Box<[Set<String>]>([])
        let watch = try #require(
            FolderWatch(folder: directory.path, names: ["first", "last"]) { names in
                calls.change { $0.append(names) }
                return 600_000
            })
        defer { watch.end() }
        try directory.write(Data(), to: "first")
        try await eventually("the call for the first file") { !calls.value.isEmpty }
        for number in 0..<200 { try directory.write(Data(), to: "other\(number)") }
        try directory.write(Data(), to: "last")
        try await eventually("the call for the last file") { calls.value.contains { $0.contains("last") } }
        #expect(!calls.value.contains([]))
    }

    @Test(.needsMountNamespaces) func folderThatIsMountedOverIsWatched() throws {
        let directory = try TemporaryDirectory()
        try MountNamespace.run {
            let calls = DispatchSemaphore(value: 0)
            let watch = try #require(
                FolderWatch(folder: directory.path, names: ["file"]) { _ in
                    calls.signal()
                    return nil
                })
            defer { watch.end() }
            func expectCall(_ what: String) {
                #expect(calls.wait(timeout: .now() + .seconds(30)) == .success, "\(what)")
            }
            try MountNamespace.mount(on: directory.path)
            expectCall("the mount")
            try directory.write(Data(), to: "file")
            expectCall("the file on the volume")
            // The events of one change may come in several calls.
            while calls.wait(timeout: .now()) == .success {}
            try MountNamespace.unmount(directory.path)
            expectCall("the unmount")
        }
    }
}

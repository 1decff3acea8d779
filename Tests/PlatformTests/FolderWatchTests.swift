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

    @Test(arguments: [true, false]) func folderThatIsMadeAgainIsWatched(isRemoved: Bool) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Data(), to: "folder/file")
        let calls = Box(0)
        let watch = try #require(
            FolderWatch(folder: directory.path(of: "folder"), names: ["file"]) { _ in
                calls.change { $0 += 1 }
                return nil
            })
        defer { watch.end() }
        if isRemoved {
            try FileManager.default.removeItem(atPath: directory.path(of: "folder"))
        } else {
            #expect(rename(directory.path(of: "folder"), directory.path(of: "old")) == 0)
        }
        try await eventually("the call for the folder that is gone") { calls.value > 0 }
        let before = calls.value
        try directory.write(Data(), to: "folder/file")
        try await eventually("the call for the file in the new folder") { calls.value > before }
        let first = calls.value
        try directory.write(Data("x".utf8), to: "folder/file")
        try await eventually("the call for a change of it") { calls.value > first }
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

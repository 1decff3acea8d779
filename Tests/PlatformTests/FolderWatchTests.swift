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
}

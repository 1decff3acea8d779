import Foundation
import Glibc
import LATTesting
import Testing

@testable import ResponseCache

/// The key that distinguishes senders, which all processes on a folder share.
@Suite(.timeLimit(.minutes(5))) struct IdentityKeyTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func concurrentProcessesAgreeOnOneKey() async throws {
        for round in 0..<40 {
            let folder = directory.path(of: "cache\(round)")
            let processes = try (0..<4).map { number in
                try ChildProcess.cacheWriter(folder, "identityKey", output: directory.path(of: "\(round)-\(number)"))
            }
            // No key is saved yet, so each process has generated its own.
            for process in processes { try #require(process.waitUntilStopped()) }
            #expect(Glibc.access(folder, F_OK) != 0)
            for process in processes { process.resume() }
            for process in processes { #expect(process.wait() == 0) }
            let keys = Set(processes.flatMap(\.lines))
            let saved = try #require(directory.read("cache\(round)/identity.key"))
            #expect(keys == [Substring(saved.base64EncodedString())], "round \(round)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.contains(".new") } == [])
        }
    }

    @Test func damagedKeyIsReplaced() throws {
        let folder = directory.path(of: "cache")
        try directory.write(Data("half".utf8), to: "cache/identity.key")
        let key = IdentityKey(directory: folder)
        let own = key.bytes
        key.save()
        #expect(key.bytes == own && IdentityKey(directory: folder).bytes == own)
    }

    @Test func firstSavedKeyWins() throws {
        let folder = directory.path(of: "cache")
        let keys = (0..<2).map { _ in IdentityKey(directory: folder) }
        #expect(keys[0].bytes != keys[1].bytes)
        for key in keys { key.save() }
        #expect(keys[0].bytes == keys[1].bytes)
    }
}

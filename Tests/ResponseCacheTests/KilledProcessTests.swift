import Foundation
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import ResponseCache

/// Processes that share a folder and are killed at any time.
@Suite(.serialized, .timeLimit(.minutes(30))) struct KilledProcessTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var folder: String { directory.path(of: "cache") }

    /// A line of the child's output: the key, number and size of a committed entry.
    private struct Acknowledgement {
        let key: String
        let number: Int
        let byteCount: Int

        init?(_ line: Substring) {
            let words = line.split(separator: " ")
            guard words.count == 3, let number = Int(words[1]), let byteCount = Int(words[2]) else { return nil }
            key = String(words[0])
            self.number = number
            self.byteCount = byteCount
        }
    }

    private func start(first: Int, keyCount: Int, limit: Int = 1_000_000_000) throws -> ChildProcess {
        try ChildProcess.cacheWriter(
            folder, "\(first)", "\(keyCount)", "\(limit)", output: directory.path(of: "out\(first)"))
    }

    /// Checks that every entry is complete, and returns the number stored under each key.
    private func checkedNumbers(_ store: DiskStore) async throws -> [String: Int] {
        var numbers: [String: Int] = [:]
        for entry in try await store.entries(.all) {
            let number = try #require(Int(entry.headers["X-Number"] ?? ""))
            let byteCount = [100, 5_000, 40_000, 300_000][(number / 4) % 4] + number % 97
            let body = try #require(try await store.body(of: entry)?.collect(upTo: .max), "number \(number) is damaged")
            #expect(body == Data(repeating: UInt8(number % 251), count: byteCount), "number \(number) is incomplete")
            numbers[entry.key.primary] = number
        }
        return numbers
    }

    @Test func acknowledgedEntriesSurviveAKill() async throws {
        let rounds = ProcessInfo.processInfo.environment["LAT_KILL_ROUNDS"].flatMap { Int($0) } ?? 25
        let keyCount = 40
        var first = 0
        var acknowledgedCount = 0
        var last: [String: Int] = [:]
        var roundsWithEntries = 0
        for round in 0..<rounds {
            let process = try start(first: first, keyCount: keyCount)
            // The kill comes at a random time, before the index exists or after up to some hundred commits. In every second
            // round it comes after a commit.
            if !round.isMultiple(of: 2) { try await eventually("a commit") { !process.lines.isEmpty } }
            usleep(UInt32.random(in: 5_000...250_000))
            process.kill()
            // The signal ended the process, not an earlier failure.
            #expect(process.wait() & 0x7F == SIGKILL)
            let lines = process.lines.compactMap(Acknowledgement.init)
            acknowledgedCount += lines.count
            if !lines.isEmpty { roundsWithEntries += 1 }
            for line in lines { last[line.key] = max(last[line.key] ?? -1, line.number) }

            let store = try DiskStore.plain(folder, limit: 1 << 40)
            let found = try await checkedNumbers(store)
            for (key, number) in last {
                // A later entry may be committed but not acknowledged yet.
                #expect(found[key] ?? -1 >= number, "round \(round): \(key) has \(found[key] ?? -1), not \(number)")
            }
            // The next child continues after the highest number found.
            first = max(first, (found.values.max() ?? 0) + 1)
            first += (4 - first % 4) % 4
            try await store.collectGarbage()
            let rows = try await store.entries(.all).count {
                ($0.note as? StoredBody)?.file != nil
            }
            #expect(directory.bodyFiles("cache").count == rows, "round \(round): bodies without rows are left")
            #expect(!directory.contents.contains("cache/index-4.sqlite.damaged"))
        }
        print(
            "kill -9: \(rounds) rounds, \(acknowledgedCount) acknowledged entries, none lost or damaged;",
            "\(roundsWithEntries) rounds reached a commit")
        #expect(acknowledgedCount > 0)
    }

    @Test func twoProcessesWriteTheSameKeys() async throws {
        let store = TieredStore(memory: MemoryStore(), disk: try DiskStore.plain(folder, limit: 1 << 30))
        let one = try start(first: 0, keyCount: 20, limit: 200)
        let two = try start(first: 100_000, keyCount: 20, limit: 200)
        // This process reads at the same time and finds only complete entries.
        for _ in 0..<50 {
            for key in 0..<20 {
                guard let entry = try await store.first("k\(key)") else { continue }
                let number = try #require(Int(entry.headers["X-Number"] ?? ""))
                guard let body = try await store.body(of: entry)?.collect(upTo: .max) else { continue }
                #expect(body.allSatisfy { $0 == UInt8(number % 251) })
            }
        }
        let statuses = [one.wait(), two.wait()]
        #expect(statuses == [0, 0])
        let written = (one.lines + two.lines).compactMap(Acknowledgement.init)
        #expect(written.count == 400)
        let found = try await checkedNumbers(try #require(store.lower as? DiskStore))
        #expect(found.count == 20)
        // Each entry is one that a process wrote.
        let lastNumbers = Set(written.map(\.number))
        #expect(found.values.allSatisfy(lastNumbers.contains))
        #expect(try await store.usage().entryCount == 20)
        // Memory and disk agree.
        for (key, number) in found { #expect(try await store.first(key)?.headers["X-Number"] == "\(number)") }
        try await store.collectGarbage()
        let rows = try await store.inspected().entries(.all).count {
            ($0.note as? StoredBody)?.file != nil
        }
        #expect(directory.bodyFiles("cache").count == rows)
    }
}

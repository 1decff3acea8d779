import Foundation
import HTTPCore
import LATTesting
import Synchronization
import Testing

@testable import ResponseCache

/// Named values in every kind of store.
@Suite(.timeLimit(.minutes(2))) struct ValueStoreTests {
    private struct Profile: Codable, Hashable, Sendable {
        var name: String
        var visits: [Date] = []
    }

    private final class Clock: Sendable {
        private let time = Mutex(Make.start)
        var now: Date { time.withLock { $0 } }
        func advance(by seconds: Double) { time.withLock { $0 += seconds } }
    }

    private func values(_ store: any CacheStore, _ clock: Clock = Clock()) -> ValueStore {
        ValueStore(now: { clock.now }) { store }
    }

    @Test(arguments: Kind.allCases) func setValuesAreReadBack(kind: Kind) async throws {
        let directory = try TemporaryDirectory()
        let values = values(try kind.make(in: directory))
        #expect(try await values.get(Profile.self, for: "profile") == nil)
        let profile = Profile(name: "Ada", visits: [Make.start + 0.1])
        try await values.set(profile, for: "profile")
        try await values.set(7, for: "a/b ü'\"")
        try await values.set(["x"], for: "list")
        try await values.set(Data([1, 2, 3]), for: "bytes")
        try await values.set(Data(), for: "empty")
        try await values.set(Make.body(100_000), for: "large")
        #expect(try await values.get(for: "profile") == profile)
        #expect(try await values.get(Int.self, for: "a/b ü'\"") == 7)
        #expect(try await values.get([String].self, for: "list") == ["x"])
        #expect(try await values.get(Data.self, for: "bytes") == Data([1, 2, 3]))
        #expect(try await values.get(Data.self, for: "empty") == Data())
        #expect(try await values.get(Data.self, for: "large") == Make.body(100_000))
        #expect(try await values.get(Data.self, for: "list") == Data("[\"x\"]".utf8))
        #expect(try await values.keys() == ["a/b ü'\"", "bytes", "empty", "large", "list", "profile"])
        #expect(try await values.usage().entryCount == 6)
        try await values.set(8, for: "list")
        #expect(try await values.get(Int.self, for: "list") == 8)
        try await values.remove("list")
        try await values.remove("never there")
        #expect(try await values.contains("list") == false)
        #expect(try await values.removeAll().entryCount == 5)
        #expect(try await values.keys().isEmpty)
    }

    @Test(arguments: Kind.allCases) func expiredValuesAreAbsent(kind: Kind) async throws {
        let directory = try TemporaryDirectory()
        let clock = Clock()
        let values = values(try kind.make(in: directory), clock)
        try await values.set(1, for: "a", expiresAfter: .seconds(60))
        try await values.set(2, for: "b", expiresAt: Make.start + 60)
        try await values.set(3, for: "c")
        try await values.set(4, for: "d", expiresAt: Date(timeIntervalSinceReferenceDate: .infinity))
        #expect(try await values.get(Int.self, for: "d") == 4)
        try await values.remove("d")
        #expect(try await values.expiry(of: "a") == Make.start + 60)
        #expect(try await values.expiry(of: "c") == nil)
        clock.advance(by: 59.999)
        #expect(try await values.get(Int.self, for: "a") == 1)
        #expect(try await values.get(Int.self, for: "b") == 2)
        clock.advance(by: 0.001)
        #expect(try await values.get(Int.self, for: "a") == nil)
        #expect(try await values.contains("b") == false)
        #expect(try await values.keys() == ["c"])
        // Setting the clock back does not revive values that were found expired.
        clock.advance(by: -30)
        #expect(try await values.get(Int.self, for: "a") == nil)
        #expect(try await values.get(Int.self, for: "b") == nil)
        clock.advance(by: -31)
        #expect(try await values.get(Int.self, for: "c") == 3)
        try await values.set(4, for: "a", expiresAfter: .seconds(1))
        #expect(try await values.get(Int.self, for: "a") == 4)
        clock.advance(by: -1)
        // The value was stored in the future.
        #expect(try await values.get(Int.self, for: "a") == nil)
    }

    /// Another machine's clock is ahead, or this one was set back a little.
    @Test(arguments: Kind.allCases) func valueFromALaterClockIsKept(kind: Kind) async throws {
        let directory = try TemporaryDirectory()
        let clock = Clock()
        let values = values(try kind.make(in: directory), clock)
        try await values.set(1, for: "a", expiresAfter: .seconds(60))
        clock.advance(by: -0.3)
        #expect(try await values.get(Int.self, for: "a") == nil)
        clock.advance(by: 0.3)
        #expect(try await values.get(Int.self, for: "a") == 1)
    }

    @Test func mismatchedTypeIsAnError() async throws {
        let values = values(MemoryStore())
        try await values.set(["name": 7], for: "profile")
        let error = await #expect(throws: NetworkError.self) { try await values.get(Profile.self, for: "profile") }
        #expect(error?.kind == .decoding(path: "name"))
        #expect(error?.message.contains("\"profile\"") == true)
        // The value stays stored, since another version of the program may read it.
        #expect(try await values.get([String: Int].self, for: "profile") == ["name": 7])
        let nameless = await #expect(throws: NetworkError.self) { try await values.set(1, for: "") }
        #expect(nameless?.kind == .invalidRequest)
        let endless = await #expect(throws: NetworkError.self) { try await values.set(Double.infinity, for: "a") }
        #expect(endless?.kind == .invalidRequest)
        #expect(endless?.underlying is EncodingError)
    }

    @Test func tooLargeValueIsRefused() async throws {
        let values = values(MemoryStore(byteLimit: 1_000))
        try await values.set(1, for: "a")
        let error = await #expect(throws: NetworkError.self) { try await values.set(Make.body(2_000), for: "a") }
        #expect(error?.kind == .cache)
        #expect(error?.underlying is CacheEntryTooLarge)
        #expect(try await values.get(Int.self, for: "a") == 1)
    }

    @Test(arguments: Kind.allCases) func concurrentWritersLeaveOneWholeValue(kind: Kind) async throws {
        let directory = try TemporaryDirectory()
        let values = values(try kind.make(in: directory))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in UInt8(0)..<8 {
                group.addTask {
                    for _ in 0..<20 {
                        try await values.set(Data(repeating: writer, count: 5_000), for: "shared")
                        try await values.set(writer, for: "own \(writer)")
                        let read = try await values.get(Data.self, for: "shared")
                        #expect(read?.count == 5_000 && Set(read ?? Data()).count == 1)
                    }
                }
            }
            try await group.waitForAll()
        }
        for writer in UInt8(0)..<8 { #expect(try await values.get(UInt8.self, for: "own \(writer)") == writer) }
        #expect(try await values.keys().count == 9)
    }

    @Test func selectionsWithOtherBytesAreNotEqual() {
        #expect(CacheSelection.url("http://h/caf\u{E9}") != .url("http://h/cafe\u{301}"))
        #expect(CacheSelection.tag("a") == .tag("a") && CacheSelection.tag("a") != .url("a"))
    }

    @Test func selectionsOfResponsesSelectNoValues() {
        #expect(CacheSelection.all.withoutValues == .urlPrefix("http"))
        for prefix in ["", "h", "http"] {
            #expect(CacheSelection.urlPrefix(prefix).withoutValues == .urlPrefix("http"))
        }
        for prefix in ["v", "value:", "value:a"] {
            #expect(CacheSelection.urlPrefix(prefix).withoutValues == .primaryKey(""))
        }
        for prefix in ["http://h/", "ftp://", "x"] {
            #expect(CacheSelection.urlPrefix(prefix).withoutValues == .urlPrefix(prefix))
        }
        #expect(CacheSelection.url("value:a").withoutValues == .primaryKey(""))
        #expect(CacheSelection.url("http://h/").withoutValues == .url("http://h/"))
    }
}

import Foundation
import HTTPCore
import LATTesting
import ResponseCache
import Testing

/// What every store promises.
@Suite struct StoreContractTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(arguments: Kind.allCases) func whatIsCommittedIsFoundWhole(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        for count in [
            0, 1, 16 << 10, (16 << 10) + 1, 65_535, 65_536, 65_537, 131_072, 1 << 20, (1 << 20) + 1, 3_000_000,
        ] {
            var entry = Make.entry("k\(count)", server: "s", domain: "d", partition: "u")
            entry.headers = HTTPHeaders([("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("X-Empty", ""), ("X", "é🦊")])
            entry.varyFields = ["accept", "cookie"]
            entry.lastUse = Make.start + 7
            try await store.put(entry, Make.body(count), pieces: 50_000)
            let found = try #require(try await store.first("k\(count)"))
            #expect(found.key == entry.key && found.method == "GET" && found.url == entry.url && found.status == 200)
            #expect(found.reason == "OK" && found.headers == entry.headers && found.varyFields == entry.varyFields)
            #expect(found.requestTime == entry.requestTime && found.responseTime == entry.responseTime)
            #expect(found.lastUse == entry.lastUse && found.server == "s" && found.domain == "d")
            #expect(found.partition == "u" && found.bodyByteCount == Int64(count))
            #expect(!found.isPinned && !found.isExpired)
            #expect(try await store.body(of: found)?.collect(upTo: .max) == Make.body(count))
        }
        #expect(try await store.usage().entryCount == 11)
    }

    @Test(arguments: Kind.allCases) func nothingIsSeenBeforeTheCommitNorAfterADiscard(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        try await store.put(Make.entry("a"), Data("old".utf8))
        for byteCount in [10, 300_000] {
            let writer = try await store.writer(for: Make.entry("a"))
            try await writer.append(Make.body(byteCount))
            #expect(try await store.data("a") == Data("old".utf8))
            await writer.discard()
            #expect(try await store.data("a") == Data("old".utf8))
            await #expect(throws: NetworkError.self) { try await writer.commit() }
        }
        do {
            let writer = try await store.writer(for: Make.entry("a"))
            try await writer.append(Make.body(300_000))
        }
        #expect(directory.bodyFiles("cache") == [])
        #expect(try await store.usage().entryCount == 1)
    }

    @Test(arguments: Kind.allCases) func theVariantStoredLastComesFirst(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        for variant in ["en", "de", "fr", "en"] {
            try await store.put(Make.entry("a", variant: variant), Data(variant.utf8))
        }
        for _ in 0..<2 {
            let entries = try await store.entries(for: "a")
            #expect(entries.map(\.key.variant) == ["en", "fr", "de"])
            for entry in entries {
                #expect(try await store.body(of: entry)?.collect(upTo: 9) == Data(entry.key.variant.utf8))
            }
        }
        try await store.remove(.key(CacheKey(primary: "a", variant: "fr")))
        #expect(try await store.entries(for: "a").map(\.key.variant) == ["en", "de"])
        #expect(try await store.remove(.primaryKey("a")).entryCount == 2)
        #expect(try await store.entries(for: "a").isEmpty)
    }

    @Test(arguments: Kind.allCases) func anUpdateReplacesAllButTheBody(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        try await store.put(Make.entry("a"), Make.body(20_000))
        var entry = try #require(try await store.first("a"))
        entry.headers["ETag"] = "\"2\""
        entry.isExpired = true
        entry.isPinned = true
        entry.responseTime += 60
        try await store.update(entry)
        entry.status = 203
        try await store.update(entry)
        let found = try #require(try await store.first("a"))
        #expect(found.headers["ETag"] == "\"2\"" && found.isExpired && found.isPinned && found.status == 203)
        #expect(found.responseTime == Make.start + 60)
        #expect(try await store.body(of: found)?.collect(upTo: .max) == Make.body(20_000))
        try await store.update(Make.entry("nowhere"))
        #expect(try await store.entries(for: "nowhere").isEmpty)
    }

    @Test(arguments: Kind.allCases) func anEntryOfBeforeChangesNothingOfWhatWasStoredAnew(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        try await store.put(Make.entry("a"), Make.body(20_000))
        var old = try #require(try await store.first("a"))
        try await store.put(Make.entry("a", headers: ["X": "new"]), Make.body(30_000))
        old.headers["X"] = "old"
        try await store.update(old)
        #expect(try await store.first("a")?.headers["X"] == "new")
        // Nor does it get the body of another answer.
        let body = try await store.body(of: old)?.collect(upTo: .max)
        #expect(body == nil || body == Make.body(20_000))
        #expect(try await store.data("a") == Make.body(30_000))
    }

    @Test(arguments: Kind.allCases) func aPinOutlivesARefill(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 100_000)
        try await store.put(Make.entry("pinned"))
        var entry = try #require(try await store.first("pinned"))
        entry.isPinned = true
        try await store.update(entry)
        try await store.put(Make.entry("pinned"), Data("again".utf8))
        #expect(try await store.first("pinned")?.isPinned == true)
        for number in 0..<50 { try await store.put(Make.entry("k\(number)"), Make.body(10_000)) }
        #expect(try await store.data("pinned") == Data("again".utf8))
        #expect(try await store.usage().byteCount <= 100_000)
        #expect(try await store.remove(.key(CacheKey(primary: "pinned"))).entryCount == 1)
    }

    @Test(arguments: Kind.allCases) func whatWasNotUsedForLongGoesFirst(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 100_000)
        // By the order of use, not by the clock, which may be put back and forth.
        for number in 0..<9 {
            let time = Date(timeIntervalSinceReferenceDate: [1e12, -1e12, 0][number % 3] + Double(number))
            try await store.put(Make.entry("k\(number)", at: time), Make.body(10_000))
        }
        for number in [0, 3, 6] {
            try await store.touch(CacheKey(primary: "k\(number)"), at: Date(timeIntervalSinceReferenceDate: -1e13))
        }
        for number in 9..<15 { try await store.put(Make.entry("k\(number)"), Make.body(10_000)) }
        var left: [Int] = []
        for number in 0..<15 where try await store.first("k\(number)") != nil { left.append(number) }
        #expect(left == [0, 3, 6, 9, 10, 11, 12, 13, 14])
    }

    @Test(arguments: Kind.allCases) func aTouchIsSeenAtOnce(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        try await store.put(Make.entry("a"))
        for seconds in [5.0, -5e9, 5e9] {
            try await store.touch(CacheKey(primary: "a"), at: Make.start + seconds)
            #expect(try await store.first("a")?.lastUse == Make.start + seconds)
        }
        try await store.touch(CacheKey(primary: "b"), at: Make.start)
        #expect(try await store.first("b") == nil)
    }

    @Test(arguments: Kind.allCases) func anEntryLargerThanTheLimitIsRefusedWithoutHarm(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 400_000)
        for number in 0..<3 { try await store.put(Make.entry("k\(number)"), Make.body(100_000)) }
        for pieces in [1_000, 1 << 20] {
            let error = await #expect(throws: NetworkError.self) {
                try await store.put(Make.entry("k1"), Make.body(400_001), pieces: pieces)
            }
            #expect(error?.kind == .cache && error?.underlying is CacheEntryTooLarge)
        }
        for number in 0..<3 { #expect(try await store.data("k\(number)") == Make.body(100_000)) }
        // Nor may it take the place of what is pinned.
        for number in 0..<3 {
            var entry = try #require(try await store.first("k\(number)"))
            entry.isPinned = true
            try await store.update(entry)
        }
        await #expect(throws: NetworkError.self) { try await store.put(Make.entry("x"), Make.body(150_000)) }
        #expect(try await store.usage().entryCount == 3)
        try await store.put(Make.entry("y"), Make.body(50_000))
        #expect(try await store.has("y"))
    }

    @Test(arguments: Kind.allCases) func everySelectionMeansWhatItSays(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        let composed = "http://h/caf\u{E9}"
        let decomposed = "http://h/cafe\u{301}"
        let urls = [
            "http://h/a", "http://h/a%b", "http://h/a_b", "http://h/axb", "http://h/a🦊b", "http://h/a🦋b", composed,
            decomposed, "http://i/a", "http://h/a'b\"",
        ]
        for (number, url) in urls.enumerated() {
            let entry = Make.entry(
                "k\(number)", url: url, at: Make.start + Double(number), server: number % 2 == 0 ? "even" : "odd",
                domain: number < 8 ? "h" : nil, partition: number == 3 ? "ada" : nil)
            try await store.put(entry)
        }
        func urlsOf(_ selection: CacheSelection) async throws -> [Int] {
            try await store.entries(selection).map { entry in
                urls.firstIndex { $0.utf8.elementsEqual(entry.url.utf8) } ?? -1
            }.sorted()
        }
        #expect(try await urlsOf(.all) == Array(0..<10))
        #expect(try await urlsOf(.url("http://h/a")) == [0])
        #expect(try await urlsOf(.url(composed)) == [6])
        #expect(try await urlsOf(.urlPrefix("http://h/a")) == [0, 1, 2, 3, 4, 5, 9])
        #expect(try await urlsOf(.urlPrefix("http://h/a%")) == [1])
        #expect(try await urlsOf(.urlPrefix("http://h/a_")) == [2])
        #expect(try await urlsOf(.urlPrefix("http://h/a🦊")) == [4])
        #expect(try await urlsOf(.urlPrefix("http://h/a'")) == [9])
        #expect(try await urlsOf(.urlPrefix("http://h/cafe")) == [7])
        #expect(try await urlsOf(.urlPrefix("")) == Array(0..<10))
        #expect(try await urlsOf(.urlPrefix("nothing")) == [])
        #expect(try await urlsOf(.server("odd")) == [1, 3, 5, 7, 9])
        #expect(try await urlsOf(.domain("h")) == Array(0..<8))
        #expect(try await urlsOf(.partition("ada")) == [3])
        #expect(try await urlsOf(.storedBefore(Make.start + 2)) == [0, 1])
        #expect(try await urlsOf(.key(CacheKey(primary: "k4"))) == [4])

        #expect(try await store.remove(.partition("ada")).entryCount == 1)
        #expect(try await store.remove(.urlPrefix("http://h/a%")).entryCount == 1)
        #expect(try await store.remove(.storedBefore(Make.start + 1)).entryCount == 1)
        #expect(try await store.remove(.server("odd")).entryCount == 3)
        #expect(try await urlsOf(.all) == [2, 4, 6, 8])
        #expect(try await store.remove(.domain("h")).entryCount == 3)
        let before = try await store.usage()
        #expect(try await store.remove(.all) == before && before.entryCount == 1)
        #expect(try await store.usage() == CacheUsage())
    }

    @Test(arguments: [Kind.memory, .disk, .sealedDisk]) func tenThousandKeysAreKeptApart(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 1 << 30)
        let path = String(repeating: "x", count: 10_000)
        let signs = ["'", "\"", "%", "_", "🦊", "e\u{301}", "\u{E9}", "\u{0}", "\\", "--"]
        let count = 10_000
        func key(_ number: Int) -> String { "k\(signs[number % signs.count])\(number / signs.count)" }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<20 {
                group.addTask {
                    for number in stride(from: worker, to: count, by: 20) {
                        let url = "http://h/" + (number % 50 == 0 ? path : "") + key(number)
                        try await store.put(Make.entry(key(number), url: url), Data("\(number)".utf8))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await store.usage().entryCount == count)
        for number in stride(from: 0, to: count, by: 7) {
            #expect(try await store.data(key(number)) == Data("\(number)".utf8))
        }
        #expect(try await store.entries(.urlPrefix("http://h/xxx")).count == 200)
    }

    @Test(arguments: Kind.allCases) func manyTasksAtOnceSeeOnlyWholeEntries(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 2 << 20)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    for round in 0..<25 {
                        let key = "k\((worker + round) % 5)"
                        switch (worker &* 7 &+ round) % 4 {
                        case 0:
                            let byte = UInt8((worker * 25 + round) % 251)
                            let entry = Make.entry(key, headers: ["X": "\(byte)"])
                            try await store.put(entry, Data(repeating: byte, count: 10 + Int(byte) * 300))
                        case 1: try await store.touch(CacheKey(primary: key), at: Make.start)
                        case 2 where round % 5 == 0: try await store.remove(.key(CacheKey(primary: key)))
                        default:
                            guard let entry = try await store.first(key) else { continue }
                            guard let data = try await store.body(of: entry)?.collect(upTo: .max) else { continue }
                            let byte = UInt8(entry.headers["X"] ?? "") ?? 0
                            #expect(data == Data(repeating: byte, count: 10 + Int(byte) * 300))
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}

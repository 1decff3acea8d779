import FoundationEssentials
import HTTPCore
import ResponseCache

/// The rules on many entries: selections, the size limit, and concurrent tasks.
extension StoreCheck {
    private static let composed = "http://h/caf\u{E9}"
    private static let decomposed = "http://h/cafe\u{301}"
    private static let urls = [
        "http://h/a", "http://h/a%b", "http://h/a_b", "http://h/axb", "http://h/a🦊b", "http://h/a🦋b", composed,
        decomposed, "http://i/a", "http://h/a'b\"",
    ]

    /// The numbers, from 0 to 9, of the entries that each selection matches.
    private static let selections: [(selection: CacheSelection, numbers: Set<Int>)] = [
        (.all, Set(0..<10)), (.url("http://h/a"), [0]), (.url(composed), [6]), (.url("http://h/nothing"), []),
        (.urlPrefix("http://h/a"), [0, 1, 2, 3, 4, 5, 9]), (.urlPrefix("http://h/a%"), [1]),
        (.urlPrefix("http://h/a_"), [2]), (.urlPrefix("http://h/a🦊"), [4]), (.urlPrefix("http://h/a'"), [9]),
        (.urlPrefix("http://h/cafe"), [7]), (.urlPrefix(""), Set(0..<10)), (.urlPrefix("nothing"), []),
        (.server("odd"), [1, 3, 5, 7, 9]), (.domain("h"), Set(0..<8)), (.partition("ada"), [3]),
        (.storedBefore(start + 2), [0, 1]), (.key(CacheKey(primary: "k4")), [4]), (.primaryKey("k4"), [4]),
        (.key(CacheKey(primary: "k4", variant: "x")), []), (.tag("three"), [0, 3, 6, 9]), (.tag("thr"), []),
        (.tag("caf\u{E9}"), [1, 2]), (.tag("cafe\u{301}"), [4]),
    ]

    private func fill(_ store: any CacheStore) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, url) in Self.urls.enumerated() {
                var entry = Self.entry("k\(number)", url: url, at: Self.start + Double(number))
                entry.server = number % 2 == 0 ? "even" : "odd"
                entry.domain = number < 8 ? "h" : nil
                entry.partition = number == 3 ? "ada" : nil
                if number % 3 == 0 { entry.tags = ["three", "other"] }
                if number == 1 || number == 2 { entry.tags = ["caf\u{E9}"] }
                if number == 4 { entry.tags = ["cafe\u{301}"] }
                let filled = entry
                group.addTask { try await store.put(filled, Self.body(number == 5 ? 50_000 : 100)) }
            }
            try await group.waitForAll()
        }
    }

    private func numbers(_ store: any CacheStore) async throws -> Set<Int> {
        var numbers: Set<Int> = []
        for number in 0..<10 where try await store.data("k\(number)") != nil { numbers.insert(number) }
        return numbers
    }

    func checkRemoval() async throws {
        let store = try await store()
        for (selection, meant) in Self.selections {
            try await fill(store)
            let removed = try await store.remove(selection)
            let left = try await numbers(store)
            expect(
                left == Set(0..<10).subtracting(meant),
                "\(selection) removed \(Set(0..<10).subtracting(left).sorted()), not \(meant.sorted())")
            expect(
                removed == CacheUsage() || removed.entryCount == meant.count,
                "\(selection) reports that it removed \(removed.entryCount), not \(meant.count)")
        }
        // An updated entry is selected by its new fields.
        try await fill(store)
        var entry = try require(await store.first("k0"), "a stored entry is not found")
        entry.tags = ["new"]
        try await store.update(entry)
        try await store.remove(.tag("three"))
        expect(
            try await numbers(store) == [0, 1, 2, 4, 5, 7, 8],
            "an entry is still selected by a tag that an update removed")
        try await store.remove(.tag("new"))
        expect(try await store.first("k0") == nil, "an entry is not selected by a tag that an update added")
    }

    func checkInspection() async throws {
        guard let store = try await store().inspecting else { return }
        try await fill(store)
        for (selection, meant) in Self.selections {
            let found = try await store.entries(selection)
            let numbers = found.compactMap { Int($0.key.primary.dropFirst()) }
            expect(
                Set(numbers) == meant && numbers.count == meant.count,
                "\(selection) lists \(numbers.sorted()), not \(meant.sorted())")
            expect(found.allSatisfy { $0.version != nil }, "\(selection) lists an entry without a version")
        }
        let all = try await store.usage()
        let bodies: Int64 = 9 * 100 + 50_000
        expect(
            all.entryCount == 10 && all.byteCount > bodies,
            "\(all) is reported for ten entries with \(bodies) bytes of bodies")
        var removed = CacheUsage()
        for selection in [CacheSelection.server("odd"), .url("http://h/a"), .all] {
            removed += try await store.remove(selection)
        }
        expect(removed == all || removed == CacheUsage(), "\(removed) was removed from \(all)")
        expect(try await store.usage() == CacheUsage(), "the usage of an empty store is not zero")
    }

    func checkOddTexts() async throws {
        let store = try await store()
        let texts = [
            "'", "\"", "%", "_", "🦊", "e\u{301}", "\u{E9}", "\u{0}", "\\", "--", "a\nb", "",
            String(repeating: "x", count: 10_000),
        ]
        for (number, text) in texts.enumerated() {
            var entry = Self.entry("k" + text, variant: text, url: "http://h/" + text)
            entry.tags = [text]
            entry.partition = text
            try await store.put(entry, Data("\(number)".utf8))
        }
        for (number, text) in texts.enumerated() {
            let found = try await store.entries(for: "k" + text)
            expect(found.count == 1, "\(found.count) entries are found under key \(number) of odd texts")
            guard let entry = found.first else { continue }
            expect(
                try await store.data(of: entry) == Data("\(number)".utf8),
                "key \(number) of odd texts has the body of another")
            expect(
                entry.tags.first?.utf8.elementsEqual(text.utf8) == true, "tag \(number) of odd texts is not the same")
        }
        for (number, text) in texts.enumerated() {
            try await store.remove(number % 2 == 0 ? .tag(text) : .partition(text))
            expect(try await store.entries(for: "k" + text).isEmpty, "odd text \(number) selects nothing")
            for (other, text) in texts.enumerated().dropFirst(number + 1) {
                expect(
                    try await !store.entries(for: "k" + text).isEmpty, "odd text \(number) selects number \(other) too")
            }
        }
    }

    func checkConcurrency() async throws {
        let store = try await store(2 << 20)
        @Sendable func body(_ byte: UInt8) -> Data { Data(repeating: byte, count: 10 + Int(byte) * 300) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask { [self] in
                    for round in 0..<25 {
                        let key = "k\((worker + round) % 5)"
                        switch (worker &* 7 &+ round) % 4 {
                        case 0:
                            let byte = UInt8((worker * 25 + round) % 251)
                            var entry = Self.entry(key)
                            entry.headers["X"] = "\(byte)"
                            try await store.put(entry, body(byte))
                        case 1: try await store.touch(CacheKey(primary: key), at: Self.start)
                        case 2 where round % 5 == 0: try await store.remove(.key(CacheKey(primary: key)))
                        default:
                            guard let entry = try await store.first(key), let data = try await store.data(of: entry)
                            else { continue }
                            let byte = UInt8(entry.headers["X"] ?? "") ?? 0
                            expect(data == body(byte), "a body is returned with the fields of another response")
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        // Of several writers over the same version, one commits.
        for round in 0..<10 {
            let key = "race\(round)"
            let version = try require(await store.put(Self.entry(key)).stored?.version, "a commit returns no version")
            let winners = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<6 {
                    group.addTask {
                        let commit = try await store.put(
                            Self.entry(key), Data("\(number)".utf8), replacing: .version(version))
                        return commit.stored == nil ? 0 : 1
                    }
                }
                return try await group.reduce(0, +)
            }
            expect(winners == 1, "\(winners) of six writers have replaced the same version")
        }
    }

    // MARK: Limits

    private func pin(_ key: String, in store: any CacheStore) async throws {
        var entry = try require(await store.first(key), "\(key), which was stored, is not found")
        entry.isPinned = true
        try await store.update(entry)
    }

    func checkRoom() async throws {
        let store = try await store(100_000)
        // The order of the calls decides, not their times, because a clock may be set back.
        for number in 0..<9 {
            let time = Date(timeIntervalSinceReferenceDate: [1e12, -1e12, 0][number % 3] + Double(number))
            try await store.put(Self.entry("k\(number)", at: time), Self.body(10_000))
        }
        for number in [0, 3, 6] {
            try await store.touch(CacheKey(primary: "k\(number)"), at: Date(timeIntervalSinceReferenceDate: -1e13))
        }
        for number in 9..<15 { try await store.put(Self.entry("k\(number)"), Self.body(10_000)) }
        if let inspecting = store.inspecting {
            let usage = try await inspecting.usage()
            expect(usage.byteCount <= 100_000, "\(usage.byteCount) bytes are stored, the limit is 100,000")
            let kept = try await inspecting.entries(.all).compactMap { Int($0.key.primary.dropFirst()) }.sorted()
            expect(
                kept == [0, 3, 6, 9, 10, 11, 12, 13, 14],
                "the entries left are \(kept), not the three touched and the last six stored")
        }
        for number in [0, 3, 6, 14] {
            expect(try await store.data("k\(number)") == Self.body(10_000), "the recently used k\(number) was removed")
        }
    }

    func checkRefusal() async throws {
        let store = try await store(400_000)
        for number in 0..<3 { try await store.put(Self.entry("k\(number)"), Self.body(100_000)) }
        func expectRefusal(_ key: String, _ count: Int, pieces: Int = 50_000) async throws {
            do {
                try await store.put(Self.entry(key), Self.body(count), pieces: pieces)
                expect(false, "\(count) bytes are stored above the limit")
            } catch let error as NetworkError {
                expect(
                    error.kind == .cache && error.underlying is CacheEntryTooLarge,
                    "an entry that is too large is refused with another error than CacheEntryTooLarge: \(error)")
            }
        }
        for pieces in [1_000, 1 << 20] { try await expectRefusal("k1", 400_001, pieces: pieces) }
        for number in 0..<3 {
            expect(try await store.data("k\(number)") == Self.body(100_000), "an entry was removed for a refused one")
        }
        // An entry that fits only in place of pinned ones is refused too.
        for number in 0..<3 { try await pin("k\(number)", in: store) }
        try await expectRefusal("x", 150_000)
        for number in 0..<3 { expect(try await store.data("k\(number)") != nil, "a pinned entry was removed") }
        try await store.put(Self.entry("y"), Self.body(50_000))
        expect(try await store.data("y") != nil, "an entry that fits beside pinned ones is not stored")
    }

    func checkPins() async throws {
        let store = try await store(100_000)
        try await store.put(Self.entry("pinned"))
        try await pin("pinned", in: store)
        let again = try await store.put(Self.entry("pinned"), Data("again".utf8))
        expect(again.stored?.isPinned == true, "the commit of a pinned entry does not report that it is pinned")
        expect(
            try await store.first("pinned")?.isPinned == true, "storing a pinned entry again unpins it")
        for number in 0..<50 { try await store.put(Self.entry("k\(number)"), Self.body(10_000)) }
        expect(try await store.data("pinned") == Data("again".utf8), "a pinned entry was removed to make room")
        try await store.remove(.key(CacheKey(primary: "pinned")))
        expect(try await store.entries(for: "pinned").isEmpty, "a removal by key leaves a pinned entry")
    }

    // MARK: Time

    func checkSpeed() async throws {
        let store = try await store()
        for number in 0..<20 { try await store.put(Self.entry("k\(number)"), Self.body(4_096)) }
        var times: [Duration] = []
        let clock = ContinuousClock()
        for number in 0..<60 {
            times.append(
                try await clock.measure { expect(try await store.data("k\(number % 20)") != nil, "an entry is lost") })
        }
        let median = times.sorted()[times.count / 2]
        expect(median <= lookUpBudget, "a look-up takes \(median), the budget is \(lookUpBudget)")
    }
}

import FoundationEssentials
import HTTPCore
import ResponseCache

/// The rules on single entries.
extension StoreCheck {
    func checkWholeEntries() async throws {
        let store = try await store()
        let counts = [0, 1, 16 << 10, (16 << 10) + 1, 65_535, 65_537, 131_072, 1 << 20, (1 << 20) + 1, 3_000_000]
        for count in counts {
            var entry = Self.entry("k\(count)")
            entry.server = "s"
            entry.domain = "d"
            entry.partition = "u"
            entry.headers = HTTPHeaders([("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("X-Empty", ""), ("X", "é🦊")])
            entry.varyFields = ["accept", "cookie"]
            entry.tags = ["news", "é🦊"]
            entry.retainUntil = Self.laterEnd
            entry.origin = CacheOrigin(version: StoredVersion(3, .max), variantCount: 2, epoch: .max)
            entry.lastUse = Self.start + 7
            // What only stores set counts for nothing.
            entry.version = StoredVersion(99)
            entry.attachedBody = Data("another".utf8)
            try await store.put(entry, Self.body(count))
            let found = try require(await store.first("k\(count)"), "an entry of \(count) bytes is not found")
            expect(
                found.key == entry.key && found.method == "GET" && found.url == entry.url, "key, method or URL differ")
            expect(found.status == 200 && found.reason == "OK", "status or reason differ")
            expect(found.headers == entry.headers, "the fields differ: \(found.headers)")
            expect(found.varyFields == entry.varyFields && found.tags == entry.tags, "vary fields or tags differ")
            expect(
                found.requestTime == entry.requestTime && found.responseTime == entry.responseTime
                    && found.lastUse == entry.lastUse && found.retainUntil == entry.retainUntil, "times differ")
            expect(
                found.server == "s" && found.domain == "d" && found.partition == "u",
                "server, domain or partition differ")
            expect(found.bodyByteCount == Int64(count), "\(found.bodyByteCount) bytes are told of, not \(count)")
            expect(!found.isPinned && !found.isExpired, "it is pinned or expired")
            expect(found.version != nil && found.version != StoredVersion(99), "it has no version of the store's own")
            let body = try await store.data(of: found)
            expect(body == Self.body(count), "the body of \(count) bytes is \(body.map { "\($0.count)" } ?? "gone")")
        }
        expect(
            try await store.entries(for: "nowhere").isEmpty, "something is found under a key that nothing was put under"
        )
    }

    func checkCommit() async throws {
        let store = try await store()
        let old = Data("old".utf8)
        try await store.put(Self.entry("a"), old)
        for count in [10, 300_000] {
            let writer = try await store.writer(for: Self.entry("a"), replacing: .anything)
            try await writer.append(Self.body(count))
            expect(try await store.data("a") == old, "a body of \(count) bytes is seen before the commit")
            await writer.discard()
            expect(try await store.data("a") == old, "a discarded body of \(count) bytes has changed what is stored")
            let isRefused: Bool
            do {
                try await writer.commit()
                isRefused = false
            } catch {
                isRefused = true
            }
            expect(isRefused, "a writer commits after it was discarded")
        }
        // One that is let go of leaves nothing.
        try await store.writer(for: Self.entry("a"), replacing: .anything).append(Self.body(300_000))
        expect(try await store.data("a") == old, "a writer that was let go of has changed what is stored")
    }

    func checkVariants() async throws {
        let store = try await store()
        for variant in ["en", "de", "fr", "en"] {
            try await store.put(Self.entry("a", variant: variant), Data(variant.utf8))
        }
        for _ in 0..<2 {
            let entries = try await store.entries(for: "a")
            let variants = entries.map(\.key.variant)
            expect(variants == ["en", "fr", "de"], "stored were en, de, fr and en again, found is \(variants)")
            for entry in entries {
                expect(try await store.data(of: entry) == Data(entry.key.variant.utf8), "a variant has another's body")
            }
        }
        try await store.remove(.key(CacheKey(primary: "a", variant: "fr")))
        let variants = try await store.entries(for: "a").map(\.key.variant)
        expect(variants == ["en", "de"], "fr was removed of three, found is \(variants)")
        try await store.remove(.primaryKey("a"))
        expect(try await store.entries(for: "a").isEmpty, "variants outlive the removal of their primary key")
    }

    func checkVersions() async throws {
        let store = try await store()
        var versions: Set<StoredVersion> = []
        for round in 0..<6 {
            if round == 3 { try await store.remove(.all) }
            let commit = try await store.put(Self.entry("a"))
            let committed = try require(commit.stored?.version, "a commit over anything gives no version")
            expect(versions.insert(committed).inserted, "a version was given twice")
            var entry = try require(await store.first("a"), "what was put is not found")
            expect(entry.version == committed, "the entry has another version than its commit gave")
            entry.isExpired = true
            try await store.update(entry)
            try await store.touch(entry.key, at: Self.start + 5)
            expect(try await store.first("a")?.version == committed, "an update or a touch has changed the version")
            let other = try await store.put(Self.entry("a", variant: "\(round)")).stored?.version
            expect(other != committed, "two variants have the same version")
        }
    }

    func checkReplacement() async throws {
        let store = try await store()
        for count in [10, 300_000] {
            let key = "k\(count)"
            func put(_ seed: UInt8, _ replacing: CacheReplacement) async throws -> CacheEntry? {
                try await store.put(Self.entry(key), Self.body(count, seed: seed), replacing: replacing).stored
            }
            func expectBody(_ seed: UInt8, _ message: String) async throws {
                expect(try await store.data(key) == Self.body(count, seed: seed), message)
            }
            let first = try require(
                await put(1, .nothing), "nothing is there, and a writer that wants that is superseded")
            expect(try await put(2, .nothing) == nil, "a writer that wants nothing to be there has replaced something")
            try await expectBody(1, "a superseded writer has changed the body")
            let version = try require(first.version, "a commit gives no version")
            let second = try require(await put(3, .version(version)), "a writer over the version there is superseded")
            try await expectBody(3, "a writer over the version there has not replaced it")
            expect(try await put(4, .version(version)) == nil, "an older answer has replaced a newer one")
            try await expectBody(3, "a superseded writer has changed the body")
            // Decided when it commits, not when it begins.
            let writer = try await store.writer(
                for: Self.entry(key), replacing: second.version.map { .version($0) } ?? .nothing)
            try await writer.append(Self.body(count, seed: 5))
            _ = try await put(6, .anything)
            expect(try await writer.commit().stored == nil, "a writer has replaced what came after it began")
            try await expectBody(6, "a writer that began before has replaced what came after")
            try await store.remove(.primaryKey(key))
            expect(try await put(7, .version(version)) != nil, "a writer over a version that was removed is superseded")
            try await expectBody(7, "a writer over a version that was removed has stored nothing")
        }
    }

    func checkUpdate() async throws {
        let store = try await store()
        try await store.put(Self.entry("a"), Self.body(20_000))
        var entry = try require(await store.first("a"), "what was put is not found")
        entry.headers["ETag"] = "\"2\""
        entry.isExpired = true
        entry.isPinned = true
        entry.responseTime += 60
        entry.retainUntil = Self.laterEnd
        entry.tags = ["second"]
        expect(try await store.update(entry), "an update of what is there says that it is not")
        entry.status = 203
        expect(try await store.update(entry), "a second update of the same entry says that it is not there")
        let found = try require(await store.first("a"), "an update has removed the entry")
        expect(
            found.headers["ETag"] == "\"2\"" && found.isExpired && found.isPinned && found.status == 203
                && found.responseTime == Self.start + 60 && found.retainUntil == Self.laterEnd
                && found.tags == ["second"],
            "an update has not replaced all fields")
        expect(try await store.data(of: found) == Self.body(20_000), "an update has changed the body")
        expect(try await !store.update(Self.entry("nowhere")), "an update of what is not there says that it is")
        expect(try await store.entries(for: "nowhere").isEmpty, "an update has made an entry")
        // Of an entry that was stored anew since.
        try await store.put(Self.entry("a"), Self.body(30_000))
        entry.headers["ETag"] = "\"old\""
        expect(try await !store.update(entry), "an update of what was stored anew since says that it is there")
        expect(
            try await store.first("a")?.headers["ETag"] == nil, "an entry of before has changed what was stored anew")
        entry.attachedBody = nil
        let body = try await store.data(of: entry)
        expect(body == nil || body == Self.body(20_000), "an entry of before has got the body of another storing")
    }

    func checkTouch() async throws {
        let store = try await store()
        try await store.put(Self.entry("a"))
        for seconds in [5.0, -5e9, 5e9] {
            try await store.touch(CacheKey(primary: "a"), at: Self.start + seconds)
            expect(
                try await store.first("a")?.lastUse == Self.start + seconds, "a touch is not seen at the next look-up")
        }
        try await store.touch(CacheKey(primary: "b"), at: Self.start)
        expect(try await store.entries(for: "b").isEmpty, "a touch has made an entry")
    }
}

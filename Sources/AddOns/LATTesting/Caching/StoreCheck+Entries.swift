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
            // A version that the caller sets is ignored: only stores set versions.
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
            expect(found.bodyByteCount == Int64(count), "\(found.bodyByteCount) bytes are reported, not \(count)")
            expect(!found.isPinned && !found.isExpired, "it is pinned or expired")
            expect(found.version != nil && found.version != StoredVersion(99), "the store gave it no version")
            let body = try await store.data(of: found)
            expect(body == Self.body(count), "the body of \(count) bytes is \(body.map { "\($0.count)" } ?? "missing")")
        }
        expect(
            try await store.entries(for: "nowhere").isEmpty, "an entry is found under a key that was never used"
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
            expect((try? await writer.commit()) == nil, "a writer commits after it was discarded")
        }
        // A writer that is released leaves nothing.
        try await store.writer(for: Self.entry("a"), replacing: .anything).append(Self.body(300_000))
        expect(try await store.data("a") == old, "a writer that was released has changed what is stored")
    }

    func checkVariants() async throws {
        let store = try await store()
        for variant in ["en", "de", "fr", "en"] {
            try await store.put(Self.entry("a", variant: variant), Data(variant.utf8))
        }
        for _ in 0..<2 {
            let entries = try await store.entries(for: "a")
            let variants = entries.map(\.key.variant)
            expect(variants == ["en", "fr", "de"], "after storing en, de, fr and en again, found \(variants)")
            for entry in entries {
                expect(try await store.data(of: entry) == Data(entry.key.variant.utf8), "a variant has the wrong body")
            }
        }
        try await store.remove(.key(CacheKey(primary: "a", variant: "fr")))
        let variants = try await store.entries(for: "a").map(\.key.variant)
        expect(variants == ["en", "de"], "after removing fr, found \(variants)")
        try await store.remove(.primaryKey("a"))
        expect(try await store.entries(for: "a").isEmpty, "variants remain after their primary key was removed")
    }

    func checkVersions() async throws {
        let store = try await store()
        var versions: Set<StoredVersion> = []
        for round in 0..<6 {
            if round == 3 { try await store.remove(.all) }
            let commit = try await store.put(Self.entry("a"))
            let committed = try require(commit.stored?.version, "a commit that replaces anything returns no version")
            expect(versions.insert(committed).inserted, "a version was used twice")
            var entry = try require(await store.first("a"), "a stored entry is not found")
            expect(entry.version == committed, "the entry's version is not the one that its commit returned")
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
                await put(1, .nothing), "a writer that replaces nothing is superseded although nothing is stored")
            expect(try await put(2, .nothing) == nil, "a writer that replaces nothing has replaced an entry")
            try await expectBody(1, "a superseded writer has changed the body")
            let version = try require(first.version, "a commit returns no version")
            let second = try require(await put(3, .version(version)), "a writer over the present version is superseded")
            try await expectBody(3, "a writer over the present version has not replaced it")
            expect(try await put(4, .version(version)) == nil, "an older response has replaced a newer one")
            try await expectBody(3, "a superseded writer has changed the body")
            // What is stored at the commit decides, not what is stored when the writer is made.
            let writer = try await store.writer(
                for: Self.entry(key), replacing: second.version.map { .version($0) } ?? .nothing)
            try await writer.append(Self.body(count, seed: 5))
            _ = try await put(6, .anything)
            expect(try await writer.commit().stored == nil, "a writer has replaced an entry stored since it began")
            try await expectBody(6, "a superseded writer has changed the body")
            try await store.remove(.primaryKey(key))
            expect(try await put(7, .version(version)) != nil, "a writer over a removed version is superseded")
            try await expectBody(7, "a writer over a removed version has stored nothing")
        }
    }

    func checkUpdate() async throws {
        let store = try await store()
        try await store.put(Self.entry("a"), Self.body(20_000))
        var entry = try require(await store.first("a"), "a stored entry is not found")
        entry.headers["ETag"] = "\"2\""
        entry.isExpired = true
        entry.isPinned = true
        entry.responseTime += 60
        entry.retainUntil = Self.laterEnd
        entry.tags = ["second"]
        expect(try await store.update(entry), "an update of a stored entry reports that there is none")
        entry.status = 203
        expect(try await store.update(entry), "a second update of the same entry reports that there is none")
        let found = try require(await store.first("a"), "an update has removed the entry")
        expect(
            found.headers["ETag"] == "\"2\"" && found.isExpired && found.isPinned && found.status == 203
                && found.responseTime == Self.start + 60 && found.retainUntil == Self.laterEnd
                && found.tags == ["second"],
            "an update has not replaced all fields")
        expect(try await store.data(of: found) == Self.body(20_000), "an update has changed the body")
        expect(try await !store.update(Self.entry("nowhere")), "an update of a missing entry reports that there is one")
        expect(try await store.entries(for: "nowhere").isEmpty, "an update has made an entry")
        // An update of an entry that was stored again in the meantime changes nothing.
        try await store.put(Self.entry("a"), Self.body(30_000))
        entry.headers["ETag"] = "\"old\""
        expect(try await !store.update(entry), "an update of an entry stored again since reports success")
        expect(
            try await store.first("a")?.headers["ETag"] == nil, "an outdated entry has changed the one stored since")
        entry.attachedBody = nil
        let body = try await store.data(of: entry)
        expect(body == nil || body == Self.body(20_000), "an outdated entry returns the body stored since")
    }

    func checkTouch() async throws {
        let store = try await store()
        try await store.put(Self.entry("a"))
        for seconds in [5.0, -5e9, 5e9] {
            try await store.touch(CacheKey(primary: "a"), at: Self.start + seconds)
            expect(
                try await store.first("a")?.lastUse == Self.start + seconds, "the next look-up does not see a touch")
        }
        try await store.touch(CacheKey(primary: "b"), at: Self.start)
        expect(try await store.entries(for: "b").isEmpty, "a touch has made an entry")
    }
}

import FoundationEssentials
import HTTPCore
import ResponseCache
import TestSupport
import Testing

/// Parts of responses: which are stored, joined, used and completed (RFC 9111 §3.3, §3.4; RFC 9110 §15.3.7.3).
@Suite struct PartRuleTests {
    private let cache = RuleCache()
    private static let tag = "\"1\""

    /// A 206 with a part of a body of ten bytes.
    private func part(
        _ range: Range<Int>, _ headers: HTTPHeaders = ["ETag": tag], of total: Int = 10, body: Data? = nil
    ) -> HTTPResponse {
        var headers = headers
        if headers["Cache-Control"] == nil { headers["Cache-Control"] = "max-age=60" }
        if headers["Content-Range"] == nil {
            headers["Content-Range"] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total)"
        }
        let bytes = body ?? Data(range.map { UInt8($0) })
        return HTTPResponse(status: 206, headers: headers, body: ResponseBody(bytes), url: "http://a/")
    }

    private func kept(_ response: HTTPResponse, with old: CacheEntry? = nil) throws -> CacheEntry {
        let joined = try #require(JoinedParts(response, kept: old, at: cache.start))
        return try stored(joined)
    }

    private func stored(_ joined: JoinedParts) throws -> CacheEntry {
        var entry = try #require(
            cache.entry(
                joined.response.headers.asOfWhole,
                status: joined.response.status == 206 ? 200 : joined.response.status))
        entry.status = joined.response.status
        if let range = joined.response.headers["Content-Range"] { entry.headers["Content-Range"] = range }
        entry.bodyByteCount = joined.parts.ranges.count
        return entry
    }

    private func place(_ entry: CacheEntry, _ range: String, after seconds: Double = 0) -> Range<Int64>? {
        guard
            case .part(_, _, let place)? = cache.answer(entry, asked: ["Range": "bytes=\(range)"], after: seconds)?.form
        else { return nil }
        return place
    }

    private func completion(_ entry: CacheEntry, _ range: String? = nil) -> CacheStrategy.Forward? {
        guard
            case .forward(let forward) = cache.decide([entry], asked: range.map { ["Range": "bytes=\($0)"] } ?? [:]),
            forward.completion != nil
        else { return nil }
        return forward
    }

    // MARK: Keeping

    @Test func validPartIsKept() throws {
        let entry = try kept(part(2..<6))
        #expect(entry.status == 206 && entry.headers["Content-Range"] == "bytes 2-5/10")
        #expect(StoredParts(entry)?.ranges == ByteRanges([2..<6]))
    }

    @Test(
        arguments: [
            ["Content-Range": "bytes 2-5/*"], ["Content-Range": "bytes 5-2/10"], ["Content-Range": "bytes 2-12/10"],
            ["Content-Range": "lines 2-5/10"], ["Content-Range": "bytes */10"], ["Content-Range": "bytes 2-6/10"],
            ["Content-Range": "bytes 2-3,5-6/10"], ["Content-Encoding": "gzip"],
            ["Content-Type": "multipart/byteranges; boundary=x"], ["Content-Length": "5"],
        ] as [HTTPHeaders])
    func contradictoryPartIsNotKept(headers: HTTPHeaders) {
        #expect(JoinedParts(part(2..<6, headers), kept: nil, at: cache.start) == nil)
    }

    @Test func completeResponseIsNotReplacedByPart() throws {
        let whole = try #require(cache.entry(["Cache-Control": "max-age=60", "ETag": Self.tag]))
        #expect(JoinedParts(part(2..<6), kept: whole, at: cache.start) == nil)
    }

    @Test(arguments: ["no-store", "private"]) func forbiddenPartsAreNotStored(control: String) {
        let response = part(2..<6, ["Cache-Control": "max-age=60, \(control)", "ETag": Self.tag])
        #expect(StorageRule.refusal(ofPart: response, to: cache.request(), .shared) != nil)
        #expect(
            StorageRule.refusal(ofPart: part(2..<6), to: cache.request(["Cache-Control": "no-store"])) != nil)
    }

    /// `Content-Digest` and `Content-MD5` are those of the content of one message (RFC 9530 §2), so they leave with it.
    @Test func digestsOfOneMessageStayWithIt() throws {
        let own: HTTPHeaders = ["ETag": Self.tag, "Content-Digest": "sha-256=:AA==:", "Content-MD5": "AA=="]
        var whole = try #require(
            cache.entry(own.merging(["Cache-Control": "max-age=60", "Repr-Digest": "sha-256=:BB==:"])))
        whole.bodyByteCount = 10
        func names(_ asked: HTTPHeaders) throws -> Set<String> {
            let answer = try #require(cache.answer(whole, asked: asked))
            let response = StoredResponseCoding.response(answer, to: cache.request(asked))
            return Set(response.headers.map(\.name).filter { $0.contains("Digest") || $0.contains("MD5") })
        }
        #expect(try names([:]) == ["Content-Digest", "Content-MD5", "Repr-Digest"])
        #expect(try names(["Range": "bytes=2-5"]) == ["Repr-Digest"])
        #expect(try names(["If-None-Match": Self.tag]) == ["Repr-Digest"])
        // Joined parts have none.
        let first = try kept(part(0..<4, own))
        #expect(first.headers["Content-Digest"] != nil)
        #expect(try kept(part(4..<10, own), with: first).headers["Content-Digest"] == nil)
    }

    // MARK: Joining

    @Test func partsOfTheSameStrongValidatorAreJoined() throws {
        var entry = try kept(part(2..<4))
        entry = try kept(part(6..<8), with: entry)
        #expect(entry.headers["Content-Range"] == "bytes 2-3,6-7/10" && entry.headers["Content-Length"] == "4")
        let joined = try #require(JoinedParts(part(3..<7), kept: entry, at: cache.start))
        #expect(joined.before == 0..<1 && joined.after == 3..<4 && joined.parts.ranges == ByteRanges([2..<8]))
    }

    @Test func joinedCompletePartsBecome200() throws {
        let entry = try kept(part(4..<10), with: kept(part(0..<4)))
        #expect(entry.status == 200 && !entry.headers.contains("Content-Range"))
        #expect(entry.headers["Content-Length"] == "10")
        #expect(try kept(part(0..<10, [:])).status == 200)
    }

    /// The fields of the new part replace the stored ones (§3.4).
    @Test func newFieldsReplaceStoredOnes() throws {
        let old = try kept(part(0..<4, ["ETag": Self.tag, "A": "1", "B": "1"]))
        let entry = try kept(part(4..<6, ["ETag": Self.tag, "A": "2"]), with: old)
        #expect(entry.headers["A"] == "2" && entry.headers["B"] == "1")
    }

    @Test(
        arguments: [
            ["ETag": "\"2\""], ["ETag": "W/\"1\""], [:], ["Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"],
            ["ETag": "\"1\"", "Vary": "Foo"],
        ] as [HTTPHeaders])
    func partWithOtherValidatorReplacesParts(headers: HTTPHeaders) throws {
        let old = try kept(part(0..<4))
        #expect(try StoredParts(kept(part(4..<6, headers), with: old))?.ranges == ByteRanges([4..<6]))
        #expect(try StoredParts(kept(part(4..<6, of: 12), with: old))?.ranges == ByteRanges([4..<6]))
    }

    @Test func oldLastModifiedIsStrongValidator() throws {
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT"
        for (date, isJoined) in [("Sun, 06 Nov 1994 08:50:37 GMT", true), ("Sun, 06 Nov 1994 08:50:00 GMT", false)] {
            let headers: HTTPHeaders = [
                "Last-Modified": modified, "Date": date, "Cache-Control": "max-age=9999999999",
            ]
            let entry = try kept(part(4..<6, headers), with: kept(part(0..<4, headers)))
            #expect((StoredParts(entry)?.ranges == ByteRanges([0..<6])) == isJoined)
        }
    }

    /// Some servers keep an entity tag when the content changes.
    @Test func partsWithAnotherDateAreNotJoined() throws {
        let dates = ["Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT"]
        func dated(_ range: Range<Int>, _ date: String?) -> HTTPResponse {
            var headers: HTTPHeaders = ["ETag": Self.tag]
            headers["Last-Modified"] = date
            return part(range, headers)
        }
        let old = try kept(dated(0..<4, dates[0]))
        #expect(try StoredParts(kept(dated(4..<6, dates[1]), with: old))?.ranges == ByteRanges([4..<6]))
        #expect(try StoredParts(kept(dated(4..<6, nil), with: old))?.ranges == ByteRanges([0..<6]))
        #expect(try #require(completion(old)?.completion).joined(dated(4..<10, dates[1]), at: cache.start) == nil)
        // A date that only the second part has is the date of both.
        let learned = try kept(dated(4..<6, dates[0]), with: kept(dated(0..<4, nil)))
        #expect(StoredParts(learned)?.ranges == ByteRanges([0..<6]))
        #expect(try StoredParts(kept(dated(6..<8, dates[1]), with: learned))?.ranges == ByteRanges([6..<8]))
        // A 304 to the caller's own condition does not change the date of stored parts.
        #expect(!ValidationRule.confirms(["ETag": Self.tag, "Last-Modified": dates[1]], old))
        #expect(ValidationRule.confirms(["ETag": Self.tag, "Last-Modified": dates[0]], old))
    }

    @Test func manyOrLargePartsAreNotCopied() throws {
        var entry = try kept(part(0..<1, of: 99))
        for start in stride(from: 2, to: 32, by: 2) { entry = try kept(part(start..<start + 1, of: 99), with: entry) }
        #expect(StoredParts(entry)?.ranges.ranges.count == 16)
        #expect(try StoredParts(kept(part(40..<41, of: 99), with: entry))?.ranges == ByteRanges([40..<41]))
        var large = try kept(part(0..<4, of: 99 << 20))
        large.headers["Content-Range"] = "bytes 0-\(9 << 20)/\(99 << 20)"
        large.bodyByteCount = 9 << 20 + 1
        #expect(JoinedParts(part(50..<60, of: 99 << 20), kept: large, at: cache.start) == nil)
    }

    // MARK: Using

    @Test func coveredRangesAreAnswered() throws {
        let entry = try kept(part(6..<10), with: kept(part(2..<4)))
        #expect(place(entry, "2-3") == 0..<2 && place(entry, "7-8") == 3..<5 && place(entry, "-2") == 4..<6)
        #expect(place(entry, "6-") == 2..<6 && place(entry, "6-99") == 2..<6)
        for range in ["0-3", "3-6", "4-5", "2-9", "-5", "10-", "2-3,7-8", "x"] { #expect(place(entry, range) == nil) }
        #expect(place(entry, "2-3", after: 60) == nil)
    }

    @Test func incompleteEntryAnswersOnlyRanges() throws {
        let entry = try kept(part(2..<6))
        #expect(cache.answer(entry) == nil)
        for condition in ["If-Range", "If-None-Match", "If-Match"] {
            #expect(cache.answer(entry, asked: ["Range": "bytes=2-3", condition: Self.tag]) == nil)
        }
        guard case .forward(let forward) = cache.decide([entry]) else {
            Issue.record("not forwarded")
            return
        }
        #expect(!forward.isConditional && forward.request.headers.count == 0)
        #expect(!CacheStrategy.mayStandIn(entry, for: cache.request(), at: cache.start, atAnyAge: true))
    }

    @Test func entryWithWrongLengthIsNotUsed() throws {
        var entry = try kept(part(2..<6))
        entry.bodyByteCount = 3
        #expect(place(entry, "2-3") == nil && completion(entry, "2-8") == nil)
    }

    // MARK: Completing

    @Test func missingRestIsRequestedWithIfRange() throws {
        let entry = try kept(part(0..<4))
        for (asked, sent) in [(nil, "4-"), ("0-", "4-"), ("1-6", "4-6"), ("3-99", "4-"), ("-9", "4-")] {
            let forward = try #require(completion(entry, asked))
            #expect(forward.request.headers["Range"] == "bytes=\(sent)")
            #expect(forward.request.headers["If-Range"] == Self.tag)
        }
    }

    @Test func onlyKnownBeginningIsCompleted() throws {
        for range in [nil, "0-6", "-8", "8-9", "0-1"] { #expect(completion(try kept(part(3..<6)), range) == nil) }
        #expect(completion(try kept(part(0..<4, ["ETag": "W/\"1\""]))) == nil)
        #expect(completion(try kept(part(0..<4, [:]))) == nil)
    }

    @Test func mismatchedPartsDoNotComplete() throws {
        let completion = try #require(completion(kept(part(0..<4)))?.completion)
        #expect(completion.joined(part(4..<10), at: cache.start)?.parts.isComplete == true)
        for response in [
            part(4..<9), part(5..<10), part(4..<10, ["ETag": "\"2\""]), part(4..<10, [:]), part(4..<10, of: 12),
        ] { #expect(completion.joined(response, at: cache.start) == nil) }
    }

    @Test func completedResponseMatchesTheRequest() throws {
        let entry = try kept(part(0..<4))
        let whole = try #require(completion(entry)?.completion)
        let joined = try #require(whole.joined(part(4..<10), at: cache.start))
        #expect(whole.answer(joined).status == 200 && whole.answer(joined).headers["Content-Length"] == "10")
        let some = try #require(completion(entry, "2-6")?.completion)
        let answer = some.answer(try #require(some.joined(part(4..<7), at: cache.start)))
        #expect(answer.status == 206 && answer.headers["Content-Range"] == "bytes 2-6/10")
        #expect(answer.headers["Content-Length"] == "5")
    }

    // MARK: Model

    /// Random range requests to a resource that changes at times never return a wrong byte.
    @Test(arguments: 0..<20 as Range<UInt64>) func randomRangesNeverGiveWrongBytes(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var model = PartModel(byteCount: .random(in: 1...200, using: &random))
        for _ in 0..<300 {
            if Int.random(in: 0..<10, using: &random) == 0 { model.version += 1 }
            // No part replaces a complete response, so the entry is removed at times to test parts again.
            if Int.random(in: 0..<30, using: &random) == 0 { model.forget() }
            try model.ask(.random(upTo: model.byteCount, using: &random), cache)
        }
        #expect(model.answered > 30 && (model.byteCount < 20 || model.joined > 10))
    }
}

/// A resource on a server, its stored parts, and the steps of a cache between them.
struct PartModel {
    let byteCount: Int
    var version = 1
    private(set) var answered = 0
    private(set) var joined = 0
    private var entry: CacheEntry?
    private var body = Data()

    init(byteCount: Int) { self.byteCount = byteCount }

    mutating func forget() { entry = nil }

    private func bytes(_ range: Range<Int64>) -> Data {
        Data(range.map { UInt8(truncatingIfNeeded: $0 &* 7 &+ Int64(version) &* 31) })
    }

    /// The server's response: the requested part, or everything when `If-Range` names another version.
    private func reply(_ request: HTTPRequest) -> HTTPResponse {
        let headers: HTTPHeaders = ["ETag": "\"\(version)\"", "Cache-Control": "max-age=60"]
        let isCurrent = request.headers["If-Range"].map { $0 == "\"\(version)\"" } ?? true
        var response = HTTPResponse(status: 200, headers: headers, url: request.url)
        guard isCurrent, request.headers.contains("Range") else {
            response.body = ResponseBody(bytes(0..<Int64(byteCount)))
            return response
        }
        guard let part = RangeRule.part(request, of: Int64(byteCount)) else {
            response.status = 416
            return response
        }
        response.status = 206
        response.headers = RangeRule.headers(headers, part: part, of: Int64(byteCount))
        response.body = ResponseBody(bytes(part))
        return response
    }

    mutating func ask(_ range: String?, _ cache: RuleCache) throws {
        let asked: HTTPHeaders = range.map { ["Range": "bytes=\($0)"] } ?? [:]
        let wanted = RangeRule.part(cache.request(asked), of: Int64(byteCount))
        switch cache.decide(entry.map { [$0] } ?? [], asked: asked) {
        case .gatewayTimeout: Issue.record("a 504 without only-if-cached")
        case .answer(let answer):
            answered += 1
            // A fresh entry may be an older version, but all its bytes must be of that version.
            let tag = try #require(answer.entry.headers["ETag"])
            var state = self
            state.version = try #require(Int(tag.dropFirst().dropLast()))
            switch answer.form {
            case .part(let part, _, let place):
                #expect(part == wanted && body[Int(place.lowerBound)..<Int(place.upperBound)] == state.bytes(part))
            default: #expect(range == nil && body == state.bytes(0..<Int64(byteCount)))
            }
        case .forward(let forward):
            let response = reply(forward.request)
            let new = try #require(response.body.data)
            guard response.status == 206 else {
                if response.status == 200 { try keep(response, new, cache) }
                return
            }
            let completed = forward.completion.map { $0.joined(response, at: cache.start) }
            guard let joined = completed ?? JoinedParts(response, kept: entry, at: cache.start) else {
                #expect(completed == nil && entry?.status == 200)
                return
            }
            let before = body[Int(joined.before.lowerBound)..<Int(joined.before.upperBound)]
            let after = body[Int(joined.after.lowerBound)..<Int(joined.after.upperBound)]
            if !before.isEmpty || !after.isEmpty { self.joined += 1 }
            try keep(joined.response, before + new + after, cache)
            for part in joined.parts.ranges.ranges {
                let place = try #require(joined.parts.place(of: part))
                #expect(body[Int(place.lowerBound)..<Int(place.upperBound)] == bytes(part))
            }
            if let completion = forward.completion { #expect(joined.parts.place(of: completion.wanted) != nil) }
        }
    }

    private mutating func keep(_ response: HTTPResponse, _ bytes: Data, _ cache: RuleCache) throws {
        var entry = try #require(cache.entry(response.headers.asOfWhole))
        entry.status = response.status
        if let range = response.headers["Content-Range"] { entry.headers["Content-Range"] = range }
        entry.bodyByteCount = Int64(bytes.count)
        self.entry = entry
        body = Data(bytes)
    }
}

extension HTTPHeaders {
    /// Without what makes them those of a part.
    fileprivate var asOfWhole: HTTPHeaders {
        var headers = self
        headers.removeAll { $0 == "Content-Range" }
        return headers
    }
}

extension String? {
    /// A random `Range` of a content, which may lie outside of it; `nil` for a request without `Range`.
    fileprivate static func random(upTo byteCount: Int, using random: inout SeededGenerator)
        -> String?
    {
        let first = Int.random(in: 0...byteCount, using: &random)
        switch Int.random(in: 0..<40, using: &random) {
        case 0: return nil
        case 1: return "\(first)-"
        case 2...4: return "-\(Int.random(in: 0...byteCount / 4 + 3, using: &random))"
        default: return "\(first)-\(first + Int.random(in: 0...byteCount / 6 + 1, using: &random))"
        }
    }
}

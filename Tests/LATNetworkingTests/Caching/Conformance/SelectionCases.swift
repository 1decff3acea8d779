/// Cases about variants, validators and partial responses.
enum SelectionCases {
    private static let one = CaseField("Foo", "1")

    private static func vary(_ names: String..., asked: CaseField...) -> Exchange {
        var exchange = Exchange.get(
            .init("Cache-Control", "max-age=5000"), .init("Last-Modified", -3000), .init("Date", 0))
        exchange.fields += names.map { CaseField("Vary", $0) }
        exchange.requestFields = asked
        return exchange
    }

    static let vary: [ConformanceCase] = [
        .optimal("vary-match", vary("Foo", asked: one), .get().asked(one).expect(.cached)),
        .required("vary-no-match", vary("Foo", asked: one), .get().asked(.init("Foo", "2")).expect(.notCached)),
        .required("vary-omit-stored", vary("Foo"), .get().asked(one).expect(.notCached)),
        .required("vary-omit", vary("Foo", asked: one), .get().expect(.notCached)),
        .required("vary-empty-is-not-absent", vary("Foo", asked: .init("Foo", "")), .get().expect(.notCached)),
        .optimal(
            "vary-invalidate", vary("Foo", asked: one),
            vary("Foo", asked: .init("Foo", "2")).expect(.notCached), .get().asked(one).expect(.cached),
            .get().asked(.init("Foo", "2")).expect(.cached)),
        .optimal(
            "vary-cache-key", vary("Foo", asked: one, .init("Other", "2")),
            .get().asked(one, .init("Other", "3")).expect(.cached)),
        .optimal(
            "vary-2-match", vary("Foo, Bar", asked: one, .init("Bar", "abc")),
            .get().asked(one, .init("Bar", "abc")).expect(.cached)),
        .required(
            "vary-2-no-match", vary("Foo, Bar", asked: one, .init("Bar", "abc")),
            .get().asked(.init("Foo", "2"), .init("Bar", "abc")).expect(.notCached)),
        .required(
            "vary-2-match-omit", vary("Foo, Bar", asked: one, .init("Bar", "abc")), .get().expect(.notCached)),
        .optimal(
            "vary-3-match", vary("Foo, Bar, Baz", asked: one, .init("Bar", "abc"), .init("Baz", "789")),
            .get().asked(.init("Baz", "789"), one, .init("Bar", "abc")).expect(.cached)),
        .required(
            "vary-3-no-match", vary("Foo, Bar, Baz", asked: one, .init("Bar", "abc"), .init("Baz", "789")),
            .get().asked(.init("Foo", "2"), .init("Bar", "abc"), .init("Baz", "789")).expect(.notCached)),
        .required(
            "vary-3-order", vary("Foo, Bar, Baz", asked: one, .init("Bar", "abc"), .init("Baz", "789")),
            .get().asked(one, .init("Baz", "789"), .init("Bar", "abcde")).expect(.notCached)),
        .optimal(
            "vary-3-omit", vary("Foo, Bar, Baz", asked: one, .init("Baz", "789")),
            .get().asked(one, .init("Baz", "789")).expect(.cached)),
        .optimal(
            "vary-normalise-combine", vary("Foo", asked: .init("Foo", "1, 2")),
            .get().asked(one, .init("Foo", "2")).expect(.cached)),
        .optimal(
            "vary-normalise-space", vary("Foo", asked: .init("Foo", "1,2")),
            .get().asked(.init("Foo", " 1, 2 ")).expect(.cached)),
        .optimal(
            "vary-normalise-lang-order", vary("Accept-Language", asked: .init("Accept-Language", "en, de")),
            .get().asked(.init("Accept-Language", "de, en")).expect(.cached)),
        .optimal(
            "vary-normalise-lang-case", vary("Accept-Language", asked: .init("Accept-Language", "en, de")),
            .get().asked(.init("Accept-Language", "eN, De")).expect(.cached)),
        .optimal(
            "vary-normalise-lang-space", vary("Accept-Language", asked: .init("Accept-Language", "en, de")),
            .get().asked(.init("Accept-Language", " en ,   de")).expect(.cached)),
        .optimal(
            "vary-normalise-lang-select",
            vary("Accept-Language", asked: .init("Accept-Language", "en, de")).with(.init("Content-Language", "de")),
            .get().asked(.init("Accept-Language", "fr;q=0.5, de;q=1.0")).expect(.cached)),
        .required(
            "vary-lang-second-best",
            vary("Accept-Language", asked: .init("Accept-Language", "en, de")).with(.init("Content-Language", "de")),
            .get().asked(.init("Accept-Language", "fr, de;q=0.5")).expect(.notCached)),
        star("vary-star", "*"), star("vary-syntax-star-star", "*, *"), star("vary-syntax-empty-star", ", *"),
        star("vary-syntax-star-foo", "*, Foo"), star("vary-syntax-foo-star", "Foo, *"),
        .required(
            "vary-syntax-star-star-lines", vary("*", "*", asked: one), .get().asked(one).expect(.notCached)),
        .required(
            "vary-syntax-empty-star-lines", vary("", "*", asked: one), .get().asked(one).expect(.notCached)),
    ]

    private static func star(_ id: String, _ value: String) -> ConformanceCase {
        .required(
            id, vary(value, asked: one, .init("Baz", "789")), .get().asked(one, .init("Baz", "789")).expect(.notCached))
    }

    private static let tag = CaseField("ETag", "\"abcdef\"")

    private static func responds(_ id: String, _ tag: String, _ asked: String, status: Int = 304) -> ConformanceCase {
        .optimal(
            "conditional-etag-\(id)", .fresh(.init("ETag", tag)),
            .get().asked(.init("If-None-Match", asked)).expect(.cached).expect(status: status))
    }

    static let conditions: [ConformanceCase] = [
        responds("strong-respond", "\"abcdef\"", "\"abcdef\""),
        responds("weak-respond", "W/\"abcdef\"", "W/\"abcdef\""),
        responds("weak-to-strong", "\"abcdef\"", "W/\"abcdef\""),
        responds("strong-respond-multiple-first", "\"abcdef\"", "\"abcdef\", \"1234\", \"5678\""),
        responds("strong-respond-multiple-second", "\"abcdef\"", "\"1234\", \"abcdef\", \"5678\""),
        responds("strong-respond-multiple-last", "\"abcdef\"", "\"1234\", \"5678\", \"abcdef\""),
        responds("no-match", "\"abcdef\"", "\"1234\"", status: 200),
        .required(
            "conditional-304-etag", .fresh(tag),
            .get().asked(.init("If-None-Match", "\"abcdef\"")).expect(.cached).expect(status: 304)
                .expect("ETag", "\"abcdef\"")),
        .required(
            "conditional-etag-precedence", .fresh(.init("Last-Modified", -5000), tag),
            .get().asked(.init("If-None-Match", "\"abcdef\""), .init("If-Modified-Since", -10_000)).expect(.cached)
                .expect(status: 304)),
        .required(
            "conditional-etag-vary-headers",
            .get(.init("Expires", 1), tag, .init("Date", 0), .init("Vary", "Abc")).asked(.init("Abc", "123")).then(),
            .get().asked(.init("Abc", "123")).expect(.etagValidated).expect(asked: "Abc", "123")),
        .optimal(
            "conditional-etag-strong-generate", .becomesStale(tag),
            .get().expect(.etagValidated).expect(asked: "If-None-Match", "\"abcdef\"")),
        .optimal(
            "conditional-etag-weak-generate-weak", .becomesStale(.init("ETag", "W/\"abcdef\"")),
            .get().expect(.etagValidated).expect(asked: "If-None-Match", "W/\"abcdef\"")),
        .optimal(
            "conditional-etag-forward",
            .get().asked(.init("If-None-Match", "\"abcdef\"")).expect(asked: "If-None-Match", "\"abcdef\"")),
        .optimal(
            "conditional-lm-fresh",
            .get(.init("Cache-Control", "max-age=100000"), .init("Last-Modified", -3000), .init("Date", 0)),
            .get().asked(.init("If-Modified-Since", -3000)).expect(.cached).expect(status: 304)),
        .optimal(
            "conditional-lm-fresh-earlier",
            .get(.init("Cache-Control", "max-age=100000"), .init("Last-Modified", -3000), .init("Date", 0)),
            .get().asked(.init("If-Modified-Since", -2000)).expect(.cached).expect(status: 304)),
        .optimal(
            "conditional-lm-fresh-changed",
            .get(.init("Cache-Control", "max-age=100000"), .init("Last-Modified", -3000), .init("Date", 0)),
            .get().asked(.init("If-Modified-Since", -4000)).expect(.cached).expect(status: 200)),
        .optimal(
            "conditional-lm-stale",
            .get(.init("Cache-Control", "max-age=2"), .init("Last-Modified", -3000), .init("Date", 0)).then(),
            .get().asked(.init("If-Modified-Since", -3000)).expect(.lastModifiedValidated).expect(status: 304)),
        .optimal(
            "conditional-lm-fresh-no-lm", .get(.init("Cache-Control", "max-age=10000"), .init("Date", 0)).then(),
            .get().asked(.init("If-Modified-Since", 3000)).expect(.cached).expect(status: 304)),
        .optimal(
            "conditional-lm-fresh-rfc850",
            .get(.init("Cache-Control", "max-age=10000"), .init("Last-Modified", -3000), .init("Date", 0)).then(),
            .get().asked(.rfc850("If-Modified-Since", -2997)).expect(.cached).expect(status: 304)),
    ]

    static let parts: [ConformanceCase] = [
        keptPart("", "bytes=5-9", "bytes=-5", "56789"), keptPart("-byterange", "bytes=5-9", "bytes=6-8", "678"),
        keptPart("-absent", "bytes=5-9", "bytes=6-", "6789"), keptPart("-suffix", "bytes=-5", "bytes=-1", "9"),
        .optimal(
            "partial-store-partial-complete", asked("bytes=0-4", "01234"),
            .get(tag, .init("Content-Range", "bytes 5-9/10"), status: 206, body: "56789")
                .expect(asked: "Range", "bytes=5-").expect(asked: "If-Range", "\"abcdef\"").expect(status: 200)
                .expect(text: "0123456789").expect(missing: "Content-Range").expect("Content-Length", "10"),
            .get().asked(.init("Range", "bytes=2-6")).expect(.cached).expect(status: 206).expect(text: "23456")),
        .optimal(
            "partial-complete-part", asked("bytes=0-4", "01234"),
            .get(tag, .init("Content-Range", "bytes 5-7/10"), status: 206, body: "567")
                .asked(.init("Range", "bytes=3-7")).expect(asked: "Range", "bytes=5-7").expect(text: "34567")
                .expect("Content-Range", "bytes 3-7/10"),
            .get().asked(.init("Range", "bytes=0-7")).expect(.cached).expect(status: 206).expect(text: "01234567")),
        .required(
            "partial-complete-changed", asked("bytes=0-4", "01234"),
            .get(.init("ETag", "\"new\""), .init("Cache-Control", "max-age=3600"), body: "abcdefghij")
                .expect(asked: "If-Range", "\"abcdef\"").expect(text: "abcdefghij"),
            .get().asked(.init("Range", "bytes=0-4")).expect(.cached).expect(status: 206).expect(text: "abcde")),
        .required(
            "partial-use-headers", asked("bytes=0-4", "01234").with(.init("A", "1"), .init("B", "1")),
            asked("bytes=7-8", "78").with(.init("A", "2")),
            .get().asked(.init("Range", "bytes=0-4")).expect(.cached).expect(status: 206).expect("A", "2")
                .expect("B", "1").expect(text: "01234")),
        .required(
            "partial-other-validator-is-not-joined", asked("bytes=0-4", "01234"),
            asked("bytes=5-9", "56789", .init("ETag", "\"new\"")),
            .get(status: 206).asked(.init("Range", "bytes=0-9")).expect(.notCached).expect(asked: "Range", "bytes=0-9"),
            .get().asked(.init("Range", "bytes=6-7")).expect(.cached).expect(status: 206).expect(text: "67")),
        .required(
            "partial-weak-validator-is-not-joined", asked("bytes=0-4", "01234", .init("ETag", "W/\"a\"")),
            asked("bytes=5-9", "56789", .init("ETag", "W/\"a\"")), .get().expect(.notCached)),
        .required(
            "partial-of-wrong-length-is-not-kept",
            .get(
                .init("Cache-Control", "max-age=3600"), .init("Content-Range", "bytes 4-9/10"), status: 206,
                body: "01234"
            )
            .asked(.init("Range", "bytes=-5")), .get(status: 206).asked(.init("Range", "bytes=6-8")).expect(.notCached)),
        .required(
            "partial-answers-no-head", asked("bytes=0-9", "0123456789", of: 20),
            .get().method("HEAD").expect(.notCached)),
        part("", "bytes=0-1", "01"), part("-no-last", "bytes=1-", "123456789A"), part("-suffix", "bytes=-1", "A"),
        part("-beyond", "bytes=9-100", "9A"),
        .required(
            "partial-use-stored-headers",
            .get(.init("Cache-Control", "max-age=3600"), .init("A", "1"), body: "0123456789A"),
            .get().asked(.init("Range", "bytes=0-1")).expect(.cached).expect(status: 206).expect("A", "1")
                .expect("Content-Range", "bytes 0-1/11").expect("Content-Length", "2")),
        .required(
            "partial-is-no-whole",
            .get(
                .init("Cache-Control", "max-age=3600"), .init("Content-Range", "bytes 5-9/10"), status: 206,
                body: "56789"
            )
            .asked(.init("Range", "bytes=-5")), .get().expect(.notCached)),
        .required(
            "partial-unsatisfiable-is-the-servers",
            .get(.init("Cache-Control", "max-age=3600"), body: "0123456789A"),
            .get(status: 416).asked(.init("Range", "bytes=20-")).expect(.notCached)),
        .required(
            "partial-several-are-the-servers", .get(.init("Cache-Control", "max-age=3600"), body: "0123456789A"),
            .get().asked(.init("Range", "bytes=0-1,3-4")).expect(.notCached)),
    ]

    /// Returns an exchange that requests a range and gets that part of the representation.
    private static func asked(
        _ range: String, _ text: String, _ validator: CaseField = tag, of total: Int = 10
    ) -> Exchange {
        let first = text.first?.wholeNumberValue ?? 0
        let place = "bytes \(first)-\(first + text.utf8.count - 1)/\(total)"
        return .get(
            validator, .init("Cache-Control", "max-age=3600"), .init("Content-Range", place), status: 206, body: text
        ).asked(.init("Range", range))
    }

    private static func keptPart(_ id: String, _ first: String, _ range: String, _ text: String) -> ConformanceCase {
        .optimal(
            "partial-store-partial-reuse-partial\(id)",
            asked(first, "56789", .init("Template-A", "1")).expect(asked: "Range", first),
            .get().asked(.init("Range", range)).expect(.cached).expect(status: 206).expect(text: text))
    }

    private static func part(_ id: String, _ range: String, _ text: String) -> ConformanceCase {
        .optimal(
            "partial-store-complete-reuse-partial\(id)",
            .get(.init("Cache-Control", "max-age=3600"), body: "0123456789A"),
            .get().asked(.init("Range", range)).expect(.cached).expect(status: 206).expect(text: text))
    }
}

/// Cases about freshness lifetimes.
enum FreshnessCases {
    static let cacheControl: [ConformanceCase] = [
        .optimal("freshness-none", .get().then(), .get().expect(.notCached)),
        .optimal("freshness-max-age", .get(.init("Cache-Control", "max-age=3600")).then(), .get().expect(.cached)),
        .required("freshness-max-age-stale", .becomesStale(), .get().expect(.notCached)),
        .required("freshness-max-age-0", .get(.init("Cache-Control", "max-age=0")).then(), .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-max-minus-1", .get(.init("Cache-Control", "max-age=2147483647")).then(),
            .get().expect(.cached)),
        .optimal(
            "freshness-max-age-max", .get(.init("Cache-Control", "max-age=2147483648")).then(),
            .get().expect(.cached)),
        .optimal(
            "freshness-max-age-max-plus-1", .get(.init("Cache-Control", "max-age=2147483649")).then(),
            .get().expect(.cached)),
        .optimal(
            "freshness-max-age-max-plus", .get(.init("Cache-Control", "max-age=99999999999")).then(),
            .get().expect(.cached)),
        .optimal(
            "max-age-beyond-64-bits", .get(.init("Cache-Control", "max-age=99999999999999999999999")).then(),
            .get().expect(.cached)),
        .required(
            "freshness-max-age-age",
            .get(.init("Date", 0), .init("Cache-Control", "max-age=3600"), .init("Age", "7200")).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-date", .get(.init("Date", -7200), .init("Cache-Control", "max-age=3600")).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-expires",
            .get(.init("Cache-Control", "max-age=3600"), .init("Expires", -7200), .init("Date", 0)).then(),
            .get().expect(.cached)),
        .optimal(
            "freshness-max-age-expires-invalid",
            .get(.init("Cache-Control", "max-age=3600"), .init("Expires", "0"), .init("Date", 0)).then(),
            .get().expect(.cached)),
        .required(
            "freshness-max-age-0-expires",
            .get(.init("Expires", 3600), .init("Cache-Control", "max-age=0"), .init("Date", 0)).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-extension", .get(.init("Cache-Control", "foobar, max-age=3600")).then(),
            .get().expect(.cached)),
        .optimal(
            "freshness-max-age-case-insensitive", .get(.init("Cache-Control", "MaX-aGe=3600")).then(),
            .get().expect(.cached)),
        .required(
            "freshness-max-age-negative", .get(.init("Cache-Control", "max-age=-3600")).then(),
            .get().expect(.notCached)),
        .required(
            "freshness-max-age-s-maxage-private", .get(.init("Cache-Control", "s-maxage=3600, max-age=1")).then(),
            .get().expect(.notCached)),
        .required(
            "freshness-max-age-s-maxage-private-multiple",
            .get(.init("Cache-Control", "s-maxage=3600"), .init("Cache-Control", "max-age=1")).then(),
            .get().expect(.notCached)),
    ]

    static let parsing: [ConformanceCase] = [
        .required(
            "freshness-max-age-ignore-quoted",
            .get(.init("Cache-Control", "extension=\"max-age=3600\", max-age=1")).then(), .get().expect(.notCached)),
        .required(
            "freshness-max-age-ignore-quoted-rev",
            .get(.init("Cache-Control", "max-age=1, extension=\"max-age=3600\"")).then(), .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-quoted", .get(.init("Cache-Control", "max-age=\"3600\"")).then(), .get().expect(.cached)),
        .optimal(
            "freshness-max-age-space-before-equals", .get(.init("Cache-Control", "max-age =3600")).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-space-after-equals", .get(.init("Cache-Control", "max-age= 3600")).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-leading-zero", .get(.init("Cache-Control", "max-age=003600")).then(),
            .get().expect(.cached)),
        .required(
            "freshness-max-age-single-quoted", .get(.init("Cache-Control", "max-age='3600'")).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-two-fresh-stale", .get(.init("Cache-Control", "max-age=1800, max-age=1")).then(),
            .get().expect(.cached)),
        .optimal(
            "freshness-max-age-two-stale-fresh", .get(.init("Cache-Control", "max-age=1, max-age=1800")).then(),
            .get().expect(.notCached)),
        .optimal(
            "freshness-max-age-alpha", .get(.init("Cache-Control", "max-age=3600a")).then(),
            .get().expect(.notCached)),
        .optimal(
            "age-parse-nonnumeric",
            .get(.init("Date", 0), .init("Cache-Control", "max-age=3600"), .init("Age", "abc")).then(),
            .get().expect(.cached)),
        .optimal(
            "age-parse-negative",
            .get(.init("Date", 0), .init("Cache-Control", "max-age=3600"), .init("Age", "-7200")).then(),
            .get().expect(.cached)),
        .optimal(
            "age-parse-suffix",
            .get(.init("Date", 0), .init("Cache-Control", "max-age=3600"), .init("Age", "7200,0")).then(),
            .get().expect(.notCached)),
        age("float", ["7200.0"], .cached), age("large-minus-one", ["2147483647"], .notCached),
        age("large", ["2147483648"], .notCached), age("larger", ["2147483649"], .notCached),
        age("prefix", ["0, 7200"], .cached), age("suffix-twoline", ["7200", "0"], .notCached),
        age("prefix-twoline", ["0", "7200"], .cached), age("dup-0", ["0, 0"], .cached),
        age("dup-0-twoline", ["0", "0"], .cached), age("dup-old", ["1800", "1800"], .cached),
    ]

    private static func age(
        _ id: String, _ values: [String], _ expectation: Exchange.Expectation
    ) -> ConformanceCase {
        var first = Exchange.get(.init("Date", 0), .init("Cache-Control", "max-age=3600")).then()
        first.fields += values.map { CaseField("Age", $0) }
        return .required("age-parse-\(id)", first, .get().expect(expectation))
    }

    static let expires: [ConformanceCase] = [
        .optimal(
            "freshness-expires-future", .get(.init("Expires", 2_592_000), .init("Date", 0)).then(),
            .get().expect(.cached)),
        .required(
            "freshness-expires-past", .get(.init("Expires", -2_592_000), .init("Date", 0)).then(),
            .get().expect(.notCached)),
        .required("freshness-expires-present", .get(.init("Expires", 0), .init("Date", 0)), .get().expect(.notCached)),
        .required(
            "freshness-expires-old-date", .get(.init("Expires", 300), .init("Date", 400)).then(),
            .get().expect(.notCached)),
        .required(
            "freshness-expires-invalid", .get(.init("Expires", "0"), .init("Date", 0)).then(), .get().expect(.notCached)
        ),
        .optimal(
            "freshness-expires-invalid-date", .get(.init("Date", "foo"), .init("Expires", 10)), .get().expect(.cached)),
        .required(
            "freshness-expires-age-slow-date", .get(.init("Date", -10), .init("Expires", 10), .init("Age", "25")),
            .get().expect(.notCached)),
        .required(
            "freshness-expires-age-fast-date", .get(.init("Date", 10), .init("Expires", 20), .init("Age", "15")),
            .get().expect(.notCached)),
        expires("wrong-case-weekday", "THU, 18 Aug 2050 02:01:18 GMT", .cached),
        expires("wrong-case-month", "Thu, 18 AUG 2050 02:01:18 GMT", .cached),
        expires("wrong-case-tz", "Thu, 18 Aug 2050 02:01:18 gMT", .cached),
        expires("rfc850", "Thursday, 18-Aug-50 02:01:18 GMT", .cached),
        expires("asctime", "Thu Aug 18 02:01:18 2050", .cached),
        expires("32bit", "Tue, 19 Jan 2038 14:14:08 GMT", .cached),
        expires("far-future", "Sun, 21 Nov 2286 04:46:39 GMT", .cached),
        expires("invalid-aest", "Thu, 18 Aug 2050 02:01:18 AEST", .notCached),
        .required(
            "freshness-expires-invalid-multiple-lines",
            .get(
                .init("Expires", "Thu, 18 Aug 2050 2:01:18 GMT"), .init("Expires", "Thu, 18 Aug 2050 2:01:19 GMT"),
                .init("Date", 0)), .get().expect(.notCached)),
        expires("invalid-utc", "Thu, 18 Aug 2050 02:01:18 UTC", .notCached),
        expires("invalid-2-digit-year", "Thu, 18 Aug 50 02:01:18 GMT", .notCached),
        expires("invalid-no-comma", "Thu 18 Aug 2050 02:01:18 GMT", .notCached),
        expires("invalid-multiple-spaces", "Thu, 18  Aug  2050 02:01:18 GMT", .notCached),
        expires("invalid-date-dashes", "Thu, 18-Aug-2050 02:01:18 GMT", .notCached),
        expires("invalid-time-periods", "Thu, 18 Aug 2050 02.01.18 GMT", .notCached),
        expires("invalid-1-digit-hour", "Thu, 18 Aug 2050 2:01:18 GMT", .notCached),
    ]

    private static func expires(
        _ id: String, _ value: String, _ expectation: Exchange.Expectation
    ) -> ConformanceCase {
        .optimal(
            "freshness-expires-\(id)", .get(.init("Expires", value), .init("Date", 0)).then(),
            .get().expect(expectation))
    }

    static let heuristic: [ConformanceCase] =
        [200, 203, 204, 404, 405, 410, 414, 501].map { status in
            .optimal(
                "heuristic-\(status)-cached",
                .get(.init("Last-Modified", -86_400), .init("Date", 0), status: status),
                .get(status: status).expect(.cached))
        }
        + [201, 202, 403, 502, 503, 504, 599].map { status in
            .required(
                "heuristic-\(status)-not_cached",
                .get(.init("Last-Modified", -86_400), .init("Date", 0), status: status),
                .get(status: status).expect(.notCached))
        } + [
            .optimal(
                "heuristic-599-cached",
                .get(
                    .init("Last-Modified", -86_400), .init("Date", 0), .init("Cache-Control", "public"), status: 599),
                .get(status: 599).expect(.cached)),
            .optimal(
                "heuristic-delta-60", .get(.init("Last-Modified", -60), .init("Date", 0)).then(), .get().expect(.cached)
            ),
            .optimal(
                "heuristic-delta-10", .get(.init("Last-Modified", -10), .init("Date", 0)).then(),
                .get().expect(.notCached)),
        ]
}

/// Cases about response directives, request directives and statuses.
enum DirectiveCases {
    static let responses: [ConformanceCase] = [
        .optimal(
            "cc-resp-private-private", .get(.init("Cache-Control", "private, max-age=3600")), .get().expect(.cached)),
        .required("cc-resp-no-store", .get(.init("Cache-Control", "no-store")), .get().expect(.notCached)),
        .required(
            "cc-resp-no-store-case-insensitive", .get(.init("Cache-Control", "No-StOrE")), .get().expect(.notCached)),
        .required(
            "cc-resp-no-store-fresh",
            .get(.init("Cache-Control", "max-age=10000, no-store"), .init("Expires", 10_000), .init("Date", 0)),
            .get().expect(.notCached)),
        .required(
            "cc-resp-no-cache",
            .get(.init("Cache-Control", "max-age=10000, no-cache"), .init("Expires", 10_000), .init("Date", 0)),
            .get().expect(.notCached)),
        .required(
            "cc-resp-no-cache-case-insensitive",
            .get(.init("Cache-Control", "max-age=10000, No-CaChE"), .init("Expires", 10_000), .init("Date", 0)),
            .get().expect(.notCached)),
        .optimal(
            "cc-resp-no-cache-revalidate", .get(.init("Cache-Control", "no-cache"), .init("ETag", "\"abcd\"")),
            .get().expect(.etagValidated)),
        .optimal(
            "cc-resp-no-cache-revalidate-fresh",
            .get(
                .init("Cache-Control", "max-age=10000, no-cache"), .init("Expires", 10_000), .init("Date", 0),
                .init("ETag", "\"abcd\"")), .get().expect(.etagValidated)),
        .optimal(
            "no-cache-field-single",
            .get(
                .init("Cache-Control", "no-cache=\"a\""), .init("a", "1"), .init("b", "2"),
                .init("Cache-Control", "max-age=3600"), .init("Date", 0)
            ).then(), .get().expect(.cached).expect("b", "2").expect(missing: "a")),
        .optimal(
            "no-cache-field-several",
            .get(
                .init("Cache-Control", "no-cache=\"a, b\""), .init("a", "1"), .init("b", "2"), .init("c", "3"),
                .init("Cache-Control", "max-age=3600"), .init("Date", 0)
            ).then(), .get().expect(.cached).expect("c", "3").expect(missing: "a").expect(missing: "b")),
        .optimal(
            "cc-resp-must-revalidate-fresh",
            .get(.init("Cache-Control", "max-age=10000, must-revalidate"), .init("ETag", "\"abcd\"")),
            .get().expect(.cached)),
        .required(
            "cc-resp-must-revalidate-stale",
            .get(.init("Cache-Control", "max-age=2, must-revalidate"), .init("ETag", "\"abcd\"")),
            .get(.init("Cache-Control", "max-age=2, must-revalidate"), .init("ETag", "\"abcd\"")).expect(.cached)
                .then(), .get().expect(.etagValidated)),
        .optimal(
            "cc-resp-immutable-fresh",
            .get(.init("Cache-Control", "max-age=10000, immutable"), .init("ETag", "\"abcd\"")).then(),
            .get().asked(.init("Cache-Control", "max-age=0")).expect(.cached)),
        .required(
            "cc-resp-immutable-stale",
            .get(.init("Cache-Control", "max-age=2, immutable"), .init("ETag", "\"abcd\"")).then(),
            .get().asked(.init("Cache-Control", "max-age=0")).expect(.etagValidated)
                .expect(asked: "Cache-Control", "max-age=0")),
        .required(
            "status-599-must-understand",
            .get(.init("Cache-Control", "max-age=3600, no-store, must-understand"), status: 599),
            .get().expect(.notCached)),
        .optimal(
            "status-200-must-understand",
            .get(.init("Cache-Control", "max-age=3600, no-store, must-understand")), .get().expect(.cached)),
        .optimal(
            "pragma-response-no-cache",
            .get(.init("Cache-Control", "max-age=3600"), .init("Pragma", "no-cache")), .get().expect(.cached)),
        .optimal(
            "pragma-response-extension",
            .get(.init("Cache-Control", "max-age=3600"), .init("Pragma", "unrecognised-extension")),
            .get().expect(.cached)),
    ]

    private static let hour = CaseField("Cache-Control", "max-age=3600")

    static let requests: [ConformanceCase] = [
        .optimal("ccreq-ma0", .fresh(), .get().asked(.init("Cache-Control", "max-age=0")).expect(.notCached)),
        .optimal("ccreq-ma1", .fresh(), .get().asked(.init("Cache-Control", "max-age=1")).expect(.notCached)),
        .optimal(
            "ccreq-magreaterage", .get(hour, .init("Age", "1800")),
            .get().asked(.init("Cache-Control", "max-age=600")).expect(.notCached)),
        .optimal(
            "ccreq-max-stale", .get(.init("Cache-Control", "max-age=1")).then(),
            .get().asked(.init("Cache-Control", "max-stale=1000")).expect(.cached)),
        .optimal(
            "ccreq-max-stale-age", .get(.init("Cache-Control", "max-age=1500"), .init("Age", "2000")),
            .get().asked(.init("Cache-Control", "max-stale=1000")).expect(.cached)),
        .optimal(
            "ccreq-max-stale-too-old", .get(.init("Cache-Control", "max-age=1500"), .init("Age", "3000")),
            .get().asked(.init("Cache-Control", "max-stale=1000")).expect(.notCached)),
        .optimal(
            "ccreq-max-stale-any", .get(.init("Cache-Control", "max-age=1500"), .init("Age", "30000")),
            .get().asked(.init("Cache-Control", "max-stale")).expect(.cached)),
        .optimal(
            "ccreq-min-fresh", .get(.init("Cache-Control", "max-age=1500")),
            .get().asked(.init("Cache-Control", "min-fresh=2000")).expect(.notCached)),
        .optimal(
            "ccreq-min-fresh-age", .get(.init("Cache-Control", "max-age=1500"), .init("Age", "1000")),
            .get().asked(.init("Cache-Control", "min-fresh=1000")).expect(.notCached)),
        .optimal("ccreq-no-cache", .get(hour), .get().asked(.init("Cache-Control", "no-cache")).expect(.notCached)),
        .optimal(
            "ccreq-no-cache-lm", .get(hour, .init("Last-Modified", -10_000), .init("Date", 0)),
            .get().asked(.init("Cache-Control", "no-cache")).expect(.lastModifiedValidated)),
        .optimal(
            "ccreq-no-cache-etag", .get(hour, .init("ETag", "\"abc\"")),
            .get().asked(.init("Cache-Control", "no-cache")).expect(.etagValidated)),
        .optimal("ccreq-no-store", .get(hour), .get().asked(.init("Cache-Control", "no-store")).expect(.notCached)),
        .required(
            "ccreq-no-store-not-stored", .get(hour).asked(.init("Cache-Control", "no-store")),
            .get().expect(.notCached)),
        .optimal("ccreq-oic", .get().asked(.init("Cache-Control", "only-if-cached")).expect(status: 504)),
        .optimal(
            "pragma-request-no-cache", .get(hour), .get().asked(.init("Pragma", "no-cache")).expect(.notCached)),
        .optimal(
            "pragma-request-extension", .get(hour),
            .get().asked(.init("Pragma", "unrecognised-extension")).expect(.cached)),
    ]

    static let statuses: [ConformanceCase] = [
        200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599,
    ].flatMap { status -> [ConformanceCase] in
        [
            .optimal("status-\(status)-fresh", .fresh(status: status), .get(status: status).expect(.cached)),
            .required("status-\(status)-stale", .stale(status: status), .get().expect(.notCached)),
        ]
    }

    /// Cases for a shared cache.
    static let shared: [ConformanceCase] = [
        .required(
            "cc-resp-private-shared", .get(.init("Cache-Control", "private, max-age=3600")), .get().expect(.notCached)),
        .required(
            "freshness-s-maxage-shared", .get(.init("Cache-Control", "s-maxage=3600")).then(), .get().expect(.cached)),
        sharedAge("longer", .notCached, "max-age=3600, s-maxage=1"),
        sharedAge("longer-reversed", .notCached, "s-maxage=1, max-age=3600"),
        sharedAge("longer-multiple", .notCached, "max-age=3600", "s-maxage=1"),
        sharedAge("shorter", .cached, "max-age=1, s-maxage=3600"),
        .optimal(
            "freshness-max-age-s-maxage-shared-shorter-expires",
            .get(.init("Expires", -10), .init("Cache-Control", "max-age=0, s-maxage=3600")).then(),
            .get().expect(.cached)),
        .required(
            "other-authorization", .fresh().asked(.init("Authorization", "FOO")), .get().expect(.notCached)),
        .required(
            "other-authorization-same", .fresh().asked(.init("Authorization", "FOO")),
            .get().asked(.init("Authorization", "FOO")).expect(.notCached)),
        authorized("public"), authorized("must-revalidate"), authorized("s-maxage=3600"),
        staleClose("must-revalidate"), staleClose("proxy-revalidate"), staleClose("no-cache"), staleClose("s-maxage=2"),
        .required(
            "headers-omit-private-fields",
            .fresh(.init("Cache-Control", "private=\"a, b\""), .init("a", "1"), .init("b", "2"), .init("c", "3")),
            .get().expect(.cached).expect("c", "3").expect(missing: "a").expect(missing: "b")),
    ]

    private static func sharedAge(
        _ id: String, _ expectation: Exchange.Expectation, _ controls: String...
    ) -> ConformanceCase {
        var first = Exchange.get().then()
        first.fields = controls.map { CaseField("Cache-Control", $0) }
        return .required("freshness-max-age-s-maxage-shared-\(id)", first, .get().expect(expectation))
    }

    private static func authorized(_ directive: String) -> ConformanceCase {
        .optimal(
            "other-authorization-\(directive)",
            .get(.init("Cache-Control", "max-age=3600, \(directive)"), .init("Date", 0)).then()
                .asked(.init("Authorization", "FOO")), .get().expect(.cached))
    }

    private static func staleClose(_ directive: String) -> ConformanceCase {
        .required(
            "stale-close-shared-\(directive)",
            .get(.init("Cache-Control", "max-age=2, \(directive), stale-if-error=60")).then(),
            .get().disconnecting().expect(.fails))
    }

    static let staleness: [ConformanceCase] = [
        .optimal(
            "stale-while-revalidate",
            .get(.init("Cache-Control", "max-age=1, stale-while-revalidate=3600"), .init("ETag", "\"abc\"")).then(),
            .get().expect(.cached)),
        .required(
            "stale-while-revalidate-window",
            .get(.init("Cache-Control", "max-age=1, stale-while-revalidate=4"), .init("ETag", "\"abc\"")).then(),
            .get(.init("Cache-Control", "no-cache"), .init("ETag", "\"def\"")).expect(.cached).then(),
            .get().expect(.notCached)),
        .optimal(
            "stale-while-revalidate-refreshes",
            .get(.init("Cache-Control", "max-age=0, stale-while-revalidate=3600"), .init("ETag", "\"abc\"")).then(),
            .get(.init("Cache-Control", "max-age=3600"), .init("ETag", "\"def\"")).expect(.cached)
                .expect("ETag", "\"abc\"").then(),
            .get().expect(.cached).expect("ETag", "\"def\"").expect("Cache-Control", "max-age=3600")),
        .optimal(
            "stale-sie-close", .get(.init("Cache-Control", "max-age=2, stale-if-error=60")).then(),
            .get().disconnecting().expect(status: 200)),
        .optimal(
            "stale-sie-503", .get(.init("Cache-Control", "max-age=2, stale-if-error=60")).then(),
            .get(status: 503).expect(status: 200)),
        .required(
            "stale-sie-expired", .get(.init("Cache-Control", "max-age=0, stale-if-error=1")).then(),
            .get(status: 500)),
        .optimal(
            "stale-sie-request", .get(.init("Cache-Control", "max-age=0")),
            .get(status: 500).asked(.init("Cache-Control", "stale-if-error=3600")).expect(status: 200)),
        .required(
            "stale-sie-request-expired", .get(.init("Cache-Control", "max-age=0")).then(),
            .get(status: 500).asked(.init("Cache-Control", "stale-if-error=1"))),
        .required(
            "stale-close-must-revalidate",
            .get(.init("Cache-Control", "max-age=2, must-revalidate, stale-if-error=60")).then(),
            .get().disconnecting().expect(.fails)),
        .required(
            "stale-close-no-cache", .get(.init("Cache-Control", "max-age=2, no-cache, stale-if-error=60")).then(),
            .get().disconnecting().expect(.fails)),
        .required("stale-close", .becomesStale(), .get().disconnecting().expect(.fails)),
    ]
}

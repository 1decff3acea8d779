/// Cases about how responses update the store.
enum UpdateCases {
    private static let modified = CaseField("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")

    /// Response fields: whether they are stored, and whether a 304 updates them.
    private static let fields: [(name: String, a: String, b: String, isStored: Bool, isUpdated: Bool)] = [
        ("Test-Header", "A", "B", true, true), ("X-Test-Header", "A", "B", true, true),
        ("Content-Foo", "A", "B", true, true), ("X-Content-Foo", "A", "B", true, true),
        ("Cache-Control", "max-age=1", "max-age=3600", true, true), ("Content-Encoding", "a", "b", true, false),
        ("Content-Length", "4", "10", true, false), ("Content-Location", "/foo", "/bar", true, true),
        ("Content-MD5", "rL0Y20zC+Fzt72VPzMSk2A==", "N7UdGUp1E+RbVvZSTy1R8g==", true, true),
        ("Content-Security-Policy", "default-src 'self'", "default-src 'self' cdn.example.com", true, true),
        ("Content-Type", "text/plain", "text/plain;charset=utf-8", true, true),
        ("Clear-Site-Data", "cache", "cookies", true, true),
        ("Expires", "Fri, 01 Jan 2038 01:01:01 GMT", "Mon, 11 Jan 2038 11:11:11 GMT", true, true),
        ("Public-Key-Pins", "A", "B", true, true), ("Set-Cookie", "a=b", "a=c", true, true),
        ("X-Frame-Options", "deny", "sameorigin", true, true), ("X-XSS-Protection", "1", "1; mode=block", true, true),
        ("Strict-Transport-Security", "A", "B", true, true), ("WWW-Authenticate", "A", "B", true, true),
        ("Content-Range", "A", "B", true, false), ("Set-Cookie2", "a=b", "a=c", true, true),
        ("Keep-Alive", "A", "B", false, false), ("Upgrade", "A", "B", false, false),
        ("Proxy-Authenticate", "A", "B", false, false),
        ("Proxy-Authentication-Info", "A", "B", false, false), ("Proxy-Authorization", "A", "B", false, false),
        ("Proxy-Connection", "A", "B", false, false), ("TE", "A", "B", false, false),
    ]

    static let stored: [ConformanceCase] =
        fields.map { field in
            var first = Exchange.get(.init("Date", 0)).then()
            first.fields.append(CaseField(field.name, field.b))
            if field.name == "Content-Length" { first.body = "0123456789" }
            if field.name != "Cache-Control" { first.fields.append(CaseField("Cache-Control", "max-age=3600")) }
            let next = Exchange.get().expect(.cached)
            return .required(
                "headers-store-\(field.name)", first,
                field.isStored ? next.expect(field.name, field.b) : next.expect(missing: field.name))
        } + [
            .required(
                "headers-omit-headers-listed-in-Connection",
                .fresh(.init("Connection", "a, b"), .init("a", "1"), .init("b", "2"), .init("c", "3")),
                .get().expect(.cached).expect("c", "3").expect(missing: "a").expect(missing: "b")
                    .expect(missing: "Connection")),
            .required(
                "headers-store-Connection", .fresh(.init("Connection", "A")),
                .get().expect(.cached).expect(missing: "Connection")),
            .required(
                "headers-store-ETag", .fresh(.init("ETag", "\"B\"")), .get().expect(.cached).expect("ETag", "\"B\"")),
            // The end of such a body is unknown (RFC 9112 §6.3), so the call fails and nothing is stored.
            .required(
                "headers-store-Transfer-Encoding", .fresh(.init("Transfer-Encoding", "B")).expect(.fails),
                .get().expect(.notCached)),
        ]

    static let validated: [ConformanceCase] =
        [
            .required(
                "304-lm-use-stored-Test-Header",
                .get(.init("Cache-Control", "max-age=2"), modified, .init("Date", 0), .init("Test-Header", "A")).then(),
                .get(modified, .init("Date", 0)).expect(.lastModifiedValidated).expect("Test-Header", "A"))
        ]
        + fields.filter(\.isStored).map { field in
            func exchange(_ value: String) -> Exchange {
                var exchange = Exchange.get(.init("Date", 0), .init(field.name, value))
                exchange.fields.append(CaseField("ETag", "\"x\""))
                if field.name != "Cache-Control" { exchange.fields.append(CaseField("Cache-Control", "max-age=2")) }
                return exchange
            }
            let expected = field.isUpdated ? field.b : field.a
            return .required(
                "304-etag-update-response-\(field.name)", exchange(field.a).then(),
                exchange(field.b).expect(.etagValidated).expect(field.name, expected),
                .get().expect(.cached).expect(field.name, expected))
        }

    static let heads: [ConformanceCase] = [
        .optimal("head-writethrough", .becomesStale(), .get().method("HEAD").expect(.notCached)),
        .optimal("head-from-get", .fresh(), .get().method("HEAD").expect(.cached).expect(text: "")),
        .optimal(
            "head-200-freshness-update", .becomesStale(),
            .get(.init("Cache-Control", "max-age=1000")).method("HEAD"), .get().expect(.cached)),
        .optimal(
            "head-200-update", .becomesStale(),
            .get(.init("Template-A", "2"), .init("Cache-Control", "max-age=1000")).method("HEAD"),
            .get().expect(.cached).expect("Template-A", "2")),
        .required(
            "head-200-changed", .fresh(.init("ETag", "\"a\"")),
            .get(.init("ETag", "\"b\"")).method("HEAD").asked(.init("Cache-Control", "no-cache")),
            .get().expect(.notCached)),
    ]

    private static let target = [
        CaseField("Cache-Control", "max-age=100000"), CaseField("Last-Modified", 0), CaseField("Date", 0),
    ]

    static let invalidation: [ConformanceCase] = ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"].flatMap { method in
        [
            .required("invalidate-\(method)", .fresh(), .get().method(method), .get().expect(.notCached)),
            .optimal("invalidate-\(method)-failed", .fresh(), .get(status: 500).method(method), .get().expect(.cached)),
            .optimal(
                "invalidate-\(method)-location", Exchange(fields: target).at("/l"),
                .get(.init("Location", "/l")).method(method).withOwnLocations(), .get().at("/l").expect(.notCached)),
            .optimal(
                "invalidate-\(method)-cl", Exchange(fields: target).at("/c"),
                .get(.init("Content-Location", "/c")).method(method).withOwnLocations(),
                .get().at("/c").expect(.notCached)),
        ]
    }

    static let others: [ConformanceCase] = [
        .optimal(
            "method-POST",
            .get(.init("Expires", 2_592_000), .init("Content-Location", ""), .init("Date", 0)).method("POST")
                .withOwnLocations(), .get().expect(.cached)),
        .required("other-age-gen", .fresh(), .get().expect(.cached).expect(ageAtLeast: 3)),
        .required(
            "other-age-update-expires",
            .get(.init("Expires", 2_592_000), .init("Date", 0), .init("Age", "30")).then(),
            .get().expect(.cached).expect(ageAtLeast: 33)),
        .required(
            "other-age-update-max-age", .fresh(.init("Age", "30")),
            .get().expect(.cached).expect(ageAtLeast: 33)),
        .required(
            "other-date-update",
            .get(.init("Cache-Control", "max-age=3600"), .init("Date", "Fri, 15 Jan 2027 08:00:00 GMT")).then(),
            .get().expect(.cached).expect("Date", "Fri, 15 Jan 2027 08:00:00 GMT")),
        .required(
            "other-date-update-expires",
            .get(.init("Expires", 2_592_000), .init("Date", "Fri, 15 Jan 2027 08:00:00 GMT")).then(),
            .get().expect(.cached).expect("Date", "Fri, 15 Jan 2027 08:00:00 GMT")),
        .optimal(
            "other-fresh-content-disposition-attachment",
            .fresh(.init("Content-Disposition", "attachment; filename=example.txt")), .get().expect(.cached)),
        .optimal("interim-102", .fresh().after(interim: 102), .get().expect(.cached)),
        .optimal("interim-103", .fresh().after(interim: 103), .get().expect(.cached)),
        .optimal("date-missing", .get(.init("Expires", 3600)).then(), .get().expect(.cached)),
        .required("query-args-different", .fresh().at("?test=1"), .get().at("?test=2").expect(.notCached)),
        .optimal("query-args-same", .fresh().at("?test=1"), .get().at("?test=1").expect(.cached)),
        .optimal(
            "other-set-cookie", .fresh(.init("Set-Cookie", "a=b")), .get().expect(.cached).expect("Set-Cookie", "a=b")),
        .optimal("other-cookie", .fresh(), .get().asked(.init("Cookie", "a=b")).expect(.cached)),
        .optimal(
            "other-heuristic-content-disposition",
            .get(
                .init("Last-Modified", -100_000), .init("Date", 0),
                .init("Content-Disposition", "attachment; filename=example.txt")), .get().expect(.cached)),
        .optimal(
            "authorization-private",
            .get(.init("Cache-Control", "max-age=3600"), .init("Date", 0)).asked(.init("Authorization", "FOO")),
            .get().asked(.init("Authorization", "FOO")).expect(.cached)),
    ]
}

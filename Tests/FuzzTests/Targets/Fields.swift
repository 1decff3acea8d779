import FoundationEssentials

@testable import CurlTransport
@testable import HTTPCore
@testable import ResponseCache

/// When a parsed field value is written and parsed again, the result is the same value.
@Sendable func fuzzFields(_ bytes: [UInt8]) throws {
    let value = text(bytes)
    try fuzzDates(value)
    try fuzzCacheFields(value)
    try fuzzOrigins(value)
    for scheme in AuthenticationScheme.all(in: [value]) {
        guard let challenge = DigestChallenge(scheme.parameters) else { continue }
        try expect(challenge.realm.utf8.isFieldValue, "a realm that cannot be sent")
    }
    if let parent = TraceParent(value) { try expect(TraceParent(parent.description) == parent, "\(parent) changes") }
}

private func fuzzDates(_ value: String) throws {
    guard let date = HTTPDate.parse(value) else { return }
    let written = HTTPDate.format(date)
    try expect(HTTPDate.parse(written) == date, "\(value) is written as \(written)")
}

private func fuzzCacheFields(_ value: String) throws {
    let headers = HTTPHeaders([("Cache-Control", value)])
    for mode in [CacheMode.private, .shared] {
        let control = CacheControl(headers, mode)
        let numbers = [control.maxAge, control.staleWhileRevalidate, control.staleIfError, control.minFresh]
        for number in numbers.compactMap({ $0 }) {
            try expect(number >= 0 && number <= 0x1p53, "\(number) seconds")
        }
        try expect(!(control.noCacheFields + control.privateFields).contains(""), "a field without a name")
    }
    for element in FieldList.elements(of: value) {
        let isBare = !element.isEmpty && element.trimmingFieldWhitespace == element
        try expect(isBare, "the element \(element.debugDescription)")
    }
    if case .part(let range, let total) = ContentRange(value) {
        let again = ContentRange("bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total.map { "\($0)" } ?? "*")")
        try expect(again == .part(range, total: total), "a written range changes")
        var entry = CacheEntry(
            key: CacheKey(primary: "k", variant: ""), method: "GET", url: "http://a/", status: 206,
            headers: ["Content-Range": value], requestTime: .distantPast, responseTime: .distantPast)
        entry.bodyByteCount = Int64(range.count)
        if let parts = StoredParts(entry) {
            entry.headers["Content-Range"] = parts.contentRange
            try expect(StoredParts(entry) == parts, "written parts change")
        }
    }
    if let list = WeightedList([value]) {
        for element in list.elements { try expect((0...1000).contains(element.weight), "weight \(element.weight)") }
    }
}

private func fuzzOrigins(_ value: String) throws {
    guard let target = try? Target("https://example.org/") else { return }
    let now: Int64 = 1_700_000_000
    var list = AlternativeList()
    if list.note(value, of: target, now: now) {
        var again = AlternativeList()
        for line in list.text(now: now).split(separator: "\n") where !line.hasPrefix("#") {
            try expect(again.add(line: line, now: now), "a line that is not read again: \(line)")
        }
        // The file format of libcurl has one name for `http/1.1` and `h1`.
        var services = list.services
        for (origin, list) in services {
            // Services that expire at once are not kept.
            let kept = list.filter { $0.expires > now }
            services[origin] =
                kept.isEmpty
                ? nil
                : kept.map { service in
                    var service = service
                    if service.protocolName == "h1" { service.protocolName = "http/1.1" }
                    return service
                }
        }
        try expect(again.services == services, "\(services) are read as \(again.services)")
    }
    if let policy = StrictTransportSecurity(value) {
        var list = HSTSList()
        if list.note(policy, of: "example.org", now: now) {
            var again = HSTSList()
            for line in list.text(now: now).split(separator: "\n") where !line.hasPrefix("#") {
                try expect(again.add(line: line, now: now), "a line that is not read again: \(line)")
            }
            try expect(again.covers("example.org", now: now), "\(value) is forgotten")
            try expect(again.covers("a.example.org", now: now) == policy.includesSubdomains, "subdomains differ")
        }
    }
}

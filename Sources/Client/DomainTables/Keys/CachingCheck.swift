import HTTPCore

/// What the rows say of the cache, with the places of both keys, for the check of their combination.
struct CachingCheck {
    struct Row {
        var cache: Located<DomainTable.RouteSettings.CacheChoice>?
        var ttl: Located<CachePolicy.TimeToLive>?
    }

    /// Whether a policy or a time to live could not be read, so that the combination cannot be checked.
    private(set) var isBroken = false
    /// The row that was read last.
    private(set) var last = Row()
    var defaults = Row()
    var domains: [Row] = []
    var servers: [Row] = []

    /// A row without settings says nothing of the cache.
    mutating func startRow() { last = Row() }

    mutating func note(_ fields: TableReader.Fields, _ record: TableReader.SettingsRecord) {
        func located<Value: Sendable>(_ value: Value?, _ key: String) -> Located<Value>? {
            guard let value, let range = record.ranges[key], case .file(let position)? = record.origins[key] else {
                return nil
            }
            return Located(value: value, position: position, range: range)
        }
        last = Row(cache: located(record.settings.cache, "cache"), ttl: located(record.settings.ttl, "ttl"))
        if (fields["cache"] != nil) != (last.cache != nil) || (fields["ttl"] != nil) != (last.ttl != nil) {
            isBroken = true
        }
    }
}

extension TableReader {
    /// Checks that `cacheElseNetwork` has a time to live and that each time to live belongs to a policy, when the rows are
    /// combined.
    mutating func checkCaching() {
        guard !caching.isBroken else { return }
        let rows = caching
        var reported: Set<Range<Int>> = []
        var used: Set<Range<Int>> = []
        var effective: Set<Range<Int>> = []
        let names = file.domains.map(\.name.value)
        let byName = Dictionary(zip(names, rows.domains)) { first, _ in first }
        let domainRows = rows.domains.map { [rows.defaults, $0] }
        let serverRows = zip(file.servers, rows.servers).lazy.map { server, own in
            [rows.defaults, server.row.domain.flatMap { byName[$0.rawValue] } ?? CachingCheck.Row(), own]
        }
        func check(_ levels: [CachingCheck.Row]) {
            let ttl = levels.last { $0.ttl != nil }?.ttl
            guard let cache = levels.last(where: { $0.cache != nil })?.cache else { return }
            if let ttl {
                used.insert(ttl.range)
                if cache.value != .networkOnly { effective.insert(ttl.range) }
            }
            let isAboveAll = levels.count == 1 && !names.isEmpty
            if cache.value == .cacheElseNetwork, ttl == nil, !isAboveAll, reported.insert(cache.range).inserted {
                report(cache.range, "\"cacheElseNetwork\" needs a time to live; add ttl: \"5m\"")
            }
        }
        check([rows.defaults])
        domainRows.forEach(check)
        serverRows.forEach(check)
        for row in [rows.defaults] + rows.domains + rows.servers {
            guard let ttl = row.ttl else { continue }
            if !used.contains(ttl.range) {
                report(ttl.range, "\"ttl\" has no effect without \"cache\"; add cache: \"cacheElseNetwork\"")
            } else if row.cache?.value == .networkOnly, !effective.contains(ttl.range) {
                report(ttl.range, "\"ttl\" has no effect with cache: \"networkOnly\"", severity: .warning)
            }
        }
    }
}

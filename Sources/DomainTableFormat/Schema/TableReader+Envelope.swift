/// The reader of envelopes, and checks of settings that are combined from several rows.
extension TableReader {
    mutating func envelope(_ node: JSON5Node?) -> Located<SettingsEntry.EnvelopeChoice>? {
        guard let node else { return nil }
        if case .null = node.value { return located(.none, node) }
        guard let row = fields(of: node, in: .envelope, called: "\"envelope\"") else { return nil }
        var entry = EnvelopeEntry()
        entry.code = path(row["code"], "code") ?? []
        entry.message = path(row["message"], "message")
        entry.data = path(row["data"], "data")
        let start = node.range.lowerBound..<(node.range.lowerBound + 1)
        if row.lacks("code") {
            report(
                start, #"the envelope has no "code"; write its path, such as code: "status""#, expected: "\"code\"")
        }
        if let success = row["success"] {
            entry.success = codes(success)
        } else if row.lacks("success") {
            report(
                start, #"the envelope has no "success"; write the codes that mean success, such as success: [0]"#,
                expected: "\"success\"")
        }
        entry.messages = messages(row["messages"])
        return located(.envelope(entry), node)
    }

    /// Reads a path: `a.b` as `["a", "b"]`.
    private mutating func path(_ node: JSON5Node?, _ key: String) -> [String]? {
        let expected = #"a path such as "status" or "result.code""#
        guard let node, let text = text(node, key, expected) else { return nil }
        let steps = text.value.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard !steps.contains(where: \.isEmpty) else {
            reportType(node, "\"\(key)\"", expected, advice: "; a name between the dots is empty")
            return nil
        }
        return steps
    }

    private mutating func codes(_ node: JSON5Node) -> [EnvelopeEntry.Code] {
        guard let elements = array(node, "success", of: "numbers and strings", hasNumbers: true) else { return [] }
        if elements.isEmpty {
            report(node.range, "\"success\" is empty, so no response could succeed", expected: "at least one code")
        }
        var codes: [EnvelopeEntry.Code] = []
        for element in elements {
            let code: EnvelopeEntry.Code
            switch element.value {
            case .number(let number) where number.double.isFinite: code = .number(number)
            case .string(let text): code = .text(text)
            default:
                reportType(element, "an element of \"success\"", "a number or a string")
                continue
            }
            if codes.contains(code) {
                report(element.range, "\"success\" contains \(element.phrase) twice", severity: .warning)
            }
            codes.append(code)
        }
        return codes
    }

    private mutating func messages(_ node: JSON5Node?) -> [(code: String, text: String)] {
        entries(of: node, called: "\"messages\"", each: "message").compactMap { member, isFirst in
            guard let text = text(member.value, member.key), isFirst else { return nil }
            return (member.key, text.value)
        }
    }

    /// Checks that `cacheElseNetwork` has a time to live and that each time to live belongs to a policy, when the rows are
    /// combined.
    mutating func checkCaching() {
        var reported: Set<Range<Int>> = []
        var used: Set<Range<Int>> = []
        var effective: Set<Range<Int>> = []
        // Only these two settings of each row: copies of all of them would take much memory in a large table.
        typealias Caching = (cache: Located<SettingsEntry.Cache>?, ttl: Located<SettingsEntry.TimeToLive>?)
        func caching(_ entry: SettingsEntry) -> Caching { (entry.cache, entry.ttl) }
        let none: Caching = (nil, nil)
        let defaults = caching(file.defaults)
        let domains = file.domains.map { caching($0.settings) }
        let servers = file.servers.map { $0.hasSettings ? caching($0.settings) : none }
        let byName = Dictionary(zip(file.domains.map(\.name.value), domains)) { first, _ in first }
        let domainRows = domains.map { [defaults, $0] }
        let serverRows = zip(file.servers, servers).lazy.map { server, own in
            [defaults, server.domain.flatMap { byName[$0.value] } ?? none, own]
        }
        func check(_ rows: [Caching]) {
            let ttl = rows.last { $0.ttl != nil }?.ttl
            guard let cache = rows.last(where: { $0.cache != nil })?.cache else { return }
            if let ttl {
                used.insert(ttl.range)
                if cache.value != .networkOnly { effective.insert(ttl.range) }
            }
            let isAboveAll = rows.count == 1 && !file.domains.isEmpty
            if cache.value == .cacheElseNetwork, ttl == nil, !isAboveAll, reported.insert(cache.range).inserted {
                report(cache.range, "\"cacheElseNetwork\" needs a time to live; add ttl: \"5m\"")
            }
        }
        check([defaults])
        domainRows.forEach(check)
        serverRows.forEach(check)
        for row in [defaults] + domains + servers {
            guard let ttl = row.ttl else { continue }
            if !used.contains(ttl.range) {
                report(ttl.range, "\"ttl\" has no effect without \"cache\"; add cache: \"cacheElseNetwork\"")
            } else if row.cache?.value == .networkOnly, !effective.contains(ttl.range) {
                report(ttl.range, "\"ttl\" has no effect with cache: \"networkOnly\"", severity: .warning)
            }
        }
    }
}

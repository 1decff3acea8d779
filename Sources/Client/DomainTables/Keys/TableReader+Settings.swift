import HTTPCore
import JSONText

/// Readers of the settings that all kinds of rows have in common.
extension TableReader {
    mutating func settings(_ row: Fields) -> DomainTable.RouteSettings {
        var record = SettingsRecord()
        for key in RowKey.members(of: nil) { read(key, row[key.name], into: &record) }
        for group in [TableKey.Place.retry, .events, .query, .documented, .tls, .digests] {
            guard let node = row[group.rawValue],
                let members = fields(of: node, in: group, called: "\"\(group.rawValue)\"")
            else { continue }
            for key in RowKey.members(of: group) { read(key, members[key.member], into: &record) }
            if group == .events, let first = record.settings.events.firstWait, let node = members["firstWait"],
                let longest = record.settings.events.longestWait, first > longest
            {
                reportType(node, "\"firstWait\"", "at most \"longestWait\"")
            }
        }
        read(RowKey.pinsOfDomain, row["pins"], into: &record)
        if let node = row["oauth2"], row["authenticator"] != nil {
            report(
                node.range, "\"oauth2\" has no effect beside \"authenticator\"; leave one of them", severity: .warning)
        }
        let secrets = row["secretHeaders"].flatMap {
            names($0, "secretHeaders", "the name of a header", areHeaders: true)
        }
        if let secrets, let node = row["secretHeaders"] {
            record.settings.secretHeaders = secrets
            record.origins["secretHeaders"] = .file(source.position(of: node.range.lowerBound))
        }
        for (name, value) in headers(row["headers"]) {
            record.settings.headers[name] = value.value
            record.origins["headers.\(name.lowercased())"] = .file(value.position)
        }
        for (name, node) in parameters(row["parameters"]) {
            record.settings.parameters[name] = JSONValue(node.value.value)
            record.origins["parameters.\(name)"] = .file(node.position)
        }
        caching.note(row, record)
        return record.settings.recorded(record.origins)
    }

    /// The settings of a row that is being read.
    struct SettingsRecord {
        var settings = DomainTable.RouteSettings()
        var origins: [String: DomainTable.SettingOrigin] = [:]
        /// The places of the values, by the names of their settings.
        var ranges: [String: Range<Int>] = [:]
    }

    private mutating func read(_ key: RowKey, _ node: JSON5Node?, into record: inout SettingsRecord) {
        guard let node, key.read(&self, node, &record.settings) else { return }
        if let first = record.ranges[key.settingName] { reportTwice(key.member, node.range, first) }
        record.ranges[key.settingName] = node.range
        record.origins[key.settingName] = .file(source.position(of: node.range.lowerBound))
    }

    mutating func timeToLive(_ node: JSON5Node) -> CachePolicy.TimeToLive? {
        if case .string(let text) = node.value {
            if text == "forever" { return .forever }
            let sliding = "sliding "
            if text.hasPrefix(sliding), let duration = DurationText.parse(String(text.dropFirst(sliding.count))),
                duration > .zero
            {
                return .sliding(duration)
            }
            if NearestName.of(text, among: ["forever"]) != nil {
                reportChoice(node, text, "ttl", ["forever"])
                return nil
            }
            if text.hasPrefix(sliding) {
                reportType(node, "\"ttl\"", "\"sliding \" and a duration, such as \"sliding 5m\"")
                return nil
            }
        }
        return duration(node, "ttl").map { .fixed($0.value) }
    }

    mutating func dates(_ node: JSON5Node) -> Coding.Dates? {
        let words: [String: Coding.Dates] = [
            "iso8601": .iso8601, "unixSeconds": .unixSeconds, "unixMilliseconds": .unixMilliseconds,
            "secondsSince2001": .secondsSince2001,
        ]
        let expected =
            #""iso8601", "unixSeconds", "unixMilliseconds", "secondsSince2001" or a pattern such as "yyyy-MM-dd HH:mm:ss""#
        guard let text = text(node, "dates", expected)?.value else { return nil }
        if let dates = words[text] { return dates }
        // A text that lacks `y`, `M` or `d` is no pattern, so one of the words is meant.
        guard "yMd".allSatisfy(text.contains) else {
            if NearestName.of(text, among: words.keys) != nil {
                reportChoice(node, text, "dates", words.keys.sorted())
            } else {
                reportType(node, "\"dates\"", expected)
            }
            return nil
        }
        do throws(DatePatternText.Problem) {
            _ = try DatePatternText(text)
        } catch {
            report(node.range, "\"dates\" \(error.reason)", expected: expected, found: node.phrase)
            return nil
        }
        return .pattern(text)
    }

    mutating func proxy(_ node: JSON5Node) -> ProxyPolicy? {
        let expected = #"a proxy's URL, "direct" or "environment""#
        guard let proxy = text(node, "proxy", expected) else { return nil }
        if proxy.value == "direct" { return ProxyPolicy.direct }
        if proxy.value == "environment" { return .environment }
        let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
        let parts = URLParts(proxy.value)
        guard parts.isAbsolute, let scheme = parts.scheme?.lowercased() else {
            if NearestName.of(proxy.value, among: ["direct", "environment"]) != nil {
                reportChoice(node, proxy.value, "proxy", ["direct", "environment"])
            } else {
                reportType(
                    node, "\"proxy\"", expected, advice: "; write the scheme too, as in \"http://127.0.0.1:3128\"")
            }
            return nil
        }
        guard schemes.contains(scheme) else {
            reportChoice(node, scheme, "proxy", schemes)
            return nil
        }
        do throws(HTTPAddress.Problem) {
            let address = try HTTPAddress("http" + proxy.value.dropFirst(scheme.count))
            if address.hasUserInformation {
                report(
                    node.range,
                    "\"proxy\" contains a user name or password, visible to everyone who reads the file or a log; "
                        + "set configuration.proxy in code", severity: .warning)
            }
        } catch {
            report(
                node.range, "\"proxy\" must be \(expected); \(QuotedText.of(proxy.value)) \(error.reason)",
                expected: expected, found: node.phrase)
            return nil
        }
        return .url(proxy.value)
    }

    /// Reads a name, or `null` for none.
    mutating func named(_ node: JSON5Node, _ key: String, _ what: String) -> String?? {
        if case .null = node.value { return .some(nil) }
        return name(node, key, "the name of \(what), or null for none").map { .some($0.value) }
    }

    mutating func redirects(_ node: JSON5Node) -> RedirectPolicy? {
        switch node.value {
        case .string("automatic"): return .automatic
        case .string("none"): return RedirectPolicy.none
        case .string(let text):
            reportChoice(node, text, "redirects", ["automatic", "none"])
            return nil
        case .number(let number):
            if let limit = number.integer, (0...100).contains(limit) {
                return limit == 0 ? RedirectPolicy.none : .follow(limit: Int(limit))
            }
            fallthrough
        default:
            reportType(node, "\"redirects\"", #""automatic", "none" or a number of hops from 0 to 100"#)
            return nil
        }
    }

    mutating func simulation(_ node: JSON5Node) -> DomainTable.SimulationRule? {
        if case .null = node.value { return .off }
        guard let row = fields(of: node, in: .simulation, called: "\"simulation\"") else { return nil }
        let delay = duration(row["delay"], "delay", isZeroAllowed: true)?.value
        switch (row["directory"], row["baseURL"]) {
        case (let directory?, nil):
            return name(directory, "directory", "the path of a folder")
                .map { .directory(file($0.value, "directory", node), delay: delay) }
        case (nil, let url?):
            return address(url, "baseURL").map { .baseURL($0.0.value, delay: delay) }
        default:
            report(
                node.range, "\"simulation\" must have either \"directory\" or \"baseURL\"",
                expected: "either \"directory\" or \"baseURL\"", found: row["directory"] == nil ? "none" : "both")
            return nil
        }
    }

    // MARK: Headers and parameters

    private mutating func headers(_ node: JSON5Node?) -> [(name: String, value: Located<String?>)] {
        var headers: [(name: String, value: Located<String?>)] = []
        var seen: [String: JSON5Member] = [:]
        for (member, isFirst) in entries(of: node, called: "\"headers\"", each: "header", most: 1_000) {
            checkHeaderName(member.key, member.keyRange)
            let lowercased = member.key.lowercased()
            if isFirst, let twin = seen[lowercased] {
                let line = source.position(of: twin.keyRange.lowerBound).line
                report(
                    member.keyRange,
                    "the header \(QuotedText.of(member.key)) repeats \(QuotedText.of(twin.key)) of line \(line); "
                        + "case does not matter")
            }
            seen[lowercased] = seen[lowercased] ?? member
            switch member.value.value {
            case .null: headers.append((member.key, located(nil, member.value)))
            case .string(let value):
                if !HTTPText.isFieldValue(value) {
                    report(
                        member.value.range,
                        "the header \(QuotedText.of(member.key)) contains a line break or another control character",
                        expected: "text without control characters")
                }
                headers.append((member.key, located(value, member.value)))
            case .number where SourceExcerpt.isSecret(member.key, source.secretHeaders):
                report(
                    member.value.range,
                    "the header \(QuotedText.of(member.key)) must be a string, or null to remove it; "
                        + "put the number in quotes", expected: "a string")
            default:
                var advice = ""
                if case .number(let number) = member.value.value { advice = "; write \"\(number.text)\"" }
                reportType(
                    member.value, "the header \(QuotedText.of(member.key))", "a string, or null to remove it",
                    advice: advice)
            }
        }
        return headers
    }

    private mutating func checkHeaderName(_ name: String, _ range: Range<Int>) {
        guard !name.isEmpty, !HTTPText.isToken(name) else { return }
        let meant = String(name.map { $0 == " " ? "-" : $0 })
        let suggestion = HTTPText.isToken(meant) ? meant : nil
        report(
            range,
            "\(QuotedText.of(name)) cannot be the name of a header"
                + (suggestion.map { "; did you mean \"\($0)\"?" } ?? ""),
            expected: "a token of RFC 9110", found: QuotedText.of(name), suggestion: suggestion)
    }

    mutating func names(
        _ node: JSON5Node, _ key: String, _ expected: String, areHeaders: Bool = false
    ) -> [String]? {
        guard let texts = texts(node, key, each: expected) else { return nil }
        for (text, element) in texts {
            if text.isEmpty { reportType(element, "an element of \"\(key)\"", expected) }
            if areHeaders { checkHeaderName(text, element.range) }
        }
        return texts.map(\.0)
    }

    private mutating func parameters(_ node: JSON5Node?) -> [(name: String, value: Located<JSON5Node>)] {
        entries(of: node, called: "\"parameters\"", each: "parameter").map { member, _ in
            checkIsJSON(member.value, of: member.key)
            return (member.key, located(member.value, member.value))
        }
    }

    /// Reports infinite numbers and NaN, which JSON5 has and JSON does not, and numbers that would be sent rounded.
    private mutating func checkIsJSON(_ node: JSON5Node, of name: String) {
        switch node.value {
        case .number(let number) where !number.double.isFinite:
            reportType(node, "the parameter \(QuotedText.of(name))", "a JSON value")
        case .number(let number) where number.exact == nil:
            reportType(
                node, "the parameter \(QuotedText.of(name))", "a number of at most 38 digits",
                advice: "; write it as a string")
        case .array(let elements):
            for element in elements { checkIsJSON(element, of: name) }
        case .object:
            for (member, _) in entries(of: node, called: QuotedText.of(name), each: "key") {
                checkIsJSON(member.value, of: name)
            }
        default: break
        }
    }
}

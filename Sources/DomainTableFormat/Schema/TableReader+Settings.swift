import HTTPCore
import JSONText

/// Readers of the settings that all kinds of rows have in common.
extension TableReader {
    mutating func settings(_ row: Fields) -> SettingsEntry {
        var entry = SettingsEntry()
        entry.timeout = duration(row["timeout"], "timeout")
        entry.connectTimeout = duration(row["connectTimeout"], "connectTimeout")
        entry.idleTimeout = duration(row["idleTimeout"], "idleTimeout")
        entry.maxConnectionsPerHost = integer(row["maxConnectionsPerHost"], "maxConnectionsPerHost", 1...10_000)
        entry.retries = integer(row["retries"], "retries", 0...100)
        if let node = row["retry"] { readRetry(node, into: &entry) }
        if let node = row["events"] { entry.events = events(node) }
        if let node = row["tls"] { entry.tls = tls(node) }
        entry.limits = limits(row["limits"])
        entry.circuit = circuit(row["circuit"])
        entry.cache = choice(row["cache"], "cache", SettingsEntry.Cache.self)
        entry.ttl = timeToLive(row["ttl"])
        if (row["cache"] != nil) != (entry.cache != nil) || (row["ttl"] != nil) != (entry.ttl != nil) {
            hasBrokenCaching = true
        }
        entry.parameterEncoding = choice(
            row["parameterEncoding"], "parameterEncoding", SettingsEntry.ParameterEncoding.self)
        entry.dates = dates(row["dates"])
        entry.keys = choice(row["keys"], "keys", SettingsEntry.Keys.self)
        entry.proxy = proxy(row["proxy"])
        entry.redirects = redirects(row["redirects"])
        entry.simulate = simulation(row["simulate"])
        entry.envelope = envelope(row["envelope"])
        entry.volatileParameters = names(row["volatileParameters"], "volatileParameters", areHeaders: false)
        entry.cachePartition = name(row["cachePartition"], "cachePartition", "the name of a cache partition")
        entry.authenticator = named(row["authenticator"], "authenticator", "an authenticator")
        entry.sealer = named(row["sealer"], "sealer", "a sealer")
        entry.compressBody = compression(row["compressBody"])
        entry.secretHeaders = names(row["secretHeaders"], "secretHeaders", areHeaders: true)
        entry.headers = headers(row["headers"])
        entry.parameters = parameters(row["parameters"])
        return entry
    }

    private mutating func timeToLive(_ node: JSON5Node?) -> Located<SettingsEntry.TimeToLive>? {
        guard let node else { return nil }
        if case .string(let text) = node.value {
            if text == "forever" { return located(.forever, node) }
            let sliding = "sliding "
            if text.hasPrefix(sliding), let duration = DurationText.parse(String(text.dropFirst(sliding.count))),
                duration > .zero
            {
                return located(.sliding(duration), node)
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
        return duration(node, "ttl").map { located(.fixed($0.value), node) }
    }

    private mutating func dates(_ node: JSON5Node?) -> Located<SettingsEntry.Dates>? {
        let words: [String: SettingsEntry.Dates] = [
            "iso8601": .iso8601, "unixSeconds": .unixSeconds, "unixMilliseconds": .unixMilliseconds,
            "secondsSince2001": .secondsSince2001,
        ]
        let expected =
            #""iso8601", "unixSeconds", "unixMilliseconds", "secondsSince2001" or a pattern such as "yyyy-MM-dd HH:mm:ss""#
        guard let node, let text = text(node, "dates", expected)?.value else { return nil }
        if let dates = words[text] { return located(dates, node) }
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
        return located(.pattern(text), node)
    }

    private mutating func proxy(_ node: JSON5Node?) -> Located<SettingsEntry.Proxy>? {
        let expected = #"a proxy's URL, "direct" or "environment""#
        guard let node, let proxy = text(node, "proxy", expected) else { return nil }
        if proxy.value == "direct" { return located(.direct, node) }
        if proxy.value == "environment" { return located(.environment, node) }
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
        return located(.url(proxy.value), node)
    }

    private mutating func named(_ node: JSON5Node?, _ key: String, _ what: String) -> Located<SettingsEntry.Named>? {
        guard let node else { return nil }
        if case .null = node.value { return located(.none, node) }
        return name(node, key, "the name of \(what), or null for none").map { located(.named($0.value), node) }
    }

    private mutating func compression(_ node: JSON5Node?) -> Located<SettingsEntry.Compression>? {
        guard let node else { return nil }
        if case .null = node.value { return located(.none, node) }
        guard let text = text(node, "compressBody", "\"gzip\", or null for none")?.value else { return nil }
        guard text == "gzip" else {
            reportChoice(node, text, "compressBody", ["gzip"])
            return nil
        }
        return located(.gzip, node)
    }

    private mutating func redirects(_ node: JSON5Node?) -> Located<SettingsEntry.Redirects>? {
        guard let node else { return nil }
        switch node.value {
        case .string("automatic"): return located(.automatic, node)
        case .string("none"): return located(.none, node)
        case .string(let text):
            reportChoice(node, text, "redirects", ["automatic", "none"])
            return nil
        case .number(let number):
            if let limit = number.integer, (0...100).contains(limit) {
                return located(limit == 0 ? .none : .follow(limit: Int(limit)), node)
            }
            fallthrough
        default:
            reportType(node, "\"redirects\"", #""automatic", "none" or a number of hops from 0 to 100"#)
            return nil
        }
    }

    private mutating func simulation(_ node: JSON5Node?) -> Located<SettingsEntry.Simulation>? {
        guard let node else { return nil }
        if case .null = node.value { return located(.off, node) }
        guard let row = fields(of: node, in: .simulate, called: "\"simulate\"") else { return nil }
        let delay = duration(row["delay"], "delay", isZeroAllowed: true)?.value
        switch (row["directory"], row["baseURL"]) {
        case (let directory?, nil):
            return name(directory, "directory", "the path of a folder")
                .map { located(.directory($0.value, delay: delay), node) }
        case (nil, let url?):
            return address(url, "baseURL").map { located(.baseURL($0.0.value, delay: delay), node) }
        default:
            report(
                node.range, "\"simulate\" must have either \"directory\" or \"baseURL\"",
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

    private mutating func names(_ node: JSON5Node?, _ key: String, areHeaders: Bool) -> Located<[String]>? {
        let expected = "the name of a \(areHeaders ? "header" : "parameter")"
        guard let node, let texts = texts(node, key, each: expected) else { return nil }
        for (text, element) in texts {
            if text.isEmpty { reportType(element, "an element of \"\(key)\"", expected) }
            if areHeaders { checkHeaderName(text, element.range) }
        }
        return located(texts.map(\.0), node)
    }

    private mutating func parameters(_ node: JSON5Node?) -> [(name: String, value: Located<JSON5Node>)] {
        entries(of: node, called: "\"parameters\"", each: "parameter").map { member, _ in
            checkIsJSON(member.value, of: member.key)
            return (member.key, located(member.value, member.value))
        }
    }

    /// Reports infinite numbers and NaN, which JSON5 has and JSON does not.
    private mutating func checkIsJSON(_ node: JSON5Node, of name: String) {
        switch node.value {
        case .number(let number) where !number.double.isFinite:
            reportType(node, "the parameter \(QuotedText.of(name))", "a JSON value")
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

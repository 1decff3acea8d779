import JSONText

/// Readers of the settings that are objects: `retry`, `events`, `limits`, `circuit` and `tls`.
extension TableReader {
    mutating func readRetry(_ node: JSON5Node, into entry: inout SettingsEntry) {
        guard let row = fields(of: node, in: .retry, called: "\"retry\"") else { return }
        if let retries = integer(row["retries"], "retries", 0...100) {
            if let short = entry.retries { reportTwice("retries", retries, first: short) }
            entry.retries = retries
        }
        entry.retry.statuses = statuses(row["statuses"])
        entry.retry.firstWait = duration(row["firstWait"], "firstWait")
        entry.retry.longestWait = duration(row["longestWait"], "longestWait")
        entry.retry.longestRetryAfter = duration(row["longestRetryAfter"], "longestRetryAfter", isZeroAllowed: true)
        entry.retry.repeatsOnlyIdempotent = flag(row["repeatsOnlyIdempotent"], "repeatsOnlyIdempotent")
    }

    private mutating func statuses(_ node: JSON5Node?) -> Located<Set<Int>>? {
        guard let node, let elements = array(node, "statuses", of: "statuses", hasTexts: false, hasNumbers: true)
        else { return nil }
        var statuses: Set<Int> = []
        for element in elements {
            guard case .number(let number) = element.value, let status = number.integer, (100...599).contains(status)
            else {
                reportType(element, "an element of \"statuses\"", "a status from 100 to 599")
                continue
            }
            statuses.insert(Int(status))
        }
        return located(statuses, node)
    }

    // MARK: Events

    mutating func events(_ node: JSON5Node) -> SettingsEntry.Events {
        var entry = SettingsEntry.Events()
        guard let row = fields(of: node, in: .events, called: "\"events\"") else { return entry }
        entry.reconnect = flag(row["reconnect"], "reconnect")
        entry.firstWait = duration(row["firstWait"], "firstWait")
        entry.longestWait = duration(row["longestWait"], "longestWait")
        entry.attempts = integer(row["attempts"], "attempts", 1...1_000_000)
        entry.statuses = statuses(row["statuses"])
        entry.eventLimit = integer(row["eventLimit"], "eventLimit", 1...1_073_741_824)
        entry.endsAt = name(
            row["endsAt"], "endsAt", #"the data of an event that ends the stream, such as "[DONE]""#)
        if let first = entry.firstWait, let longest = entry.longestWait, first.value > longest.value,
            let node = row["firstWait"]
        {
            reportType(node, "\"firstWait\"", "at most \"longestWait\"")
        }
        return entry
    }

    // MARK: Limits

    mutating func limits(_ node: JSON5Node?) -> Located<SettingsEntry.Limits>? {
        guard let node else { return nil }
        var limits = SettingsEntry.Limits()
        if case .null = node.value { return located(limits, node) }
        guard let row = fields(of: node, in: .limits, called: "\"limits\"") else { return nil }
        let mostRequests = integer(row["maxConcurrentRequests"], "maxConcurrentRequests", 1...1_000_000)
        limits.maxConcurrentRequests = mostRequests?.value
        guard let rate = row["rate"] else { return located(limits, node) }
        if case .number = rate.value {
            limits.perSecond = perSecond(rate, "rate")
        } else if let fields = fields(of: rate, in: .rate, called: "\"rate\"") {
            limits.perSecond = fields["perSecond"].flatMap { perSecond($0, "perSecond") }
            limits.burst = integer(fields["burst"], "burst", 1...1_000_000)?.value
            if fields.lacks("perSecond") {
                report(
                    rate.range.lowerBound..<(rate.range.lowerBound + 1),
                    "the rate has no \"perSecond\"; write the requests per second, such as perSecond: 20",
                    expected: "\"perSecond\"")
            }
        }
        return located(limits, node)
    }

    private mutating func perSecond(_ node: JSON5Node, _ key: String) -> Double? {
        if case .number(let number) = node.value, number.double > 0, number.double.isFinite { return number.double }
        reportType(node, "\"\(key)\"", "a number of requests per second above 0")
        return nil
    }

    mutating func circuit(_ node: JSON5Node?) -> Located<SettingsEntry.Circuit>? {
        guard let node else { return nil }
        if case .null = node.value { return located(.none, node) }
        guard let row = fields(of: node, in: .circuit, called: "\"circuit\"") else { return nil }
        let failures = integer(row["failures"], "failures", 1...1_000_000)?.value
        let pause = duration(row["pause"], "pause")?.value
        let statuses = statuses(row["statuses"])?.value
        return located(.breaker(failures: failures, pause: pause, statuses: statuses), node)
    }

    // MARK: TLS

    mutating func tls(_ node: JSON5Node) -> SettingsEntry.TLS {
        var entry = SettingsEntry.TLS()
        guard let row = fields(of: node, in: .tls, called: "\"tls\"") else { return entry }
        entry.caFile = name(row["caFile"], "caFile", "the path of a PEM file of trusted certificates")
        entry.minimumVersion = choice(row["minimumVersion"], "minimumVersion", SettingsEntry.TLSVersion.self)
        entry.pins = pins(row["pins"])
        entry.clientCertificate = clientCertificate(row["clientCertificate"])
        return entry
    }

    private mutating func clientCertificate(_ node: JSON5Node?) -> Located<SettingsEntry.ClientCertificate>? {
        guard let node, let row = fields(of: node, in: .clientCertificate, called: "\"clientCertificate\"") else {
            return nil
        }
        let password = password(row)
        switch (row["file"], row["certificate"], row["key"]) {
        case (let file?, nil, nil):
            guard let file = name(file, "file", "the path of a PKCS#12 file")?.value else { return nil }
            return located(.pkcs12(file: file, password), node)
        case (nil, let certificate?, let key?):
            let what = "the path of a PEM file of the "
            guard let certificate = name(certificate, "certificate", what + "certificate")?.value,
                let key = name(key, "key", what + "key")?.value
            else { return nil }
            return located(.pem(certificate: certificate, key: key, password), node)
        default:
            guard row.mistyped.isDisjoint(with: ["file", "certificate", "key"]) else { return nil }
            let expected = "either \"file\" (PKCS#12), or \"certificate\" and \"key\" (PEM)"
            report(node.range, "\"clientCertificate\" must have \(expected)", expected: expected)
            return nil
        }
    }

    private mutating func password(_ row: Fields) -> SettingsEntry.Password {
        let expected = #"the name of an environment variable, such as "CLIENT_KEY_PASSWORD""#
        let variable = text(row["passwordVariable"], "passwordVariable", expected)
        guard let node = row["password"] else {
            guard let node = row["passwordVariable"], let name = variable?.value else { return .none }
            let isName = name.utf8.allSatisfy { $0.isDigit || $0 == 0x5F || (0x41...0x5A).contains($0 & 0xDF) }
            guard isName, name.utf8.first?.isDigit == false else {
                reportType(node, "\"passwordVariable\"", expected)
                return .none
            }
            return .variable(name)
        }
        guard case .string(let text) = node.value else {
            report(node.range, "\"password\" must be a string", expected: "a string")
            return .none
        }
        if let variable {
            reportTwice("the password", variable, first: located(text, node))
        } else {
            report(
                node.range,
                "\"password\" is visible to everyone who reads the file; name an environment variable with "
                    + "\"passwordVariable\"", severity: .warning)
        }
        return .text(text)
    }

    mutating func pins(_ node: JSON5Node?) -> Located<[String]>? {
        guard let node, let texts = texts(node, "pins", each: "a pin") else { return nil }
        let expected = "\"sha256//\" and the Base64 of 32 bytes"
        for (text, element) in texts where !HTTPText.isPin(text) {
            var advice = ""
            if text.hasPrefix("sha256/"), HTTPText.isPin("sha256//" + text.dropFirst(7)) {
                advice = "; write two slashes after sha256"
            } else if text.utf8.count == 64, text.allSatisfy(\.isHexDigit) {
                advice = "; this is hexadecimal, write it as Base64"
            }
            reportType(element, "a pin", expected, advice: advice)
        }
        return located(texts.map(\.0), node)
    }
}

import HTTPCore
import JSONText

/// Readers of limits, circuits, client certificates and pins.
extension TableReader {
    mutating func statuses(_ node: JSON5Node) -> Set<Int>? {
        guard let elements = array(node, "statuses", of: "statuses", hasTexts: false, hasNumbers: true) else {
            return nil
        }
        var statuses: Set<Int> = []
        for element in elements {
            guard case .number(let number) = element.value, let status = number.integer, (100...599).contains(status)
            else {
                reportType(element, "an element of \"statuses\"", "a status from 100 to 599")
                continue
            }
            statuses.insert(Int(status))
        }
        return statuses
    }

    /// Statuses, and for a class such as `"4XX"` its first digit.
    mutating func documentedStatuses(_ node: JSON5Node) -> Set<Int>? {
        guard let elements = array(node, "statuses", of: "statuses", hasTexts: false, hasNumbers: true) else {
            return nil
        }
        var statuses: Set<Int> = []
        for element in elements {
            switch element.value {
            case .number(let number):
                if let status = number.integer, (100...599).contains(status) {
                    statuses.insert(Int(status))
                    continue
                }
            case .string(let text):
                if text.count == 3, text.hasSuffix("XX"), let digit = text.first?.wholeNumberValue,
                    (1...5).contains(digit)
                {
                    statuses.insert(digit)
                    continue
                }
            default: break
            }
            reportType(
                element, "an element of \"statuses\"", "a status from 100 to 599, or a class of them such as \"4XX\"")
        }
        return statuses
    }

    // MARK: Limits

    mutating func limits(_ node: JSON5Node) -> RequestLimits? {
        var limits = RequestLimits()
        if case .null = node.value { return limits }
        if case .string = node.value {
            guard choice(node, "limits", AdaptiveWord.self) != nil else { return nil }
            limits.adaptive = RequestLimits.Adaptive()
            return limits
        }
        guard let row = fields(of: node, in: .limits, called: "\"limits\"") else { return nil }
        let mostRequests = integer(row["maxConcurrentRequests"], "maxConcurrentRequests", 1...1_000_000)
        limits.maxConcurrentRequests = mostRequests?.value
        limits.followsServer = flag(row["followsServer"], "followsServer")?.value ?? false
        limits.adaptive = adaptive(row)
        if let most = limits.maxConcurrentRequests, let floor = limits.adaptive?.floor, floor > most,
            let node = row["floor"]
        {
            report(
                node.range, "the floor \(floor) is above \"maxConcurrentRequests\", which is \(most)",
                expected: "a number up to \(most)")
        }
        guard let rate = row["rate"] else { return limits }
        if case .number = rate.value {
            limits.rate = perSecond(rate, "rate").map { RequestLimits.RateLimit(perSecond: $0) }
        } else if let fields = fields(of: rate, in: .rate, called: "\"rate\"") {
            let number = fields["perSecond"].flatMap { perSecond($0, "perSecond") }
            let burst = integer(fields["burst"], "burst", 1...1_000_000)?.value
            limits.rate = number.map { RequestLimits.RateLimit(perSecond: $0, burst: burst ?? 1) }
            if fields.lacks("perSecond") {
                report(
                    rate.range.lowerBound..<(rate.range.lowerBound + 1),
                    "the rate has no \"perSecond\"; write the requests per second, such as perSecond: 20",
                    expected: "\"perSecond\"")
            }
        }
        return limits
    }

    private enum AdaptiveWord: String, CaseIterable {
        case adaptive
    }

    private mutating func adaptive(_ row: Fields) -> RequestLimits.Adaptive? {
        var adaptive = RequestLimits.Adaptive()
        let range = 1...RequestLimits.Adaptive.largest
        let floor = integer(row["floor"], "floor", range)
        let ceiling = integer(row["ceiling"], "ceiling", range)
        guard let node = row["concurrency"] else {
            for bound in [row["floor"], row["ceiling"]].compactMap(\.self) where !row.mistyped.contains("concurrency") {
                let expected = #"concurrency: "adaptive""#
                report(bound.range, "a bound without \(expected) has no effect; add it", expected: expected)
            }
            return nil
        }
        guard choice(node, "concurrency", AdaptiveWord.self) != nil else { return nil }
        if let floor { adaptive.floor = floor.value }
        adaptive.ceiling = ceiling?.value ?? max(adaptive.ceiling, adaptive.floor)
        if let ceiling, ceiling.value < adaptive.floor {
            report(
                ceiling.range, "the ceiling \(ceiling.value) is below the floor \(adaptive.floor)",
                expected: "a number from \(adaptive.floor)")
            return nil
        }
        return adaptive
    }

    // MARK: Hedges

    mutating func hedge(_ node: JSON5Node) -> RequestOptions.Hedge? {
        if case .null = node.value { return .off }
        guard let row = fields(of: node, in: .hedge, called: "\"hedge\"") else { return nil }
        var hedge = RequestOptions.Hedge()
        if let after = row["after"] {
            guard let delay = hedgeDelay(after) else { return nil }
            hedge.after = delay
        }
        hedge.initially = duration(row["initially"], "initially")?.value
        if case .time = hedge.after, let node = row["initially"] {
            let expected = #"a percentile as "after", such as "p95""#
            report(node.range, "\"initially\" has no effect with a fixed time; give \(expected)", expected: expected)
        }
        if let attempts = integer(row["attempts"], "attempts", 1...RequestOptions.Hedge.mostAttempts) {
            hedge.attempts = attempts.value
        }
        guard let share = row["share"] else { return hedge }
        guard case .number(let number) = share.value, number.double > 0, number.double <= 1 else {
            reportType(share, "\"share\"", "a number above 0 and at most 1, such as 0.05")
            return nil
        }
        hedge.share = number.double
        return hedge
    }

    private mutating func hedgeDelay(_ node: JSON5Node) -> RequestOptions.Hedge.Delay? {
        if case .string(let text) = node.value {
            let digits = text.dropFirst()
            if text.hasPrefix("p"), digits.allSatisfy({ $0 == "." || $0.isASCII && $0.isNumber }),
                let percentile = Double(digits), RequestOptions.Hedge.percentiles.contains(percentile)
            {
                return .percentile(percentile)
            }
            if let time = DurationText.parse(text), time > .zero { return .time(time) }
        }
        reportType(node, "\"after\"", #"a percentile from "p50" to "p99.9", or a time such as "200ms""#)
        return nil
    }

    private mutating func perSecond(_ node: JSON5Node, _ key: String) -> Double? {
        if case .number(let number) = node.value, number.double > 0, number.double.isFinite { return number.double }
        reportType(node, "\"\(key)\"", "a number of requests per second above 0")
        return nil
    }

    mutating func circuit(_ node: JSON5Node) -> RequestLimits.CircuitChoice? {
        if case .null = node.value { return .off }
        guard let row = fields(of: node, in: .circuit, called: "\"circuit\"") else { return nil }
        var policy = RequestLimits.CircuitBreakerPolicy()
        if let failures = integer(row["failures"], "failures", 1...1_000_000) { policy.failures = failures.value }
        if let pause = duration(row["pause"], "pause") { policy.pause = pause.value }
        if let statuses = row["statuses"].flatMap({ statuses($0) }) { policy.statuses = statuses }
        return .breaker(policy)
    }

    // MARK: TLS

    mutating func clientCertificate(_ node: JSON5Node) -> DomainTable.ClientCertificateRule? {
        guard let row = fields(of: node, in: .clientCertificate, called: "\"clientCertificate\"") else { return nil }
        let (password, variable) = password(row)
        func path(_ key: String, _ what: String) -> String? {
            name(row[key], key, "the path of a \(what)").map { file($0.value, "clientCertificate", node) }
        }
        switch (row["file"], row["certificate"], row["key"]) {
        case (_?, nil, nil):
            guard let file = path("file", "PKCS#12 file") else { return nil }
            return DomainTable.ClientCertificateRule(
                .pkcs12(path: file, password: password ?? ""), passwordVariable: variable)
        case (nil, _?, _?):
            guard let certificate = path("certificate", "PEM file of the certificate"),
                let key = path("key", "PEM file of the key")
            else { return nil }
            return DomainTable.ClientCertificateRule(
                .pem(certificate: certificate, key: key, password: password), passwordVariable: variable)
        default:
            guard row.mistyped.isDisjoint(with: ["file", "certificate", "key"]) else { return nil }
            let expected = "either \"file\" (PKCS#12), or \"certificate\" and \"key\" (PEM)"
            report(node.range, "\"clientCertificate\" must have \(expected)", expected: expected)
            return nil
        }
    }

    /// Reads a password, or the name of the environment variable that holds it.
    private mutating func password(_ row: Fields) -> (text: String?, variable: String?) {
        let expected = #"the name of an environment variable, such as "CLIENT_KEY_PASSWORD""#
        let variable = text(row["passwordVariable"], "passwordVariable", expected)
        guard let node = row["password"] else {
            guard let node = row["passwordVariable"], let name = variable?.value else { return (nil, nil) }
            let isName = name.utf8.allSatisfy { $0.isDigit || $0 == 0x5F || (0x41...0x5A).contains($0 & 0xDF) }
            guard isName, name.utf8.first?.isDigit == false else {
                reportType(node, "\"passwordVariable\"", expected)
                return (nil, nil)
            }
            return (nil, name)
        }
        guard case .string(let text) = node.value else {
            report(node.range, "\"password\" must be a string", expected: "a string")
            return (nil, nil)
        }
        if let variable {
            reportTwice("the password", variable.range, node.range)
        } else {
            report(
                node.range,
                "\"password\" is visible to everyone who reads the file; name an environment variable with "
                    + "\"passwordVariable\"", severity: .warning)
        }
        return (text, nil)
    }

    mutating func pins(_ node: JSON5Node) -> [String]? {
        guard let texts = texts(node, "pins", each: "a pin") else { return nil }
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
        return texts.map(\.0)
    }
}

extension ValueKind<DomainTable.ClientCertificateRule> {
    static var clientCertificate: Self {
        ValueKind(
            ValueForm(
                "`{ file }` (PKCS#12) or `{ certificate, key }` (PEM), and `passwordVariable`",
                schema: ##"{ "$ref": "#/$defs/clientCertificate" }"##),
            read: { reader, node, _ in reader.clientCertificate(node) },
            text: { rule in "\(rule.certificate)" + (rule.passwordVariable.map { ", password in \($0)" } ?? "") })
    }
}

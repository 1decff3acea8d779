/// Readers of simple values. They return `nil` for a missing value, and report and return `nil` for an invalid one.
extension TableReader {
    mutating func text(_ node: JSON5Node?, _ key: String, _ expected: String = "a string") -> Located<String>? {
        guard let node else { return nil }
        guard case .string(let text) = node.value else {
            var advice = ""
            if case .number(let number) = node.value, expected == "a string" { advice = "; write \"\(number.text)\"" }
            reportType(node, "\"\(key)\"", expected, advice: advice)
            return nil
        }
        return located(text, node)
    }

    mutating func flag(_ node: JSON5Node?, _ key: String) -> Located<Bool>? {
        guard let node else { return nil }
        guard case .bool(let flag) = node.value else {
            reportType(node, "\"\(key)\"", "true or false")
            return nil
        }
        return located(flag, node)
    }

    mutating func integer(_ node: JSON5Node?, _ key: String, _ range: ClosedRange<Int>) -> Located<Int>? {
        guard let node else { return nil }
        guard case .number(let number) = node.value, let value = number.integer, let integer = Int(exactly: value),
            range.contains(integer)
        else {
            reportType(node, "\"\(key)\"", "a whole number from \(range.lowerBound) to \(range.upperBound)")
            return nil
        }
        return located(integer, node)
    }

    mutating func duration(_ node: JSON5Node?, _ key: String, isZeroAllowed: Bool = false) -> Located<Duration>? {
        guard let node else { return nil }
        guard case .string(let text) = node.value, let duration = DurationText.parse(text) else {
            reportType(node, "\"\(key)\"", DurationText.expectation, advice: Self.durationAdvice(node))
            return nil
        }
        guard duration > .zero || isZeroAllowed else {
            reportType(node, "\"\(key)\"", "longer than zero")
            return nil
        }
        return located(duration, node)
    }

    private static func durationAdvice(_ node: JSON5Node) -> String {
        switch node.value {
        case .number(let number) where number.double > 0: return "; write \"\(number.text)s\" for seconds"
        case .string(let text):
            let written = text.lowercased().filter { $0 != " " }
            let number = written.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            let units = [
                "": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m",
                "minutes": "m", "hour": "h", "hours": "h", "hr": "h", "day": "d", "days": "d", "msec": "ms",
                "milliseconds": "ms", "s": "s", "m": "m", "h": "h", "d": "d", "ms": "ms",
            ]
            guard !number.isEmpty, let unit = units[String(written.dropFirst(number.count))],
                DurationText.parse(number + unit) != nil
            else { return "" }
            return "; did you mean \"\(number)\(unit)\"?"
        default: return ""
        }
    }

    /// Reads one of several allowed words.
    mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ node: JSON5Node?, _ key: String, _ type: Choice.Type
    ) -> Located<Choice>? where Choice.RawValue == String {
        guard let node else { return nil }
        let words = Choice.allCases.map(\.rawValue)
        guard case .string(let text) = node.value else {
            reportType(node, "\"\(key)\"", Self.oneOf(words))
            return nil
        }
        guard let choice = Choice(rawValue: text) else {
            reportChoice(node, text, key, words)
            return nil
        }
        return located(choice, node)
    }

    mutating func reportChoice(_ node: JSON5Node, _ text: String, _ key: String, _ words: [String]) {
        let suggestion = NearestName.of(text, among: words)
        let advice = suggestion.map { "; did you mean \"\($0)\"?" } ?? "; expected \(Self.oneOf(words))"
        report(
            node.range, "unknown value \(QuotedText.of(text)) of \"\(key)\"\(advice)", expected: Self.oneOf(words),
            found: node.phrase, suggestion: suggestion)
    }

    static func oneOf(_ words: [String]) -> String {
        let quoted = words.map { "\"\($0)\"" }
        guard quoted.count > 1, let last = quoted.last else { return quoted.first ?? "" }
        return quoted.dropLast().joined(separator: ", ") + " or " + last
    }

    /// Reads an array of strings, each with its node.
    mutating func texts(_ node: JSON5Node?, _ key: String, each expected: String) -> [(String, JSON5Node)]? {
        guard let node else { return nil }
        guard case .array(let elements) = node.value else {
            var advice = ""
            if case .string(let text) = node.value { advice = "; write [\(QuotedText.of(text))]" }
            reportType(node, "\"\(key)\"", "an array of strings", advice: advice)
            return nil
        }
        var texts: [(String, JSON5Node)] = []
        for element in elements {
            guard case .string(let text) = element.value else {
                reportType(element, "an element of \"\(key)\"", expected)
                continue
            }
            texts.append((text, element))
        }
        return texts
    }

    // MARK: Addresses

    /// Reads and checks a base URL.
    mutating func address(_ node: JSON5Node?, _ key: String) -> (Located<String>, HTTPAddress)? {
        guard let node, let url = text(node, key, HTTPAddress.expectation) else { return nil }
        do throws(HTTPAddress.Problem) {
            let address = try HTTPAddress(url.value)
            if address.hasUserInformation {
                report(
                    node.range,
                    "\"\(key)\" contains a user name or password, visible to everyone who reads the file or a log; "
                        + "set request.authentication in code", severity: .warning)
            }
            return (url, address)
        } catch {
            let suggestion = error.suggestion.map { "; did you mean \(QuotedText.of($0))?" } ?? ""
            report(
                node.range,
                "\"\(key)\" must be \(HTTPAddress.expectation); \(QuotedText.of(url.value)) \(error.reason)\(suggestion)",
                expected: HTTPAddress.expectation, found: node.phrase, suggestion: error.suggestion)
            return nil
        }
    }
}

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

    /// Reads a string that is not empty.
    mutating func name(_ node: JSON5Node?, _ key: String, _ expected: String) -> Located<String>? {
        guard let node, let name = text(node, key, expected) else { return nil }
        guard name.value.isEmpty else { return name }
        reportType(node, "\"\(key)\"", expected)
        return nil
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

    mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ node: JSON5Node?, _ key: String, _ type: Choice.Type
    ) -> Located<Choice>? where Choice.RawValue == String {
        let words = Choice.allCases.map(\.rawValue)
        guard let node, let text = text(node, key, Self.oneOf(words))?.value else { return nil }
        guard let choice = Choice(rawValue: text) else {
            reportChoice(node, text, key, words)
            return nil
        }
        return located(choice, node)
    }

    mutating func reportChoice(_ node: JSON5Node, _ text: String, _ key: String, _ words: [String]) {
        let suggestion = NearestName.of(text, among: words)
        let expected = Self.oneOf(words)
        let advice = suggestion.map { "; did you mean \"\($0)\"?" } ?? "; expected \(expected)"
        report(
            node.range, "unknown value \(QuotedText.of(text)) of \"\(key)\"\(advice)", expected: expected,
            found: node.phrase, suggestion: suggestion)
    }

    private static func oneOf(_ words: [String]) -> String {
        let quoted = words.map { "\"\($0)\"" }
        guard quoted.count > 1, let last = quoted.last else { return quoted.first ?? "" }
        return quoted.dropLast().joined(separator: ", ") + " or " + last
    }

    /// Reads an array. For a lone string or number that could be its element, the message shows it in brackets.
    mutating func array(
        _ node: JSON5Node, _ key: String, of elements: String, hasTexts: Bool = true, hasNumbers: Bool = false
    ) -> [JSON5Node]? {
        var advice = ""
        switch node.value {
        case .array(let elements): return elements
        case .string(let text) where hasTexts: advice = "; write [\(QuotedText.of(text))]"
        case .number(let number) where hasNumbers: advice = "; write [\(number.text)]"
        default: break
        }
        reportType(node, "\"\(key)\"", "an array of \(elements)", advice: advice)
        return nil
    }

    /// Reads an array of strings, each with its node.
    mutating func texts(_ node: JSON5Node?, _ key: String, each expected: String) -> [(String, JSON5Node)]? {
        guard let node, let elements = array(node, key, of: "strings") else { return nil }
        return elements.compactMap { element in
            if case .string(let text) = element.value { return (text, element) }
            reportType(element, "an element of \"\(key)\"", expected)
            return nil
        }
    }

    // MARK: Addresses

    mutating func address(_ node: JSON5Node?, _ key: String) -> (Located<String>, HTTPAddress)? {
        guard let node, let url = text(node, key, HTTPAddress.expectation) else { return nil }
        do throws(HTTPAddress.Problem) {
            let address = try HTTPAddress(url.value)
            if address.scheme == "unix" { checkSocket(address.authority, key, node) }
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
                expected: HTTPAddress.expectation, found: node.phrase,
                // With a user it may have a password.
                suggestion: error.suggestion.flatMap { $0.contains("@") ? nil : $0 })
            return nil
        }
    }
}

import JSONText

// The messages of a document that is not JSON5.
extension SourceText {
    func diagnostics(missingCommas: [Range<Int>]) -> [DomainTable.Diagnostic] {
        missingCommas.prefix(TableReader.mostDiagnostics).map { token in
            error("expected \",\" before \(shown(token))", at: token, expected: "\",\"", found: shown(token))
        }
    }

    func diagnostic(_ failure: JSONFailure) -> DomainTable.Diagnostic {
        let range = failure.range
        let found = shown(range)
        switch failure.problem {
        case .empty: return error("the file is empty; expected { … }", at: range, expected: "an object")
        case .value: return unexpected("a value", at: range, adviceForValue(text(range)))
        case .name:
            let isNumber = range.lowerBound < bytes.count && (bytes[range.lowerBound].isDigit || found.hasPrefix("\"-"))
            return unexpected("a key", at: range, isNumber ? "; keys like this one need quotes" : "")
        case .colon(let name): return unexpected("\":\" after the key \(shown(key: name))", at: range)
        case .comma(let closing, let name):
            let place = name.map { "after the value of \(shown(key: $0))" } ?? "in the array"
            return unexpected("\",\" or \"\(Unicode.Scalar(closing))\" \(place)", at: range)
        case .end: return unexpected("the end of the file", at: range)
        case .openString(let quote):
            let isAtEnd = range.upperBound == bytes.count
            let problem = isAtEnd ? "the file ends inside the string" : "the string is not closed in its line"
            return error("\(problem); expected \(Unicode.Scalar(quote))", at: range)
        case .escape: return error("the file ends inside the string", at: range)
        case .number:
            let isDuration = text(range).first?.isNumber == true && DurationText.parse(text(range)) != nil
            let advice = isDuration ? "; durations are written in quotes: \(found)" : ""
            return error("\(found) is not a number\(advice)", at: range, expected: "a number", found: found)
        case .unclosed(let start, let closing):
            let bracket = "\"\(Unicode.Scalar(closing))\""
            let kind = closing == UInt8(ascii: "}") ? "object" : "array"
            let opened = "the \(kind) that begins in line \(position(of: start).line)"
            guard range.isEmpty else { return unexpected("\(bracket) to close \(opened)", at: range) }
            let message = "the file ends inside \(opened); expected \(bracket)"
            return error(message, at: range, expected: bracket, found: found)
        case .comment: return unexpected("a comment (// or /*) or a value", at: range)
        case .bareName: return error("the key \(found) needs quotes", at: range, found: found)
        case .other(let problem): return error(problem, at: range)
        }
    }

    private func adviceForValue(_ word: String) -> String {
        guard word.unicodeScalars.first?.beginsIdentifier == true else { return "" }
        return NearestName.of(word, among: ["true", "false", "null"]).map { "; did you mean \($0)?" }
            ?? "; strings need quotes"
    }

    private func unexpected(_ expected: String, at range: Range<Int>, _ advice: String = "") -> DomainTable.Diagnostic {
        let found = shown(range)
        return error("expected \(expected), found \(found)\(advice)", at: range, expected: expected, found: found)
    }

    private func error(
        _ message: String, at range: Range<Int>, expected: String? = nil, found: String? = nil
    ) -> DomainTable.Diagnostic {
        DomainTable.Diagnostic(.error, at: range, of: self, message, expected: expected, found: found)
    }

    private func shown(_ token: Range<Int>) -> String {
        token.isEmpty ? "the end of the file" : QuotedText.of(String(SourceExcerpt.parts(of: self, at: token).marked))
    }

    /// The key at a range, with or without quotes. It may be a value that stands where a key is expected.
    private func shown(key range: Range<Int>) -> String {
        let text = String(SourceExcerpt.parts(of: self, at: range).marked)
        let isQuoted = text.hasPrefix("\"") || text.hasPrefix("'")
        return QuotedText.of(isQuoted ? String(text.dropFirst().dropLast()) : text)
    }
}

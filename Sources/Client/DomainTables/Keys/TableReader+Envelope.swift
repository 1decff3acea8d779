import HTTPCore

/// The reader of envelopes.
extension TableReader {
    mutating func envelope(_ node: JSON5Node) -> DomainTable.EnvelopeChoice? {
        if case .null = node.value { return DomainTable.EnvelopeChoice.none }
        guard let row = fields(of: node, in: .envelope, called: "\"envelope\"") else { return nil }
        var rule = Envelope.Rule(
            code: path(row["code"], "code") ?? "", message: path(row["message"], "message"),
            data: path(row["data"], "data"), success: [])
        let start = node.range.lowerBound..<(node.range.lowerBound + 1)
        if row.lacks("code") {
            report(
                start, #"the envelope has no "code"; write its path, such as code: "status""#, expected: "\"code\"")
        }
        if let success = row["success"] {
            rule.success = codes(success)
        } else if row.lacks("success") {
            report(
                start, #"the envelope has no "success"; write the codes that mean success, such as success: [0]"#,
                expected: "\"success\"")
        }
        rule.messages = messages(row["messages"], "messages", each: "message")
        return .rule(rule)
    }

    mutating func errors(_ node: JSON5Node) -> DomainTable.ErrorChoice? {
        if case .null = node.value { return DomainTable.ErrorChoice.none }
        guard let row = fields(of: node, in: .errors, called: "\"errors\"") else { return nil }
        let rule = Envelope.ErrorRule(
            code: path(row["code"], "code") ?? "", message: path(row["message"], "message"),
            details: path(row["details"], "details"), messages: messages(row["messages"], "messages", each: "message"),
            names: messages(row["names"], "names", each: "name"))
        if row.lacks("code") {
            report(
                node.range.lowerBound..<(node.range.lowerBound + 1),
                #""errors" has no "code"; write its path, such as code: "error.code""#, expected: "\"code\"")
        }
        return .rule(rule)
    }

    /// Reads a path, such as `a.b`.
    mutating func path(_ node: JSON5Node?, _ key: String) -> String? {
        let expected = #"a path such as "status" or "result.code""#
        guard let node, let text = text(node, key, expected) else { return nil }
        guard !text.value.split(separator: ".", omittingEmptySubsequences: false).contains(where: \.isEmpty) else {
            reportType(node, "\"\(key)\"", expected, advice: "; a name between the dots is empty")
            return nil
        }
        return text.value
    }

    /// Reads codes as text. A number has the form that it has in a response: 10000 also for 1e4 and 0x2710.
    private mutating func codes(_ node: JSON5Node) -> Set<String> {
        guard let elements = array(node, "success", of: "numbers and strings", hasNumbers: true) else { return [] }
        if elements.isEmpty {
            report(node.range, "\"success\" is empty, so no response could succeed", expected: "at least one code")
        }
        var codes: Set<JSONValue> = []
        for element in elements {
            switch element.value {
            case .number(let number) where !number.double.isFinite: fallthrough
            case .null, .bool, .array, .object:
                reportType(element, "an element of \"success\"", "a number or a string")
            case .number, .string:
                if !codes.insert(JSONValue(element.value)).inserted {
                    report(element.range, "\"success\" contains \(element.phrase) twice", severity: .warning)
                }
            }
        }
        return Set(codes.map { if case .string(let text) = $0 { text } else { $0.description } })
    }

    private mutating func messages(_ node: JSON5Node?, _ key: String, each: String) -> [String: String] {
        var messages: [String: String] = [:]
        for (member, isFirst) in entries(of: node, called: "\"\(key)\"", each: each) {
            if let text = text(member.value, member.key), isFirst { messages[member.key] = text.value }
        }
        return messages
    }
}

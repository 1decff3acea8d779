import HTTPCore

extension DomainTable {
    /// Where a table is for production: `production` of the table.
    package enum Production: Hashable, Sendable {
        /// In every environment, or in none.
        case always(Bool)
        /// In the environments of these names.
        case environments([String])

        func holds(in environment: String?) -> Bool {
            switch self {
            case .always(let holds): holds
            // Without an environment nobody has said that it is another one.
            case .environments(let names): environment.map(names.contains) ?? true
            }
        }

        /// What holds when a version of a table is replaced by another one. What was for production stays so: a version that
        /// says nothing about it must not bring faults there.
        static func joined(_ old: Located<Self>?, _ new: Located<Self>?) -> Located<Self>? {
            guard let old, let new else { return new ?? old }
            switch (old.value, new.value) {
            case (.always(false), _), (_, .always(true)): return new
            case (.always(true), _), (_, .always(false)): return old
            case (.environments(let names), .environments(let newNames)):
                let lost = names.filter { !newNames.contains($0) }
                guard !lost.isEmpty else { return new }
                var joined = new
                joined.value = .environments(newNames + lost)
                return joined
            }
        }

        /// The error of a row that makes faults on purpose.
        ///
        /// - Parameters:
        ///   - row: the row, for the message.
        ///   - place: where the table says that it is for production.
        static func refusal(
            of row: String, _ origin: SettingOrigin?, _ place: SettingOrigin, in table: String
        ) -> NetworkError {
            .invalidRequest(
                "chaos of \(row)\(origin.map { " (\($0))" } ?? "") makes faults on purpose, and \(table) says production "
                    + "(\(place)); remove chaos, or use another environment or table")
        }
    }
}

extension TableContents {
    /// Where the table says that it is for production, if it is in its environment.
    var productionPlace: DomainTable.SettingOrigin? {
        guard let rule = fileProduction, rule.value.holds(in: environment.wrappedValue) else { return nil }
        return .file(rule.position)
    }
}

extension DomainTable {
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for settings that make faults on purpose in a table for production.
    func checkFaults(_ settings: RouteSettings, of row: String) throws(NetworkError) {
        guard settings.chaos?.isOn == true, let productionPlace else { return }
        throw Production.refusal(of: row, .code, productionPlace, in: name)
    }
}

/// Readers of `production` and `chaos`.
extension TableReader {
    /// Reads for which environments the table is for production, and reports the rows that it then forbids.
    mutating func production(_ node: JSON5Node) -> Located<DomainTable.Production>? {
        let expected = "true, false, or an array of environments"
        switch node.value {
        case .bool(let holds):
            if holds {
                let line = source.position(of: node.range.lowerBound).line
                for fault in faults {
                    report(
                        fault.range,
                        "\"chaos\" makes faults on purpose, and the table says production in line \(line); remove it, or "
                            + "keep it in a table for staging")
                }
            }
            return located(.always(holds), node)
        case .array(let elements) where !elements.isEmpty:
            let known = Set(file.domains.flatMap { $0.row.environments.keys }).sorted()
            let names = texts(node, "production", each: "the name of an environment") ?? []
            for (name, element) in names where !known.contains(name) {
                let advice = NearestName.advice(name, among: known, allCalled: "environments")
                report(
                    element.range, "unknown environment \(QuotedText.of(name))\(advice)",
                    expected: "the name of an environment", found: element.phrase,
                    suggestion: NearestName.of(name, among: known))
            }
            return located(.environments(names.map(\.0)), node)
        case .string(let text):
            reportType(node, "\"production\"", expected, advice: "; write [\(QuotedText.of(text))]")
        default: reportType(node, "\"production\"", expected)
        }
        return nil
    }

    mutating func chaos(_ node: JSON5Node) -> RequestOptions.Chaos? {
        if case .null = node.value { return .off }
        guard let row = fields(of: node, in: .chaos, called: "\"chaos\"") else { return nil }
        var chaos = RequestOptions.Chaos()
        if let share = row["failures"].flatMap({ share($0, "failures") }) { chaos.failures = share }
        if let share = row["cut"].flatMap({ share($0, "cut") }) { chaos.cut = share }
        chaos.latency = row["latency"].flatMap { latency($0) }
        if let seed = integer(row["seed"], "seed", 0...Int.max) { chaos.seed = UInt64(seed.value) }
        if chaos.isOn { faults.append(node) }
        return chaos
    }

    private mutating func share(_ node: JSON5Node, _ key: String) -> Double? {
        if case .number(let number) = node.value, (0...1).contains(number.double) { return number.double }
        var advice = ""
        switch node.value {
        case .number(let number) where number.double > 1 && number.double <= 100:
            advice = "; write \(number.double / 100) for \(number.text) %"
        case .string(let text) where text.hasSuffix("%"):
            let percent = Double(text.dropLast().filter { $0 != " " })
            if let percent, (0...100).contains(percent) { advice = "; write \(percent / 100)" }
        default: break
        }
        reportType(node, "\"\(key)\"", "a share from 0 to 1, such as 0.01", advice: advice)
        return nil
    }

    /// Reads a duration, or two with `…` or `...` between them.
    private mutating func latency(_ node: JSON5Node) -> ClosedRange<Duration>? {
        let expected = #"a duration such as "300ms", or two, such as "200ms…2s""#
        guard case .string(let text) = node.value else {
            reportType(node, "\"latency\"", expected)
            return nil
        }
        let ends = text.split(separator: "...", maxSplits: 1, omittingEmptySubsequences: false)
            .flatMap { $0.split(separator: "…", maxSplits: 1, omittingEmptySubsequences: false) }
            .map { DurationText.parse(String($0.filter { $0 != " " })) }
        guard (1...2).contains(ends.count), let first = ends[0], let last = ends.last ?? nil else {
            let isDashed = text.split(separator: "-").count == 2
            let advice = isDashed ? "; write \(QuotedText.of(text.split(separator: "-").joined(separator: "…")))" : ""
            reportType(node, "\"latency\"", expected, advice: advice)
            return nil
        }
        guard first <= last else {
            reportType(node, "\"latency\"", "two durations of which the first is not longer")
            return nil
        }
        return first...last
    }
}

extension ValueKind<RequestOptions.Chaos> {
    static var chaos: Self {
        let share = #"{ "type": "number", "minimum": 0, "maximum": 1 }"#
        return ValueKind(
            ValueForm(
                "`{ failures: 0.01, latency: \"200ms…2s\", cut: 0.001, seed }`",
                schema: """
                    { "type": "object", "additionalProperties": false, "properties": { "failures": \(share), \
                    "latency": { "type": "string", "minLength": 2 }, "cut": \(share), \
                    "seed": { "type": "integer", "minimum": 0 } } }
                    """
            ).orNull("none"),
            read: { reader, node, _ in reader.chaos(node) },
            text: { chaos in
                var parts: [String] = []
                if chaos.failures > 0 { parts.append("failures \(chaos.failures)") }
                if let latency = chaos.latency {
                    let ends = [latency.lowerBound, latency.upperBound].map(DurationText.text)
                    parts.append("latency " + (ends[0] == ends[1] ? ends[0] : ends.joined(separator: "…")))
                }
                if chaos.cut > 0 { parts.append("cut \(chaos.cut)") }
                if let seed = chaos.seed, chaos.isOn { parts.append("seed \(seed)") }
                return parts.isEmpty ? "null" : parts.joined(separator: ", ")
            })
    }
}

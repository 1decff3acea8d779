import HTTPCore

/// A request field that lists languages, codings or character sets with weights, in any order (RFC 9110 §12.4.2).
struct WeightedList {
    struct Element: Equatable {
        /// The language, coding or character set, in lower case.
        var name: String
        /// In thousandths; 0 means not acceptable.
        var weight: Int
    }

    let elements: [Element]

    /// - Returns: `nil` when an element is malformed.
    init?(_ lines: [String]) {
        var elements: [Element] = []
        for text in lines.flatMap({ FieldList.elements(of: $0) }) {
            guard let element = Self.element(text.lowercased()) else { return nil }
            elements.append(element)
        }
        self.elements = elements
    }

    /// A text that is the same for all lists with the same meaning (RFC 9111 §4.1).
    var canonicalText: String {
        elements.sorted { ($0.name, $0.weight) < ($1.name, $1.weight) }
            .map { $0.weight == 1000 ? $0.name : "\($0.name);q=\($0.weight)" }.joined(separator: ",")
    }

    private static func element(_ text: String) -> Element? {
        let parts = text.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0]).trimmingFieldWhitespace
        guard !name.isEmpty else { return nil }
        guard parts.count > 1 else { return Element(name: name, weight: 1000) }
        let parameter = String(parts[1]).trimmingFieldWhitespace
        guard parameter.hasPrefix("q="), let weight = FieldList.weight(parameter.dropFirst(2)) else { return nil }
        return Element(name: name, weight: weight)
    }
}

/// Finds the stored response in the language that a request prefers, where the server chooses by `Accept-Language`.
enum LanguageRule {
    static let field = "accept-language"

    /// The language of a response; `nil` when it names none or several.
    static func language(of headers: HTTPHeaders) -> String? {
        let languages = headers[values: "Content-Language"].flatMap { FieldList.names($0) }
        return languages.count == 1 ? languages[0] : nil
    }

    /// Whether a request prefers this language to all others, so that the server has no better response. Language
    /// ranges are matched by basic filtering (RFC 4647 §3.3.1): the range `de` matches `de-CH`, but not the reverse.
    static func isBest(_ language: String, for request: HTTPRequest) -> Bool {
        guard let ranges = WeightedList(request.headers[values: field])?.elements,
            let best = ranges.max(by: { $0.weight < $1.weight }), best.weight > 0,
            ranges.count(where: { $0.weight == best.weight }) == 1
        else { return false }
        // The longest matching range sets the weight: `en, en-GB;q=0.1`.
        let fitting = ranges.filter { language == $0.name || language.hasPrefix($0.name + "-") }
        return fitting.max { $0.name.utf8.count < $1.name.utf8.count } == best
    }
}

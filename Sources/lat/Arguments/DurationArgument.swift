/// A length of time as it is written on the command line: `500ms`, `1.5s`, `2m`, `1h`.
enum DurationArgument {
    private static let units: [(name: String, microseconds: Double)] = [
        ("ms", 1e3), ("s", 1e6), ("m", 60e6), ("h", 3_600e6),
    ]
    /// What milliseconds in 31 bits hold, as timers of the system do.
    private static let longest = Duration.seconds(2_000_000)

    /// The value of an option; `nil` when it was not given.
    ///
    /// - Throws: ``UsageError`` that names the option.
    static func parse(_ arguments: ParsedArguments, of option: Option) throws(UsageError) -> Duration? {
        guard let text = arguments.value(option) else { return nil }
        return try parse(text, of: option)
    }

    /// - Throws: ``UsageError`` that names the option.
    static func parse(_ text: String, of option: Option) throws(UsageError) -> Duration {
        let number = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }
        let unit = text.dropFirst(number.count)
        guard let value = Double(number), let scale = units.first(where: { $0.name == unit })?.microseconds else {
            let hint = Double(number) != nil && unit.isEmpty ? "\(number)s or \(number)ms" : "500ms, 1.5s, 2m or 1h"
            throw UsageError("\(option.name) \"\(text)\" is not a duration; write it as \(hint)")
        }
        let microseconds = (value * scale).rounded()
        guard microseconds >= 1, microseconds <= Double(longest.microseconds) else {
            throw UsageError("\(option.name) \(text) is out of range; give more than 0 and at most 500h")
        }
        return .microseconds(Int64(microseconds))
    }
}

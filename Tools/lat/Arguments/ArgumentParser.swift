import DomainTables
import LATNetworking

/// Splits a command line into options with their values, and operands.
///
/// Understands `--name value`, `--name=value`, `-n value`, `-nvalue`, combined switches (`-iv`), options after
/// operands, and `--`, after which nothing is an option.
struct ArgumentParser {
    let options: [Option]

    /// - Throws: ``UsageError`` for an unknown option, a missing or unexpected value, or a second value where one is allowed.
    func parse(_ arguments: [String]) throws(UsageError) -> ParsedArguments {
        var parsed = ParsedArguments()
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                parsed.operands += rest
                parsed.command = Array(rest)
                break
            } else if argument.hasPrefix("--") {
                try parseName(argument, &rest, &parsed)
            } else if argument.hasPrefix("-"), argument != "-" {
                try parseLetters(argument, &rest, &parsed)
            } else {
                parsed.operands.append(argument)
            }
        }
        return parsed
    }

    /// Whether an argument begins with one of the options.
    func knows(_ argument: String) -> Bool {
        if argument.hasPrefix("--") { return options.contains { $0.name == argument.prefix { $0 != "=" } } }
        return argument.dropFirst().first.map { letter in options.contains { $0.letter == "-\(letter)" } } ?? false
    }

    private func parseName(
        _ argument: String, _ rest: inout ArraySlice<String>, _ parsed: inout ParsedArguments
    ) throws(UsageError) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        guard let option = options.first(where: { $0.name == name }) else { throw unknown(name) }
        guard option.value != nil else {
            if parts.count > 1 { throw UsageError("\(name) takes no value; write \(name) alone") }
            return try parsed.add("", to: option)
        }
        let value = parts.count > 1 ? String(parts[1]) : try nextValue(of: option, written: name, &rest)
        try parsed.add(value, to: option)
    }

    private func parseLetters(
        _ argument: String, _ rest: inout ArraySlice<String>, _ parsed: inout ParsedArguments
    ) throws(UsageError) {
        var letters = argument.dropFirst()
        while let letter = letters.popFirst() {
            guard let option = options.first(where: { $0.letter == "-\(letter)" }) else {
                throw unknown(argument.count == 2 ? argument : "-\(letter)", within: argument)
            }
            guard option.value != nil else {
                try parsed.add("", to: option)
                continue
            }
            let value = letters.isEmpty ? try nextValue(of: option, written: "-\(letter)", &rest) : String(letters)
            return try parsed.add(value, to: option)
        }
    }

    private func nextValue(
        of option: Option, written name: String, _ rest: inout ArraySlice<String>
    ) throws(UsageError) -> String {
        let next = rest.first
        if option.isValueOptional, next.map(option.takes) != true { return "" }
        // An option where a value belongs means that the value was forgotten. `--name=--value` passes a value that looks
        // like an option.
        guard let next, !options.contains(where: { $0.isNamed(next) }) else {
            throw UsageError("\(name) needs a value; write \(name) \(option.value ?? "VALUE")")
        }
        rest.removeFirst()
        return next
    }

    private func unknown(_ name: String, within argument: String? = nil) -> UsageError {
        let place = argument.map { $0 == name ? "" : " in \($0)" } ?? ""
        if let nearest = NearestName.of(name, among: options.map(\.name)) {
            return UsageError("unknown option \(name)\(place); did you mean \(nearest)?")
        }
        return UsageError("unknown option \(name)\(place); --help lists the options")
    }
}

/// A parsed command line.
struct ParsedArguments: Hashable {
    /// The arguments that are not options, in order.
    var operands: [String] = []
    /// The arguments after `--`, which are among the operands too; `nil` without `--`.
    var command: [String]?
    private var values: [String: [String]] = [:]

    func contains(_ option: Option) -> Bool { values[option.name] != nil }

    /// The value of an option, `nil` when it was not given.
    func value(_ option: Option) -> String? { values[option.name]?.last }

    /// The values of an option that may be repeated, in order.
    func values(_ option: Option) -> [String] { values[option.name] ?? [] }

    /// The value of an option that names a file; `nil` when it was not given.
    ///
    /// - Throws: ``UsageError`` for an empty name, with what to write instead.
    func file(_ option: Option, _ hint: String) throws(UsageError) -> String? {
        guard let name = value(option) else { return nil }
        guard !name.isEmpty else { throw UsageError("\(option.name) \"\" names no file; \(hint)") }
        return name
    }

    /// The value of an option that is an integer; `nil` when it was not given.
    func number(_ option: Option, _ range: ClosedRange<Int>) throws(UsageError) -> Int? {
        guard let text = value(option) else { return nil }
        if let number = Int(text), range.contains(number) { return number }
        throw UsageError(
            "\(option.name) \"\(SafeText.line(text))\" is not a number from \(range.lowerBound) to \(range.upperBound)")
    }

    /// The value of an option that is one of some words; `nil` when it was not given.
    func choice<Choice: RawRepresentable<String>>(_ option: Option, _ hint: String) throws(UsageError) -> Choice? {
        guard let text = value(option) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            throw UsageError("\(option.name) \"\(SafeText.line(text))\" is unknown; write \(hint)")
        }
        return choice
    }

    /// - Throws: ``UsageError`` when both options were given.
    func refuse(_ option: Option, with other: Option) throws(UsageError) {
        guard contains(option), contains(other) else { return }
        throw UsageError("\(option.name) and \(other.name) cannot be combined; give one of them")
    }

    fileprivate mutating func add(_ value: String, to option: Option) throws(UsageError) {
        if option.value != nil, !option.repeats, contains(option) {
            throw UsageError("\(option.name) is given twice; give it once")
        }
        values[option.name, default: []].append(value)
    }
}

import DomainTables
import LATNetworking

/// A duration on the command line: `500ms`, `1.5s`, `2m`, `1h`. A number alone is in seconds, as in curl and sleep(1).
enum DurationArgument {
    /// System timers hold milliseconds in 31 bits, which is 596 hours.
    private static let longestHours = 500
    /// An age, for which no timer runs: a hundred years.
    static let longestAge = 876_000

    /// The value of an option; `nil` when it was not given.
    static func parse(
        _ arguments: ParsedArguments, of option: Option, upTo hours: Int = longestHours
    ) throws(UsageError) -> Duration? {
        guard let text = arguments.value(option) else { return nil }
        return try parse(text, of: option, upTo: hours)
    }

    static func parse(
        _ text: String, of option: Option, upTo hours: Int = longestHours
    ) throws(UsageError) -> Duration {
        let isNumber = Double(text) != nil && text.utf8.allSatisfy { "0123456789.".utf8.contains($0) }
        guard let duration = DurationText.parse((text.hasPrefix(".") ? "0" : "") + text + (isNumber ? "s" : "")) else {
            throw UsageError(
                "\(option.name) \"\(SafeText.line(text))\" is not a duration; write it as 500ms, 1.5s, 2m or 1h")
        }
        guard duration > .zero, duration <= .seconds(hours * 3_600) else {
            throw UsageError("\(option.name) \(text) is out of range; give more than 0 and at most \(hours)h")
        }
        return duration
    }
}

/// A header field on the command line: `Name: value`, `Name:` to omit one that is sent by default, `Name;` to send it
/// empty.
enum HeaderArgument {
    /// Returns the fields of all arguments in order. A name may occur more than once.
    static func parse(_ arguments: [String], of option: Option) throws(UsageError) -> HTTPHeaders {
        var headers = HTTPHeaders()
        for argument in arguments {
            let place = "\(option.name) \"\(SafeText.line(argument))\""
            guard let end = argument.firstIndex(where: { $0 == ":" || $0 == ";" }) else {
                throw UsageError("\(place) has no colon; write 'Name: value'")
            }
            let name = String(argument[..<end])
            let value = String(argument[argument.index(after: end)...].drop { $0 == " " || $0 == "\t" })
            try check(name, value, in: place)
            let sendsEmpty = argument[end] == ";"
            guard !sendsEmpty || value.isEmpty else {
                throw UsageError("\(place) has no colon; write 'Name: value', or '\(name);' to send it empty")
            }
            if sendsEmpty || !value.isEmpty { headers.append(name, value) } else { headers[name] = nil }
        }
        return headers
    }

    /// Checks a header field.
    ///
    /// - Parameter argument: The argument as it was given, for the message.
    /// - Throws: ``UsageError`` for a name or a value that cannot be sent.
    static func check(_ name: String, _ value: String, in argument: String) throws(UsageError) {
        guard HTTPMethod(name).isToken else {
            throw UsageError(
                "\(argument) has no usable name before the colon; write 'Name: value' without spaces in the name")
        }
        guard value.utf8.isFieldValue else {
            throw UsageError("\(argument) contains a control character; remove it")
        }
    }
}

/// A parameter on the command line: `name=text`, or `name:=json` for other types.
enum ParameterArgument {
    /// Returns the parameters of all arguments.
    static func parse(_ arguments: [String], of option: Option) throws(UsageError) -> [String: JSONValue] {
        var parameters: [String: JSONValue] = [:]
        for argument in arguments {
            let (name, value) = try parse(argument, of: option)
            if parameters[name] != nil {
                throw UsageError(
                    "\(option.name) \"\(name)\" is given twice; for several values write '\(name):=[\"a\",\"b\"]'")
            }
            parameters[name] = value
        }
        return parameters
    }

    private static func parse(
        _ argument: String, of option: Option
    ) throws(UsageError) -> (name: String, value: JSONValue) {
        guard let equals = argument.utf8.firstIndex(of: UInt8(ascii: "=")) else {
            throw UsageError(
                "\(option.name) \"\(argument)\" has no value; write name=text, or name:=json for a number, "
                    + "list or object")
        }
        let value = String(argument[argument.utf8.index(after: equals)...])
        var name = argument[..<equals]
        let isTyped = name.utf8.last == UInt8(ascii: ":")
        if isTyped { name.removeLast() }
        guard !name.isEmpty else {
            throw UsageError("\(option.name) \"\(argument)\" has no name; write name=text or name:=json")
        }
        guard isTyped else { return (String(name), .string(value)) }
        do {
            return (String(name), try JSONValue(parsing: value))
        } catch {
            throw UsageError(
                "\(option.name) \"\(argument)\" is not JSON after := (\(error)); for text, write \(name)=\(value)")
        }
    }
}

/// A cache policy on the command line: `http`, `cacheOnly`, `cacheElseNetwork:5m`.
enum CacheArgument {
    /// What can be written, for completions.
    static let choices = (words.map(\.name) + [timed + ":"]).map { ValueKind.Choice($0) }

    private static let words: [(name: String, policy: CachePolicy)] = [
        ("networkOnly", .networkOnly), ("writeOnly", .writeOnly), ("cacheOnly", .cacheOnly),
        ("networkElseCache", .networkElseCache), ("http", .http),
    ]
    private static let timed = "cacheElseNetwork"

    /// Returns the policy of an option; `nil` when it was not given.
    static func parse(_ arguments: ParsedArguments, of option: Option) throws(UsageError) -> CachePolicy? {
        guard let text = arguments.value(option) else { return nil }
        if let known = words.first(where: { $0.name == text }) { return known.policy }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.first.map(String.init) == timed {
            guard parts.count == 2 else {
                throw UsageError("\(option.name) \(timed) needs a time; write \(timed):5m")
            }
            if parts[1] == "forever" { return .cacheElseNetwork(.forever) }
            return .cacheElseNetwork(
                .fixed(try DurationArgument.parse(String(parts[1]), of: option, upTo: DurationArgument.longestAge)))
        }
        let names = words.map(\.name) + ["\(timed):TIME"]
        throw UsageError(
            "\(option.name) \"\(SafeText.line(text))\" is not a cache policy; write one of "
                + names.joined(separator: ", "))
    }
}

/// The format of a command's output.
enum OutputFormat: String, Hashable, Sendable, CaseIterable {
    /// For people.
    case text
    /// For programs: one JSON object.
    case json

    static let option = Option(
        "--format", value: "text|json", help: "json prints one object for programs, with all details. Default: text.")

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self = try arguments.choice(Self.option, "text or json") ?? .text
    }
}

extension Console {
    /// Prints one object for programs, or lines for people.
    func print(
        _ value: @autoclosure () throws -> JSONValue, or lines: @autoclosure () throws -> [String],
        as format: OutputFormat
    ) throws {
        switch format {
        case .json: try print(value())
        case .text: for line in try lines() { try print(line) }
        }
    }
}

/// The file a body goes to: `-o FILE`.
enum OutputArgument {
    static let option = Option(
        "--output", "-o", value: "FILE",
        help: "Writes the body to FILE, which appears when the body is complete. A body that fails changes no file.")

    /// The file name; `nil` when none is given, and for `-`, which is standard output.
    static func parse(_ arguments: ParsedArguments) throws(UsageError) -> String? {
        let name = try arguments.file(option, "write -o FILE")
        return name == "-" ? nil : name
    }
}

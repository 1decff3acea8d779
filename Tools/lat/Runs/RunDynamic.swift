import DomainTables
import FoundationEssentials
import Glibc
import LATNetworking

/// What a run takes from outside: variables of the process, files, the clock and chance.
struct RunOutside: Sendable {
    /// A variable of the process; `nil` when it is not set.
    var variable: @Sendable (String) -> String?
    /// A variable of the file `.env`; `nil` when it has none.
    var dotenv: @Sendable (String) -> String?
    var now: @Sendable () -> Date = { Date() }
    var random: @Sendable (ClosedRange<Int>) -> Int = { Int.random(in: $0) }
    var uuid: @Sendable () -> String = { UUID().uuidString.lowercased() }
}

/// A variable that is computed: `$uuid`, `$timestamp -1 d`, `$randomInt 1 10`, `$random.integer(1, 10)`.
struct RunDynamic {
    private let name: String
    private let arguments: [String]

    private static let names = [
        "$uuid", "$guid", "$random.uuid", "$timestamp", "$isoTimestamp", "$datetime", "$localDatetime", "$randomInt",
        "$random.integer", "$random.float", "$random.alphabetic", "$random.alphanumeric", "$random.hexadecimal",
        "$random.email",
        "$processEnv", "$env", "$dotenv",
    ]

    init(_ text: String) {
        let name = text.prefix { $0 != " " && $0 != "(" }
        var rest = text[name.endIndex...].drop { $0 == " " || $0 == "(" }
        if rest.last == ")" { rest.removeLast() }
        // JetBrains writes $env.NAME for a variable of the process.
        if name.hasPrefix("$env.") {
            self.name = "$env"
            arguments = [String(name.dropFirst(5))]
        } else {
            self.name = String(name)
            arguments = Self.words(rest)
        }
    }

    /// Words between blanks and commas; quotes keep a word together.
    private static func words(_ text: Substring) -> [String] {
        var words: [String] = []
        var rest = text[...]
        while let first = rest.first {
            if first == " " || first == "," {
                rest.removeFirst()
            } else if first == "\"" || first == "'" {
                let word = rest.dropFirst().prefix { $0 != first }
                words.append(String(word))
                rest = rest[word.endIndex...].dropFirst()
            } else {
                let word = rest.prefix { $0 != " " && $0 != "," }
                words.append(String(word))
                rest = rest[word.endIndex...]
            }
        }
        return words
    }

    /// - Throws: ``RunScope/Missing`` for an unknown name, and for arguments that cannot be used.
    func value(_ outside: RunOutside) throws(RunScope.Missing) -> String {
        switch name {
        case "$uuid", "$guid", "$random.uuid": return outside.uuid()
        case "$timestamp": return "\(Int64(try date(outside, arguments[...]).timeIntervalSince1970.rounded(.down)))"
        case "$isoTimestamp": return try Self.text(date(outside, arguments[...]), "iso8601", isLocal: false)
        case "$datetime", "$localDatetime":
            let format = arguments.first ?? "iso8601"
            return try Self.text(
                date(outside, arguments.dropFirst()), format, isLocal: name == "$localDatetime")
        case "$randomInt", "$random.integer":
            let (low, high) = try bounds()
            guard low < high else { throw .init("\(name) needs a minimum below its maximum; write {{\(name) 1 10}}") }
            // The maximum is excluded, as in both programs.
            return "\(outside.random(low...(high - 1)))"
        case "$random.float":
            let (low, high) = try bounds()
            return "\(Double(low) + Double(outside.random(0...999_999)) / 1_000_000 * (Double(high) - Double(low)))"
        case "$random.alphabetic": return try letters("abcdefghijklmnopqrstuvwxyz", outside)
        case "$random.alphanumeric": return try letters("abcdefghijklmnopqrstuvwxyz0123456789", outside)
        case "$random.hexadecimal": return try letters("0123456789abcdef", outside)
        case "$random.email":
            let own = RunDynamic("$random.alphabetic(8)")
            return "\(try own.value(outside))@example.org"
        case "$processEnv", "$env":
            let variable = try argument("NAME")
            // `%NAME` takes the name of the variable from another one.
            let found = variable.hasPrefix("%") ? outside.variable(String(variable.dropFirst())) : variable
            guard let found, let value = outside.variable(found) else {
                throw .init(
                    "the variable \(SafeText.line(variable)) of this process is not set; export it before lat run")
            }
            return value
        case "$dotenv":
            let variable = try argument("NAME")
            guard let value = outside.dotenv(variable) else {
                throw .init(
                    "the file .env beside this one has no \(SafeText.line(variable)); add \(SafeText.line(variable))=value"
                )
            }
            return value
        default:
            throw .init(
                "unknown variable \(SafeText.line(name))"
                    + NearestName.advice(name, among: Self.names, allCalled: "computed variables"))
        }
    }

    private func argument(_ kind: String) throws(RunScope.Missing) -> String {
        guard let first = arguments.first, !first.isEmpty else {
            throw .init("\(name) needs a name; write {{\(name) \(kind)}}")
        }
        return first
    }

    private func bounds() throws(RunScope.Missing) -> (Int, Int) {
        let numbers = arguments.compactMap { Int($0) }
        switch (arguments.count, numbers.count) {
        case (0, _): return (0, 1_000)
        case (1, 1): return (0, numbers[0])
        case (2, 2): return (numbers[0], numbers[1])
        default: throw .init("\(name) takes a minimum and a maximum; write {{\(name) 1 10}}")
        }
    }

    private func letters(_ alphabet: String, _ outside: RunOutside) throws(RunScope.Missing) -> String {
        let count = arguments.first.map { Int($0) } ?? 10
        guard let count, (1...10_000).contains(count) else { throw .init("\(name) takes a length from 1 to 10000") }
        let letters = Array(alphabet)
        return String((0..<count).map { _ in letters[outside.random(0...(letters.count - 1))] })
    }

    // MARK: Times

    private static let seconds: [String: Double] = [
        "ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800,
    ]

    /// Now, or with `-1 d` another time.
    private func date(_ outside: RunOutside, _ offset: ArraySlice<String>) throws(RunScope.Missing) -> Date {
        guard let number = offset.first else { return outside.now() }
        guard let number = Double(number), let unit = offset.dropFirst().first, let seconds = Self.seconds[unit] else {
            throw .init("\(name) takes a number and a unit, which is ms, s, m, h, d or w; write {{\(name) -1 d}}")
        }
        guard (number * seconds).magnitude < 1e11 else {
            throw .init("\(name) is too far away; give less than 3,000 years")
        }
        return outside.now().addingTimeInterval(number * seconds)
    }

    private static func text(_ date: Date, _ format: String, isLocal: Bool) throws(RunScope.Missing) -> String {
        let total = date.timeIntervalSince1970
        var seconds = time_t(total.rounded(.down))
        var parts = tm()
        if isLocal { localtime_r(&seconds, &parts) } else { gmtime_r(&seconds, &parts) }
        func digits(_ number: Int32, _ count: Int) -> String { "\(number)".padded(toStart: count, with: "0") }
        let milliseconds = Int32((total - total.rounded(.down)) * 1_000)
        let fields = [
            ("YYYY", digits(parts.tm_year + 1900, 4)), ("MM", digits(parts.tm_mon + 1, 2)),
            ("DD", digits(parts.tm_mday, 2)),
            ("HH", digits(parts.tm_hour, 2)), ("mm", digits(parts.tm_min, 2)), ("ss", digits(parts.tm_sec, 2)),
            ("SSS", digits(milliseconds, 3)),
        ]
        let offset = parts.tm_gmtoff / 60
        let zone =
            offset == 0
            ? "Z"
            : (offset < 0 ? "-" : "+") + digits(Int32(abs(offset) / 60), 2) + ":" + digits(Int32(abs(offset) % 60), 2)
        switch format {
        case "iso8601": return fill("YYYY-MM-DDTHH:mm:ss.SSS", fields) + zone
        case "rfc1123":
            let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
            let day = days[Int(parts.tm_wday)], month = months[Int(parts.tm_mon)]
            return "\(day), \(fields[2].1) \(month) \(fields[0].1) " + fill("HH:mm:ss", fields) + " "
                + (isLocal ? zone : "GMT")
        default:
            guard fields.contains(where: { format.contains($0.0) }) else {
                throw .init(
                    "\"\(SafeText.line(format))\" is no format of a time; write iso8601, rfc1123 or 'YYYY-MM-DD HH:mm:ss'"
                )
            }
            return fill(format, fields)
        }
    }

    private static func fill(_ format: String, _ fields: [(String, String)]) -> String {
        fields.reduce(format) { $0.replacing($1.0, with: $1.1) }
    }
}

import Dispatch
import FoundationEssentials
import LATNetworking
import Platform

/// A part of a response that is captured or tested: `status`, `header Location`, `$.items[0].id`.
enum RunSubject: Hashable, Sendable {
    case status, version, url, body
    /// Milliseconds until the whole response was there.
    case duration
    /// The bytes of the body.
    case size
    case header(String)
    case json([Step])

    /// A step of a JSONPath (RFC 9535): members, elements and the wildcard.
    enum Step: Hashable, Sendable {
        case member(String)
        /// An element; a negative one counts from the end.
        case element(Int)
        case all
    }

    static let words = ["status", "version", "url", "body", "duration", "size", "header NAME", "$.path"]

    /// The value in a response; `nil` when there is none.
    func value(in exchange: RunExchange) -> JSONValue? {
        let response = exchange.response
        switch self {
        case .status: return .int(Int64(response.status))
        case .version: return .string("\(response.version)")
        case .url: return .string(response.url)
        case .duration: return .double(Double(exchange.duration.microseconds) / 1_000)
        case .size: return .int(Int64(exchange.body.count))
        case .body: return .string(exchange.text)
        case .header(let name): return response.headers[name].map { .string($0) }
        case .json(let steps): return exchange.json.flatMap { Self.value(at: steps[...], in: $0) }
        }
    }

    static func value(at steps: ArraySlice<Step>, in value: JSONValue) -> JSONValue? {
        guard let step = steps.first else { return value }
        let rest = steps.dropFirst()
        switch step {
        case .member(let name): return value[name].flatMap { self.value(at: rest, in: $0) }
        case .element(let index):
            let count = value.array?.count ?? 0
            return value[index < 0 ? count + index : index].flatMap { self.value(at: rest, in: $0) }
        case .all:
            guard let all = value.array ?? value.object.map({ $0.sorted { $0.key < $1.key }.map(\.value) }) else {
                return nil
            }
            return .array(all.compactMap { self.value(at: rest, in: $0) })
        }
    }
}

/// A response with its whole body, and the request that it answers.
struct RunExchange: Sendable {
    var request: HTTPRequest
    var response: HTTPResponse
    var duration: Duration

    var body: Data { response.data }
    var text: String { response.text ?? String(decoding: body, as: UTF8.self) }
    var json: JSONValue? { try? JSONValue(parsing: body) }
}

/// A test of a response: `status == 200`, `$.items count > 0`, `header Content-Type contains json`.
struct RunAssertion: Hashable, Sendable {
    enum Operation: String, CaseIterable, Sendable {
        case equal = "=="
        case unequal = "!="
        case atMost = "<="
        case atLeast = ">="
        case below = "<"
        case above = ">"
        case contains, startsWith, endsWith, matches, exists
        case isMissing = "missing"
        case isKind = "is"
    }

    let subject: RunSubject
    /// Whether the number of elements or characters is tested.
    let counts: Bool
    let operation: Operation
    /// What it is compared with; `nil` for `exists` and `missing`.
    let operand: HTTPFile.Template?
    /// The whole text, for messages.
    let text: String
    let range: Range<Int>

    private static let kinds = ["text", "number", "boolean", "null", "list", "object"]

    init(_ line: HTTPFile.Template) throws(RunExpressionError) {
        text = line.text
        range = line.range
        var reader = RunExpressionReader(line)
        subject = try reader.subject()
        counts = reader.take("count")
        operation = try reader.operation()
        let operand = reader.remainder
        switch operation {
        case .exists, .isMissing:
            try reader.end()
            self.operand = nil
        default:
            guard !operand.text.isEmpty else {
                throw RunExpressionError(line.range, "the assertion has no value after \(operation.rawValue)")
            }
            if case .isKind = operation, !Self.kinds.contains(operand.text) {
                throw RunExpressionError(
                    operand.range, "\"\(SafeText.line(operand.text))\" is no kind of value; write \(Self.kinds.listed)")
            }
            if case .matches = operation, !operand.text.contains("{{"), (try? Regex(Self.plain(operand.text))) == nil {
                throw RunExpressionError(operand.range, "this is not a regular expression; check its brackets")
            }
            self.operand = operand
        }
    }

    /// A text without the quotes around it, or the slashes of a regular expression.
    private static func plain(_ text: String) -> String {
        if text.count > 1, text.hasPrefix("/"), text.hasSuffix("/") { return String(text.dropFirst().dropLast()) }
        return (try? JSONValue(parsing: text))?.string ?? text
    }

    // MARK: Testing

    /// Why a response does not pass; `nil` when it does.
    ///
    /// - Parameter operand: The operand with its variables replaced.
    func failure(in exchange: RunExchange, _ operand: String) -> String? {
        var found = subject.value(in: exchange)
        if counts {
            let count = found.flatMap { $0.array?.count ?? $0.object?.count ?? $0.string?.count }
            found = count.map { .int(Int64($0)) }
        }
        let isPassed: Bool
        switch operation {
        case .exists: isPassed = found != nil
        case .isMissing:
            isPassed = found == nil && (!subject.isJSON || exchange.body.isEmpty || exchange.json != nil)
        case .isKind: isPassed = found.map { Self.kind(of: $0) == operand } ?? false
        case .equal: isPassed = isEqual(found, operand)
        case .unequal: isPassed = found != nil && !isEqual(found, operand)
        case .below, .above, .atMost, .atLeast: isPassed = isOrdered(found, operand)
        case .contains: isPassed = Self.contains(found, operand)
        case .startsWith: isPassed = found.map { Self.text(of: $0).hasPrefix(Self.plain(operand)) } ?? false
        case .endsWith: isPassed = found.map { Self.text(of: $0).hasSuffix(Self.plain(operand)) } ?? false
        case .matches:
            guard (try? Regex(Self.plain(operand))) != nil else { return "the value is not a regular expression" }
            let match = found.map { Self.matches(Self.text(of: $0), Self.plain(operand)) } ?? false
            guard let match else { return Self.gaveUp }
            isPassed = match
        }
        guard !isPassed else { return nil }
        guard let found else {
            guard subject.isJSON else { return "there is none" }
            do {
                _ = try JSONValue(parsing: exchange.body)
                return "there is none"
            } catch {
                return "the body cannot be read as JSON: \(error)"
            }
        }
        guard let shown = counts ? found : subject.shownValue(in: exchange), shown.string != Secrets.placeholder else {
            return "it is another secret than the expected one"
        }
        let text = shown.description
        return "it is " + (text.count > 200 ? text.prefix(200) + "…" : text)
    }

    static let gaveUp =
        "the regular expression was given up after \(matchLimit) s; write one without nested repetitions"

    /// The longest time for a regular expression, in seconds.
    private static let matchLimit = 2

    /// Whether a text matches; `nil` when that takes too long. The engine goes back for each repetition, so `(a+)+b` may take
    /// for ever. It cannot be stopped, so that its thread goes on until the program ends.
    private static func matches(_ text: String, _ pattern: String) -> Bool? {
        let isDone = DispatchSemaphore(value: 0)
        let result = Waiter<Bool>()
        let isStarted = BackgroundThread.start("lat-match") {
            result.end(.success((try? Regex(pattern)).map { text.contains($0) } ?? false))
            isDone.signal()
        }
        guard isStarted, isDone.wait(timeout: .now() + .seconds(matchLimit)) == .success else { return nil }
        return try? result.result?.get()
    }

    private func isEqual(_ found: JSONValue?, _ operand: String) -> Bool {
        guard let found else { return false }
        // A class of statuses: 2xx.
        if subject == .status, operand.count == 3, operand.lowercased().hasSuffix("xx"),
            let hundreds = operand.first?.wholeNumberValue
        {
            return found.int.map { $0 / 100 == Int64(hundreds) } ?? false
        }
        // A Double does not hold every identifier.
        if let value = found.int, let number = Int64(operand), subject != .duration { return value == number }
        if found.double != nil, subject != .duration, operand.utf8.allSatisfy(\.isDigit), !operand.isEmpty,
            found.description.utf8.allSatisfy(\.isDigit)
        {
            return found.description == operand
        }
        if let number = number(operand), let value = found.double { return value == number }
        if let wanted = try? JSONValue(parsing: operand) {
            return found == wanted || found.string.map { $0 == operand } ?? false
        }
        return Self.text(of: found) == operand
    }

    private func isOrdered(_ found: JSONValue?, _ operand: String) -> Bool {
        guard let found else { return false }
        if let value = found.int, let number = Int(operand), subject != .duration { return isOrdered(value, number) }
        if let number = number(operand) {
            // A header field is a text even where it is a number.
            return (found.double ?? found.string.flatMap(Double.init)).map { isOrdered($0, number) } ?? false
        }
        // Times in ISO 8601 are ordered like their texts.
        return found.string.map { isOrdered($0, Self.plain(operand)) } ?? false
    }

    private func isOrdered<Value: Comparable>(_ left: Value, _ right: Value) -> Bool {
        switch operation {
        case .below: left < right
        case .above: left > right
        case .atMost: left <= right
        default: left >= right
        }
    }

    /// A number; for `duration` also a time, in milliseconds.
    private func number(_ operand: String) -> Double? {
        if subject == .duration, let time = DurationText.parse(operand.replacing(" ", with: "")) {
            return Double(time.microseconds) / 1_000
        }
        return Double(operand)
    }

    private static func contains(_ found: JSONValue?, _ operand: String) -> Bool {
        guard let found else { return false }
        if let elements = found.array {
            let wanted = (try? JSONValue(parsing: operand)) ?? .string(operand)
            return elements.contains(wanted) || elements.contains(.string(operand))
        }
        if found.object != nil { return found[plain(operand)] != nil }
        return text(of: found).contains(plain(operand))
    }

    private static func text(of value: JSONValue) -> String { value.string ?? value.description }

    private static func kind(of value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool: "boolean"
        case .string: "text"
        case .array: "list"
        case .object: "object"
        default: "number"
        }
    }
}

extension RunSubject {
    var isJSON: Bool { if case .json = self { true } else { false } }

    /// The value as messages show it: secrets are replaced by `***`.
    func shownValue(in exchange: RunExchange) -> JSONValue? {
        switch self {
        case .json(let steps):
            exchange.json.flatMap { Self.value(at: steps[...], in: Secrets.standard.shown(json: $0)) }
        case .header(let name): exchange.response.headers[name].map { .string(Secrets.standard.shown($0, of: name)) }
        default: value(in: exchange).map(Secrets.standard.shown(json:))
        }
    }
}

/// What is wrong in an assertion or a capture, and where.
struct RunExpressionError: Error {
    let range: Range<Int>
    let message: String

    init(_ range: Range<Int>, _ message: String) {
        self.range = range
        self.message = message
    }
}

/// Reads the words of an assertion or a capture.
struct RunExpressionReader {
    private var rest: HTTPFile.Template
    private let whole: Range<Int>

    init(_ text: HTTPFile.Template) {
        rest = text.trimmed()
        whole = text.range
    }

    /// What is left.
    var remainder: HTTPFile.Template { rest }

    mutating func subject() throws(RunExpressionError) -> RunSubject {
        if rest.text.hasPrefix("$") { return .json(try path()) }
        let word = word()
        switch word.text {
        case "status": return .status
        case "version": return .version
        case "url": return .url
        case "body": return .body
        case "duration": return .duration
        case "size": return .size
        case "header":
            let name = self.word()
            guard !name.text.isEmpty else { throw RunExpressionError(whole, "the name of the header field is missing") }
            return .header(name.text)
        default:
            let shown = SafeText.line(word.text)
            throw RunExpressionError(
                word.text.isEmpty ? whole : word.range,
                "\"\(shown)\" is no part of a response; write one of \(RunSubject.words.joined(separator: ", "))")
        }
    }

    mutating func operation() throws(RunExpressionError) -> RunAssertion.Operation {
        // The longer signs come first.
        if let sign = RunAssertion.Operation.allCases.prefix(6).first(where: { rest.text.hasPrefix($0.rawValue) }) {
            rest = rest.trimmed(after: sign.rawValue.utf8.count)
            return sign
        }
        let word = word()
        if let operation = RunAssertion.Operation(rawValue: word.text) { return operation }
        let names = RunAssertion.Operation.allCases.map(\.rawValue).joined(separator: " ")
        throw RunExpressionError(
            word.text.isEmpty ? whole : word.range,
            "\"\(SafeText.line(word.text))\" is no comparison; write one of \(names)")
    }

    /// Reads a word if it is the next one.
    mutating func take(_ wanted: String) -> Bool {
        var ahead = self
        guard ahead.word().text == wanted else { return false }
        self = ahead
        return true
    }

    func end() throws(RunExpressionError) {
        guard !rest.text.isEmpty else { return }
        throw RunExpressionError(rest.range, "there is something after the end: \(SafeText.line(rest.text))")
    }

    private mutating func word() -> HTTPFile.Template {
        let word = HTTPFile.Template(text: String(rest.text.prefix { $0 != " " && $0 != "\t" }), start: rest.start)
        rest = rest.trimmed(after: word.text.utf8.count)
        return word
    }

    /// The steps of `$.items[0]['first name']`.
    private mutating func path() throws(RunExpressionError) -> [RunSubject.Step] {
        var text = rest.text.dropFirst()
        var steps: [RunSubject.Step] = []
        let start = rest.start
        func problem(_ message: String) -> RunExpressionError { RunExpressionError(start..<start + 1, message) }
        while let mark = text.first, mark == "." || mark == "[" {
            text.removeFirst()
            if mark == "." {
                guard text.first != "." else {
                    throw problem("the path has \"..\", which lat does not know; write all steps")
                }
                let name = text.prefix { !".[ \t".contains($0) }
                guard !name.isEmpty else { throw problem("a step of the path has no name; write $.name") }
                steps.append(name == "*" ? .all : .member(String(name)))
                text = text[name.endIndex...]
            } else if let quote = text.first, quote == "'" || quote == "\"" {
                let name = text.dropFirst().prefix { $0 != quote }
                text = text[name.endIndex...].dropFirst()
                guard text.popFirst() == "]" else {
                    throw problem("a bracket of the path is not closed; write $['name']")
                }
                steps.append(.member(String(name)))
            } else {
                let index = text.prefix { $0 != "]" }
                guard index.endIndex < text.endIndex, index == "*" || Int(index) != nil else {
                    throw problem(
                        "[\(SafeText.line(String(index)))] is no step of a path; write [0], [-1], [*] or ['name']")
                }
                steps.append(Int(index).map { .element($0) } ?? .all)
                text = text[index.endIndex...].dropFirst()
            }
        }
        guard text.isEmpty || text.first == " " || text.first == "\t" else {
            throw problem("the path cannot be read after $; write $.name, $[0] or $['name']")
        }
        rest = rest.trimmed(after: rest.text.utf8.count - text.utf8.count)
        return steps
    }
}

import HTTPCore

/// A value of a document, with its line. Members keep their order, because the generated code has it too.
struct Node: Sendable {
    enum Value: Sendable {
        case null
        case bool(Bool)
        /// The text of a number.
        case number(String)
        case string(String)
        case array([Node])
        case object(Members)
    }

    let value: Value
    /// The line, from 1; 0 for a value that is in no file.
    let line: Int
    /// The number of values in it, with those of aliases counted as often as they stand there.
    let size: Int

    init(_ value: Value, line: Int = 0) {
        self.value = value
        self.line = line
        size =
            switch value {
            case .array(let elements): elements.reduce(1) { Node.sum($0, $1.size) }
            case .object(let members): members.values.reduce(1) { Node.sum($0, $1.size) }
            default: 1
            }
    }

    /// The sum, at most 2⁶²: aliases of aliases grow without end.
    private static func sum(_ left: Int, _ right: Int) -> Int { min(left + right, 1 << 62) }

    /// The members of an object, in the order of the document. Of repeated names the last counts.
    final class Members: Sendable {
        let names: [String]
        let values: [Node]
        /// The names that stand there more than once, with the line of the one that counts.
        let repeated: [(name: String, line: Int)]
        private let index: [String: Int]

        init(_ list: [(name: String, value: Node)]) {
            var (names, values, index): ([String], [Node], [String: Int]) = ([], [], [:])
            var repeated: [(name: String, line: Int)] = []
            for member in list {
                if let known = index[member.name] {
                    values[known] = member.value
                    repeated.append((member.name, member.value.line))
                } else {
                    index[member.name] = names.count
                    names.append(member.name)
                    values.append(member.value)
                }
            }
            (self.names, self.values, self.index, self.repeated) = (names, values, index, repeated)
        }

        subscript(name: String) -> Node? { index[name].map { values[$0] } }
        func contains(_ name: String) -> Bool { index[name] != nil }
    }
}

extension Node {
    subscript(name: String) -> Node? { members?[name] }

    /// The same, all on one line.
    func on(_ line: Int) -> Node {
        switch value {
        case .array(let elements): return Node(.array(elements.map { $0.on(line) }), line: line)
        case .object(let members):
            let list = zip(members.names, members.values).map { (name: $0, value: $1.on(line)) }
            return Node(.object(Members(list)), line: line)
        default: return Node(value, line: line)
        }
    }

    var members: Members? { if case .object(let members) = value { members } else { nil } }
    var array: [Node]? { if case .array(let elements) = value { elements } else { nil } }
    var string: String? { if case .string(let text) = value { text } else { nil } }
    var bool: Bool? { if case .bool(let flag) = value { flag } else { nil } }
    var isNull: Bool { if case .null = value { true } else { false } }
    var number: String? { if case .number(let text) = value { text } else { nil } }
    var int: Int? { number.flatMap { Int($0) } }

    /// A string, or a number or Boolean as text: documents write `version: 1.0` without quotes.
    var text: String? {
        switch value {
        case .string(let text), .number(let text): text
        case .bool(let flag): "\(flag)"
        default: nil
        }
    }

    /// The value as a type of JSON Schema has it: a number as a text, or the number that a text is. `nil` if it cannot be that.
    func converted(to type: String) -> Node? {
        switch (type, value) {
        case ("string", .string), ("integer", .number), ("number", .number), ("boolean", .bool), ("array", .array),
            ("object", .object):
            return self
        case ("string", .number), ("string", .bool): return text.map { Node(.string($0), line: line) }
        case ("integer", .string(let text)), ("number", .string(let text)), ("boolean", .string(let text)):
            let node = try? JSONReader.node(Array(text.utf8), file: "")
            return node?.string == nil ? node?.converted(to: type)?.on(line) : nil
        default: return nil
        }
    }

    /// The strings of an array, or a string alone.
    var strings: [String] { array?.compactMap(\.text) ?? text.map { [$0] } ?? [] }

    /// The name of the kind in messages.
    var kind: String {
        switch value {
        case .null: "null"
        case .bool: "a Boolean"
        case .number: "a number"
        case .string: "a text"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// The value without its positions.
    var json: JSONValue {
        switch value {
        case .null: .null
        case .bool(let flag): .bool(flag)
        case .number(let text): (try? JSONValue(parsing: text)) ?? .string(text)
        case .string(let text): .string(text)
        case .array(let elements): .array(elements.map(\.json))
        case .object(let members):
            .object(Dictionary(zip(members.names, members.values.map(\.json))) { _, last in last })
        }
    }
}

extension Node {
    /// A value that is made here, for rows and files.
    static func text(_ text: String) -> Node { Node(.string(text)) }
    static func object(_ members: [(String, Node)]) -> Node { Node(.object(Members(members.map { ($0.0, $0.1) }))) }
    static func array(_ elements: [Node]) -> Node { Node(.array(elements)) }
}

/// Why nothing can be imported: one sentence with the place and the next step.
package struct ImportProblem: Error, Hashable {
    package let message: String

    package init(_ message: String) { self.message = message }

    init(_ place: Place, _ message: String) { self.message = "\(place): \(message)" }
}

/// What is wrong in a document and did not stop the import.
package struct ImportWarning: Hashable, Sendable, CustomStringConvertible {
    package let place: Place
    package let message: String
    package var description: String { "\(place): \(message)" }
}

/// A place in a document: the file, the line and the JSON pointer (RFC 6901).
package struct Place: Hashable, Sendable, CustomStringConvertible {
    package let file: String
    package let line: Int
    package let pointer: String

    package var description: String { "\(file):\(line)" + (pointer.isEmpty ? "" : ": #\(pointer)") }
}

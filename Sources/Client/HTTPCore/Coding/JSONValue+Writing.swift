public import FoundationEssentials
import JSONText

extension JSONValue: CustomStringConvertible {
    /// The value as JSON in UTF-8.
    ///
    /// - Parameters:
    ///   - prettyPrinted: Whether each member and element is on its own line, indented by two spaces. Default `false`: no
    ///     white space.
    ///   - sortedKeys: Whether members are sorted by name, so that equal values give equal bytes. Default `true`.
    /// - Throws: `EncodingError.invalidValue` with the path of a number that is infinite or NaN, or of more than
    ///   ``maximumDepth`` nested arrays and objects.
    public func data(prettyPrinted: Bool = false, sortedKeys: Bool = true) throws -> Data {
        var writer = JSONWriter(isPretty: prettyPrinted, sortsKeys: sortedKeys)
        writer.write(self, depth: 0)
        if writer.isUnwritable { try checkWritable() }
        return Data(writer.bytes)
    }

    /// The value as JSON in one line, with members sorted by name. Numbers that are infinite or NaN, and levels beyond
    /// ``maximumDepth``, are shown as `null`.
    public var description: String {
        var writer = JSONWriter(isPretty: false, sortsKeys: true)
        writer.write(self, depth: 0)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// The shortest text of a number that reads as the same value: `1` for 1.0, `1e22`, `0.1`. `nil` for infinity, NaN and
    /// everything that is not a number.
    var numberText: String? {
        switch self {
        case .int(let value):
            return value.description
        case .double(let value):
            guard value.isFinite else { return nil }
            var text = value.description
            if text.hasSuffix(".0") { text.removeLast(2) }
            text.removeAll { $0 == "+" }
            return text
        case .decimal(let value):
            return value.isFinite ? value.description : nil
        default:
            return nil
        }
    }

    /// Throws when a part of the value cannot be written, with its path appended to the given one.
    func checkWritable(at path: [any CodingKey] = []) throws {
        let problem: String
        switch self {
        case .double(let value) where !value.isFinite: problem = "\(value) is not a number in JSON"
        case .decimal(let value) where !value.isFinite: problem = "\(value) is not a number in JSON"
        case .array, .object:
            guard path.count < JSONValue.maximumDepth else {
                problem = "more than \(JSONValue.maximumDepth) nested arrays and objects"
                break
            }
            if case .array(let elements) = self {
                for (index, element) in elements.enumerated() where element.mayBeUnwritable {
                    try element.checkWritable(at: path + [JSONKey(intValue: index)])
                }
            } else if case .object(let members) = self {
                for (name, member) in members where member.mayBeUnwritable {
                    try member.checkWritable(at: path + [JSONKey(stringValue: name)])
                }
            }
            return
        default: return
        }
        throw EncodingError.unwritable(self, at: path, problem)
    }

    private var mayBeUnwritable: Bool {
        switch self {
        case .double, .decimal, .array, .object: true
        case .null, .bool, .int, .string: false
        }
    }
}

extension EncodingError {
    /// An error that repeats the path in its text, which is what people see.
    static func unwritable(_ value: Any, at path: [any CodingKey], _ problem: String) -> EncodingError {
        let name = path.jsonPath
        let place = name.isEmpty ? "" : Context.beginning(name)
        return .invalidValue(value, Context(codingPath: path, debugDescription: place + problem))
    }
}

extension EncodingError.Context {
    /// The path and a colon, for the beginning of a text. A path of more than 200 characters is cut.
    fileprivate static func beginning(_ path: String) -> String {
        path.count > 200 ? "\(path.prefix(200))…: " : "\(path): "
    }

    /// The path and then the text. A text of ``EncodingError/unwritable(_:at:_:)`` begins with the path already.
    var textWithPath: String {
        let path = codingPath.jsonPath
        let beginning = path.isEmpty ? "the value: " : Self.beginning(path)
        return debugDescription.hasPrefix(beginning) ? debugDescription : beginning + debugDescription
    }
}

struct JSONWriter {
    let isPretty: Bool
    let sortsKeys: Bool
    private(set) var bytes: [UInt8] = []
    /// Whether a value that JSON does not allow was replaced by `null`.
    private(set) var isUnwritable = false

    init(isPretty: Bool, sortsKeys: Bool) {
        self.isPretty = isPretty
        self.sortsKeys = sortsKeys
        bytes.reserveCapacity(256)
    }

    mutating func write(_ value: JSONValue, depth: Int) {
        switch value {
        case .null: append("null")
        case .bool(let value): append(value ? "true" : "false")
        case .string(let value): write(value)
        case .int(let value): write(value)
        case .double, .decimal:
            if let text = value.numberText { bytes.append(contentsOf: text.utf8) } else { writeUnwritable() }
        case .array(let elements):
            writeAll(elements, in: "[]", depth: depth) { $0.write($1, depth: depth + 1) }
        case .object(let members):
            write(EncodedMembers.list(of: members, isSorted: sortsKeys), depth: depth)
        }
    }

    mutating func write(_ members: [EncodedMembers.Member], depth: Int) {
        writeAll(members, in: "{}", depth: depth) {
            $0.write(name: $1.name)
            $0.write($1.value, depth: depth + 1)
        }
    }

    mutating func write(_ json: EncodedJSON, depth: Int) {
        switch json {
        case .value(let value): write(value, depth: depth)
        case .array(let elements): writeAll(elements, in: "[]", depth: depth) { $0.write($1, depth: depth + 1) }
        case .object(let members):
            writeAll(EncodedJSON.sorted(members), in: "{}", depth: depth) {
                $0.write(name: $1.name)
                $0.write($1.value, depth: depth + 1)
            }
        }
    }

    /// Writes an array or object at a depth.
    @inline(__always)
    private mutating func writeAll<Part>(
        _ parts: [Part], in brackets: StaticString, depth: Int, _ write: (inout JSONWriter, Part) -> Void
    ) {
        guard depth < JSONValue.maximumDepth else { return writeUnwritable() }
        bytes.append(brackets.utf8Start[0])
        var isFirst = true
        for part in parts {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            newLine(depth + 1)
            write(&self, part)
        }
        if !isFirst { newLine(depth) }
        bytes.append(brackets.utf8Start[1])
    }

    private mutating func write(name: String) {
        write(name)
        bytes.append(UInt8(ascii: ":"))
        if isPretty { bytes.append(UInt8(ascii: " ")) }
    }

    /// `Int64.description` takes twice as many instructions.
    private mutating func write(_ number: Int64) {
        var rest = number.magnitude
        var (digits, count) = (UInt64(0), 0)
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        guard rest < 100_000_000 else { return bytes.append(contentsOf: rest.description.utf8) }
        // Eight digits fit into a word, the first in its lowest byte.
        repeat {
            digits = digits << 8 | (0x30 + rest % 10)
            rest /= 10
            count += 1
        } while rest > 0
        for _ in 0..<count {
            bytes.append(UInt8(truncatingIfNeeded: digits))
            digits >>= 8
        }
    }

    /// Writes a string in quotes. Only what RFC 8259 §7 requires is escaped.
    private mutating func write(_ text: String) {
        var text = text
        bytes.append(UInt8(ascii: "\""))
        text.withUTF8 { utf8 in
            var (start, position) = (0, 0)  // The bytes between the two are not written yet.
            while position < utf8.count {
                position = utf8.endOfPlainText(from: position)
                guard position < utf8.count, utf8[position] < 0x80 else {
                    position = min(position + 1, utf8.count)
                    continue
                }
                bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<position]))
                write(utf8[position])
                position += 1
                start = position
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<position]))
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a byte of a string, escaped if necessary.
    private mutating func write(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): append("\\\"")
        case UInt8(ascii: "\\"): append("\\\\")
        case 0x0A: append("\\n")
        case 0x0D: append("\\r")
        case 0x09: append("\\t")
        case 0..<0x20:
            append("\\u00")
            bytes.append(byte < 0x10 ? UInt8(ascii: "0") : UInt8(ascii: "1"))
            bytes.append(UInt8.hexadecimalDigit(byte & 0x0F))
        default: bytes.append(byte)
        }
    }

    private mutating func writeUnwritable() {
        isUnwritable = true
        append("null")
    }

    private mutating func newLine(_ depth: Int) {
        guard isPretty else { return }
        bytes.append(0x0A)
        bytes.append(contentsOf: repeatElement(0x20, count: depth * 2))
    }

    private mutating func append(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}

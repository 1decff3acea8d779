import JSONText

/// Reads a document that is JSON. Comments and trailing commas are read too.
enum JSONReader {
    /// The largest depth of arrays and objects: no document of an API comes near, and it is safe for any stack.
    static let maximumDepth = 200

    /// - Parameter repeated: receives each name that an object has twice, with its line.
    static func node(
        _ bytes: [UInt8], file: String, repeated: (_ name: String, _ line: Int) -> Void = { _, _ in }
    ) throws(ImportProblem) -> Node {
        do throws(JSONFailure) {
            return try bytes.withUnsafeBufferPointer { buffer throws(JSONFailure) in
                var reader = Reader(
                    bytes: buffer, tokens: try JSONScanner.tokens(of: buffer, .json5, maximumDepth: maximumDepth))
                return reader.value(repeated)
            }
        } catch {
            let start = min(error.range.lowerBound, bytes.count)
            let line = 1 + bytes[..<start].count { $0 == 0x0A }
            throw ImportProblem("\(file):\(line): \(reason(error)); a document is JSON or YAML in UTF-8")
        }
    }

    private static func reason(_ failure: JSONFailure) -> String {
        switch failure.problem {
        case .other(let reason): "this is not JSON: \(reason)"
        case .unclosed(_, let closing): "the text ends before its \(Character(Unicode.Scalar(closing)))"
        case .openString: "a string is not closed"
        case .colon: "expected a colon after the name"
        case .comma(let closing, _): "expected a comma or \(Character(Unicode.Scalar(closing)))"
        case .end: "text follows the end of the document"
        default: "this is not JSON"
        }
    }

    private struct Reader {
        let bytes: UnsafeBufferPointer<UInt8>
        let tokens: JSONTokens
        private var next = 0
        // Tokens come in the order of the text, so the lines are counted once.
        private var (position, line) = (0, 1)

        init(bytes: UnsafeBufferPointer<UInt8>, tokens: JSONTokens) {
            self.bytes = bytes
            self.tokens = tokens
        }

        mutating func value(_ repeated: (String, Int) -> Void) -> Node {
            let index = next
            next += 1
            let line = line(at: tokens.ranges[index].lowerBound)
            switch tokens.list[index] {
            case .null: return Node(.null, line: line)
            case .bool(let flag): return Node(.bool(flag), line: line)
            case .int, .double, .number:
                let text = String(decoding: bytes[tokens.ranges[index]], as: UTF8.self)
                return Node(.number(text), line: line)
            case .text, .string: return Node(.string(tokens.string(at: index, in: bytes) ?? ""), line: line)
            case .array(_, let count):
                var elements: [Node] = []
                elements.reserveCapacity(Int(count))
                for _ in 0..<count { elements.append(value(repeated)) }
                return Node(.array(elements), line: line)
            case .object(_, let count):
                var members: [(name: String, value: Node)] = []
                members.reserveCapacity(Int(count))
                for _ in 0..<count {
                    let name = tokens.string(at: next, in: bytes) ?? ""
                    next += 1
                    members.append((name, value(repeated)))
                }
                let object = Node.Members(members)
                for (name, line) in object.repeated { repeated(name, line) }
                return Node(.object(object), line: line)
            }
        }

        private mutating func line(at offset: Int) -> Int {
            while position < offset {
                if bytes[position] == 0x0A { line += 1 }
                position += 1
            }
            return line
        }
    }
}

import CLibyaml

/// Reads a document that is YAML, by the events of libyaml. Scalars without quotes are read by the core schema of YAML 1.2,
/// which OpenAPI asks for: `yes` and `2024-01-01` are texts.
struct YAMLReader {
    /// What aliases may expand to. The largest public documents have about two million values.
    private static let sizeLimit = 20_000_000

    /// An array or object whose end has not come.
    private struct Open {
        let isObject: Bool
        let line: Int
        let anchor: String?
        var members: [(name: String, value: Node)] = []
        var elements: [Node] = []
        /// The name whose value comes next.
        var key: String?
    }

    private let file: String
    private var open: [Open] = []
    private var anchors: [String: Node] = [:]
    private var root: Node?
    private var repeated: [(name: String, line: Int)] = []

    /// - Parameter repeated: receives each name that an object has twice, with its line.
    static func node(
        _ bytes: [UInt8], file: String, repeated: (_ name: String, _ line: Int) -> Void = { _, _ in }
    ) throws(ImportProblem) -> Node {
        var reader = YAMLReader(file: file)
        let node = try reader.document(bytes)
        for (name, line) in reader.repeated { repeated(name, line) }
        return node
    }

    private init(file: String) { self.file = file }

    private mutating func document(_ bytes: [UInt8]) throws(ImportProblem) -> Node {
        var parser = yaml_parser_t()
        guard yaml_parser_initialize(&parser) == 1 else {
            throw ImportProblem("\(file): there is no memory to read it")
        }
        defer { yaml_parser_delete(&parser) }
        // The parser keeps the address, so the bytes stay where they are until its end.
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count + 1)
        defer { copy.deallocate() }
        _ = copy.initialize(from: bytes)
        yaml_parser_set_input_string(&parser, copy.baseAddress, bytes.count)
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(&parser, &event) == 1 else { throw problem(parser, bytes) }
            defer { yaml_event_delete(&event) }
            if event.type == YAML_STREAM_END_EVENT || event.type == YAML_DOCUMENT_END_EVENT { break }
            try take(&event)
        }
        guard let root else { throw ImportProblem("\(file) is empty; expected a document of the OpenAPI") }
        guard root.size <= Self.sizeLimit else {
            throw ImportProblem(
                "\(file): its aliases expand to more than \(Self.sizeLimit / 1_000_000) million values; write them out")
        }
        return root
    }

    private func problem(_ parser: yaml_parser_t, _ bytes: [UInt8]) -> ImportProblem {
        let text = parser.problem.map { String(cString: $0) } ?? "it cannot be read"
        // The end of the text counts as a line of its own.
        let last = 1 + bytes.dropLast().count { $0 == 0x0A }
        let line = parser.error == YAML_READER_ERROR ? 1 : min(Int(parser.problem_mark.line) + 1, last)
        return ImportProblem("\(file):\(line): this is not YAML: \(text); a document is JSON or YAML in UTF-8")
    }

    private mutating func take(_ event: inout yaml_event_t) throws(ImportProblem) {
        let line = Int(event.start_mark.line) + 1
        let anchor = lat_yaml_anchor(&event).map { String(cString: $0) }
        switch event.type {
        case YAML_ALIAS_EVENT:
            guard let node = anchor.flatMap({ anchors[$0] }) else {
                throw ImportProblem("\(file):\(line): no anchor before this line has the name \(anchor ?? "")")
            }
            try add(node, line, anchor: nil)
        case YAML_SCALAR_EVENT:
            let bytes = UnsafeBufferPointer(start: lat_yaml_text(&event), count: lat_yaml_length(&event))
            let text = String(decoding: bytes, as: UTF8.self)
            let tag = lat_yaml_tag(&event).map { String(cString: $0) }
            let isPlain = lat_yaml_is_plain(&event) != 0 || tag != nil && tag?.hasSuffix(":str") == false
            try add(Node(isPlain ? Self.plain(text) : .string(text), line: line), line, anchor: anchor)
        case YAML_SEQUENCE_START_EVENT: try begin(Open(isObject: false, line: line, anchor: anchor))
        case YAML_MAPPING_START_EVENT: try begin(Open(isObject: true, line: line, anchor: anchor))
        case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
            let end = open.removeLast()
            let value: Node.Value = end.isObject ? .object(Node.Members(end.members)) : .array(end.elements)
            let node = Node(value, line: end.line)
            repeated += node.members?.repeated ?? []
            try add(node, end.line, anchor: end.anchor)
        default: break
        }
    }

    private mutating func begin(_ node: Open) throws(ImportProblem) {
        guard open.count < JSONReader.maximumDepth else {
            throw ImportProblem("\(file):\(node.line): more than \(JSONReader.maximumDepth) levels within each other")
        }
        open.append(node)
    }

    private mutating func add(_ node: Node, _ line: Int, anchor: String?) throws(ImportProblem) {
        if let anchor { anchors[anchor] = node }
        let last = open.count - 1
        guard last >= 0 else { return root = node }
        guard open[last].isObject else { return open[last].elements.append(node) }
        guard let key = open[last].key else {
            guard let name = node.text ?? (node.isNull ? "null" : nil) else {
                throw ImportProblem("\(file):\(line): a name must be a text; write it in quotes")
            }
            return open[last].key = name
        }
        open[last].key = nil
        guard key == "<<" else { return open[last].members.append((key, node)) }
        // Merged members are those that stand neither there nor in an earlier one of several objects.
        var known = Set(open[last].members.map(\.name))
        for source in (node.array ?? [node]).compactMap(\.members) {
            for (name, value) in zip(source.names, source.values) where known.insert(name).inserted {
                open[last].members.append((name, value))
            }
        }
    }

    /// The value of a scalar without quotes (YAML 1.2 §10.3.2).
    private static func plain(_ text: String) -> Node.Value {
        switch text {
        case "", "~", "null", "Null", "NULL": return .null
        case "true", "True", "TRUE": return .bool(true)
        case "false", "False", "FALSE": return .bool(false)
        default: break
        }
        guard let first = text.utf8.first, first.isNumberStart else { return .string(text) }
        if text.hasPrefix("0x"), let number = Int64(text.dropFirst(2), radix: 16) { return .number("\(number)") }
        if text.hasPrefix("0o"), let number = Int64(text.dropFirst(2), radix: 8) { return .number("\(number)") }
        let isSigned = first == UInt8(ascii: "-") || first == UInt8(ascii: "+")
        let body = isSigned ? text.dropFirst() : text[...]
        let isNumber = body.utf8.allSatisfy { $0.isNumberByte } && body.utf8.first?.isNumberStart == true
        guard isNumber, let double = Double(text), double.isFinite else { return .string(text) }
        if let whole = Int64(text) { return .number("\(whole)") }
        // 007 and 1_000 are texts to people; 1. and .5 are no numbers in JSON.
        return .number(body.hasPrefix(".") || body.hasSuffix(".") || first == UInt8(ascii: "+") ? "\(double)" : text)
    }
}

extension UInt8 {
    fileprivate var isNumberStart: Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) || self == UInt8(ascii: "-") || self == UInt8(ascii: "+")
            || self == UInt8(ascii: ".")
    }

    fileprivate var isNumberByte: Bool {
        isNumberStart || self == UInt8(ascii: "e") || self == UInt8(ascii: "E")
    }
}

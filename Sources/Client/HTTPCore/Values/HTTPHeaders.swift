import Glibc

/// Header fields in wire order, including repeated ones. Names are looked up
/// without regard to case (RFC 9110 §5).
///
/// ```swift
/// var headers: HTTPHeaders = ["Accept": "application/json", "User-Agent": nil]
/// headers["accept"]                     // "application/json"
/// headers.append("Accept", "text/html") // a second line
/// headers[values: "Accept"]             // ["application/json", "text/html"]
/// for (name, value) in headers { print(name, value) }
/// ```
///
/// A name set to `nil` is a *removal*. Merged into other headers, it removes
/// the field there. In a request it also keeps the engine from adding its own
/// default (`User-Agent`, `Accept`, …). Iteration skips removals.
public struct HTTPHeaders: Sendable, ExpressibleByDictionaryLiteral {
    private enum Storage: Sendable {
        case fields([Field])
        /// The head as received, status line first. It is parsed on access.
        case wire([UInt8])
    }

    /// One field line. A `nil` value marks a removal.
    package struct Field: Hashable, Sendable {
        package var name: String
        package var value: String?
        /// Whose line it is, when that is known. Not compared.
        fileprivate(set) package var layer: Layer?

        package init(name: String, value: String?) {
            self.name = name
            self.value = value
        }

        package enum Layer: Sendable {
            /// The manager or a row: a provider's line takes its place.
            case base
            case request
        }

        package static func == (lhs: Field, rhs: Field) -> Bool {
            lhs.name.hasSameBytes(as: rhs.name) && lhs.value.hasSameBytes(as: rhs.value)
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(name)
            hasher.combine(value)
        }
    }

    private var storage: Storage

    /// No fields.
    public init() { storage = .fields([]) }

    /// The fields of a literal, in its order. `nil` makes a removal.
    public init(dictionaryLiteral elements: (String, String?)...) {
        storage = .fields(elements.map { Field(name: $0.0, value: $0.1) })
    }

    /// The fields of a dictionary, sorted by name. `nil` makes a removal.
    public init(_ fields: [String: String?]) {
        storage = .fields(fields.sorted { $0.key < $1.key }.map { Field(name: $0.key, value: $0.value) })
    }

    /// The fields of a sequence of pairs, in order, including repeated ones.
    public init(_ fields: some Sequence<(String, String)>) {
        storage = .fields(fields.map { Field(name: $0.0, value: $0.1) })
    }

    package init(_ fields: [Field]) { storage = .fields(fields) }

    /// The fields of a received head: a status line and field lines that end in
    /// CR LF or LF. They are parsed on access.
    package init(wireHead: [UInt8]) { storage = .wire(wireHead) }

    /// The first value of a field, `nil` when there is none. Setting a value replaces the first
    /// line of that name and removes the others. Setting `nil` makes a removal.
    public subscript(name: String) -> String? {
        get {
            switch storage {
            case .fields(let fields):
                return fields.first { $0.value != nil && $0.name.equalsIgnoringASCIICase(name) }?.value
            case .wire(let head):
                return WireLines.read(head) { $0.next(named: name)?.value }
            }
        }
        set {
            var fields = self.fields
            let field = Field(name: name, value: newValue)
            if let first = fields.firstIndex(where: { $0.name.equalsIgnoringASCIICase(name) }) {
                fields[first] = field
                let rest = fields[(first + 1)...]
                if rest.contains(where: { $0.name.equalsIgnoringASCIICase(name) }) {
                    fields = fields[...first] + rest.filter { !$0.name.equalsIgnoringASCIICase(name) }
                }
            } else {
                fields.append(field)
            }
            storage = .fields(fields)
        }
    }

    /// Every value of a field, one element for each line, in order. Lines are never joined or
    /// split, so several `Set-Cookie` lines stay separate (RFC 6265 §3).
    public subscript(values name: String) -> [String] {
        switch storage {
        case .fields(let fields):
            return fields.compactMap { $0.name.equalsIgnoringASCIICase(name) ? $0.value : nil }
        case .wire(let head):
            return WireLines.read(head) { lines in
                var values: [String] = []
                while let line = lines.next(named: name) { values.append(line.value) }
                return values
            }
        }
    }

    /// Adds a line and keeps those of the same name. A removal of that name is dropped.
    public mutating func append(_ name: String, _ value: String) {
        var fields = self.fields
        fields.removeAll { $0.value == nil && $0.name.equalsIgnoringASCIICase(name) }
        fields.append(Field(name: name, value: value))
        storage = .fields(fields)
    }

    /// Adds a cookie to the field `Cookie`. What its value may not have (RFC 6265 §4.1.1), such as `;`, is percent-encoded.
    public mutating func appendCookie(_ name: String, _ value: String) {
        let text = value.utf8.percentEncoded { $0 <= 0x20 || $0 >= 0x7F || #"",;\"#.utf8.contains($0) }
        let before = self["Cookie"].map { "\($0); " } ?? ""
        self["Cookie"] = "\(before)\(name)=\(text)"
    }

    /// Removes every line, and every removal, whose name satisfies the condition. Of the headers that an interceptor is given,
    /// this makes a removal.
    public mutating func removeAll(where isUnwanted: (_ name: String) -> Bool) {
        storage = .fields(
            fields.compactMap { field in
                guard isUnwanted(field.name) else { return field }
                return field.layer == nil ? nil : Field(name: field.name, value: nil)
            })
    }

    /// These headers with every line marked as one of a layer, or as one of none.
    package func marked(as layer: Field.Layer?) -> HTTPHeaders {
        HTTPHeaders(
            fields.map { field in
                var field = field
                field.layer = layer
                return field
            })
    }

    /// The lines that are still as the manager or a row gave them, and the others. The lines of one name stay together.
    package var layers: (base: HTTPHeaders, own: HTTPHeaders) {
        let fields = fields
        let changed = fields.filter { $0.layer != .base }
        let isOwn = { (field: Field) in changed.contains { $0.name.equalsIgnoringASCIICase(field.name) } }
        return (HTTPHeaders(fields.filter { !isOwn($0) }), HTTPHeaders(fields.filter(isOwn)))
    }

    /// Whether there is a field of this name.
    public func contains(_ name: String) -> Bool { self[name] != nil }

    /// Whether the name of a field begins with one of these texts, which are in lower case and not empty.
    package func containsName(beginningWith beginnings: [[UInt8]]) -> Bool {
        func begins(_ name: some RandomAccessCollection<UInt8>) -> Bool {
            guard let first = name.first.map(asciiLowercased) else { return false }
            for beginning in beginnings where beginning[0] == first {
                if name.starts(with: beginning, by: { asciiLowercased($0) == $1 }) { return true }
            }
            return false
        }
        return switch storage {
        case .fields(let fields): fields.contains { $0.value != nil && begins(Array($0.name.utf8)) }
        case .wire(let head):
            WireLines.read(head) { lines in
                while let line = lines.next(where: { byte in beginnings.contains { $0[0] == byte } }) {
                    if begins(line.nameBytes) { return true }
                }
                return false
            }
        }
    }

    /// Merges other headers into these. A name in `other` replaces all lines of that name here; a removal in
    /// `other` removes them.
    public mutating func merge(_ other: HTTPHeaders) {
        let incoming = other.fields
        guard !incoming.isEmpty else { return }
        let current = fields
        guard !current.isEmpty else {
            storage = .fields(incoming)
            return
        }
        // A set costs more than it saves unless there are many lines.
        let names = incoming.count < 32 ? [] : Set(incoming.map { $0.name.utf8.map(asciiLowercased) })
        var merged = current.filter { field in
            names.isEmpty
                ? !incoming.contains { $0.name.equalsIgnoringASCIICase(field.name) }
                : !names.contains(field.name.utf8.map(asciiLowercased))
        }
        merged.append(contentsOf: incoming)
        storage = .fields(merged)
    }

    /// Returns these headers with others merged into them; see ``merge(_:)``.
    public func merging(_ other: HTTPHeaders) -> HTTPHeaders {
        var copy = self
        copy.merge(other)
        return copy
    }

    /// The number of lines, including repeated fields and without removals.
    public var count: Int {
        switch storage {
        case .fields(let fields): fields.count { $0.value != nil }
        case .wire(let head): WireLines.read(head) { lines in lines.reduce(0) { count, _ in count + 1 } }
        }
    }

    /// Whether there are no lines. Removals do not count.
    public var isEmpty: Bool { count == 0 }

    /// The lines and removals, in order.
    package var fields: [Field] {
        switch storage {
        case .fields(let fields): fields
        case .wire(let head): WireLines.read(head) { $0.map { Field(name: $0.name, value: $0.value) } }
        }
    }

    /// Whether there is neither a line nor a removal.
    package var hasNoFields: Bool {
        if case .fields(let fields) = storage { fields.isEmpty } else { isEmpty }
    }
}

extension HTTPHeaders: Sequence {
    /// Iterates over the lines in order as `(name, value)`, without removals.
    public func makeIterator() -> AnyIterator<(name: String, value: String)> {
        var fields = self.fields.makeIterator()
        return AnyIterator {
            while let field = fields.next() {
                if let value = field.value { return (field.name, value) }
            }
            return nil
        }
    }
}

extension HTTPHeaders: Hashable, CustomStringConvertible {
    /// Whether lines and removals are equal and in the same order. Names are compared without regard to
    /// case, values byte by byte.
    public static func == (lhs: HTTPHeaders, rhs: HTTPHeaders) -> Bool {
        lhs.fields.elementsEqual(rhs.fields) {
            $0.value.hasSameBytes(as: $1.value) && $0.name.equalsIgnoringASCIICase($1.name)
        }
    }

    /// Hashes the names in lower case, and the values.
    public func hash(into hasher: inout Hasher) {
        for field in fields {
            hasher.combine(field.name.lowercased())
            hasher.combine(field.value)
        }
    }
}

/// The field lines of a received head, as slices of it. They are valid only while they are read: every response is asked for
/// several fields, and an array would check its bounds for each byte.
private struct WireLines: Sequence, IteratorProtocol {
    typealias Bytes = Slice<UnsafeBufferPointer<UInt8>>

    private var rest: Bytes
    private var pastStatusLine = false

    static func read<Result>(_ head: [UInt8], _ body: (inout WireLines) -> Result) -> Result {
        head.withUnsafeBufferPointer { head in
            var lines = WireLines(rest: head[...])
            return body(&lines)
        }
    }

    private init(rest: Bytes) { self.rest = rest }

    struct Line {
        let nameBytes: Bytes
        let valueBytes: Bytes
        var name: String { String(decoding: nameBytes, as: UTF8.self) }
        var value: String {
            valueBytes.contains(0x0A) ? Self.text(of: unfolded) : Self.text(of: valueBytes)
        }
        /// The value with every fold (a line end and the white space around it) replaced by one space.
        private var unfolded: [UInt8] {
            let parts = valueBytes.split(separator: 0x0A).map { $0.trimmed { $0.isFieldWhitespace || $0 == 0x0D } }
            return Array(parts.filter { !$0.isEmpty }.joined(separator: [0x20]))
        }
        /// Bytes that are not UTF-8 are read as Latin-1, which is what servers that send them mean.
        private static func text(of bytes: some Collection<UInt8>) -> String {
            // To validate costs several times as much.
            if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
            return String(validating: bytes, as: UTF8.self)
                ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        }
        func hasName(_ other: String) -> Bool { equalIgnoringASCIICase(nameBytes, other.utf8) }
    }

    mutating func next() -> Line? {
        while let line = nextLine() {
            if !pastStatusLine {
                pastStatusLine = true
                if line.starts(with: "HTTP/".utf8) { continue }
            }
            guard let colon = Self.index(of: UInt8(ascii: ":"), in: line), colon > line.startIndex else { continue }
            // White space before the colon is removed (RFC 9112 §5.1). A line with white space before the name is skipped.
            let name = line[..<colon].trimmed { $0.isFieldWhitespace }
            guard !name.isEmpty, name.startIndex == line.startIndex, Self.index(of: 0x0A, in: name) == nil else {
                continue
            }
            let value = line[(colon + 1)...].trimmed { $0.isFieldWhitespace }
            return Line(nameBytes: name, valueBytes: value)
        }
        return nil
    }

    /// The next line with a name.
    mutating func next(named name: String) -> Line? {
        let (first, length) = (name.utf8.first.map(asciiLowercased), name.utf8.count)
        while let line = next(where: { $0 == first }, length) { if line.hasName(name) { return line } }
        return nil
    }

    /// The next line whose first byte, in lower case, passes, and whose name may have the length. Most lines are passed over by
    /// their first byte; continuation lines begin with white space.
    mutating func next(where passes: (UInt8) -> Bool, _ length: Int? = nil) -> Line? {
        while let byte = rest.first {
            if passes(asciiLowercased(byte)), length.map(mayEndName) ?? true { return next() }
            guard let feed = Self.index(of: 0x0A, in: rest) else { break }
            rest = rest[(feed + 1)...]
            pastStatusLine = true
        }
        return nil
    }

    private func mayEndName(at length: Int) -> Bool {
        let end = rest.startIndex + length
        return end < rest.endIndex && (rest[end] == UInt8(ascii: ":") || rest[end].isFieldWhitespace)
    }

    /// The next line, including its continuation lines (obs-fold, RFC 9112 §5.2).
    private mutating func nextLine() -> Bytes? {
        guard !rest.isEmpty else { return nil }
        var end = Self.index(of: 0x0A, in: rest) ?? rest.endIndex
        while end + 1 < rest.endIndex, rest[end + 1].isFieldWhitespace {
            end = Self.index(of: 0x0A, in: rest[(end + 1)...]) ?? rest.endIndex
        }
        let line = rest[rest.startIndex..<end]
        rest = end < rest.endIndex ? rest[(end + 1)...] : rest[end...]
        return line.last == 0x0D ? line.dropLast() : line
    }

    private static func index(of byte: UInt8, in bytes: Bytes) -> Int? {
        guard let start = bytes.base.baseAddress, !bytes.isEmpty else { return nil }
        return memchr(start + bytes.startIndex, Int32(byte), bytes.count).map {
            UnsafeRawPointer($0) - UnsafeRawPointer(start)
        }
    }
}

extension String {
    /// Whether two texts are equal when the case of ASCII letters is ignored, as for field names.
    package func equalsIgnoringASCIICase(_ other: String) -> Bool { equalIgnoringASCIICase(utf8, other.utf8) }
}

/// Runs for each field of each request and response, so it compares the lengths first, which differ for most names.
private func equalIgnoringASCIICase(_ lhs: some Collection<UInt8>, _ rhs: String.UTF8View) -> Bool {
    guard lhs.count == rhs.count else { return false }
    let isEqual: Bool?? = lhs.withContiguousStorageIfAvailable { lhs in
        rhs.withContiguousStorageIfAvailable { rhs in
            for index in lhs.indices where lhs[index] != rhs[index] {
                guard asciiLowercased(lhs[index]) == asciiLowercased(rhs[index]) else { return false }
            }
            return true
        }
    }
    if let isEqual, let isEqual { return isEqual }
    return zip(lhs, rhs).allSatisfy { asciiLowercased($0) == asciiLowercased($1) }
}

private func asciiLowercased(_ byte: UInt8) -> UInt8 {
    byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
}

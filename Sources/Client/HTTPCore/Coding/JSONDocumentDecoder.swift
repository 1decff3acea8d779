internal import FoundationEssentials
import Synchronization

extension JSONDocument {
    /// Decodes the value.
    ///
    /// - Throws: `DecodingError` as `JSONDecoder` does. Its coding path begins at this value.
    package func decode<T: Decodable>(_ type: T.Type, by rules: CodingRules? = nil) throws -> T {
        if let decoder = rules?.coding.decoder { return try decoder.decode(type, from: value.data()) }
        return try decode(type, at: JSONCodingPath(rules: rules))
    }

    /// Whether the value can be decoded, and the type reads one of these members of it, so that it knows them.
    package func decodes<T: Decodable>(_ type: T.Type, reading names: Set<String>, by rules: CodingRules?) -> Bool {
        // Of these every member is read, or nobody can tell.
        if type == JSONValue.self || rules?.coding.decoder != nil { return true }
        let watch = MemberWatch(names)
        guard (try? decode(type, by: CodingRules(rules?.coding ?? Coding(), watch: watch))) != nil else { return false }
        return watch.hasNoted
    }

    /// Decodes the value at a place, which is made only for a decoder and for errors.
    func decode<T: Decodable>(_ type: T.Type, at place: @autoclosure () -> JSONCodingPath) throws -> T {
        var decoder: JSONDocumentDecoder?
        return try decode(type, at: place, reusing: &decoder)
    }

    /// - Parameter decoder: the decoder of an earlier element of the same array, which is used again unless a model kept it.
    private func decode<T: Decodable>(
        _ type: T.Type, at place: () -> JSONCodingPath, reusing decoder: inout JSONDocumentDecoder?
    ) throws -> T {
        // Each bit cast converts to the same type. `as? T` would do a slow look-up.
        if type == String.self { return unsafeBitCast(try read(string, at: place()), to: type) }
        if type == Int.self { return unsafeBitCast(try read(integer() as Int?, at: place()), to: type) }
        if type == Double.self {
            return unsafeBitCast(try read(floatingPoint(place().allRules) as Double?, at: place()), to: type)
        }
        if type == Bool.self { return unsafeBitCast(try read(bool, at: place()), to: type) }
        if type == [String].self { return unsafeBitCast(try elements(String.self, at: place), to: type) }
        if type == [Int].self { return unsafeBitCast(try elements(Int.self, at: place), to: type) }
        if type == [Double].self { return unsafeBitCast(try elements(Double.self, at: place), to: type) }
        if Self.isFoundational(type) { return try foundationalValue(at: place()) }
        // The cast is slow, and most models have another size than an array.
        if MemoryLayout<T>.size == MemoryLayout<[Int]>.size, let array = type as? any DecodableArray.Type {
            func decoded<A: DecodableArray>(_: A.Type) throws -> T {
                unsafeBitCast(try A(elementsOf: self, at: place), to: type)
            }
            return try decoded(array)
        }
        if decoder != nil, isKnownUniquelyReferenced(&decoder) {
            decoder?.move(to: self, at: place())
        } else {
            let place = place()
            guard place.depth <= JSONValue.maximumDepth else {
                throw place.corrupted("more than \(JSONValue.maximumDepth) levels of nesting")
            }
            decoder = JSONDocumentDecoder(self, at: place, keepsNames: type is any StringKeys.Type)
        }
        guard let decoder else { throw mismatch(type, at: place()) }
        return try T(from: decoder)
    }

    private static func isFoundational(_ type: Any.Type) -> Bool {
        type == JSONValue.self || type == Date.self || type == Data.self || type == URL.self || type == Decimal.self
    }

    /// JSON has no dates, bytes and URLs. A `Date` and `Data` are decoded as the ``Coding`` says, a `URL` from text.
    private func foundationalValue<T>(at place: JSONCodingPath) throws -> T {
        let type = T.self
        if type == JSONValue.self {
            let ignoresNulls = place.allRules?.coding.ignoresNullMembers == true
            return unsafeBitCast(ignoresNulls ? value.withoutNullMembers : value, to: type)
        }
        if type == Date.self {
            do throws(CodingProblem) {
                return unsafeBitCast(try CodingRules.date(from: self, by: place.allRules), to: type)
            } catch {
                throw isNull ? mismatch(Date.self, at: place) : place.corrupted(error.reason)
            }
        }
        if type == Data.self {
            guard let data = CodingRules.data(from: try read(string, at: place), by: place.allRules) else {
                throw place.corrupted("it is not Base64")
            }
            return unsafeBitCast(data, to: type)
        }
        if type == URL.self {
            guard let url = URL(string: try read(string, at: place)) else { throw place.corrupted("it is not a URL") }
            return unsafeBitCast(url, to: type)
        }
        do throws(CodingProblem) {
            return unsafeBitCast(try CodingRules.decimal(from: self, by: place.allRules), to: type)
        } catch {
            guard number == nil else { throw place.corrupted(error.reason) }
            throw isNull ? mismatch(Decimal.self, at: place) : mismatch(Decimal.self, at: place, error.reason)
        }
    }

    /// The elements of an array, decoded into their memory.
    fileprivate func elements<E: Decodable>(_ type: E.Type, at place: () -> JSONCodingPath) throws -> [E] {
        guard let count = elementCount else { throw mismatch([JSONValue].self, at: place()) }
        guard count > 0 else { return [] }
        var (element, parent, decoder) = (first, JSONDocumentDecoder?.none, JSONDocumentDecoder?.none)
        return try [E](unsafeUninitializedCapacity: count) { buffer, decoded in
            for index in 0..<count {
                let value = try element.decode(
                    type,
                    at: {
                        let array = parent ?? JSONDocumentDecoder(self, at: place())
                        parent = array
                        return JSONCodingPath(decoder: array, key: .element(index))
                    },
                    reusing: &decoder)
                buffer.initializeElement(at: index, to: value)
                decoded += 1
                element = element.next
            }
        }
    }

    /// The number as an integer; `nil` when this is not a number or does not fit.
    func integer<T: FixedWidthInteger>() -> T? {
        let plain = plainNumber
        if let number = plain.int { return T(exactly: number) }
        let (signed, unsigned) = wideInteger
        return signed.flatMap { T(exactly: $0) } ?? unsigned.flatMap { T(exactly: $0) }
    }

    /// A number that is not held as `Int64`, as integers of the widest types. Not generic, because converting a `Double` or
    /// text is long code, which would be compiled for each of the ten types.
    private var wideInteger: (signed: Int128?, unsigned: UInt128?) {
        let exact: Decimal?
        switch number {
        // Below 2^53 the shortest text of a whole number is the number itself; above it, only the text is (``JSONNumber``).
        case .double(let number) where number.magnitude < 0x1p53:
            return (Int128(exactly: number), UInt128(exactly: number))
        case .double: exact = exactDecimal
        case .decimal(let number): exact = number
        default: exact = nil
        }
        let text = exact?.description ?? ""
        return (Int128(text), UInt128(text))
    }

    /// The number as the nearest `Double` or `Float`; `nil` when it is too large.
    func floatingPoint<T: JSONFloat>(_ rules: @autoclosure () -> CodingRules?) -> T? {
        switch plainNumber {
        case (_, let number?): return T(number).fitting(number)
        case (let number?, _): return T(number)
        default: break
        }
        switch number {
        case .double(let number): return T(number).fitting(number)
        case .decimal(let number): return T(number.description)?.fitting(0)
        default: return rules().flatMap { CodingRules.nonConformingNumber(from: string, by: $0) }.map { T($0) }
        }
    }

    /// Unwraps what was read of this value, or throws the reason why it could not be read.
    func read<T>(_ value: T?, at place: @autoclosure () -> JSONCodingPath) throws -> T {
        if let value { return value }
        throw unreadable(T.self, at: place())
    }

    private func unreadable(_ type: Any.Type, at place: JSONCodingPath) -> DecodingError {
        if let number, type is any BinaryInteger.Type || type is any BinaryFloatingPoint.Type {
            return place.corrupted("the number \(number) does not fit into \(type)")
        }
        return mismatch(type, at: place)
    }

    func mismatch(_ type: Any.Type, at place: JSONCodingPath, _ reason: String? = nil) -> DecodingError {
        // The types that a container asks for are not the model's.
        let expected =
            type == [String: JSONValue].self ? "an object" : type == [JSONValue].self ? "an array" : "\(type)"
        let context = DecodingError.Context(
            codingPath: place.keys, debugDescription: reason ?? "expected \(expected), found \(kindName)")
        return isNull ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }
}

/// Notes whether one of several members of a document was read.
final class MemberWatch: Sendable {
    private let names: Set<String>
    private let isNoted = Atomic(false)

    init(_ names: Set<String>) { self.names = names }

    var hasNoted: Bool { isNoted.load(ordering: .relaxed) }

    func note(_ name: String) { if names.contains(name) { isNoted.store(true, ordering: .relaxed) } }
}

extension BinaryFloatingPoint {
    /// This value; `nil` if it is infinite and the number that it was made of is not.
    fileprivate func fitting(_ number: Double) -> Self? { isFinite || !number.isFinite ? self : nil }
}

/// `Double` and `Float`.
typealias JSONFloat = BinaryFloatingPoint & LosslessStringConvertible

/// An array of any type that can be decoded.
private protocol DecodableArray {
    init(elementsOf document: JSONDocument, at place: () -> JSONCodingPath) throws
}

extension Array: DecodableArray where Element: Decodable {
    fileprivate init(elementsOf document: JSONDocument, at place: () -> JSONCodingPath) throws {
        self = try document.elements(Element.self, at: place)
    }
}

/// The place of a value in a document: the decoder of the object or array that contains it, and its key there. The coding
/// path is made only for errors.
struct JSONCodingPath {
    enum Key {
        case member(any CodingKey)
        case element(Int)

        var codingKey: any CodingKey {
            switch self {
            case .member(let key): key
            case .element(let index): JSONKey(intValue: index)
            }
        }
    }

    var decoder: JSONDocumentDecoder?
    var key: Key?
    /// The coding at the root; `nil` for the standard one.
    var rules: CodingRules?

    var allRules: CodingRules? { decoder?.rules ?? rules }

    var depth: Int { decoder.map { $0.depth + 1 } ?? 0 }

    var keys: [any CodingKey] {
        var keys: [any CodingKey] = []
        var place = self
        while let key = place.key, let decoder = place.decoder {
            keys.append(key.codingKey)
            place = decoder.place
        }
        return keys.reversed()
    }

    func corrupted(_ reason: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: keys, debugDescription: reason))
    }
}

final class JSONDocumentDecoder: Decoder {
    @exclusivity(unchecked) private(set) var document: JSONDocument
    @exclusivity(unchecked) private(set) var place: JSONCodingPath
    let depth: Int
    let rules: CodingRules?
    let usesSnakeCase: Bool
    /// The members of a large object, in which a linear search for each name would be slow.
    @exclusivity(unchecked) private var table: [String: JSONDocument]?
    /// Where the last look-up of a member ended.
    @exclusivity(unchecked) private var lookUp = 0

    /// - Parameter keepsNames: Whether the names are the keys of a dictionary, which are data.
    init(
        _ document: JSONDocument, at place: consuming JSONCodingPath, keepsNames: @autoclosure () -> Bool = false
    ) {
        depth = place.depth
        let rules = place.allRules
        usesSnakeCase = rules?.usesSnakeCase == true && !keepsNames()
        self.rules = rules
        self.document = document
        self.place = place
        makeTable()
    }

    /// Makes this the decoder of another element of the same array.
    func move(to document: JSONDocument, at place: JSONCodingPath) {
        self.document = document
        self.place = place
        lookUp = 0
        makeTable()
    }

    private func makeTable() {
        table = (document.memberCount ?? 0) > 64 ? Dictionary(document.members) { $1 } : nil
    }

    var codingPath: [any CodingKey] { place.keys }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard document.memberCount != nil else { throw document.mismatch([String: JSONValue].self, at: place) }
        return KeyedDecodingContainer(JSONMembers(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard document.elementCount != nil else { throw document.mismatch([JSONValue].self, at: place) }
        return JSONElements(of: self)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    @inline(__always)
    func member(_ name: String) -> JSONDocument? {
        rules == nil ? anyMember(name) : codedMember(name)
    }

    private func anyMember(_ name: String) -> JSONDocument? {
        if let table { table[name] } else { document.member(name, from: &lookUp) }
    }

    private func codedMember(_ name: String) -> JSONDocument? {
        if let watch = rules?.watch, depth == 0 { watch.note(name) }
        let member = usesSnakeCase ? snakeMember(name) ?? anyMember(name) : anyMember(name)
        return rules?.coding.ignoresNullMembers == true && member?.isNull == true ? nil : member
    }

    /// Servers write a number as a word of its own, `address_line_1`, or as the end of one, `address_line1`.
    private func snakeMember(_ name: String) -> JSONDocument? {
        if let member = anyMember(name.snakeCase) { return member }
        guard name.utf8.contains(where: { (0x30...0x39).contains($0) }) else { return nil }
        return anyMember(name.snakeCase(separatingNumbers: true))
    }

    var memberNames: [String] {
        let names = table.map { Array($0.keys) } ?? document.members.map(\.name)
        if let watch = rules?.watch, depth == 0 { names.forEach(watch.note) }
        return rules?.coding.ignoresNullMembers == true ? names.filter { anyMember($0)?.isNull == false } : names
    }
}

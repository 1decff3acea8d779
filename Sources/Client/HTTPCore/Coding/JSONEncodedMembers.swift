package import FoundationEssentials

/// The members of an encoded object, sorted by name, for use in a path, a query or JSON.
///
/// ```swift
/// guard var members = try EncodedMembers(deferring: order) else { return }  // nil: it does not encode to an object
/// members.addMissing(EncodedMembers(["page": 1]))
/// let id = members.remove("id")                                        // JSONValue?, for {id} in a path
/// let address = ParameterEncoder.appending(query: members.queryText, to: url)  // or
/// request.body = .data(try members.jsonData(), contentType: "application/json")
/// ```
///
/// Only ``object`` makes a dictionary; the other operations do without one.
package struct EncodedMembers: Hashable, Sendable {
    struct Member: Hashable {
        let name: String
        var value: JSONValue
        /// Whether the name is a key of a dictionary, which stays as it is.
        var keepsName = false
    }

    /// The members, sorted by name, without repeated names.
    private(set) var list: [Member]
    /// The values that depend on a coding that was not known; see ``coded(by:)``.
    private(set) var notes: [DeferredCoding.Note] = []
    /// Whether members were left out because they are `nil`, or there were none, so that `{}` is their JSON. Kept by
    /// ``addMissing(_:)`` only.
    package internal(set) var leavesOutNil = false

    package init() { list = [] }

    package init(_ object: [String: JSONValue]) { list = Self.list(of: object) }

    init(_ list: [Member], _ notes: [DeferredCoding.Note]) {
        self.list = list
        self.notes = notes
    }

    static func list(of object: [String: JSONValue], isSorted: Bool = true) -> [Member] {
        var list = object.map { Member(name: $0.key, value: $0.value) }
        if isSorted { sort(&list) }
        return list
    }

    /// Sorts by name.
    static func sort(_ list: inout [Member]) { list.sort { $0.name < $1.name } }

    package var isEmpty: Bool { list.isEmpty }

    package var names: [String] { list.map(\.name) }

    package subscript(name: String) -> JSONValue? { list.first { $0.name == name }?.value }

    @discardableResult
    package mutating func remove(_ name: String) -> JSONValue? {
        if !notes.isEmpty { notes.removeAll { $0.path.first?.name == name } }
        return list.firstIndex { $0.name == name }.map { list.remove(at: $0).value }
    }

    package func only(_ names: [String]) -> EncodedMembers {
        guard !isEmpty else { return EncodedMembers() }
        var some = EncodedMembers()
        some.list = list.filter { names.contains($0.name) }
        some.notes = notes.filter { $0.path.first.map { names.contains($0.name) } ?? false }
        return some
    }

    /// Adds the members whose names are not present yet.
    package mutating func addMissing(_ other: EncodedMembers) {
        if other.leavesOutNil { leavesOutNil = true }
        guard !other.isEmpty else { return }
        guard !isEmpty || !notes.isEmpty else {
            (list, notes) = (other.list, other.notes)
            return
        }
        let missing = other.list.filter { self[$0.name] == nil }
        if !other.notes.isEmpty {
            notes += other.notes.filter { note in missing.contains { $0.name == note.path.first?.name } }
        }
        list += missing
        Self.sort(&list)
    }

    package var object: [String: JSONValue] {
        Dictionary(uniqueKeysWithValues: list.lazy.map { ($0.name, $0.value) })
    }

    /// The object as JSON, with members sorted by name.
    ///
    /// - Throws: `EncodingError.invalidValue`, as ``JSONValue/data(prettyPrinted:sortedKeys:)``.
    package func jsonData() throws -> Data {
        var writer = JSONWriter(isPretty: false, sortsKeys: true)
        writer.write(list, depth: 0)
        if writer.isUnwritable { try JSONValue.object(object).checkWritable() }
        return Data(writer.bytes)
    }
}

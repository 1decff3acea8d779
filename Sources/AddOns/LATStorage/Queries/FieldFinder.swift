import FoundationEssentials
import HTTPCore

/// Finds the field of a key path by samples: values of the type in which every field differs. The field is the one
/// whose stored value equals the property in every sample.
///
/// This cannot single out a field that is the same in all samples, such as an enum with one known case. Such a field is
/// accepted only for the stored property of the same name. When no field or several fields match, an error says what to
/// write instead. A wrong field is never used.
struct FieldFinder<Object: Storable> where Object.ID: Codable & Sendable {
    /// Thrown when too few samples can be made and no row or prototype exists. The query then has no result.
    struct NoRows: Error {}

    private struct Sample {
        let object: Object
        let asked: Set<[String]>
        var columns: [String: StoredValue] = [:]
        var json: [String: JSONValue] = [:]

        init(_ object: Object, asked: Set<[String]>, hasOwnKey: Bool) throws {
            self.object = object
            self.asked = asked
            let encoder = RowEncoder()
            try object.encode(to: encoder)
            for (column, value) in encoder.missing {
                columns[column.name] = value
                if column.kind == .json { json[column.name] = value.json }
            }
            if hasOwnKey { columns[TableLayout.ownKey] = try ColumnCoding.stored(object.id).value }
        }

        /// The columns, the members of objects in them, and all fields that the type decoded.
        var fields: Set<Field> {
            var fields = Set(columns.keys.map { Field($0) }).union(asked.map { Field($0) })
            func walk(_ value: JSONValue, _ field: Field) {
                guard case .object(let members) = value else { return }
                for (name, member) in members {
                    let inner = Field(field.name, path: field.path + [.name(name)])
                    fields.insert(inner)
                    walk(member, inner)
                }
            }
            for (name, value) in json { walk(value, Field(name)) }
            return fields
        }

        private func column(_ name: String) -> StoredValue { columns[name] ?? .null }

        func inside(_ field: Field) -> JSONValue {
            var node = json[field.name]
            for case .name(let name) in field.path { node = node?[name] }
            return node ?? .null
        }

        /// Whether the field has the property's value.
        func hold(_ stored: StoredValue, _ json: JSONValue?, in field: Field) -> Bool {
            field.path.isEmpty ? column(field.name).isSame(as: stored) : inside(field) == json
        }

        func isSame(_ field: Field, as other: Sample) -> Bool {
            field.path.isEmpty
                ? column(field.name).isSame(as: other.column(field.name)) : inside(field) == other.inside(field)
        }
    }

    let entry: TypeEntry
    let row: KnownRow
    private var layout: TableLayout { entry.layout }

    func field(of path: AnyKeyPath) throws -> Field {
        guard let path = path as? PartialKeyPath<Object> else { throw unknown(path) }
        let offset = MemoryLayout<Object>.offset(of: path)
        // A computed property may equal a field for most values, so a property that may be computed gets more samples.
        let samples = try samples(offset == nil ? 64 : 24)
        guard let first = samples.first else { throw unknown(path) }
        var fields = samples.reduce(into: Set<Field>()) { $0.formUnion($1.fields) }
        for sample in samples where !fields.isEmpty {
            guard let value = sample.object[keyPath: path] as? any Encodable,
                let stored = try? ColumnCoding.stored(value).value
            else { throw unknown(path) }
            let json = try? JSONValue(parsing: Data(ColumnCoding.json(value).utf8))
            fields = fields.filter { sample.hold(stored, json, in: $0) }
        }
        var deciding = fields.filter { field in samples.contains { !$0.isSame(field, as: first) } }
        // An id that is a computed property has a column of its own, which may have the same value as a field.
        if deciding.count > 1 { deciding.remove(Field(TableLayout.ownKey)) }
        if deciding.count == 1, let field = deciding.first { return field }
        guard deciding.isEmpty, let offset,
            let names = Self.names(at: offset, type(of: path).valueType, in: first.object)
        else { throw unknown(path) }
        let named = Field(names)
        guard fields.contains(named) else { throw unknown(path) }
        return named
    }

    private func unknown(_ path: AnyKeyPath) -> NetworkError {
        .storage(
            .query, "query \(layout.shown)",
            "\(path) is not a field, or matches several; write Field(\"name\") with one of "
                + "\(entry.shownFields), or make it CaseIterable if it is an enum")
    }

    private func samples(_ count: Int) throws -> [Sample] {
        let samples = (0..<count).compactMap { sample($0, changed: nil) }
        if samples.count > count / 2 { return samples }
        if row.values.isEmpty { throw NoRows() }
        // The type rejects most made-up values, so each sample is a row with one field changed.
        return entry.names.flatMap { name in (0..<4).compactMap { sample($0, changed: name) } }
    }

    private func sample(_ number: Int, changed: String?) -> Sample? {
        let source = SampleSource(number: number, row: row, changed: changed, columns: layout.columns.map(\.name))
        guard let object = try? SampleDecoder(source: source).make(Object.self) else { return nil }
        return try? Sample(object, asked: source.paths, hasOwnKey: layout.hasOwnKey)
    }

    /// The names of the stored properties at an offset of a struct; `nil` when no property begins there.
    private static func names(at offset: Int, _ type: Any.Type, in value: Any) -> [String]? {
        func layout<T>(_: T) -> (size: Int, alignment: Int) { (MemoryLayout<T>.size, MemoryLayout<T>.alignment) }
        if value is any CustomReflectable { return nil }
        var start = 0
        for child in Mirror(reflecting: value).children {
            let (size, alignment) = layout(child.value)
            start = (start + alignment - 1) / alignment * alignment
            if start..<start + size ~= offset, let name = child.label {
                if start == offset, Swift.type(of: child.value) == type { return [name] }
                return names(at: offset - start, type, in: child.value).map { [name] + $0 }
            }
            start += size
        }
        return nil
    }
}

extension StoredValue {
    /// Whether both values are equal, or both are NaN.
    fileprivate func isSame(as other: StoredValue) -> Bool {
        self == other || real?.isNaN == true && other.real?.isNaN == true
    }
}

extension Field {
    /// A field from a path of names, of which there is at least one.
    fileprivate init(_ names: [String]) {
        self.init(names.first ?? "", path: names.dropFirst().map { .name($0) })
    }
}

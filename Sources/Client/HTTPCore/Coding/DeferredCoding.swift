internal import FoundationEssentials

/// Records the values whose form depends on a ``Coding`` that is not known yet. An entity is read when its call is
/// created; its coding is known when a manager sends it.
final class DeferredCoding {
    enum Content: Hashable, Sendable {
        case date(Date)
        case data(Data)
        /// A `Decimal`, which is written as a number so far.
        case decimal
        /// An infinite number or NaN.
        case number(Double)
        /// A dictionary, whose keys stay as they are.
        case dictionary
        /// A ``JSONValue``, which stays as it is.
        case json
        /// A set that contains recorded values. Its elements are sorted when the values are written.
        case unordered
    }

    struct Note: Hashable, Sendable {
        var path: [Step]
        let content: Content
    }

    /// A key of a path. Arrays have keys too, whose names are the indexes.
    struct Step: Hashable, Sendable {
        let name: String
        let index: Int?

        init(_ key: any CodingKey) { (name, index) = (key.stringValue, key.intValue) }

        static func == (lhs: Step, rhs: Step) -> Bool { lhs.name == rhs.name }

        func hash(into hasher: inout Hasher) { hasher.combine(name) }
    }

    private(set) var notes: [Note] = []
    /// Whether the value itself has an optional property that was left out because it is `nil`.
    var leavesOutNil = false

    /// Removes what was recorded for a value and everything in it.
    func forget(at path: [any CodingKey]) {
        let path = path.map(Step.init)
        notes.removeAll { $0.path.starts(with: path) }
    }

    func note(_ content: Content, at path: [any CodingKey]) {
        notes.append(Note(path: path.map(Step.init), content: content))
    }
}

extension EncodedMembers {
    /// Encodes a value whose coding is not known yet; see ``coded(by:)``. `nil` when the result is not an object.
    ///
    /// - Throws: `EncodingError`, as ``JSONValueEncoder/encode(_:)``.
    package init?(deferring value: some Encodable) throws {
        let deferred = DeferredCoding()
        guard let list = try JSONValueEncoder(rules: nil, deferred: deferred).members(of: value) else { return nil }
        self.init(list, deferred.notes)
        leavesOutNil = deferred.leavesOutNil
    }

    /// Encodes parameters whose coding is not known yet. They keep their names.
    ///
    /// - Throws: as ``init(parameters:by:)``.
    package init(deferring parameters: Parameters) throws {
        let deferred = DeferredCoding()
        let members = try EncodedMembers(
            parameters: parameters, by: JSONValueEncoder(rules: nil, deferred: deferred))
        self.init(
            members.list.map { Member(name: $0.name, value: $0.value, keepsName: true) }, deferred.notes)
        leavesOutNil = parameters.isEmpty || members.list.count < parameters.count
    }

    /// The members with the recorded values in the form of the coding. Names stay as declared; see ``named(by:)``.
    ///
    /// - Throws: `EncodingError.invalidValue` for a value that the coding cannot write.
    package func coded(by rules: CodingRules?) throws -> EncodedMembers {
        guard !notes.isEmpty else { return self }
        var list = list
        var kept: [DeferredCoding.Note] = []
        for note in notes {
            if note.content == .dictionary || note.content == .json { kept.append(note) }
            guard let name = note.path.first?.name, let index = list.firstIndex(where: { $0.name == name })
            else { continue }
            try list[index].value.change(at: note.path.dropFirst()) { value in
                guard note.content == .unordered, case .array(let elements) = value else {
                    return try note.content.write(into: &value, name, rules)
                }
                let order = JSONValueEncoder.order(of: elements)
                value = .array(order.map { elements[$0] })
                var places = order
                for (place, former) in order.enumerated() { places[former] = place }
                // The last notes are those of the elements.
                for index in kept.indices.reversed() {
                    guard kept[index].path.starts(with: note.path) else { break }
                    kept[index].move(to: places, at: note.path)
                }
            }
        }
        return EncodedMembers(list, kept)
    }

    /// The members as they are written with the coding, except for their own names, which a path may need as declared.
    /// ``named(by:)`` with the same coding changes only these.
    package func settled(by rules: CodingRules?) throws -> EncodedMembers {
        let coded = try coded(by: rules)
        var kept: [[DeferredCoding.Step]: DeferredCoding.Content] = [:]
        for note in coded.notes { kept[note.path] = note.content }
        let list = coded.list.map { member in
            var member = member
            if rules?.usesSnakeCase == true, kept[[]] != .json {
                let path = [DeferredCoding.Step(JSONKey(stringValue: member.name))]
                member.value = member.value.snakeCased(at: path, kept)
            }
            if kept[[]] != nil { member.keepsName = true }
            return member
        }
        var settled = EncodedMembers(list, Self.unchanged(list))
        settled.leavesOutNil = leavesOutNil
        return settled
    }

    /// The members with names in the form of the coding.
    package func named(by rules: CodingRules?) -> EncodedMembers {
        guard let rules, rules.usesSnakeCase else { return self }
        var kept: [[DeferredCoding.Step]: DeferredCoding.Content] = [:]
        for note in notes { kept[note.path] = note.content }
        guard kept[[]] == nil else { return self }
        var list = list.map { member in
            let path = [DeferredCoding.Step(JSONKey(stringValue: member.name))]
            return Member(
                name: member.keepsName ? member.name : member.name.snakeCase,
                value: member.value.snakeCased(at: path, kept))
        }
        Self.sort(&list)
        // `userName` and `user_name` are one name now. The last one counts, which is the one declared as `user_name`.
        let unique = list.indices.filter { $0 + 1 == list.count || list[$0 + 1].name != list[$0].name }
        return EncodedMembers(unique.map { list[$0] }, [])
    }
}

extension DeferredCoding.Note {
    /// Updates the path after the elements of the array at `beginning` were moved. `places` has the new index of each.
    fileprivate mutating func move(to places: [Int], at beginning: [DeferredCoding.Step]) {
        guard path.count > beginning.count, let former = path[beginning.count].index, places.indices.contains(former)
        else { return }
        path[beginning.count] = DeferredCoding.Step(JSONKey(intValue: places[former]))
    }
}

extension DeferredCoding.Content {
    /// Writes the noted value into its place.
    fileprivate func write(into value: inout JSONValue, _ name: String, _ rules: CodingRules?) throws {
        switch self {
        case .date(let date):
            // If it is not null, a later member of the same name has replaced it.
            guard value == .null else { return }
            do throws(CodingProblem) {
                value = try CodingRules.value(of: date, by: rules)
            } catch {
                throw EncodingError.unwritable(
                    date.timeIntervalSince1970, at: [JSONKey(stringValue: name)], error.reason)
            }
        case .data(let data):
            guard value == .string(CodingRules.text(of: data, by: nil)) else { return }
            value = .string(CodingRules.text(of: data, by: rules))
        case .decimal:
            guard rules?.coding.decimals == .text, case .decimal(let number) = value else { return }
            value = .string(number.description)
        case .number(let number):
            guard value == .null else { return }
            guard let text = CodingRules.text(ofNonConforming: number, by: rules) else {
                throw EncodingError.unwritable(
                    number, at: [JSONKey(stringValue: name)], "\(number) is not a number in JSON")
            }
            value = .string(text)
        case .dictionary, .json, .unordered: break
        }
    }
}

extension JSONValue {
    /// Changes the value at a path; does nothing where there is none.
    fileprivate mutating func change(
        at path: ArraySlice<DeferredCoding.Step>, _ body: (inout JSONValue) throws -> Void
    ) rethrows {
        guard let step = path.first else { return try body(&self) }
        if var elements = takeArray() {
            defer { self = .array(elements) }
            guard let index = step.index, elements.indices.contains(index) else { return }
            try elements[index].change(at: path.dropFirst(), body)
        } else if var members = takeObject() {
            defer { self = .object(members) }
            guard let place = members.index(forKey: step.name) else { return }
            try members.values[place].change(at: path.dropFirst(), body)
        }
    }

    fileprivate func snakeCased(
        at path: [DeferredCoding.Step], _ kept: [[DeferredCoding.Step]: DeferredCoding.Content]
    ) -> JSONValue {
        guard kept[path] != .json else { return self }
        switch self {
        case .array(let elements):
            return .array(
                elements.enumerated().map { index, element in
                    element.snakeCased(at: path + [.init(JSONKey(intValue: index))], kept)
                })
        case .object(let members):
            let isDictionary = kept[path] == .dictionary
            let named = members.map { name, value in
                (
                    isDictionary ? name : name.snakeCase,
                    value.snakeCased(at: path + [.init(JSONKey(stringValue: name))], kept)
                )
            }
            return .object(Dictionary(named) { $1 })
        default: return self
        }
    }
}

/// Which schemas have members that are only in requests or only in replies, they or what they refer to, in whatever file.
final class Directions {
    /// The schemas that were read, each with those that refer to it.
    private var sources: [Spot.Key: [Spot.Key]] = [:]
    private var marked: Set<Spot.Key> = []
    private let flattener: Flattener

    init(_ flattener: Flattener) { self.flattener = flattener }

    func differ(_ spot: Spot) -> Bool {
        guard sources[spot.key] == nil else { return marked.contains(spot.key) }
        sources[spot.key] = []
        var (unread, next): ([Spot], [Spot.Key]) = ([spot], [])
        while let spot = unread.popLast() {
            if Self.hasMark(spot.node) { next.append(spot.key) }
            for target in references(in: spot) {
                if sources[target.key] == nil { unread.append(target) }
                if marked.contains(target.key) { next.append(spot.key) }
                sources[target.key, default: []].append(spot.key)
            }
        }
        // A schema differs if one that it refers to does.
        while let key = next.popLast() {
            if marked.insert(key).inserted { next += sources[key] ?? [] }
        }
        return marked.contains(spot.key)
    }

    private static func hasMark(_ node: Node) -> Bool {
        switch node.value {
        case .object(let members):
            members["readOnly"]?.bool == true || members["writeOnly"]?.bool == true
                || members.values.contains(where: hasMark)
        case .array(let elements): elements.contains(where: hasMark)
        default: false
        }
    }

    private func references(in spot: Spot) -> [Spot] {
        var found = spot.others
        func walk(_ node: Node) {
            if let reference = node["$ref"]?.string,
                let target = try? flattener.documents.target(of: reference, from: spot)
            {
                found.append(target)
            }
            for value in node.members?.values ?? node.array ?? [] { walk(value) }
        }
        walk(spot.node)
        // A parent stands for its children, which it does not refer to.
        if spot.node["discriminator"] != nil, let flat = try? flattener.flat(spot) {
            found += (try? flattener.children(of: flat, spot)) ?? []
        }
        return found
    }
}

import JSONText

/// A value of a document and where it is, so that its members know their JSON pointer.
struct Spot: Sendable {
    let document: Int
    let pointer: String
    let node: Node
    /// What other parts of an `allOf` say of the same member, before this one.
    var others: [Spot] = []

    subscript(name: String) -> Spot? {
        node[name].map { Spot(document: document, pointer: "\(pointer)/\(Pointer.escaped(name))", node: $0) }
    }

    /// The elements of an array; none for anything else.
    var elements: [Spot] {
        (node.array ?? []).enumerated().map { Spot(document: document, pointer: "\(pointer)/\($0)", node: $1) }
    }

    /// What a step of a JSON pointer leads to: a member or an element.
    func child(_ step: String) -> Spot? {
        self[step] ?? Int(step).flatMap { elements.indices.contains($0) ? elements[$0] : nil }
    }

    /// The members of an object, in order; none for anything else.
    var members: [(name: String, spot: Spot)] {
        guard let members = node.members else { return [] }
        return zip(members.names, members.values).map { name, node in
            (name, Spot(document: document, pointer: "\(pointer)/\(Pointer.escaped(name))", node: node))
        }
    }

    /// Identifies the value in all documents.
    var key: Key { Key(document: document, pointer: pointer, others: others.map(\.key)) }

    struct Key: Hashable { let document: Int, pointer: String, others: [Key] }

    /// The last name of the pointer.
    var name: String { Pointer.steps(pointer).last ?? "" }
}

/// JSON pointers (RFC 6901).
enum Pointer {
    static func escaped(_ name: String) -> String {
        guard name.utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else { return name }
        return name.replacing("~", with: "~0").replacing("/", with: "~1")
    }

    static func steps(_ pointer: String) -> [String] {
        pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map { step in
            step.contains("~") ? String(step.replacing("~1", with: "/").replacing("~0", with: "~")) : String(step)
        }
    }
}

/// The documents of an import: the one that is named, and those that it refers to.
final class Documents {
    /// The largest document that is read. The largest public ones have 40 MB.
    static let byteLimit = 64 << 20

    private(set) var files: [(name: String, root: Spot)] = []
    private(set) var warnings: [ImportWarning] = []
    private let read: (_ path: String) throws(ImportProblem) -> [UInt8]
    /// The anchors of a document, found when the first reference names one.
    private var anchors: [Int: [String: Spot]] = [:]

    /// - Parameter read: returns the bytes of a file, whose path is relative to the folder of the first one.
    init(_ bytes: [UInt8], name: String, read: @escaping (_ path: String) throws(ImportProblem) -> [UInt8])
        throws(ImportProblem)
    {
        self.read = read
        _ = try add(bytes, name: name)
    }

    var root: Spot { files[0].root }

    func place(of spot: Spot) -> Place {
        Place(file: files[spot.document].name, line: spot.node.line, pointer: spot.pointer)
    }

    private func add(_ bytes: [UInt8], name: String) throws(ImportProblem) -> Int {
        guard bytes.count <= Self.byteLimit else {
            throw ImportProblem(
                "\(name) has \(bytes.count >> 20) MiB, and at most \(Self.byteLimit >> 20) MiB are read; "
                    + "split it into files that refer to each other")
        }
        let first = bytes.first { !" \t\r\n".utf8.contains($0) && $0 != 0xEF && $0 != 0xBB && $0 != 0xBF }
        let isJSON = first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
        let node: Node
        func warn(_ word: String, _ line: Int) {
            let message = "\(word) stands twice in the same object; what comes last is read"
            warnings.append(ImportWarning(place: Place(file: name, line: line, pointer: ""), message: message))
        }
        do throws(ImportProblem) {
            node =
                try isJSON
                ? JSONReader.node(bytes, file: name, repeated: warn)
                : YAMLReader.node(bytes, file: name, repeated: warn)
        } catch {
            // YAML may begin with a brace, too.
            guard isJSON, !name.hasSuffix(".json"),
                let yaml = try? YAMLReader.node(bytes, file: name, repeated: warn)
            else { throw error }
            node = yaml
        }
        files.append((name, Spot(document: files.count, pointer: "", node: node)))
        return files.count - 1
    }

    // MARK: References

    /// Follows `$ref` until there is none.
    ///
    /// - Parameter depth: how many references are followed on the way to this one.
    func resolved(_ spot: Spot, depth: Int = 0) throws(ImportProblem) -> Spot {
        var (spot, seen): (Spot, Set<Spot.Key>) = (spot, [])
        while let reference = spot.node["$ref"]?.string {
            guard seen.insert(spot.key).inserted, depth < 100 else {
                throw ImportProblem(place(of: spot), "the reference \(reference) leads back to itself; name a schema")
            }
            spot = try target(of: reference, from: spot, depth: depth + 1)
        }
        return spot
    }

    /// The value that a reference names.
    func target(of reference: String, from spot: Spot, depth: Int = 0) throws(ImportProblem) -> Spot {
        let parts = reference.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let document = try self.document(String(parts.first ?? ""), reference, spot)
        let fragment = Self.decoded(parts.count > 1 ? String(parts[1]) : "")
        if !fragment.isEmpty, !fragment.hasPrefix("/") {
            if let spot = anchor(fragment, in: document) { return spot }
            throw ImportProblem(place(of: spot), "the reference \(reference) leads nowhere; correct its name")
        }
        var found = files[document].root
        for step in Pointer.steps(fragment) {
            var next = found.child(step)
            // A step may lead through a reference.
            if next == nil, found.node["$ref"] != nil { next = try resolved(found, depth: depth)[step] }
            guard let next else {
                throw ImportProblem(
                    place(of: spot), "the reference \(reference) leads nowhere: there is no \(step); correct its name")
            }
            found = next
        }
        return found
    }

    private func document(_ path: String, _ reference: String, _ spot: Spot) throws(ImportProblem) -> Int {
        guard !path.isEmpty else { return spot.document }
        guard !path.contains("://") else {
            throw ImportProblem(
                place(of: spot),
                "the reference \(reference) leads to the network, which is not read; "
                    + "save the document beside this one and refer to the file")
        }
        let folder = files[spot.document].name.split(separator: "/").dropLast().map(String.init)
        let base = files[0].name.split(separator: "/").dropLast().count
        let isAbsolute = files[0].name.hasPrefix("/")
        var steps = folder
        for step in Self.decoded(path).split(separator: "/") where step != "." {
            if step != ".." { steps.append(String(step)); continue }
            if steps.count <= base { steps = []; break }
            steps.removeLast()
        }
        guard !path.hasPrefix("/"), steps.count > base else {
            throw ImportProblem(
                place(of: spot),
                "the reference \(reference) leads out of the folder of the document; import a document above both")
        }
        let name = (isAbsolute ? "/" : "") + steps.joined(separator: "/")
        if let known = files.firstIndex(where: { $0.name == name }) { return known }
        do throws(ImportProblem) {
            return try add(read(name), name: name)
        } catch {
            throw ImportProblem(place(of: spot), "the reference \(reference) cannot be read: \(error.message)")
        }
    }

    private func anchor(_ name: String, in document: Int) -> Spot? {
        if anchors[document] == nil {
            var found: [String: Spot] = [:]
            func walk(_ spot: Spot) {
                if let name = spot.node["$anchor"]?.string ?? spot.node["$dynamicAnchor"]?.string { found[name] = spot }
                for (_, member) in spot.members { walk(member) }
                for element in spot.elements { walk(element) }
            }
            walk(files[document].root)
            anchors[document] = found
        }
        return anchors[document]?[name]
    }

    /// The text without percent-encoding.
    private static func decoded(_ text: String) -> String {
        guard text.contains("%") else { return text }
        var (bytes, result): ([UInt8], [UInt8]) = (Array(text.utf8), [])
        while !bytes.isEmpty {
            if bytes[0] == UInt8(ascii: "%"), bytes.count > 2, let high = bytes[1].hexadecimalValue,
                let low = bytes[2].hexadecimalValue
            {
                result.append(high << 4 | low)
                bytes.removeFirst(3)
            } else {
                result.append(bytes.removeFirst())
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}

import DomainTables
import HTTPCore

/// What a person says about a document that the document does not say: names and types by JSON pointer, types by format.
///
/// ```json5
/// {
///   formats: { "unix-time": "Timestamp.Unix" },
///   "#/components/schemas/Pet/properties/born": { type: "Timestamp.Day", name: "birthday" },
/// }
/// ```
struct Overrides {
    private(set) var formats: [String: SwiftType] = [:]
    private var types: [String: SwiftType] = [:]
    private var names: [String: String] = [:]
    private var places: [(place: Place, pointer: String)] = []

    init() {}

    init(_ bytes: [UInt8], file: String) throws(ImportProblem) {
        let document = JSON5Document(bytes, name: file)
        guard let root = document.root, document.diagnostics.isEmpty else {
            throw ImportProblem(document.diagnostics.first?.description ?? "\(file) is not JSON5")
        }
        guard case .object(let members) = root.value else {
            throw ImportProblem("\(file) is not an object; write { \"#/components/schemas/…\": { type: \"String\" } }")
        }
        for member in members {
            let place = document.source.position(of: member.keyRange.lowerBound)
            guard case .object(let settings) = member.value.value else {
                throw ImportProblem("\(place): \(member.key) needs an object such as { type: \"String\" }")
            }
            guard member.key == "formats" || member.key.hasPrefix("#/") else {
                throw ImportProblem(
                    "\(place): \(member.key) is neither formats nor a JSON pointer such as #/components")
            }
            if member.key != "formats" {
                places.append((Place(file: file, line: place.line, pointer: ""), String(member.key.dropFirst())))
            }
            for setting in settings {
                let place = document.source.position(of: setting.keyRange.lowerBound)
                guard case .string(let text) = setting.value.value, !text.isEmpty else {
                    throw ImportProblem("\(place): \(setting.key) needs a text")
                }
                let pointer = String(member.key.dropFirst())
                switch (member.key, setting.key) {
                case ("formats", let format): formats[format] = Self.type(text)
                case (_, "type"): types[pointer] = Self.type(text)
                case (_, "name"):
                    let isName =
                        text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" } && text.first?.isNumber == false
                    guard isName else {
                        throw ImportProblem("\(place): \(text) is no name in Swift; use letters and digits")
                    }
                    names[pointer] = text
                default: throw ImportProblem("\(place): there is no \(setting.key); write type or name")
                }
            }
        }
    }

    /// A warning for each pointer that leads nowhere in the document.
    func unused(in documents: Documents) -> [ImportWarning] {
        places.compactMap { place, pointer in
            var spot = documents.root
            for step in Pointer.steps(pointer) {
                if let child = spot.child(step) {
                    spot = child
                    continue
                }
                let near =
                    NearestName.of(step, among: spot.node.members?.names ?? []).map { "; did you mean \($0)?" } ?? ""
                return ImportWarning(
                    place: place,
                    message:
                        "there is no \(step) at #\(spot.pointer) in the document, so #\(pointer) changes nothing\(near)"
                )
            }
            return nil
        }
    }

    func type(at pointer: String) -> SwiftType? { types.isEmpty ? nil : types[pointer] }
    func name(at pointer: String) -> String? { names.isEmpty ? nil : names[pointer] }

    private static func type(_ text: String) -> SwiftType {
        let known: [SwiftType] = [
            .string, .int, .uint64, .double, .decimal, .bool, .data, .uuid, .url, .timestamp, .day, .unix, .mail,
            .verbatim(.uuid), .verbatim(.url), .verbatim(.data), .json,
        ]
        return known.first { $0.text == text } ?? .custom(text)
    }
}

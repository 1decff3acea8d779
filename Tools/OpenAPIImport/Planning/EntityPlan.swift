/// A call as it is generated: a struct whose properties are the parameters and the body.
struct EntityPlan {
    /// Where a property goes.
    enum Location: Hashable {
        case path, query, header(String), cookie(String), idempotencyKey, body, file, files, content
    }

    struct Member {
        var property: Property
        var location: Location
    }

    /// How the body is sent.
    enum Body {
        case none
        /// The properties are its members.
        case members
        /// The same in a form, although the method has its parameters in the query.
        case form
        /// The property `content` is the whole body.
        case content
        /// The property `content` is the body as bytes, a file or a stream.
        case raw
        case multipart
    }

    var name: String
    var row: String
    var operation: Operation
    var members: [Member] = []
    var body = Body.none
    var model = SwiftType.json
    var isModelOptional = false
    /// What other answers have in their body, by status.
    var failures: [(status: String, type: SwiftType)] = []
    /// How the reply is read if it is a stream, as an example in the comment.
    var stream: String?
    var streamType: SwiftType?
    /// Members of the row besides domain, path and method.
    var settings: [(String, Node)] = []
    var path: String
    /// The members of the body, which become properties of the call.
    var bodyDeclaration: Declaration?
    /// How the document writes them in a form; `nil` for a body that is none.
    var formStyles: [String: Parameter.Style]?
    /// The examples of requests and replies, with their types.
    var bodyExamples: [(spot: Spot, type: SwiftType)] = []
    var replyExamples: [(spot: Spot, type: SwiftType)] = []
    /// The first example of a success with its status, which a simulation sends.
    var simulated: (status: String, spot: Spot)?

    /// All properties, in the order in which they are written.
    var properties: [Member] {
        let ofBody = (bodyDeclaration?.properties ?? []).map { property in
            guard case .multipart = body else { return Member(property: property, location: .body) }
            switch property.type {
            case .data, .verbatim(.data):
                var file = property
                file.type = .custom("UploadFile")
                return Member(property: file, location: .file)
            case .array(.data, _), .array(.verbatim(.data), _):
                var files = property
                files.type = .array(.custom("UploadFile"), isNullable: false)
                return Member(property: files, location: .files)
            default: return Member(property: property, location: .body)
            }
        }
        let all = members + ofBody
        // Those that must be given come first.
        return all.filter { !$0.property.isOptional } + all.filter { $0.property.isOptional }
    }

    /// The types that the call names itself.
    var types: [SwiftType] {
        properties.map(\.property.type) + [model] + failures.map(\.type) + [streamType].compactMap { $0 }
    }

    /// Whether the document does not say what a part of the call is, or of a type that it sends or receives.
    var isVague: Bool {
        var (next, seen): ([SwiftType], Set<Declaration>) = (types, [])
        while let type = next.popLast() {
            if type.isVague { return true }
            for declaration in type.declarations where seen.insert(declaration).inserted { next += declaration.parts }
        }
        return false
    }

    var tag: String {
        if let tag = operation.head.tags.first, !tag.isEmpty { return tag }
        // Without tags, the first word of the path is the subject.
        let steps = operation.head.path.split(separator: "/").filter {
            !$0.hasPrefix("{") && !$0.hasPrefix("v1") && $0 != "api"
        }
        return steps.first.map(String.init) ?? "Default"
    }
}

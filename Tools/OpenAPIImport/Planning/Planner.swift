import DomainTables

/// Makes the plans of calls from operations.
final class Planner {
    let types: TypeMaker
    let domain: String
    private let reader: APIReader
    private let api: API
    private let prefix: String
    private var rows = NameSet()
    private(set) var skipped: [(operation: String, reason: String)] = []

    init(_ reader: APIReader, _ api: API, _ types: TypeMaker, domain: String) {
        (self.reader, self.api, self.types, self.domain) = (reader, api, types, domain)
        prefix = SwiftName.type(domain)
    }

    /// The name that an operation has if nothing else has it.
    static func wanted(_ head: Operation.Head, _ overrides: Overrides) -> String {
        overrides.name(at: head.spot.pointer) ?? SwiftName.type(head.id ?? name(head.method, head.path))
    }

    /// The names of all operations of the document, and of their rows: a name does not depend on the choice.
    func names() -> [(name: String, row: String)] {
        api.heads.map { head in
            let wanted = Self.wanted(head, types.overrides)
            let given = types.names.claim(SwiftName.takenTypes.contains(wanted) ? wanted + "Call" : wanted)
            if given != wanted {
                types.warn(
                    head.spot, "something else has the name \(wanted), or in another case; this call is \(given)")
            }
            return (given, rows.claim(Self.row(wanted, domain)))
        }
    }

    /// The row of a name that nothing else has.
    static func row(_ name: String, _ domain: String) -> String {
        SwiftName.rowName(domain + "." + name.prefix(1).lowercased() + name.dropFirst())
    }

    /// `GET /users/{id}/posts` is `getUsersByIdPosts`.
    private static func name(_ method: String, _ path: String) -> String {
        let steps = path.split(separator: "/").map { step in
            step.hasPrefix("{") ? "by " + step.filter { $0 != "{" && $0 != "}" } : String(step)
        }
        return ([method.lowercased()] + (steps.isEmpty ? ["root"] : steps)).joined(separator: " ")
    }

    func plan(_ head: Operation.Head, name: String, row: String) throws(ImportProblem) -> EntityPlan? {
        let operation = try reader.operation(head)
        var plan = EntityPlan(name: name, row: row, operation: operation, path: head.path)
        if let mark = plan.path.firstIndex(of: "#") { plan.path = String(plan.path[..<mark]) }
        guard try addParameters(to: &plan) else { return nil }
        try addBody(to: &plan)
        try addReplies(to: &plan)
        var reason = HTTPAddress.isAbsolute(plan.path) ? "it is an address of its own" : nil
        do throws(PathTemplate.Problem) { _ = try PathTemplate(plan.path) } catch { reason = error.reason }
        if let reason {
            skipped.append((head.address, "the path cannot be called: \(reason)"))
            types.warn(head.spot, "\(head.address) is left out: \(reason)")
            return nil
        }
        RowSettings.add(to: &plan, api) { types.warn(head.spot, $0) }
        return plan
    }

    // MARK: Parameters

    private func addParameters(to plan: inout EntityPlan) throws(ImportProblem) -> Bool {
        var taken = SwiftName.takenOfEntities
        let order: [Parameter.Location] = [.path, .query, .header, .cookie, .querystring]
        let sorted = order.flatMap { location in plan.operation.parameters.filter { $0.location == location } }
        var wire: Set<String> = []
        for parameter in sorted {
            let lower = parameter.name.lowercased()
            if parameter.location == .header, ["accept", "content-type", "authorization"].contains(lower) { continue }
            if parameter.location == .querystring {
                types.warn(
                    parameter.spot, "a whole query string as one parameter is not made; set it with parameters(_:)")
                continue
            }
            var property = try property(parameter, plan)
            if taken.contains(property.name) { property.name += "Parameter" }
            while taken.contains(property.name) { property.name += "2" }
            taken.insert(property.name)
            var location = EntityPlan.Location.query
            switch parameter.location {
            case .path:
                location = .path
                property.member = Self.pathName(parameter.name)
                if wire.contains(property.member) { property.member += ".path" }
                plan.path = plan.path.replacing("{\(parameter.name)}", with: "{\(property.member)}")
            case .header: location = lower == "idempotency-key" ? .idempotencyKey : .header(parameter.name)
            case .cookie: location = .cookie(parameter.name)
            default:
                renamePathParameter(property.member, in: &plan)
            }
            if location == .path || location == .query { wire.insert(property.member) }
            plan.members.append(.init(property: property, location: location))
        }
        return true
    }

    /// Gives the path's parameter another name, which only the row knows, because something else has it too.
    private func renamePathParameter(_ name: String, in plan: inout EntityPlan) {
        let known = plan.members.firstIndex { $0.location == .path && $0.property.member == name }
        guard let known else { return }
        plan.path = plan.path.replacing("{\(name)}", with: "{\(name).path}")
        plan.members[known].property.member = name + ".path"
    }

    private func property(_ parameter: Parameter, _ plan: EntityPlan) throws(ImportProblem) -> Property {
        var type = SwiftType.string
        var flat = FlatSchema()
        if let schema = parameter.schema, schema.node.members != nil {
            let hint = plan.name + SwiftName.type(parameter.name)
            flat = try types.flattener.flat(types.flattener.named(schema).spot)
            if !parameter.isJSON { type = try types.use(schema, hint: hint, .request).type }
        }
        var comment = Comments.text(of: parameter.description ?? flat.comment, flat, type)
        // A path and a field have no arrays and objects.
        if parameter.location != .query,
            TypeMaker.kind(of: type) == .array || TypeMaker.kind(of: type) == .object || type == .json
        {
            type = .string
            comment = [comment, "Several values are separated by commas."].compactMap { $0 }.joined(separator: " ")
        }
        if parameter.isJSON { comment = [comment, "A JSON text."].compactMap { $0 }.joined(separator: " ") }
        let name = types.overrides.name(at: parameter.spot.pointer) ?? SwiftName.member(Self.bare(parameter.name))
        var property = Property(
            member: Self.bare(parameter.name), name: name, type: type, isRequired: parameter.isRequired,
            spot: parameter.spot)
        property.comment = comment
        return property
    }

    /// `ids[]` is `ids`: the brackets come with the array.
    private static func bare(_ name: String) -> String { name.hasSuffix("[]") ? String(name.dropLast(2)) : name }

    /// A name that the path of a row may have.
    private static func pathName(_ name: String) -> String {
        let safe = String(name.map { $0.isLetter || $0.isNumber || "-._".contains($0) ? $0 : "_" })
        return safe.first.map { $0.isLetter || $0 == "_" } == true ? safe : "_" + safe
    }

    // MARK: The body

    private func addBody(to plan: inout EntityPlan) throws(ImportProblem) {
        guard let body = plan.operation.body else { return }
        guard let content = Self.content(of: body.contents) else { return }
        let isPatch = plan.operation.head.method == "PATCH"
        guard content.isJSON || content.isForm || content.isMultipart else {
            // For a body that does not say what it is.
            // The type of parts has a boundary, which only the body itself knows.
            if !content.type.contains("*"), !content.type.hasPrefix("multipart/") {
                plan.settings.append(("headers", .object([("Content-Type", .text(content.type))])))
            }
            return addContent(.custom("HTTPBody"), body, .raw, to: &plan)
        }
        guard let schema = content.schema, schema.node.members != nil else {
            return addContent(.json, body, .content, to: &plan)
        }
        if content.isJSON, content.type != "application/json", !content.type.contains("*") {
            plan.settings.append(("headers", .object([("Content-Type", .text(content.type))])))
        }
        let (target, _) = try types.flattener.named(schema)
        let flat = try types.flattener.flat(target)
        let isObject = flat.isObject && !flat.properties.isEmpty && flat.choices.isEmpty && flat.discriminator == nil
        let inQuery = Set(plan.members.filter { $0.location == .query }.map(\.property.member))
        let collides = flat.properties.contains { inQuery.contains($0.name) }
        // Some generators write a form without members for each call.
        if !content.isJSON, flat.properties.isEmpty, flat.choices.isEmpty, flat.isObject, !flat.hasAdditional { return }
        let isInQuery = ["GET", "HEAD", "DELETE"].contains(plan.operation.head.method)
        let isFlat =
            isObject && !flat.hasAdditional && !collides && !isInQuery
            && types.overrides.type(at: target.pointer) == nil
        guard isFlat || !content.isJSON && isObject else {
            let use = try types.use(schema, hint: plan.name + "Content", .request)
            if content.isJSON { plan.bodyExamples += examples(content, use.type).map { ($0, use.type) } }
            if !content.isJSON {
                types.warn(schema, "a form that is no object with members is sent as JSON, \(use.type.text)")
            }
            return addContent(use.type, body, .content, schema, to: &plan)
        }
        for (name, _) in flat.properties { renamePathParameter(name, in: &plan) }
        if collides {
            types.warn(schema, "a field of the form has the name of a parameter in the query, which is left out")
            plan.members.removeAll { member in
                member.location == .query && flat.properties.contains { $0.name == member.property.member }
            }
        }
        // The properties of the body are those of the call.
        let taken = SwiftName.takenOfEntities.union(plan.members.map(\.property.name))
        let declaration = Declaration(name: plan.name + "Body", spot: target, direction: .request)
        declaration.properties = try types.properties(flat, hint: plan.name, .request, taken: taken)
        declaration.isClosed = true
        plan.bodyDeclaration = declaration
        for index in declaration.properties.indices {
            if content.isMultipart, let type = try fileType(of: declaration.properties[index]) {
                declaration.properties[index].type = type
            }
            if isPatch, content.isJSON, !declaration.properties[index].isRequired {
                let merges = content.type.contains("merge-patch")
                if declaration.properties[index].isNullable || merges {
                    declaration.properties[index].isSettable = true
                }
            }
        }
        plan.body = content.isMultipart ? .multipart : .members
        if isInQuery, content.isForm { plan.body = .form }
        if !content.isJSON { plan.formStyles = content.styles }
        if content.isForm { plan.settings.append(("parameterEncoding", .text("form"))) }
        // The values of a form are texts, whatever their type.
        if content.isJSON {
            let type = SwiftType.named(declaration)
            plan.bodyExamples += examples(content, type).map { ($0, type) }
        }
    }

    /// The content that is sent of those in which the body may be.
    static func content(of contents: [Content]) -> Content? {
        // A JSON Patch is a list of operations, of which a document says nothing.
        contents.first { $0.type == "application/json" }
            ?? contents.first { $0.isJSON && $0.type != "application/json-patch+json" }
            ?? contents.first(where: \.isJSON) ?? contents.first(where: \.isForm) ?? contents.first(
                where: \.isMultipart)
            ?? contents.first
    }

    /// The type of a part of a form, or of several, of which OpenAPI 3.1 says that it is a file; `nil` for any other.
    private func fileType(of property: Property) throws(ImportProblem) -> SwiftType? {
        guard let spot = property.spot else { return nil }
        func flat(_ spot: Spot) throws(ImportProblem) -> FlatSchema {
            try types.flattener.flat(types.flattener.named(spot).spot)
        }
        let whole = try flat(spot)
        let part = try whole.items.map { items throws(ImportProblem) in try flat(items) } ?? whole
        guard part.encoding == nil, let type = part.mediaType?.lowercased(), !type.hasPrefix("text/"),
            !Content(type: type).isJSON
        else { return nil }
        return whole.items == nil ? .data : .array(.data, isNullable: false)
    }

    private func addContent(
        _ type: SwiftType, _ body: Body, _ kind: EntityPlan.Body, _ schema: Spot? = nil, to plan: inout EntityPlan
    ) {
        let name = plan.members.contains { $0.property.name == "content" } ? "bodyContent" : "content"
        var property = Property(member: name, name: name, type: type, isRequired: body.isRequired, spot: schema)
        property.comment = body.description.map(Comments.short) ?? "The body."
        plan.members.append(.init(property: property, location: .content))
        plan.body = kind
    }
}

/// Writes calls as Swift.
extension SwiftWriter {
    mutating func write(_ plan: EntityPlan) {
        let members = plan.properties
        let properties = members.map(\.property)
        add()
        writeComment(plan)
        let sendable = access.isEmpty ? "" : ", Sendable"
        add("\(access)struct \(plan.name): RequestEntity\(members.isEmpty ? "" : ", Encodable")\(sendable) {")
        if plan.model != .json {
            add("    \(access)typealias Model = \(plan.model.text)\(plan.isModelOptional ? "?" : "")")
        }
        add("    \(access)static let route = Route(server: \(SwiftName.literal(plan.row)))")
        for property in properties { write(property) }
        writeInit(properties)
        writeOptions(members)
        writeBody(plan, members)
        let written = members.filter { [.path, .query, .body].contains($0.location) }.map(\.property)
        let isPart = written.count < members.count
        if written.isEmpty, isPart {
            add()
            add("    private enum CodingKeys: CodingKey {}")
        } else {
            // A member that must be there is sent as null where it has no value.
            let writesNull = members.contains { $0.location == .body && $0.property.writesNull }
            writeKeys(written, isNeeded: isPart || writesNull)
            if writesNull { writeEncode(written) }
        }
        add("}")
    }

    private mutating func writeComment(_ plan: EntityPlan) {
        let head = plan.operation.head
        let summary = plan.operation.summary.map(Comments.short) ?? ""
        let description = plan.operation.description.map(Comments.short) ?? ""
        var text = summary.isEmpty ? description : summary
        if !text.isEmpty, let last = text.last, !".!?…:".contains(last) { text += "." }
        if plan.operation.isDeprecated { text += (text.isEmpty ? "" : " ") + "Deprecated." }
        add(Comments.lines(text, indent: 0))
        if !summary.isEmpty, !description.isEmpty, description != summary,
            !description.hasPrefix(summary) || description.count > summary.count + 1
        {
            add("///")
            add(Comments.lines(description, indent: 0))
        }
        if !text.isEmpty { add("///") }
        var place = "`\(head.method) \(head.path)`."
        if let stream = plan.stream { place += " \(stream)" }
        if plan.settings.contains(where: { $0.0 == "pages" }) { place += " All pages: `call.pages()`." }
        if plan.settings.contains(where: { $0.0 == "poll" }) { place += " A job, with its result: `call.poll()`." }
        var byType: [(type: String, statuses: [String])] = []
        for failure in plan.failures {
            if let known = byType.firstIndex(where: { $0.type == failure.type.text }) {
                byType[known].statuses.append(failure.status)
            } else {
                byType.append((failure.type.text, [failure.status]))
            }
        }
        let failures = byType.filter { $0.type != "JSONValue" }.map { type, statuses in
            let list = statuses.map { $0 == "default" ? "other statuses" : $0 }
            return "`\(type)` for \(list.joined(separator: ", "))"
        }
        if !failures.isEmpty { place += " `error.model(of:)`: \(failures.joined(separator: "; "))." }
        add(Comments.lines(place, indent: 0))
    }

    private mutating func writeOptions(_ members: [EntityPlan.Member]) {
        let lines = members.compactMap { member -> String? in
            let property = member.property
            let name = SwiftName.escaped(property.name)
            let text = Self.text(of: name, property.type)
            let statement: String
            switch member.location {
            case .header(let field): statement = "options.headers[\(SwiftName.literal(field))] = \(text)"
            case .idempotencyKey: statement = "options.idempotencyKey = \(text)"
            case .cookie(let cookie):
                statement = "options.headers.appendCookie(\(SwiftName.literal(cookie)), \(text))"
            default: return nil
            }
            return property.isOptional ? "if let \(name) { \(statement) }" : statement
        }
        guard !lines.isEmpty else { return }
        add()
        add("    \(access)var options: RequestOptions {")
        add("        var options = RequestOptions()")
        add(lines.map { "        \($0)" })
        add("        return options")
        add("    }")
    }

    /// A value as the text of a field.
    private static func text(of name: String, _ type: SwiftType) -> String {
        switch type {
        case .string: return name
        case .uuid: return "\(name).uuidString.lowercased()"
        case .url: return "\(name).absoluteString"
        case .timestamp, .day, .mail, .verbatim: return "\(name).rawValue"
        case .data: return "\(name).base64EncodedString()"
        case .named(let declaration):
            guard case .openEnum(let shape) = declaration.kind else { return "\"\\(\(name))\"" }
            return shape.raw == .string ? "\(name).rawValue" : "\"\\(\(name).rawValue)\""
        default: return "\"\\(\(name))\""
        }
    }

    private mutating func writeBody(_ plan: EntityPlan, _ members: [EntityPlan.Member]) {
        let content = members.first { $0.location == .content }?.property
        let value: String
        switch plan.body {
        case .none, .members: return
        case .form: value = ".form"
        case .content:
            guard let content else { return }
            let name = SwiftName.escaped(content.name)
            value = content.isOptional ? "\(name).map { .json($0) }" : ".json(\(name))"
        case .raw:
            guard let content else { return }
            value = SwiftName.escaped(content.name)
        case .multipart:
            // The document names the parts, whatever name a file comes with.
            let files = members.filter { $0.location == .file }.map { member in
                let mark = member.property.isOptional ? "?" : ""
                return
                    "\(SwiftName.escaped(member.property.name))\(mark).named(\(SwiftName.literal(member.property.member)))"
            }
            let lists = members.filter { $0.location == .files }.map { member in
                let name = SwiftName.escaped(member.property.name)
                let list = member.property.isOptional ? "(\(name) ?? [])" : name
                return "\(list).map { $0.named(\(SwiftName.literal(member.property.member))) }"
            }
            var parts = files.isEmpty ? [] : ["[\(files.joined(separator: ", "))]"]
            let isOptional = members.contains { $0.location == .file && $0.property.isOptional }
            if isOptional { parts[0] += ".compactMap { $0 }" }
            parts += lists
            value = ".multipart(\(parts.isEmpty ? "[]" : parts.joined(separator: " + ")))"
        }
        add()
        let line = "    \(access)var body: HTTPBody? { \(value) }"
        add(line.count > 120 ? ["    \(access)var body: HTTPBody? {", "        \(value)", "    }"] : [line])
    }
}

import HTTPCore

/// What changes in the domain and its calls.
extension DocumentDifference {
    mutating func compareDomains(_ old: Side, _ new: Side) {
        let rows = old.calls.map(\.row)
        let bases = (old.domainRow["baseURL"]?.string, new.domainRow["baseURL"]?.string)
        if bases.0 != bases.1 {
            add(old.domain, "the address is \(bases.1 ?? "missing"), was \(bases.0 ?? "missing")", breaks: true, rows)
        }
        let environments = (old.domainRow["environments"], new.domainRow["environments"])
        for name in environments.0?.members?.names ?? []
        where environments.0?[name]?.string != environments.1?[name]?.string {
            let text = environments.1?[name]?.string.map { "is \($0)" } ?? "is gone"
            add(old.domain, "the environment \(name) \(text)", breaks: false, rows)
        }
        for name in environments.1?.members?.names ?? [] where environments.0?[name] == nil {
            add(old.domain, "the environment \(name) is new", breaks: false, rows)
        }
    }

    /// The security schemes that calls of the old document use. One that is gone or has another name shows in the calls.
    mutating func compareSchemes(_ old: Side, _ new: Side) {
        for before in old.api.schemes {
            let rows = old.calls.filter { SecurityScheme.needed(by: $0.operation, old.api).contains(before.name) }
                .map(\.row)
            guard !rows.isEmpty, let after = new.api.schemes.first(where: { $0.name == before.name }) else { continue }
            if before.words != after.words {
                add(old.domain, "\(before.name) is \(after.words), was \(before.words)", breaks: true, rows)
            } else if Set(before.addresses) != Set(after.addresses) {
                let texts = [after, before].map {
                    $0.addresses.isEmpty ? "unknown" : $0.addresses.joined(separator: ", ")
                }
                add(old.domain, "the addresses of \(before.name) are \(texts[0]), were \(texts[1])", breaks: true, rows)
            }
        }
    }

    mutating func compareCalls(_ old: Side, _ new: Side) {
        let counts = [old, new].map { side in
            side.calls.compactMap(\.operation.head.id).reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
        }
        // A call with another operationId at the same address is the same call, and some documents repeat their ids.
        func key(_ plan: EntityPlan) -> String {
            let head = plan.operation.head
            guard let id = head.id, counts.allSatisfy({ $0[id] == 1 }) else { return head.address }
            return "id " + id
        }
        let newCalls = Dictionary(new.calls.map { (key($0), $0) }) { first, _ in first }
        for before in old.calls {
            guard let after = newCalls[key(before)] else {
                add(before.name, "the call is gone", breaks: true, [before.row])
                continue
            }
            if before.operation.head.id != after.operation.head.id, before.row != after.row {
                add(before.name, "the call is \(after.name) now, and its row \(after.row)", breaks: true, [before.row])
            }
            compare(before, after, old, new)
        }
        let oldKeys = Set(old.calls.map(key))
        for plan in new.calls where !oldKeys.contains(key(plan)) {
            add(plan.name, "the call is new: \(plan.operation.head.method) \(plan.path)", breaks: false, [plan.row])
        }
    }

    private mutating func compare(_ before: EntityPlan, _ after: EntityPlan, _ old: Side, _ new: Side) {
        let (name, rows) = (before.name, [before.row])
        let (oldHead, newHead) = (before.operation.head, after.operation.head)
        if oldHead.method != newHead.method || before.path != after.path {
            add(name, "\(oldHead.method) \(before.path) is \(newHead.method) \(after.path)", breaks: true, rows)
        }
        compareRows(before, after, old, new)
        compareBodies(before, after)
        compare(before.properties, after.properties, name, sent: rows, received: [], old, new)
        compareReplies(before, after)
        if !before.operation.isDeprecated, after.operation.isDeprecated { add(name, "deprecated", breaks: false, rows) }
    }

    static func place(_ location: EntityPlan.Location) -> String {
        switch location {
        case .path: "path"
        case .query: "query"
        case .header, .idempotencyKey: "header"
        case .cookie: "cookie"
        case .body, .file, .files, .content: "body"
        }
    }

    // MARK: Rows

    private mutating func compareRows(_ before: EntityPlan, _ after: EntityPlan, _ old: Side, _ new: Side) {
        let (name, rows) = (before.name, [before.row])
        let settings = (RowSettings.row(before, domain: ""), RowSettings.row(after, domain: ""))
        let needed = (
            SecurityScheme.needed(by: before.operation, old.api), SecurityScheme.needed(by: after.operation, new.api)
        )
        if needed.0 != needed.1 {
            let words = (needed.0.joined(separator: " and "), needed.1.joined(separator: " and "))
            let text = words.1.isEmpty ? "no authenticator is needed" : "the authenticator is \(words.1)"
            let breaks = !Set(needed.1).isSubset(of: needed.0)
            add(name, words.0.isEmpty ? text : "\(text), was \(words.0)", breaks: breaks, rows)
        }
        let scopes = (before.operation.scopes, after.operation.scopes)
        for scope in scopes.1 where !scopes.0.contains(scope) {
            add(name, "the scope \(scope) is needed", breaks: true, rows)
        }
        for scope in scopes.0 where !scopes.1.contains(scope) {
            add(name, "the scope \(scope) is not needed any more", breaks: false, rows)
        }
        let styles = (settings.0["query"]?["styles"], settings.1["query"]?["styles"])
        for member in before.properties {
            let parameter = member.property.member
            let isThere = after.properties.contains {
                $0.location == member.location && $0.property.member == parameter
            }
            let isObject = TypeMaker.kind(of: member.property.type) == .object
            let usual = isObject ? "brackets" : "repeated"
            let values = (styles.0?[parameter]?.string ?? usual, styles.1?[parameter]?.string ?? usual)
            if isThere, [.query, .body].contains(member.location), values.0 != values.1 {
                let text =
                    "the \(isObject ? "object" : "array") \(parameter) is written as \(values.1), was \(values.0)"
                add(name, text, breaks: true, rows)
            }
        }
        for key in ["pages", "poll"] where settings.0[key]?.json != settings.1[key]?.json {
            let text = settings.1[key].map { "\(key) of the row is \(JSON5Text.inline($0))" } ?? "the row has no \(key)"
            add(name, text, breaks: settings.0[key] != nil, rows)
        }
    }

    // MARK: Content

    /// The media types of the body: that in which the old program sends it must be there.
    private mutating func compareBodies(_ before: EntityPlan, _ after: EntityPlan) {
        let (name, rows) = (before.name, [before.row])
        let types = (
            before.operation.body?.contents.map(\.type) ?? [], after.operation.body?.contents.map(\.type) ?? []
        )
        guard !types.0.isEmpty || !types.1.isEmpty, Set(types.0) != Set(types.1) else { return }
        if types.0.isEmpty {
            // Its members are told as new ones.
            return add(name, "there is a body: \(types.1.joined(separator: ", "))", breaks: false, rows)
        }
        if types.1.isEmpty { return add(name, "there is no body any more", breaks: true, rows) }
        let used = Planner.content(of: types.0.map { Content(type: $0) })?.type ?? ""
        let isThere = types.1.contains(used) || types.1.contains("*/*")
        add(
            name, "the body is \(types.1.joined(separator: ", ")), was \(types.0.joined(separator: ", "))",
            breaks: !isThere,
            rows)
    }

    private mutating func compareReplies(_ before: EntityPlan, _ after: EntityPlan) {
        let (name, rows) = (before.name, [before.row])
        func model(_ plan: EntityPlan) -> String { plan.model.text + (plan.isModelOptional ? "?" : "") }
        if model(before) != model(after) {
            add(name, "the model is \(model(after)), was \(model(before))", breaks: true, rows)
        }
        if before.stream != after.stream || before.streamType?.text != after.streamType?.text {
            let text = after.stream.map { $0.prefix { $0 != ":" } } ?? "The reply is no stream any more"
            add(name, text.prefix(1).lowercased() + text.dropFirst(), breaks: true, rows)
        }
        func accepts(_ plan: EntityPlan) -> String? {
            plan.settings.lazy.compactMap { $0.0 == "headers" ? $0.1["Accept"]?.string : nil }.first
        }
        if let old = accepts(before), let new = accepts(after), old != new {
            let isThere = after.operation.responses.contains { $0.isSuccess && $0.contents.contains { $0.type == old } }
            add(name, "the reply is \(new), was \(old)", breaks: !isThere, rows)
        }
        let statuses = (before.operation.responses.map(\.status), after.operation.responses.map(\.status))
        for status in statuses.1 where !statuses.0.contains(status) {
            add(name, "the status \(status) is new", breaks: false, rows)
        }
        for status in statuses.0 where !statuses.1.contains(status) {
            add(name, "the status \(status) is gone", breaks: false, rows)
        }
        for failure in before.failures {
            guard let other = after.failures.first(where: { $0.status == failure.status }) else {
                if statuses.1.contains(failure.status) {
                    add(name, "\(failure.status) has no \(failure.type.text) any more", breaks: true, rows)
                }
                continue
            }
            if other.type.text != failure.type.text {
                add(name, "\(failure.status) has \(other.type.text), had \(failure.type.text)", breaks: true, rows)
            }
        }
    }
}

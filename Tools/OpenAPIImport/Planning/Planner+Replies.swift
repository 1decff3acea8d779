/// The model of a call, and what its failures have.
extension Planner {
    func addReplies(to plan: inout EntityPlan) throws(ImportProblem) {
        let responses = plan.operation.responses
        var successes = responses.filter(\.isSuccess)
        if successes.isEmpty { successes = responses.filter { $0.status == "default" } }
        if plan.operation.head.method == "HEAD" { successes = [] }
        let withContent = successes.filter { !$0.contents.isEmpty }

        var uses: [(use: Use, content: Content)] = []
        for response in withContent {
            guard let content = chosen(response.contents) else { continue }
            let use = try replyType(content, &plan)
            if !uses.contains(where: { $0.use.type == use.type }) { uses.append((use, content)) }
            for example in examples(content, use.type) where content.isJSON {
                plan.replyExamples.append((example, use.type))
                if plan.simulated == nil { plan.simulated = (response.status, example) }
            }
            if response.contents.count > 1, content.isJSON, uses.count == 1 {
                plan.settings.append(("headers", .object([("Accept", .text(content.type))])))
            }
        }
        plan.model = uses.first?.use.type ?? .empty
        plan.isModelOptional = plan.model != .empty && (uses[0].use.isNullable || withContent.count < successes.count)
        let schemas = uses.compactMap { $0.content.isJSON ? $0.content.schema : nil }
        if schemas.count > 1 {
            // One success of several schemas is a union of them.
            let head = plan.operation.head.spot
            let spot = Spot(document: head.document, pointer: head.pointer + "/responses", node: head.node)
            let union = try types.union(
                schemas, FlatSchema(), FlatSchema(), spot, plan.name + "Reply", .reply, { _ in })
            plan.model = union.type
            if case .named = union.type {} else { plan.model = .json }
        } else if uses.count > 1 {
            types.warn(
                plan.operation.head.spot,
                "the successes have several types; the model is that of the first, \(plan.model.text)")
        }
        if plan.model == .json { plan.isModelOptional = false }

        let failures = responses.filter { response in
            !successes.contains { $0.status == response.status } && !response.isSuccess
        }
        for response in failures {
            guard let content = response.contents.first(where: \.isJSON), let schema = content.schema else { continue }
            let use = try types.use(schema, hint: plan.name + "Failure", .reply)
            plan.failures.append((response.status, use.type))
            for example in examples(content, use.type) { plan.replyExamples.append((example, use.type)) }
        }
    }

    /// The examples of a body with a type. One that is a text where the type is none has its JSON in that text.
    func examples(_ content: Content, _ type: SwiftType) -> [Spot] {
        let kind = TypeMaker.kind(of: type)
        guard content.isJSON, kind != .string else { return content.examples }
        return content.examples.compactMap { spot in
            guard let text = spot.node.string else { return spot }
            let node = try? JSONReader.node(Array(text.utf8), file: "")
            if let node, kind != .any || node.array != nil || node.members != nil {
                return Spot(document: spot.document, pointer: spot.pointer, node: node.on(spot.node.line))
            }
            guard kind != .any else { return spot }
            types.warn(spot, "the example is a text that is no JSON; it is left out")
            return nil
        }
    }

    private func chosen(_ contents: [Content]) -> Content? {
        contents.first { $0.isJSON && $0.schema != nil } ?? contents.first(where: \.isJSON)
            ?? contents.first(where: \.isEventStream) ?? contents.first(where: \.isLines) ?? contents.first
    }

    private func replyType(_ content: Content, _ plan: inout EntityPlan) throws(ImportProblem) -> Use {
        if content.isEventStream || content.isLines {
            var item = "JSONValue"
            if let schema = content.itemSchema ?? (content.isLines ? content.schema : nil), schema.node.members != nil {
                let use = try types.use(schema, hint: plan.name + "Item", .reply)
                plan.streamType = use.type
                item = use.type.text
            }
            plan.stream =
                content.isEventStream
                ? "The reply is a stream of events: `for try await event in call.events()`."
                : "The reply is a stream of lines, each a `\(item)`: `for try await line in call.stream().body.lines`."
            return Use(type: .json)
        }
        guard content.isJSON else {
            return Use(type: content.isText ? .string : .data)
        }
        guard let schema = content.schema, schema.node.members != nil else { return Use(type: .json) }
        return try types.use(schema, hint: plan.name + "Reply", .reply)
    }
}

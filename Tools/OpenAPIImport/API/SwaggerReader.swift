/// What Swagger 2.0 writes in another way: bodies are parameters, media types stand beside the operations.
extension APIReader {
    /// The body that the parameters `in: body` and `in: formData` describe.
    func swaggerBody(_ parameters: [Spot], _ head: Operation.Head) -> Body? {
        let types = mediaTypes("consumes", head)
        if let body = parameters.last(where: { $0.node["in"]?.text == "body" }) {
            return Body(
                isRequired: body.node["required"]?.bool ?? false, description: body.node["description"]?.text,
                contents: (types.isEmpty ? ["application/json"] : types).map {
                    Content(type: $0, schema: body["schema"])
                })
        }
        guard !parameters.isEmpty else { return nil }
        let hasFile = parameters.contains { $0.node["type"]?.text == "file" }
        let isMultipart = hasFile || types.contains { $0.hasPrefix("multipart/") }
        // The fields of the form are the properties of an object.
        let properties = parameters.compactMap { spot in
            spot.node["name"]?.text.map { ($0, spot.node) }
        }
        let required = parameters.filter { $0.node["required"]?.bool == true }.compactMap { $0.node["name"] }
        let schema = Node.object([
            ("type", .text("object")), ("properties", .object(properties)), ("required", .array(required)),
        ])
        let spot = Spot(document: head.spot.document, pointer: head.spot.pointer + "/parameters", node: schema)
        var content = Content(
            type: isMultipart ? "multipart/form-data" : "application/x-www-form-urlencoded", schema: spot)
        for (name, node) in properties where node["type"]?.text == "array" {
            content.styles[name] = Self.style(node) ?? .comma
        }
        return Body(isRequired: !required.isEmpty, description: nil, contents: [content])
    }

    func swaggerContents(_ response: Spot, _ head: Operation.Head) -> [Content] {
        let isFile = response["schema"]?.node["type"]?.text == "file"
        let types = mediaTypes("produces", head).filter { !isFile || !Content(type: $0).isJSON }
        let examples = response["examples"]?.members ?? []
        guard let schema = response["schema"] else { return [] }
        return (types.isEmpty ? [isFile ? "application/octet-stream" : "application/json"] : types).map { type in
            Content(
                type: type, schema: schema,
                examples: examples.filter { Self.mediaType($0.name) == type }.map(\.spot))
        }
    }

    private func mediaTypes(_ name: String, _ head: Operation.Head) -> [String] {
        (head.spot.node[name] ?? documents.root.node[name])?.strings.map(Self.mediaType) ?? []
    }
}

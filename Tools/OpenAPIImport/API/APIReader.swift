import DomainTables

/// Reads a document: the list of its operations first, and the operations that were chosen then, so that a reference that
/// leads nowhere disturbs only those who need it.
final class APIReader {
    let documents: Documents
    let isSwagger: Bool
    var warnings: [ImportWarning] = []

    private static let methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"]

    init(_ documents: Documents) throws(ImportProblem) {
        self.documents = documents
        let root = documents.root
        let file = documents.files[0].name
        guard root.node.members != nil else {
            throw ImportProblem(
                "\(file) is \(root.node.kind), not a document of the OpenAPI; it begins with openapi or swagger")
        }
        let version = root.node["openapi"]?.text ?? root.node["swagger"]?.text
        guard let version, version.hasPrefix("3.") || version.hasPrefix("2") else {
            let found =
                version.map { "version \($0) of the OpenAPI, which is not known" } ?? "no openapi and no swagger"
            throw ImportProblem("\(file) has \(found); 2.0 and 3.0 to 3.2 are read")
        }
        isSwagger = version.hasPrefix("2")
    }

    func warn(_ spot: Spot, _ message: String) {
        warnings.append(ImportWarning(place: documents.place(of: spot), message: message))
    }

    // MARK: The document

    func api() throws(ImportProblem) -> API {
        let root = documents.root
        guard let paths = root["paths"], paths.node.members != nil else {
            throw ImportProblem("\(documents.files[0].name) has no paths, so it describes no operations")
        }
        var heads: [Operation.Head] = []
        // Azure has the paths with a query of their own in x-ms-paths.
        for (path, item) in paths.members + (root["x-ms-paths"]?.members ?? []) where !path.hasPrefix("x-") {
            let resolved = try documents.resolved(item)
            for (name, spot) in resolved.members where Self.methods.contains(name.lowercased()) {
                // Some documents keep each operation in a file of its own.
                if let head = try head(name.uppercased(), path, documents.resolved(spot), resolved) {
                    heads.append(head)
                }
            }
            for (name, spot) in resolved["additionalOperations"]?.members ?? [] {
                guard HTTPText.isToken(name), name.uppercased() != "CONNECT" else {
                    warn(spot, "a request cannot have the method \(name); the operation is left out")
                    continue
                }
                if let head = try head(name, path, documents.resolved(spot), resolved) { heads.append(head) }
            }
        }
        return API(
            title: root["info"]?.node["title"]?.text ?? "API", servers: servers(root), schemes: schemes(root),
            security: security(root), heads: heads)
    }

    private func head(_ method: String, _ path: String, _ spot: Spot, _ item: Spot) -> Operation.Head? {
        guard spot.node.members != nil else { return nil }
        let id = spot.node["operationId"]?.text
        if id == nil || id == "" { warn(spot, "there is no operationId; the name is made from method and path") }
        return Operation.Head(
            method: method, path: path, id: id == "" ? nil : id,
            tags: (spot.node["tags"]?.array ?? []).compactMap(\.text), spot: spot, item: item)
    }

    private func security(_ spot: Spot) -> [[String]]? {
        guard let sets = spot.node["security"]?.array?.map({ $0.members?.names ?? [] }) else { return nil }
        let known = sets.filter { !$0.contains("") }
        if known.count < sets.count { warn(spot, "a security scheme needs a name; what requires it is left out") }
        return known.isEmpty && !sets.isEmpty ? nil : known
    }

    /// The addresses that a table can have.
    private func servers(_ spot: Spot) -> [Server] {
        allServers(spot).compactMap { server in
            let url = String(server.url.reversed().drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace))
            do throws(HTTPAddress.Problem) {
                _ = try HTTPAddress(url.contains("://") ? url : "http://localhost/\(url)")
                return Server(url: url, description: server.description)
            } catch {
                let reason = url.contains("{") ? "has a variable without a value" : error.reason
                warn(spot["servers"] ?? spot, "the address \(url) \(reason); it is left out, so set it in the table")
                return nil
            }
        }
    }

    private func allServers(_ spot: Spot) -> [Server] {
        if isSwagger {
            guard let host = spot.node["host"]?.text else {
                return spot.node["basePath"]?.text.map { [Server(url: $0, description: nil)] } ?? []
            }
            let schemes = spot.node["schemes"]?.strings ?? ["https"]
            let scheme = schemes.contains("https") ? "https" : schemes.first { $0 == "http" } ?? "https"
            return [Server(url: "\(scheme)://\(host)\(spot.node["basePath"]?.text ?? "")", description: nil)]
        }
        var servers: [Server] = []
        for server in spot["servers"]?.elements ?? [] {
            guard let url = server.node["url"]?.text else { continue }
            let variables = server["variables"]?.members ?? []
            func filled(_ values: [String: String]) -> String {
                variables.reduce(url) { text, variable in
                    let known = variable.spot.node["default"]?.text ?? variable.spot.node["enum"]?.strings.first
                    guard let value = values[variable.name] ?? known else { return text }
                    return text.replacing("{\(variable.name)}", with: value)
                }
            }
            servers.append(Server(url: filled([:]), description: server.node["description"]?.text))
            // Each other value of a variable is an environment.
            for variable in variables {
                for value in variable.spot.node["enum"]?.strings ?? [] {
                    let other = Server(url: filled([variable.name: value]), description: "\(variable.name) \(value)")
                    if !servers.contains(where: { $0.url == other.url }) { servers.append(other) }
                }
            }
        }
        return servers
    }

    private func schemes(_ root: Spot) -> [SecurityScheme] {
        let list = root["components"]?["securitySchemes"] ?? root["securityDefinitions"]
        return (list?.members ?? []).map { name, spot in
            let node = ((try? documents.resolved(spot)) ?? spot).node
            let field = node["name"]?.text ?? "?"
            let words: String
            switch node["type"]?.text {
            case "apiKey": words = "a key in the \(node["in"]?.text ?? "header") \(field)"
            case "http": words = "HTTP \(node["scheme"]?.text ?? "authentication")"
            case "basic": words = "HTTP basic"
            case "oauth2": words = "OAuth 2"
            case "openIdConnect": words = "OpenID Connect"
            case "mutualTLS": words = "a client certificate"
            default: words = node["type"]?.text ?? "of an unknown type"
            }
            var isHeader = node["type"]?.text == "apiKey" && node["in"]?.text == "header"
            if isHeader, !HTTPText.isToken(field) {
                warn(spot, "\(field) is no name of a header field, so it is not among the secretHeaders")
                isHeader = false
            }
            // Swagger 2.0 has the only flow in the scheme itself.
            let flows = node["flows"]?.members?.values ?? []
            let addresses = (flows + [node]).flatMap { flow in
                ["authorizationUrl", "deviceAuthorizationUrl", "tokenUrl", "refreshUrl", "openIdConnectUrl"].compactMap
                {
                    flow[$0]?.text
                }
            }
            return SecurityScheme(name: name, header: isHeader ? field : nil, words: words, addresses: addresses)
        }
    }

    // MARK: An operation

    func operation(_ head: Operation.Head) throws(ImportProblem) -> Operation {
        var operation = Operation(head: head)
        let node = head.spot.node
        operation.summary = node["summary"]?.text
        operation.description = node["description"]?.text
        operation.isDeprecated = node["deprecated"]?.bool ?? false
        operation.security = security(head.spot)
        let needs = (node["security"] ?? documents.root.node["security"])?.array?.first
        operation.scopes = (needs?.members?.names ?? []).flatMap { needs?[$0]?.array ?? [] }.compactMap(\.text)
        operation.servers = isSwagger ? [] : servers(head.spot) + servers(head.item)
        let list = (head.item["parameters"]?.elements ?? []) + (head.spot["parameters"]?.elements ?? [])
        var swagger: [Spot] = []
        for element in list {
            let spot = try documents.resolved(element)
            if isSwagger, ["body", "formData"].contains(spot.node["in"]?.text) {
                swagger.append(spot)
                continue
            }
            guard let parameter = try parameter(spot) else { continue }
            // Those of the operation replace those of the path.
            if let known = operation.parameters.firstIndex(where: {
                $0.name == parameter.name && $0.location == parameter.location
            }) {
                operation.parameters[known] = parameter
            } else {
                operation.parameters.append(parameter)
            }
        }
        checkPath(&operation)
        operation.body = isSwagger ? swaggerBody(swagger, head) : try body(head.spot)
        operation.responses = try responses(head)
        return operation
    }

    private func parameter(_ spot: Spot) throws(ImportProblem) -> Parameter? {
        let node = spot.node
        guard let name = node["name"]?.text, name.contains(where: { !$0.isWhitespace }), name != "[]",
            let location = Parameter.Location(rawValue: node["in"]?.text ?? ""),
            location != .header || HTTPText.isToken(name)
        else {
            warn(spot, "a parameter needs a name, and in: query, header, path or cookie; it is left out")
            return nil
        }
        var parameter = Parameter(name: name, location: location, spot: spot)
        parameter.isRequired = node["required"]?.bool ?? (location == .path)
        parameter.description = node["description"]?.text
        parameter.schema = isSwagger ? spot : spot["schema"]
        if let content = spot["content"]?.members.first {
            parameter.schema = content.spot["schema"]
            parameter.isJSON = content.name.lowercased().contains("json")
        }
        parameter.style = Self.style(node)
        parameter.standardStyle = !isSwagger && [.query, .cookie].contains(location) ? .repeated : .comma
        return parameter
    }

    /// How a parameter or a member of a form is written; `nil` where the document does not say.
    static func style(_ node: Node) -> Parameter.Style? {
        switch (node["style"]?.text, node["collectionFormat"]?.text) {
        case ("deepObject"?, _): return .brackets
        case ("spaceDelimited"?, _), (_, "ssv"?): return .space
        case ("pipeDelimited"?, _), (_, "pipes"?): return .pipe
        case (_, "multi"?): return .repeated
        case (let style, _):
            guard let explodes = node["explode"]?.bool ?? (style == "form" ? true : nil) else { return nil }
            return explodes ? .repeated : .comma
        }
    }

    /// Adds the parameters that the path names and the operation does not declare.
    private func checkPath(_ operation: inout Operation) {
        let names = PathNames.of(operation.head.path)
        for name in names where !operation.parameters.contains(where: { $0.location == .path && $0.name == name }) {
            warn(operation.head.spot, "the parameter \(name) of the path is not declared; it is made as a text")
            operation.parameters.append(
                Parameter(name: name, location: .path, isRequired: true, spot: operation.head.spot))
        }
        operation.parameters.removeAll { parameter in
            guard parameter.location == .path, !names.contains(parameter.name) else { return false }
            warn(parameter.spot, "the path \(operation.head.path) has no {\(parameter.name)}; it is left out")
            return true
        }
    }

    private func body(_ spot: Spot) throws(ImportProblem) -> Body? {
        guard let body = spot["requestBody"] else { return nil }
        let resolved = try documents.resolved(body)
        return Body(
            isRequired: resolved.node["required"]?.bool ?? false, description: resolved.node["description"]?.text,
            contents: try contents(resolved))
    }

    func contents(_ spot: Spot) throws(ImportProblem) -> [Content] {
        var contents: [Content] = []
        for (name, media) in spot["content"]?.members ?? [] {
            let media = try documents.resolved(media)
            var content = Content(type: Self.mediaType(name), schema: media["schema"], itemSchema: media["itemSchema"])
            content.examples = try examples(media)
            for (name, encoding) in media["encoding"]?.members ?? [] {
                let isJSON = encoding.node["contentType"]?.text?.lowercased().contains("json") == true
                content.styles[name] = Self.style(encoding.node) ?? (isJSON ? .json : nil)
            }
            contents.append(content)
        }
        return contents
    }

    /// The values of `example` and `examples`.
    private func examples(_ media: Spot) throws(ImportProblem) -> [Spot] {
        var examples: [Spot] = []
        if let example = media["example"] { examples.append(value(example)) }
        for (_, example) in media["examples"]?.members ?? [] {
            if let value = try documents.resolved(example)["value"] { examples.append(self.value(value)) }
        }
        return examples
    }

    /// The value of an example. Some documents keep it in a file of its own, although a value has no references.
    private func value(_ spot: Spot) -> Spot {
        guard spot.node.members?.names == ["$ref"], let target = try? documents.resolved(spot) else { return spot }
        return target
    }

    private func responses(_ head: Operation.Head) throws(ImportProblem) -> [Response] {
        var responses: [Response] = []
        for (name, spot) in head.spot["responses"]?.members ?? [] where !name.hasPrefix("x-") {
            let spot = try documents.resolved(spot)
            if name.contains("x") {
                warn(spot, "the status \(name) is written in lower case; it is read as \(name.uppercased())")
            }
            var response = Response(status: name == "default" ? name : name.uppercased())
            response.description = spot.node["description"]?.text
            response.headers = spot["headers"]?.members.map(\.name) ?? []
            response.contents = isSwagger ? swaggerContents(spot, head) : try contents(spot)
            responses.append(response)
        }
        return responses
    }

    static func mediaType(_ text: String) -> String {
        String(text.prefix { $0 != ";" }).lowercased().filter { $0 != " " }
    }
}

/// The names in braces of a path.
enum PathNames {
    static func of(_ path: String) -> [String] {
        var names: [String] = []
        var rest = path[...]
        while let start = rest.firstIndex(of: "{"), let end = rest[start...].firstIndex(of: "}") {
            let name = String(rest[rest.index(after: start)..<end])
            if !names.contains(name) { names.append(name) }
            rest = rest[rest.index(after: end)...]
        }
        return names
    }
}

import DomainTableFormat
import LATNetworking

/// The parameters of a row's path: asks for those that a command line does not give, and checks them.
struct PathParameters {
    private let route: DomainTable.ResolvedRoute
    private let server: String

    /// - Parameter server: the name of the row.
    init(_ route: DomainTable.ResolvedRoute, of server: String) {
        self.route = route
        self.server = server
    }

    /// Asks for the missing parameters on a terminal, and checks all of them.
    ///
    /// - Returns: The parameters with those that were missing.
    /// - Throws: ``UsageError`` where nobody can be asked, no answer was given, or a value cannot be in a path.
    ///   `CancellationError` after Ctrl-C.
    func filled(_ given: [String: JSONValue], _ console: Console) async throws -> [String: JSONValue] {
        let parameters = try await completed(given, console)
        for name in route.pathParameters {
            switch parameters[name] {
            case .null, .array, .object:
                let shown = SafeText.line(parameters[name]?.description ?? "")
                throw UsageError("{\(name)} in the path \(route.path) cannot be \(shown); write \(name)=TEXT")
            default: break
            }
        }
        do {
            _ = try route.url(parameters.mapValues { $0.string ?? $0.description })
        } catch {
            throw UsageError(error.message)
        }
        return parameters
    }

    private func completed(_ given: [String: JSONValue], _ console: Console) async throws -> [String: JSONValue] {
        let missing = route.pathParameters.filter { given[$0] == nil }
        guard !missing.isEmpty else { return given }
        let others = given.keys.filter { !route.pathParameters.contains($0) }.sorted()
        guard console.canAsk, NearestName.of(missing[0], among: others) == nil else {
            throw UsageError(message(missing, others))
        }
        console.note(console.errStyle.dim(SafeText.line(address)))
        var parameters = given
        for name in missing { parameters[name] = .string(try await answer(name, console)) }
        return parameters
    }

    /// The method and the URL with its parameters in braces.
    private var address: String {
        let base = route.baseURLs.first ?? ""
        let url =
            route.isAbsolute ? route.path : "\(base.hasSuffix("/") ? String(base.dropLast()) : base)/\(route.path)"
        return [route.method?.rawValue ?? "", HTTPAddress.redacted(url)].joined(separator: " ")
    }

    private func answer(_ name: String, _ console: Console) async throws -> String {
        while true {
            guard let line = try await console.ask(name) else {
                console.note("")
                throw UsageError("no value was typed for \(name); write lat start \(server) \(name)=VALUE")
            }
            if !line.isEmpty { return line }
            console.note("\(name) is a part of the path and cannot be empty; Ctrl-C ends lat")
        }
    }

    private func message(_ missing: [String], _ others: [String]) -> String {
        let list = missing.map { "{\($0)}" }.listed
        let values = missing.count == 1 ? "a value" : "values"
        if let near = NearestName.of(missing[0], among: others) {
            return "the path \(route.path) of \"\(server)\" needs \(values) for \(list); did you mean \(missing[0]) by "
                + "\"\(SafeText.line(near))\"?"
        }
        let arguments = missing.map { "\($0)=VALUE" }.joined(separator: " ")
        return
            "the path \(route.path) of \"\(server)\" needs \(values) for \(list); write lat start \(server) \(arguments)"
    }
}

import DomainTables
import FoundationEssentials
import Glibc
import LATNetworking

/// The variables of one environment, from the files beside a file of requests and from the table.
struct RunEnvironment: Sendable {
    /// The files, the later ones over the earlier ones. The second is for secrets and is not committed.
    static let files = ["http-client.env.json", "http-client.private.env.json"]
    /// The environment whose variables are those of every other one, too.
    static let shared = "$shared"

    private(set) var variables: [String: JSONValue] = [:]
    private(set) var domains: [String: String] = [:]
    /// The table in the environment; `nil` when there is none.
    private(set) var table: DomainTable?
    /// Why the table of the folder cannot be used, which matters only to a file that uses it.
    private(set) var tableProblem: TableProblem?

    /// - Parameters:
    ///   - name: The environment; `nil` for none.
    ///   - folder: The folder of the file of requests. The files are looked for here and then in the current folder.
    /// - Throws: ``RunProblem`` for an unknown environment and for a file that cannot be read, ``TableProblem``.
    init(_ name: String?, folder: String, table argument: TableArgument) throws {
        var known: [String] = []
        for file in Self.files {
            guard let (path, document) = try Self.read(file, in: folder) else { continue }
            guard let environments = document.object, environments.values.allSatisfy({ $0.object != nil }) else {
                throw RunProblem(
                    "\(path) is not an object of environments; write {\"dev\": {\"host\": \"http://127.0.0.1\"}}")
            }
            known += environments.keys.filter { $0 != Self.shared }
            for key in [Self.shared, name].compactMap({ $0 }) {
                variables.merge(environments[key]?.object ?? [:]) { _, own in own }
            }
        }
        let isNamed = argument.file != nil || argument.environment != nil
        if isNamed || access(TableArgument.standardPath, F_OK) == 0 {
            do {
                try readTable(argument, name, &known)
            } catch let problem as TableProblem where !isNamed {
                tableProblem = problem
            }
        }
        guard let name, !known.contains(name) else { return }
        if let tableProblem { throw tableProblem }
        let advice =
            NearestName.of(name, among: Set(known).sorted()).map { "did you mean \"\($0)\"?" }
            ?? "add it to \(Self.files[0]) or to the table"
        throw RunProblem("there is no environment \"\(SafeText.line(name))\"; \(advice)")
    }

    private mutating func readTable(_ argument: TableArgument, _ name: String?, _ known: inout [String]) throws {
        var table = try TableArgument(file: argument.file, environment: argument.environment ?? "").read()
        let fallback = argument.environment ?? DomainTable.environmentOfProcess
        let isOfTable = name.map(table.environmentNames.contains) ?? false
        known += table.environmentNames
        let chosen = isOfTable ? name : fallback
        if let chosen, !chosen.isEmpty {
            table = try TableArgument(file: argument.file, environment: chosen).read()
        }
        for domain in table.domainNames {
            domains[domain.rawValue] = try? table.resolve(domain: domain, path: "").baseURLs.first
        }
        self.table = table
    }

    private static func read(_ file: String, in folder: String) throws(RunProblem) -> (path: String, JSONValue)? {
        for path in [folder + file, file] where access(path, F_OK) == 0 {
            do {
                return (path, try JSONValue(parsing: try Data(contentsOf: URL(filePath: path))))
            } catch {
                throw RunProblem("\(path) cannot be read: \(error); it has to be JSON")
            }
        }
        return nil
    }

    /// The variables of the file `.env` in one of the folders; empty without one.
    static func dotenv(in folder: String) -> [String: String] {
        for path in [folder + ".env", ".env"] {
            guard let data = FileManager.default.contents(atPath: path) else { continue }
            return dotenv(String(decoding: data, as: UTF8.self))
        }
        return [:]
    }

    /// Reads lines `NAME=value`, also with `export` before them and quotes around the value.
    static func dotenv(_ text: String) -> [String: String] {
        var variables: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            var line = line.trimmedBlanks
            if line.hasPrefix("export ") { line = line.dropFirst(7).trimmedBlanks }
            guard !line.hasPrefix("#"), let equals = line.firstIndex(of: "=") else { continue }
            var value = line[line.index(after: equals)...].trimmedBlanks
            let quote = value.first.flatMap { $0 == "\"" || $0 == "'" ? $0 : nil }
            // A remark begins after the quotes.
            let start = quote.flatMap { value.dropFirst().firstIndex(of: $0) } ?? value.startIndex
            if let remark = value[start...].firstRange(of: " #") { value = value[..<remark.lowerBound].trimmedBlanks }
            if let quote, value.count > 1, value.last == quote { value = String(value.dropFirst().dropLast()) }
            variables[line[..<equals].trimmedBlanks] = value
        }
        return variables
    }
}

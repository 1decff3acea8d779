import LATNetworking

/// The words that can complete a command line at the cursor.
struct Candidates: Hashable, Sendable {
    /// Where the candidates come from.
    enum Source: String, Sendable {
        /// From ``list``.
        case words
        /// The shell proposes files.
        case files
        /// The shell proposes folders.
        case folders
    }

    var source = Source.words
    /// The part of the word before a path: `img=` of `img=photos/a.png`.
    var before = ""
    var list: [ValueKind.Choice] = []

    /// - Parameters:
    ///   - words: the words after `lat`; the last is the one at the cursor, and may be empty.
    ///   - read: reads a table; `nil` when it cannot be used.
    init(for words: [String], reading read: (TableArgument) -> DomainTable?) {
        let current = words.last ?? ""
        guard words.count > 1 else {
            let isOption = current.hasPrefix("-")
            list = isOption ? Self.topOptions + GivenWords([], of: RequestCommand.self).options : Self.firstWords
            var names = Set<String>()
            list = list.filter { names.insert($0.name).inserted }
            return
        }
        let command: any Command.Type
        var given = Array(words.dropLast())
        if let named = Commands.all.first(where: { $0.name == given[0] }) {
            command = named
            given.removeFirst()
        } else {
            // Without the name of a command, a line is a request.
            command = RequestCommand.self
        }
        let line = GivenWords(given, of: command)
        let (file, environment) = (line.value(TableArgument.table), line.value(TableArgument.environment))
        let table = { read(TableArgument(file: file, environment: environment)) }
        if let option = line.open {
            propose(option.kind, "", current, line, table)
        } else if !line.isEnded, let equals = current.firstIndex(of: "="), current.hasPrefix("--") {
            let option = command.options.first { $0.name == current[..<equals] && $0.value != nil }
            propose(option?.kind ?? .text, String(current[...equals]), current, line, table)
        } else if !line.isEnded, current.hasPrefix("-") {
            list = line.options
        } else {
            propose(command.operandKind(after: line.operands), "", current, line, table)
            // When there is no argument to propose, options are proposed.
            if source == .words, list.isEmpty, current.isEmpty, !line.isEnded { list = line.options }
        }
    }

    /// Commands, and the methods of a request without its command.
    private static let firstWords = Commands.choices + ValueKind.methods.map { ValueKind.Choice($0, "Method") }

    private static let topOptions = [
        ValueKind.Choice("--help", "Lists the commands."), ValueKind.Choice("--version", VersionCommand.summary),
    ]

    private mutating func propose(
        _ kind: ValueKind, _ before: String, _ current: String, _ line: GivenWords, _ table: () -> DomainTable?
    ) {
        switch kind {
        case .text: break
        case .folder: (source, self.before) = (.folders, before)
        case .file(let separator):
            let value = current.dropFirst(before.count)
            let end = separator.map { value.firstIndex(of: $0) } ?? value.startIndex
            // The text before the separator is a name, which cannot be proposed.
            guard let end else { return }
            let path = separator == nil ? end : value.index(after: end)
            (source, self.before) = (.files, before + value[..<path])
        case .choices(let choices):
            list = choices
        case .row: list = table().map { Self.rows($0) } ?? []
        case .domain: list = table().map { Self.domains($0) } ?? []
        case .rowOrDomain: list = table().map { Self.rows($0) + Self.domains($0) } ?? []
        case .url: list = table().map { Self.urls($0) } ?? []
        case .methodOrURL:
            list = ValueKind.methods.map { ValueKind.Choice($0, "Method") } + (table().map { Self.urls($0) } ?? [])
        case .environment: list = table()?.environmentNames.map { ValueKind.Choice($0) } ?? []
        case .parameter:
            guard let row = line.operands.first, let route = try? table()?.resolve(server: ServerName(row)) else {
                return
            }
            let given = Set(
                (line.values + line.operands).compactMap { $0.split(separator: "=").first.map(Self.name) })
            list = route.pathParameters.filter { !given.contains($0) }.map {
                ValueKind.Choice($0 + "=", "In the path \(route.path)")
            }
            let documented = (route.settings.documented.parameters ?? [:]).filter {
                !given.contains($0.key) && !route.pathParameters.contains($0.key)
            }
            // Those that are needed come first.
            list += documented.sorted { ($0.value.isOptional ? 1 : 0, $0.key) < ($1.value.isOptional ? 1 : 0, $1.key) }
                .map { name, note in
                    let type = note.rawValue.prefix { $0 != "?" }
                    return ValueKind.Choice(
                        name + (note.isText ? "=" : ":="), note.isOptional ? "\(type)" : "\(type), required")
                }
        }
        list = list.map { ValueKind.Choice(before + $0.name, $0.help) }
    }

    /// The name of `name` and of `name:`.
    private static func name(_ start: Substring) -> String { String(start.hasSuffix(":") ? start.dropLast() : start) }

    private static func rows(_ table: DomainTable) -> [ValueKind.Choice] {
        table.serverNames.map { name in
            let row = try? table.server(name)
            let facts = [row?.method?.rawValue, row?.domain?.rawValue, row?.path].compactMap { $0 }
            return ValueKind.Choice(name.rawValue, facts.joined(separator: " "))
        }
    }

    /// The base URLs of the domains.
    private static func urls(_ table: DomainTable) -> [ValueKind.Choice] {
        table.domainNames.compactMap { name in
            guard let url = try? table.resolve(domain: name, path: "").baseURLs.first else { return nil }
            return ValueKind.Choice(HTTPAddress.redacted(url), "Domain \(name.rawValue)")
        }
    }

    private static func domains(_ table: DomainTable) -> [ValueKind.Choice] {
        table.domainNames.map { ValueKind.Choice($0.rawValue, "Domain") }
    }

    /// The lines that the scripts read: first the source and the text before a path, then one line for each candidate
    /// with its explanation.
    var lines: [String] {
        ["\(source.rawValue) \(before)"] + list.map { SafeText.line($0.name) + "\t" + SafeText.line($0.help) }
    }
}

/// The words before the cursor. Unlike ``ArgumentParser``, it also reads incomplete and invalid command lines.
private struct GivenWords {
    private let known: [Option]
    private var given: [(option: Option, value: String)] = []
    private(set) var operands: [String] = []
    /// The option whose value is still missing.
    private(set) var open: Option?
    /// Whether `--` was given, after which nothing is an option.
    private(set) var isEnded = false

    init(_ words: [String], of command: any Command.Type) {
        known = command.options + [.help]
        for word in words { add(word) }
    }

    private mutating func add(_ word: String) {
        if let option = open, option.takes(word) {
            given.append((option, word))
            open = nil
            return
        }
        if let option = open { given.append((option, "")) }
        open = nil
        if isEnded || !word.hasPrefix("-") || word == "-" {
            operands.append(word)
        } else if word == "--" {
            isEnded = true
        } else if word.hasPrefix("--") {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let option = known.first(where: { $0.name == parts[0] }) else { return }
            if option.value != nil, parts.count == 1 {
                open = option
            } else {
                given.append((option, parts.count > 1 ? String(parts[1]) : ""))
            }
        } else {
            addLetters(word.dropFirst())
        }
    }

    private mutating func addLetters(_ word: Substring) {
        var letters = word
        while let letter = letters.popFirst() {
            guard let option = known.first(where: { $0.letter == "-\(letter)" }) else { return }
            guard option.value != nil else {
                given.append((option, ""))
                continue
            }
            if letters.isEmpty { open = option } else { given.append((option, String(letters))) }
            return
        }
    }

    /// The values of all options.
    var values: [String] { given.map(\.value) }

    func value(_ option: Option) -> String? {
        given.last { $0.option.name == option.name && !$0.value.isEmpty }?.value
    }

    /// The options that may still be given, each with the first sentence of its help.
    var options: [ValueKind.Choice] {
        known.filter { option in option.repeats || !given.contains { $0.option == option } }.map { option in
            let end = option.help.firstRange(of: ". ")?.lowerBound ?? option.help.endIndex
            return ValueKind.Choice(option.name, String(option.help[..<end]))
        }
    }
}

import DomainTables
import FoundationEssentials
import HTTPCore
import LATNetworking

/// The options with which a command reads all pages of a list.
struct PageArguments: Sendable {
    static let allPages = Option(
        "--all-pages",
        help:
            "Reads all pages of a list, and writes JSON lines: each item of the list on a line, or each page where nothing "
            + "says where its items are. After a failure or Ctrl-C the pages before it stay, also in the file of -o.")
    static let pages = Option(
        "--pages", value: "RULE",
        help:
            "Where a page says which one is next, as pages of the table: link, or cursor=meta.next,items=data, also with "
            + "address=, number= and offset=, parameter=, first=. items=. stands for the page itself. Default: link, the links "
            + "of the field Link. It implies --all-pages.")
    static let maxPages = Option("--max-pages", value: "N", help: "The most pages to read. It implies --all-pages.")
    static let options = [allPages, pages, maxPages]

    /// The rule of `--pages`; `nil` without it.
    private let paging: Paging?
    private let limit: Int?

    /// Returns `nil` when none of the options is given.
    ///
    /// - Parameter others: options that do not go with pages.
    init?(_ arguments: ParsedArguments, without others: [Option], _ format: OutputFormat) throws(UsageError) {
        guard let given = Self.options.first(where: arguments.contains) else { return nil }
        if let other = others.first(where: arguments.contains) {
            throw UsageError("\(given.name) and \(other.name) cannot be combined; give one of them")
        }
        guard format == .text else {
            throw UsageError(
                "\(given.name) writes JSON lines, so \(OutputFormat.option.name) json says nothing; leave it out")
        }
        paging = try arguments.value(Self.pages).map { rule throws(UsageError) in try Self.paging(rule) }
        limit = try arguments.number(Self.maxPages, 1...1_000_000)
    }

    /// The paging of a list.
    ///
    /// - Parameter row: that of the row of the table; `nil` for none.
    func paging(of row: Paging? = nil) -> Paging {
        var paging = paging ?? row ?? .link
        if let limit { paging.limit = limit }
        return paging
    }

    /// Reads a rule by the reader of the table, so that both know the same members.
    private static func paging(_ rule: String) throws(UsageError) -> Paging {
        var members = rule.split(separator: ",", omittingEmptySubsequences: false).map { member in
            let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let value = parts.count > 1 ? parts[1] : parts[0] == "link" ? "next" : ""
            return
                "\(quoted(parts[0])): \(Int(value) != nil && ["first", "maxPages"].contains(parts[0]) ? value : quoted(value))"
        }
        // Where nothing else says which page is next, the links do.
        let sources = ["link", "address", "cursor", "number", "offset"].map(quoted)
        if !members.contains(where: { member in sources.contains { member.hasPrefix("\($0):") } }) {
            members.append("\"link\": \"next\"")
        }
        let text = rule.contains("=") ? "{ \(members.joined(separator: ", ")) }" : quoted(rule)
        let table: DomainTable
        do throws(NetworkError) {
            table = try DomainTable(
                json5: "{ domains: { d: { baseURL: \"http://h\", pages: \(text) } } }", environment: nil)
        } catch {
            let found = (error.underlying as? DomainTableError)?.diagnostics ?? []
            // An unknown word is why the others are missing.
            let reason = found.first { $0.message.hasPrefix("unknown") } ?? found.first
            throw UsageError(
                "\(pages.name) \"\(SafeText.line(rule))\" cannot be used: \(SafeText.line(reason?.message ?? error.message))"
            )
        }
        return (try? table.domain("d").settings.pages?.rule) ?? .link
    }

    private static func quoted(_ text: String) -> String { JSONValue.string(text).description }
}

/// Writes the pages of a list as JSON lines.
struct PageWriter {
    let console: Console
    /// The file of `-o`; `nil` for standard output.
    let file: OutputFile?
    /// The place of the items; `nil` when it is not known.
    let items: String?
    let showsHeads: Bool

    /// Writes all pages. The whole pages that were written stay, however it ends. A file that was there before stays when nothing
    /// was read.
    ///
    /// - Returns: the error that ended the list. The body of its response is shown on standard error.
    /// - Throws: `Output.Failure`, `CancellationError`.
    func write<Page>(
        _ pages: Paging.Pages<Page>, _ response: (Page) -> HTTPResponse
    ) async throws -> NetworkError? {
        var number = 0
        do {
            for try await page in pages {
                number += 1
                let response = response(page)
                if showsHeads { RequestTrace.lines(of: response, console.errStyle).forEach(console.note) }
                let text = try lines(of: response, number).map { $0 + "\n" }.joined()
                if let file { try file.append(text) } else { try console.out.write(text) }
            }
            try file?.complete()
            return nil
        } catch {
            if file?.isEmpty == false { try file?.complete() }
            guard let failure = error as? NetworkError else { throw error }
            switch failure.kind {
            case .httpStatus, .business:
                let lines = (failure.response?.text ?? "").split(whereSeparator: \.isNewline)
                lines.forEach { console.note(SafeText.line(String($0))) }
            default: break
            }
            return failure
        }
    }

    private func lines(of page: HTTPResponse, _ number: Int) throws(NetworkError) -> [String] {
        guard !page.data.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) else { return [] }
        guard let text = JSONText(page.data) else {
            throw NetworkError(
                .decoding(path: ""),
                message: "page \(number) is not JSON, so it has no JSON lines; read it without "
                    + PageArguments.allPages.name, response: page)
        }
        guard let items else { return [text.compact(text.whole)] }
        guard let list = text.value(at: items), let elements = text.elements(of: list) else {
            throw NetworkError(
                .decoding(path: items),
                message:
                    "page \(number) has no array at \(items.isEmpty ? "its top" : items); name its place with items in "
                    + "\(PageArguments.pages.name), or in pages of the row", response: page)
        }
        return elements.map(text.compact)
    }
}

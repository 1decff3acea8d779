import FoundationEssentials
import Glibc
import HTTPCore
import LATInspect
import Platform

/// `lat inspect FILE`, `lat inspect -- COMMAND`: shows calls on a page in the browser.
struct InspectCommand: Command {
    /// The source of the calls that the page shows.
    enum Subject: Hashable, Sendable {
        case file(String)
        /// The calls of a program, with its arguments.
        case program([String])
    }

    let subject: Subject
    let port: Int
    /// The file that the calls are saved in; `nil` for none.
    let save: String?
    let keepsPage: Bool

    init(_ arguments: ParsedArguments) throws(UsageError) {
        port = try arguments.number(Self.port, 0...65_535) ?? 0
        save = try arguments.file(Self.save, "write --save calls.har")
        keepsPage = arguments.contains(Self.keep)
        if let command = arguments.command {
            guard !command.isEmpty else {
                throw UsageError("there is no command after --; write lat inspect -- COMMAND")
            }
            guard command.count == arguments.operands.count else {
                throw UsageError("give a HAR file or a command after --, and not both")
            }
            subject = .program(command)
            return
        }
        for option in [Self.save, Self.keep] where arguments.contains(option) {
            throw UsageError(
                "\(option.name) is for a program; write lat inspect \(option.form.drop { $0 == " " }) -- COMMAND")
        }
        guard let file = arguments.operands.first else {
            throw UsageError("nothing to show; write lat inspect FILE.har, or lat inspect -- COMMAND")
        }
        try UsageError.refuse(arguments.operands, after: 1, "to run a program, write lat inspect -- COMMAND")
        subject = .file(file)
    }

    func run(_ console: Console) async throws -> ExitCode {
        switch subject {
        case .file(let path): try await show(path, console)
        case .program(let words): try await watch(words, console)
        }
    }

    // MARK: A file

    private func show(_ path: String, _ console: Console) async throws -> ExitCode {
        let content = try RequestContent.contents(of: path, "the HAR file ")
        let har: JSONValue
        do { har = try JSONValue(parsing: content) } catch {
            throw UsageError(
                "\(SafeText.line(path)) is not a HAR file: \((error as? NetworkError)?.message ?? "\(error)")")
        }
        guard har["log"]["entries"].array != nil else {
            throw UsageError("\(SafeText.line(path)) is not a HAR file: it is not JSON with a list log.entries")
        }
        let name = String(path.split(separator: "/").last ?? "")
        let page: PageServer
        do {
            page = try Inspector.page(ofFile: name, content: content, port: port)
        } catch let error as NetworkError {
            throw UsageError(error.message)
        }
        defer { page.stop() }
        try console.print(page.address)
        console.note("Open this address in a browser. Ctrl-C ends the page.")
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
        return .success
    }

    // MARK: A program

    /// How long a program may run without an inspector before the missing line is named.
    private static let patience = Duration.seconds(5)

    /// Runs the program, which sends its calls to a socket, and shows them on a page.
    private func watch(_ words: [String], _ console: Console) async throws -> ExitCode {
        var template = Array("/tmp/lat-inspect-XXXXXX\0".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw UsageError("no folder can be made in /tmp: \(SystemError().text)")
        }
        let folder = String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let path = folder + "/socket"
        defer {
            unlink(path)
            rmdir(folder)
        }
        // Whether the file can be written is found out before the program runs.
        try save.map { name throws(UsageError) in try OutputFile(name, of: Self.save.name) }?.discard()
        let name = String(words[0].split(separator: "/").last ?? "program")
        let session: InspectorSession
        do {
            session = try InspectorSession(path: path, title: name, port: port)
        } catch let error as NetworkError {
            throw UsageError(error.message)
        }
        defer { session.stop() }
        console.note("lat: the page of this program: \(session.address)")
        let advice = Task { [program = words[0]] in
            try await Task.sleep(for: Self.patience)
            guard session.programCount == 0 else { return false }
            console.complain(Self.advice(program))
            return true
        }
        let code = try await ChildCommand(words, environment: [Inspector.variable: path]).end()
        await session.settle(within: .seconds(2))
        advice.cancel()
        let isAdvised = (try? await advice.value) ?? false
        if session.programCount == 0, !isAdvised { console.complain(Self.advice(words[0])) }
        if session.lostCount > 0 {
            console.complain(
                "not shown: \(TableReport.count(session.lostCount, "call")), which came faster than they could be sent, or "
                    + "made room for newer ones")
        }
        try save(session, console)
        guard !Task.isCancelled, session.callCount > 0, keepsPage || save == nil && console.errTerminal.isTerminal
        else {
            return code
        }
        console.note("lat: \(SafeText.line(words[0])) has ended with \(code.rawValue). The page stays until Ctrl-C.")
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
        // The page may have sent requests again meanwhile.
        try save(session, console)
        return code
    }

    /// What to add to a program that shows nothing.
    private static func advice(_ program: String) -> String {
        "\(program) has opened no inspector, so there is nothing to see; import LATInspect, and add this line where its manager is "
            + "made: if let inspector = Inspector.requested { configuration.accessories.append(inspector) }"
    }

    private func save(_ session: InspectorSession, _ console: Console) throws {
        guard let save else { return }
        guard session.callCount > 0 else {
            return console.note("lat: there is no call to save; \(save.shellWord) stays as it is")
        }
        do {
            try AtomicFile.write(session.har(), to: save)
        } catch {
            throw UsageError(
                "\(SafeText.line(save)) cannot be written (\(error)); name a file in a folder you may write to")
        }
        let count = TableReport.count(session.callCount, "call")
        console.note("lat: saved \(count); lat inspect \(save.shellWord) shows them again")
    }
}

// MARK: Help

extension InspectCommand {
    static let name = "inspect"
    static let summary = "Shows calls on a page in the browser: those of a program, live, or of a HAR file."
    static let usage = "FILE.har | -- COMMAND…"

    static let port = Option("--port", value: "PORT", help: "The port of the page. Default: any free one.")
    static let save = Option(
        "--save", value: "FILE",
        help: "Saves the calls of the program in a HAR file when it has ended. Secrets are not in it.")
    static let keep = Option(
        "--keep",
        help: "Keeps the page when the program has ended, until Ctrl-C. Default on a terminal, but not with --save.")
    static let options = [port, save, keep]

    static func operandKind(after operands: [String]) -> ValueKind { .file }

    static let details = """
        The page is served on 127.0.0.1 and needs the key in its address, which is printed on standard error. With a command,
        all programs that it starts are on one page, and their calls stay when they have ended. A program must allow
        this in its code, with Inspector.requested; lat itself does.

        Examples
          lat inspect calls.har
          lat inspect -- ./server --port 8080
          lat inspect --save calls.har -- lat events :8080/prices --for 2s

        Exit codes: that of the command; 130 the page was ended by Ctrl-C, 2 the command line or the file is invalid.
        """
}

import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATInspect
import Platform
import Synchronization

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

    init(_ arguments: ParsedArguments) throws(UsageError) {
        port = try arguments.number(Self.port, 0...65_535) ?? 0
        if let command = arguments.command {
            guard !command.isEmpty else {
                throw UsageError("there is no command after --; write lat inspect -- COMMAND")
            }
            guard command.count == arguments.operands.count else {
                throw UsageError("give a HAR file or a command after --, and not both")
            }
            guard !arguments.contains(Self.port) else {
                throw UsageError("--port is for a HAR file; a program serves its page on a free port")
            }
            subject = .program(command)
            return
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
        let content: Data
        do {
            content = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw UsageError(
                "\(SafeText.line(path)) cannot be read (\(NetworkError.reason(of: error))); give a HAR file, or a command after --"
            )
        }
        guard let har = try? JSONValue(parsing: content), har["log"]["entries"].array != nil else {
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

    /// Runs the program, which writes the address of its page into a pipe.
    private func watch(_ words: [String], _ console: Console) async throws -> ExitCode {
        var template = Array("/tmp/lat-inspect-XXXXXX\0".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw UsageError("no folder can be made in /tmp: \(SystemError().text)")
        }
        let folder = String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let pipe = folder + "/address"
        defer {
            unlink(pipe)
            rmdir(folder)
        }
        guard mkfifo(pipe, 0o600) == 0, case let descriptor = open(pipe, O_RDWR | O_NONBLOCK | O_CLOEXEC),
            descriptor >= 0
        else { throw UsageError("no pipe can be made in \(folder): \(SystemError().text)") }
        let queue = DispatchQueue(label: "lat-inspect")
        let count = Mutex(0)
        // Called on the queue. A read gets whole lines, because a write as short as an address is atomic on a pipe.
        let showAddresses = { @Sendable () -> Void in
            var bytes = [UInt8](repeating: 0, count: 4096)
            let length = Glibc.read(descriptor, &bytes, bytes.count)
            guard length > 0 else { return }
            for line in String(decoding: bytes.prefix(length), as: UTF8.self).split(separator: "\n") {
                count.withLock { $0 += 1 }
                console.note("lat: the page of this program: \(SafeText.line(String(line)))")
            }
        }
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler { showAddresses() }
        source.setCancelHandler { close(descriptor) }
        source.resume()
        defer { source.cancel() }
        let child = try ChildCommand(words, environment: [Inspector.variable: pipe])
        let code = await child.end()
        queue.sync { showAddresses() }
        if count.withLock({ $0 }) == 0 {
            console.complain(
                "\(words[0]) opened no page; its code has to allow it: see lat inspect --help")
        }
        return code
    }
}

// MARK: Help

extension InspectCommand {
    static let name = "inspect"
    static let summary = "Shows calls on a page in the browser: those of a program, live, or of a HAR file."
    static let usage = "FILE.har | -- COMMAND…"

    static let port = Option(
        "--port", value: "PORT", help: "The port of the page of a HAR file. Default: any free one.")
    static let options = [port]

    static func operandKind(after operands: [String]) -> ValueKind { .file }

    static let details = """
        The page is served on 127.0.0.1 and needs the key in its address. With a command, the program serves it as long as
        it runs, and must allow that in its code, with Inspector.requested. The address is printed on standard error as
        soon as the program makes its manager. lat itself allows it.

        Examples
          lat inspect calls.har
          lat inspect -- ./server --port 8080
          lat inspect -- lat events :8080/prices --for 2s

        Exit codes: that of the command; 130 the page of a file was ended by Ctrl-C, 2 the command line or the file is
        invalid.
        """
}

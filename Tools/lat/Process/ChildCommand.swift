import Dispatch
import FoundationEssentials
import Glibc
import Platform

/// A program that runs with the terminal and the standard streams of this one.
struct ChildCommand: Sendable {
    private let process: pid_t

    /// - Parameters:
    ///   - environment: Variables to add to those of this process, in place of those with the same names.
    ///   - input: Its standard input. Default `nil`: that of this process.
    /// - Throws: ``UsageError`` when the program cannot be started.
    init(_ words: [String], environment: [String: String], input: Int32? = nil) throws(UsageError) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input { posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO) }
        // This program handles the watched signals and ignores SIGPIPE, so the child gets their default actions. If
        // SIGINT, SIGTERM or SIGHUP was ignored when this program started (nohup), it is not watched, and stays ignored
        // in the child.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in Interrupts.watched + [SIGPIPE] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        // The threads of Dispatch block nearly all signals.
        var blocked = sigset_t()
        sigemptyset(&blocked)
        posix_spawnattr_setsigmask(&attributes, &blocked)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        var variables: [String] = []
        var next = environ
        while let text = next.pointee {
            let variable = String(cString: text)
            if environment[String(variable.prefix { $0 != "=" })] == nil { variables.append(variable) }
            next += 1
        }
        variables += environment.map { "\($0.key)=\($0.value)" }
        var arguments = words.map { strdup($0) } + [nil]
        var texts = variables.map { strdup($0) } + [nil]
        defer { for text in arguments + texts { free(text) } }
        var process: pid_t = 0
        let code = posix_spawnp(&process, words[0], &actions, &attributes, &arguments, &texts)
        guard code == 0 else {
            let reason = code == ENOENT ? "there is no such program; give its path" : SystemError(code: code).text
            throw UsageError("\(SafeText.line(words[0])) cannot be started: \(reason)")
        }
        self.process = process
    }

    /// Waits for the end. A cancellation sends SIGTERM to the program.
    func end() async -> ExitCode {
        await withTaskCancellationHandler {
            await uninterruptedEnd()
        } onCancel: {
            kill(process, SIGTERM)
        }
    }

    /// Waits for the end, even when the task is cancelled.
    @discardableResult
    func uninterruptedEnd() async -> ExitCode {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { [process] in
                var status: Int32 = 0
                while waitpid(process, &status, 0) < 0, errno == EINTR {}
                let signal = status & 0x7F
                continuation.resume(
                    returning: signal == 0 ? ExitCode(rawValue: (status >> 8) & 0xFF) : .signal(signal))
            }
        }
    }
}
